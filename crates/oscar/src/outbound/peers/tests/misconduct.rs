use std::collections::BTreeSet;

use oscar_model::federation::plan::Origination;

use super::raw::{Conduct, Raw};
use super::*;

const TEXT: &str = "content-type: text/plain\r\n";
const OURS: &str = "oscar-manager: 0b5d; v=1\r\n";

fn mk_elsewhere(url: &str) -> Conduct {
    Conduct::answer("301 Moved", &format!("location: {url}/system/services\r\n"), "")
}

async fn look_at(raw: &Raw, peers: &HttpPeers) -> Sighting {
    peers.look(&Callee::new(&raw.url(), Audience::Foreign).call(), FEDERATION).await
}

async fn deploy_to(raw: &Raw, peers: &HttpPeers) -> Result<(), PeerError> {
    let step = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
    peers.deploy(&Callee::new(&raw.url(), Audience::Foreign).call(), &step, &mk_token()).await
}

#[tokio::test]
async fn each_misconduct_is_told_apart() {
    let elsewhere = Raw::start(Conduct::Hang).await;
    let small = HttpPeers::new(PeersOptions { longest_answer: 64 << 10, ..mk_options() }).expect("options that work");
    let cases = [
        (Conduct::Hang, mk_hasty(), "did not answer within"),
        (Conduct::Garbage, mk_peers(), "is not HTTP"),
        (Conduct::DieMidway, mk_peers(), "broke off in the middle"),
        (Conduct::Drop(9, Box::new(Conduct::Hang)), mk_peers(), "closed the connection without an answer"),
        (Conduct::Endless, small, "longer than 65536 bytes"),
        (Conduct::Huge, mk_peers(), "longer than 4194304 bytes"),
        (mk_elsewhere(&elsewhere.url()), mk_peers(), "redirects are not followed"),
        (Conduct::answer("409 Conflict", TEXT, "it is taken"), mk_peers(), "409: it is taken"),
        (Conduct::answer("500 Oh", TEXT, "it broke"), mk_peers(), "500: it broke"),
        (Conduct::answer("502 Bad", "content-type: text/html\r\n", "<html>"), mk_peers(), "it answered 502"),
        (Conduct::answer("404 Not", "content-type: text/html\r\n", "<html>"), mk_peers(), "it answered 404"),
        (Conduct::answer("200 OK", TEXT, "hello"), mk_peers(), "cannot be understood"),
        (Conduct::answer("200 OK", TEXT, r#"{"name": "other", "image": "i"}"#), mk_peers(), "another service"),
    ];
    let mut sentences = BTreeSet::new();
    let count = cases.len();
    for (conduct, peers, part) in cases {
        let raw = Raw::start(conduct).await;
        let sighting = look_at(&raw, &peers).await;
        let sentence = unreachable_because(&sighting);
        assert!(sentence.contains(part), "{sentence}");
        assert!(!sentence.contains("alice-token"), "{sentence}");
        sentences.insert(sentence.to_owned());
    }
    assert_eq!(sentences.len(), count, "{sentences:?}");
    assert_eq!(elsewhere.connections(), 0, "a redirect is not followed");
}

#[tokio::test]
async fn a_success_without_a_word_is_go_oscar_hiding_a_service() {
    let silent = |headers| Conduct::answer("200 OK", headers, "");
    let raw = Raw::start(silent("")).await;
    assert_eq!(look_at(&raw, &mk_peers()).await.found, Found::SomebodyElses);
    let callee = Callee::new(&raw.url(), Audience::Foreign).with(mk_login());
    let sighting = mk_peers().look(&callee.call(), FEDERATION).await;
    assert!(
        unreachable_because(&sighting).contains("cannot be understood"),
        "nothing is hidden from its administrator"
    );
    for headers in [TEXT, OURS] {
        let sighting = look_at(&Raw::start(silent(headers)).await, &mk_peers()).await;
        assert!(unreachable_because(&sighting).contains("cannot be understood"), "{headers}");
    }
}

#[tokio::test]
async fn who_answered_is_known_even_when_the_answer_is_not() {
    let nobody = look_at(&Raw::start(Conduct::Garbage).await, &mk_peers()).await;
    assert_eq!(nobody.audience, None);
    let foreign = look_at(&Raw::start(Conduct::DieMidway).await, &mk_peers()).await;
    assert_eq!(foreign.audience, Some(Audience::Foreign));
    let ours = look_at(&Raw::start(Conduct::answer("503 Wait", OURS, "")).await, &mk_peers()).await;
    assert_eq!(ours.audience, Some(Audience::Ours));
}

#[tokio::test]
async fn an_answer_byte_by_byte_is_read_as_long_as_it_ends() {
    let Conduct::Say(text) = Conduct::answer("200 OK", TEXT, r#"{"name": "plants", "owner": "bob"}"#) else {
        unreachable!("an answer is said")
    };
    let raw = Raw::start(Conduct::Spell(text)).await;
    assert_eq!(look_at(&raw, &mk_peers()).await.found, Found::SomebodyElses);
    let sighting = look_at(&Raw::start(Conduct::Drip).await, &mk_hasty()).await;
    assert!(unreachable_because(&sighting).contains("did not answer within"), "{sighting:?}");
}

#[tokio::test]
async fn a_change_that_fails_says_whether_it_may_have_happened() {
    let unknown = [
        (Conduct::Hang, mk_hasty()),
        (Conduct::Drip, mk_hasty()),
        (Conduct::Garbage, mk_peers()),
        (Conduct::Drop(9, Box::new(Conduct::Hang)), mk_peers()),
        (Conduct::answer("500 Oh", "", ""), mk_peers()),
        (mk_elsewhere("https://elsewhere.example"), mk_peers()),
    ];
    for (conduct, peers) in unknown {
        let raw = Raw::start(conduct.clone()).await;
        let told = deploy_to(&raw, &peers).await;
        assert!(matches!(told, Err(PeerError::Unreachable(_))), "{conduct:?}: {told:?}");
        assert_eq!(raw.requests().len(), 1, "{conduct:?}: a foreign manager is told once");
    }
    for status in ["400 Bad", "403 No", "404 Not", "409 Conflict"] {
        let raw = Raw::start(Conduct::answer(status, "", "")).await;
        let told = deploy_to(&raw, &mk_peers()).await;
        assert!(matches!(told, Err(PeerError::Refused(_))), "{status}: {told:?}");
    }
    let raw = Raw::start(Conduct::answer("401 Who", TEXT, "alice-token is too old")).await;
    let told = deploy_to(&raw, &mk_peers()).await;
    assert_eq!(told, Err(PeerError::Credentials("it answered 401: … is too old".to_owned())));
}

#[tokio::test]
async fn the_secrets_that_were_sent_are_not_repeated() {
    let token = mk_token();
    let echo = format!("bad: env-secret, {} and alice-token", token.expose());
    let raw = Raw::start(Conduct::answer("400 Bad", TEXT, &echo)).await;
    let told = deploy_to(&raw, &mk_peers()).await;
    assert_eq!(told, Err(PeerError::Refused("it answered 400: bad: …, … and …".to_owned())));
}

#[tokio::test]
async fn a_success_counts_although_what_it_says_never_ends() {
    let raw = Raw::start(Conduct::Huge).await;
    assert_eq!(deploy_to(&raw, &mk_peers()).await, Ok(()));
    raw.wait_until_hung_up().await;
}

#[tokio::test]
async fn a_refusal_that_never_ends_is_left_at_its_bound() {
    let raw = Raw::start(Conduct::EndlessRefusal).await;
    let sighting = look_at(&raw, &mk_peers()).await;
    assert_eq!(unreachable_because(&sighting), "it answered 500");
    raw.wait_until_hung_up().await;
}

#[tokio::test]
async fn an_answer_that_never_ends_is_left_at_its_bound() {
    for conduct in [Conduct::Endless, Conduct::Huge] {
        let raw = Raw::start(conduct).await;
        look_at(&raw, &mk_peers()).await;
        raw.wait_until_hung_up().await;
    }
}

#[tokio::test]
async fn what_is_there_is_told_from_whose_it_is() {
    let look = async |status: &str, headers: &str, body: &str| {
        let raw = Raw::start(Conduct::answer(status, headers, body)).await;
        look_at(&raw, &mk_peers()).await.found
    };
    let not_visible = format!("{OURS}oscar-error: not-visible\r\n");
    assert_eq!(look("404 Not", "", "").await, Found::Nothing);
    assert_eq!(look("404 Not", &format!("{OURS}{TEXT}"), "no <x>").await, Found::Nothing);
    assert_eq!(look("403 No", &not_visible, "").await, Found::SomebodyElses);
    let refused = |sentence: &str| Found::Refused(sentence.to_owned());
    assert_eq!(look("403 No", "oscar-error: not-visible\r\n", "").await, refused("it answered 403"));
    assert_eq!(look("403 No", OURS, "not you").await, refused("it answered 403: not you"));
    assert_eq!(look("401 Who", "", "").await, refused("it answered 401"));
    let service = |more: &str| format!(r#"{{"name": "plants", "image": "i", "script": "s", {more}}}"#);
    assert_eq!(look("200 OK", "", &service(r#""owner": "bob""#)).await, Found::SomebodyElses);
    assert_eq!(look("200 OK", "", &service(r#""owner": "cluster_admin""#)).await, Found::SomebodyElses);
    assert_eq!(look("200 OK", "", &service(r#""owner": 7"#)).await, Found::SomebodyElses);
    let plain = look("200 OK", "", &service(r#""owner": "alice""#)).await;
    assert!(matches!(plain, Found::Plain(_)), "{plain:?}");
    let annotated =
        |id: &str| service(&format!(r#""owner": "alice", "annotations": {{"oscar.grycap/federation-id": "{id}"}}"#));
    assert_eq!(look("200 OK", "", &annotated("another")).await, Found::OtherFederation);
    let origination = |found: Found| match found {
        Found::Replica { origination, .. } => Some(origination),
        _ => None,
    };
    let adopted = format!("{OURS}oscar-replica: adopted\r\n");
    assert_eq!(origination(look("200 OK", &adopted, &annotated(FEDERATION)).await), Some(Origination::Adopted));
    assert_eq!(origination(look("200 OK", OURS, &annotated(FEDERATION)).await), Some(Origination::Created));
}

#[tokio::test]
async fn who_hangs_is_waited_for_once() {
    let raw = Raw::start(Conduct::Hang).await;
    let peers = mk_hasty();
    let first = look_at(&raw, &peers).await;
    assert!(unreachable_because(&first).contains("within 0.3 s"), "{first:?}");
    for _ in 0..2 {
        let again = deploy_to(&raw, &peers).await;
        let Err(PeerError::Unreachable(sentence)) = again else { panic!("{again:?}") };
        assert!(sentence.contains("within 0.06 s"), "{sentence}");
    }
    let elsewhere = Raw::start(Conduct::Hang).await;
    let other = look_at(&elsewhere, &peers).await;
    assert!(unreachable_because(&other).contains("within 0.3 s"), "{other:?}");
}
