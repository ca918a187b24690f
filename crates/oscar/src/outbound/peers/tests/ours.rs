//! Managers of our kind, and this one itself.

use std::collections::BTreeMap;
use std::sync::Mutex;

use oscar_engine::ports::peers::{Condition, MemberState};
use oscar_model::federation::membership::{Attributes, Duty, Membership, Place};
use serde_json::{Value, json};

use super::raw::{Conduct, Raw};
use super::*;

const OURS: &str = "oscar-manager: 0b5d; v=1\r\ncontent-type: application/json\r\n";

fn mk_exchange(instance: &str) -> Exchange {
    let mut membership = Membership::default();
    let member = mk_member("oscar-b", "plants");
    let attributes = Attributes { priority: 2, ssl_verify: true, ..Attributes::default() };
    membership.add(member.clone(), attributes, Place::new("https://b.example", true), instance);
    membership.set_duty(&member, Duty::Paused, instance);
    let state = MemberState {
        condition: Condition::Drifted,
        trouble: "somebody changed it".to_owned(),
        seen: Some(1_800_000_000),
        instance: "0b5d".to_owned(),
    };
    Exchange {
        federation_id: FEDERATION.to_owned(),
        instance: instance.to_owned(),
        membership,
        states: BTreeMap::from([(member, state)]),
    }
}

fn mk_invitation() -> Invitation {
    Invitation {
        federation_id: FEDERATION.to_owned(),
        member: mk_member("oscar-b", "plants"),
        coordinator: mk_member("oscar-a", "plants"),
        endpoint: "https://a.example".to_owned(),
        key: "member-key-value".into(),
        exchange: mk_exchange("0a"),
    }
}

