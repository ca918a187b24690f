use proptest::prelude::*;
use serde_json::json;

use super::*;

fn mk_minio(key: &str) -> serde_json::Value {
    json!({"EventName": "s3:ObjectCreated:Put", "Key": "in/x", "Records": [{
        "eventSource": "minio:s3", "eventTime": "2026-06-12T09:05:29.123Z",
        "s3": {"bucket": {"name": "photos"}, "object": {"key": key}}}]})
}

fn source(value: &serde_json::Value) -> Source {
    recognise(value.to_string().as_bytes()).source
}

fn mk_object(store: ObjectStore, key: &str) -> Source {
    Source::Object(ObjectEvent {
        store,
        bucket: "photos".to_owned(),
        key: key.to_owned(),
        time: "2026-06-12T09:05:29.123Z".to_owned(),
    })
}

#[test]
fn keys_of_notifications_are_unescaped() {
    for (escaped, key) in [
        ("input%2Fa+b.jpg", "input/a b.jpg"),
        ("in/a%2Bb", "in/a+b"),
        ("in/100%25", "in/100%"),
        ("in/%C3%B1%E2%82%AC", "in/ñ€"),
        ("in/100%", "in/100%"),
    ] {
        assert_eq!(source(&mk_minio(escaped)), mk_object(ObjectStore::Minio, key));
    }
}

#[test]
fn each_source_is_told_by_its_mark() {
    let mut aws = mk_minio("k");
    aws["Records"][0]["eventSource"] = json!("aws:s3");
    assert_eq!(source(&aws), mk_object(ObjectStore::S3, "k"));
    let trigger = json!({"Key": "/space/in/a", "Records": [{"eventSource": "OneTrigger", "objectKey": "a"}]});
    assert_eq!(source(&trigger), Source::Onedata { key: "/space/in/a".to_owned() });
    let rucio = json!({"event_type": "close", "payload": {"scope": "s", "name": "n"}});
    assert_eq!(source(&rucio), Source::Rucio { scope: "s".to_owned(), name: "n".to_owned() });
    let dcache = json!({"event": {"name": "a.txt", "mask": ["IN_CLOSE_WRITE"]}, "subscription": "https://x"});
    assert_eq!(source(&dcache), Source::Dcache { name: "a.txt".to_owned() });
}

#[test]
fn the_order_of_the_tests_is_upstreams() {
    // A gateway's mark comes before everything else.
    let gateway = json!({"httpMethod": "POST", "event": "x", "Records": [], "body": mk_minio("k").to_string()});
    assert_eq!(source(&gateway), mk_object(ObjectStore::Minio, "k"));
    // `event` comes before `Records`.
    let both = json!({"event": "hello world", "Records": mk_minio("k")["Records"]});
    assert_eq!(source(&both), Source::Payload(Payload::Raw(b"hello world".to_vec())));
    // Rucio's mark comes before `event`.
    let rucio = json!({"event": "x", "event_type": "t", "payload": {"scope": "s", "name": "n"}});
    assert_eq!(source(&rucio).kind(), "RUCIO");
}

#[test]
fn a_gateway_gives_its_query_as_variables() {
    let event = json!({"httpMethod": "GET", "queryStringParameters": {"size": "3", "a b": "no", "n": 4}, "body": null});
    let event = recognise(event.to_string().as_bytes());
    let seen: Vec<_> = event.variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(seen, [("CONT_VAR_n", "4"), ("CONT_VAR_size", "3")]);
    assert_eq!(event.source, Source::Payload(Payload::Raw(vec![])));
}

#[test]
fn a_delegated_event_may_be_text_or_an_object() {
    for inner in [mk_minio("in/a"), json!(mk_minio("in/a").to_string())] {
        let wrapped = json!({"storage_provider": "minio.default", "event": inner}).to_string();
        let event = recognise(wrapped.as_bytes());
        assert_eq!(event.source, mk_object(ObjectStore::Minio, "in/a"));
        assert_eq!(event.delegated.as_deref(), Some("minio.default"));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&event.content).expect("JSON"), mk_minio("in/a"));
    }
}

#[test]
fn a_storage_event_without_its_parts_is_a_payload() {
    for broken in [
        json!({"Records": []}),
        json!({"Records": [{"eventSource": "minio:s3"}]}),
        json!({"Records": [{"eventSource": "minio:s3", "s3": {"bucket": {"name": ""}, "object": {"key": "k"}}}]}),
        json!({"Records": "none"}),
        json!([1, 2]),
        json!(12),
    ] {
        let text = broken.to_string();
        assert_eq!(source(&broken), Source::Payload(Payload::Json(text.into_bytes())));
    }
}

#[test]
fn payloads_are_json_base64_or_kept() {
    let of = |bytes: &[u8]| match recognise(bytes).source {
        Source::Payload(payload) => payload,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(b"{ \"a\" : 1.50 }"), Payload::Json(b"{ \"a\" : 1.50 }".to_vec()), "not printed anew");
    assert_eq!(of(b"aGVs\nbG8=\n"), Payload::Decoded(b"hello".to_vec()));
    for raw in [&b"hello, world"[..], b"aGVsbG8", b"\xff\x00\xfe", b"", b" \n"] {
        assert_eq!(of(raw), Payload::Raw(raw.to_vec()));
    }
}

#[test]
fn nesting_has_an_end() {
    let mut event = json!("bottom").to_string();
    for _ in 0..50 {
        event = json!({ "event": serde_json::from_str::<Box<RawValue>>(&event).expect("JSON") }).to_string();
    }
    assert!(recognise(event.as_bytes()).source.is_payload());
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert!(recognise(&deep).source.is_payload());
}

#[test]
fn ten_megabytes_are_an_event_too() {
    let big = base64::engine::general_purpose::STANDARD.encode(vec![7u8; 10 << 20]);
    assert_eq!(recognise(big.as_bytes()).source, Source::Payload(Payload::Decoded(vec![7; 10 << 20])));
}

proptest! {
    #[test]
    fn every_sequence_of_bytes_has_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let event = recognise(&bytes);
        prop_assert!(event.source.is_payload() || serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
    }

    #[test]
    fn what_was_encoded_comes_back(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
        let text = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        prop_assume!(!is_json);
        prop_assert_eq!(recognise(text.as_bytes()).source, Source::Payload(Payload::Decoded(bytes)));
    }

    #[test]
    fn every_key_survives_its_escape(key in "\\PC{1,60}") {
        let escaped = percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC)
            .to_string().replace("%20", "+");
        prop_assert_eq!(source(&mk_minio(&escaped)), mk_object(ObjectStore::Minio, &key));
    }

    #[test]
    fn wrapping_twice_changes_nothing_but_the_wrapper(key in "[a-z/]{1,20}") {
        let once = json!({"storage_provider": "a", "event": mk_minio(&key).to_string()});
        let twice = json!({"storage_provider": "b", "event": once.to_string()});
        let (once, twice) = (recognise(once.to_string().as_bytes()), recognise(twice.to_string().as_bytes()));
        prop_assert_eq!(once, twice, "the innermost wrapper names the provider");
    }
}