/// Method and path, the `Authorization`, and the body of a request.
fn taken_apart(request: &str) -> (String, String, Value) {
    let (head, body) = request.split_once("\r\n\r\n").expect("a request");
    let line = head.lines().next().expect("a line").trim_end_matches(" HTTP/1.1").to_owned();
    let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    (line, authorization.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

async fn one(conduct: Conduct) -> (Raw, Callee) {
    let raw = Raw::start(conduct).await;
    let callee = Callee::new(&raw.url(), Audience::Ours);
    (raw, callee)
}

#[tokio::test]
async fn a_member_is_invited_with_its_key() {
    let (raw, callee) = one(Conduct::answer("204 No Content", OURS, "")).await;
    assert_eq!(mk_peers().join(&callee.call(), &mk_invitation()).await, Ok(()));
    let (line, authorization, body) = taken_apart(&raw.requests()[0]);
    assert_eq!(line, "POST /system/federation/plants/join");
    assert_eq!(authorization, "Bearer alice-token");
    assert_eq!(body["federation_id"], FEDERATION);
    assert_eq!(body["member"], json!({"cluster_id": "oscar-b", "service_name": "plants"}));
    assert_eq!(body["coordinator"], json!({"cluster_id": "oscar-a", "service_name": "plants"}));
    assert_eq!(body["endpoint"], "https://a.example");
    assert_eq!(body["key"], "member-key-value");
    assert_eq!(body["exchange"]["membership"]["records"][0]["duty"]["value"], "paused");
    let read = body::from_invitation(serde_json::from_value(body).expect("a body"));
    assert_eq!(read, Ok(mk_invitation()), "it arrives as it was meant");
}

#[tokio::test]
async fn a_key_is_not_repeated_by_who_refuses_it() {
    let (_raw, callee) = one(Conduct::answer("409 Conflict", OURS, "member-key-value is bad")).await;
    let told = mk_peers().join(&callee.call(), &mk_invitation()).await;
    assert_eq!(told, Err(PeerError::Refused("it answered 409: … is bad".to_owned())));
}

#[tokio::test]
async fn what_both_know_is_exchanged_under_the_members_key() {
    let answer = serde_json::to_string(&body::to_exchange(&mk_exchange("0b5d"))).expect("JSON");
    let (raw, callee) = one(Conduct::answer("200 OK", OURS, &answer)).await;
    let callee = callee.with(Credential::MemberKey("member-key-value".into()));
    assert_eq!(mk_peers().sync(&callee.call(), &mk_exchange("0a")).await, Ok(mk_exchange("0b5d")));
    let (line, authorization, body) = taken_apart(&raw.requests()[0]);
    assert_eq!(line, "POST /system/federation/plants/sync");
    assert_eq!(authorization, "Bearer member-key-value");
    assert_eq!(body["instance"], "0a");
    assert_eq!(body["states"][0]["condition"], "drifted");
    assert_eq!(body["states"][0]["service_name"], "plants");
}

#[tokio::test]
async fn an_exchange_that_makes_no_sense_changes_nothing() {
    let mut late = serde_json::to_value(body::to_exchange(&mk_exchange("0b5d"))).expect("JSON");
    late["membership"]["time"] = json!(u64::MAX);
    let mut other = serde_json::to_value(body::to_exchange(&mk_exchange("0b5d"))).expect("JSON");
    other["federation_id"] = json!("another");
    let mut twice = serde_json::to_value(body::to_exchange(&mk_exchange("0b5d"))).expect("JSON");
    twice["states"] = json!([twice["states"][0], twice["states"][0]]);
    let cases = [
        (late.to_string(), "above"),
        (other.to_string(), "another federation"),
        (twice.to_string(), "twice"),
        ("{}".to_owned(), "cannot be understood"),
        ("what?".to_owned(), "cannot be understood"),
    ];
    for (answer, part) in cases {
        let (_raw, callee) = one(Conduct::answer("200 OK", OURS, &answer)).await;
        let told = mk_peers().sync(&callee.call(), &mk_exchange("0a")).await.expect_err(part).to_string();
        assert!(told.contains(part), "{told}");
    }
    let (_raw, callee) = one(Conduct::DieMidway).await;
    let told = mk_peers().sync(&callee.call(), &mk_exchange("0a")).await;
    assert!(matches!(told, Err(PeerError::Unreachable(_))), "{told:?}");
}

#[tokio::test]
async fn our_kind_takes_back_by_itself() {
    let (raw, callee) = one(Conduct::answer("204 No Content", OURS, "")).await;
    let (peers, call) = (mk_peers(), callee.call());
    let step = mk_step(Act::Delete, None, None);
    assert_eq!(peers.withdraw(&call, &step, FEDERATION, OPERATION).await, Ok(()));
    assert_eq!(peers.undo(&call, &step, OPERATION).await, Ok(Undone::ForGood));
    let heard: Vec<_> = raw.requests().iter().map(|request| taken_apart(request)).collect();
    let bearer = "Bearer alice-token".to_owned();
    let withdraw = json!({"federation_id": FEDERATION, "operation": OPERATION, "time": 7, "delete": true});
    assert_eq!(heard[0], ("POST /system/federation/plants/withdraw".to_owned(), bearer.clone(), withdraw));
    let undo = json!({"operation": OPERATION});
    assert_eq!(heard[1], ("POST /system/federation/plants/undo".to_owned(), bearer, undo));
}

#[tokio::test]
async fn what_never_arrived_needs_no_undo_but_only_the_manager_can_say_so() {
    let step = mk_step(Act::Create, None, None);
    let (_raw, callee) = one(Conduct::answer("404 Not Found", OURS, "there is no such service")).await;
    assert_eq!(mk_peers().undo(&callee.call(), &step, OPERATION).await, Ok(Undone::ForGood));
    assert_eq!(mk_peers().withdraw(&callee.call(), &step, FEDERATION, OPERATION).await, Ok(()));
    for status in ["404 Not Found", "200 OK", "204 No Content"] {
        let (_raw, callee) = one(Conduct::answer(status, "", "")).await;
        let told = mk_peers().undo(&callee.call(), &step, OPERATION).await;
        assert!(matches!(told, Err(PeerError::Unreachable(_))), "{status} of a proxy: {told:?}");
        let write = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
        let told = mk_peers().deploy(&callee.call(), &write, &mk_token()).await;
        assert!(matches!(told, Err(PeerError::Unreachable(_))), "{status} of a proxy: {told:?}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_and_only_once() {
    let step = mk_step(Act::Create, Some(mk_replica(OPERATION)), None);
    let fine = Conduct::answer("201 Created", OURS, "");
    let (raw, callee) = one(Conduct::Drop(1, Box::new(fine.clone()))).await;
    assert_eq!(mk_peers().deploy(&callee.call(), &step, &mk_token()).await, Ok(()));
    let requests = raw.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(taken_apart(&requests[0]), taken_apart(&requests[1]), "the same operation");
    let order = format!("oscar-operation: {OPERATION}; t=7");
    assert!(requests[0].to_ascii_lowercase().contains(&order.to_ascii_lowercase()), "{}", requests[0]);
    let (raw, callee) = one(Conduct::Drop(2, Box::new(fine))).await;
    let told = mk_peers().deploy(&callee.call(), &step, &mk_token()).await;
    assert!(matches!(told, Err(PeerError::Unreachable(_))), "{told:?}");
    assert_eq!(raw.requests().len(), 2);
}

/// Notes what it is asked.
#[derive(Default)]
struct Own(Mutex<Vec<&'static str>>);

impl Own {
    fn note(&self, what: &'static str) {
        self.0.lock().expect("not poisoned").push(what);
    }
}

#[async_trait]
impl Peers for Own {
    async fn look(&self, _: &Call<'_>, _: &str) -> Sighting {
        self.note("look");
        Sighting { found: Found::Nothing, audience: Some(Audience::Ours) }
    }

    async fn deploy(&self, _: &Call<'_>, _: &Step, _: &Secret) -> Result<(), PeerError> {
        self.note("deploy");
        Ok(())
    }

    async fn withdraw(&self, _: &Call<'_>, _: &Step, _: &str, _: &str) -> Result<(), PeerError> {
        self.note("withdraw");
        Ok(())
    }

    async fn undo(&self, _: &Call<'_>, _: &Step, _: &str) -> Result<Undone, PeerError> {
        self.note("undo");
        Ok(Undone::ForGood)
    }

    async fn join(&self, _: &Call<'_>, _: &Invitation) -> Result<(), PeerError> {
        self.note("join");
        Ok(())
    }

    async fn sync(&self, _: &Call<'_>, exchange: &Exchange) -> Result<Exchange, PeerError> {
        self.note("sync");
        Ok(exchange.clone())
    }
}

#[tokio::test]
async fn calls_to_this_manager_do_not_leave_it() {
    let raw = Raw::start(Conduct::answer("404 Not Found", OURS, "")).await;
    let own = Arc::new(Own::default());
    let own_urls = vec!["https://Oscar.Example.org/".to_owned(), raw.url()];
    let peers = HttpPeers::new(PeersOptions { own_urls, ..mk_options() }).expect("options that work");
    let listener = Callee::new(&format!("{}/", raw.url()), Audience::Ours);
    assert_eq!(peers.look(&listener.call(), FEDERATION).await.found, Found::Nothing);
    assert_eq!(raw.connections(), 1, "nobody was there to take it");

    peers.set_own(own.clone());
    peers.look(&listener.call(), FEDERATION).await;
    let public = Callee::new("https://oscar.example.org:443", Audience::Ours);
    let (call, step) = (public.call(), mk_step(Act::Create, Some(mk_replica(OPERATION)), None));
    peers.look(&call, FEDERATION).await;
    assert_eq!(peers.deploy(&call, &step, &mk_token()).await, Ok(()));
    assert_eq!(peers.withdraw(&call, &step, FEDERATION, OPERATION).await, Ok(()));
    assert_eq!(peers.undo(&call, &step, OPERATION).await, Ok(Undone::ForGood));
    assert_eq!(peers.join(&call, &mk_invitation()).await, Ok(()));
    assert_eq!(peers.sync(&call, &mk_exchange("0a")).await, Ok(mk_exchange("0a")));
    assert_eq!(*own.0.lock().expect("not poisoned"), ["look", "look", "deploy", "withdraw", "undo", "join", "sync"]);
    assert_eq!(raw.connections(), 1);
}
