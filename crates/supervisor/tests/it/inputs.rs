use std::time::Duration;

use oscar_supervisor::{Exit, Stage};
use serde_json::json;

use crate::store::{Fault, Store};
use crate::world::{World, mk_event};

const COPY: &str = "cp \"$INPUT_FILE_PATH\" \"$TMP_OUTPUT_DIR/copy\"\nprintf '%s|' \"$STORAGE_OBJECT_KEY\" \"$EVENT_TIME\" \"$(basename \"$INPUT_FILE_PATH\")\"";
const OUT: &str = "- {storage_provider: minio.default, path: bkt/out}";

#[tokio::test]
async fn objects_of_every_name_are_fetched() {
    let long = format!("in/{}/{}.txt", "d/".repeat(380), "n".repeat(250));
    for key in
        ["in/a.txt", "in/a b+c%20d%.txt", "in/ñ€漢.txt", "in/-rf *", "in/$(touch x);`id`'\"", "in/?#&=", long.as_str()]
    {
        let store = Store::start().await;
        store.put(&format!("bkt/{key}"), "data");
        let done = World::new(&store, OUT, COPY).event(mk_event("bkt", key)).run().await;
        assert_eq!(done.report.failure, None, "{key}");
        assert_eq!(store.get("bkt/out/copy").as_deref(), Some(&b"data"[..]), "{key}");
        let name = key.rsplit('/').next().expect("a name");
        assert!(done.log.contains(&format!("{key}|2026-06-12T09:05:29.123Z|{name}|")), "{}", done.log);
        assert_eq!(done.report.inputs[0].key, key);
    }
}

#[tokio::test]
async fn keys_that_no_address_can_say_are_refused() {
    let store = Store::start().await;
    for key in ["in/../../etc/passwd", "..", &"x".repeat(1025)] {
        let done = World::new(&store, OUT, COPY).event(mk_event("bkt", key)).run().await;
        assert_eq!(done.report.failure.as_ref().map(|failure| failure.stage), Some(Stage::Input), "{key}");
        assert_eq!((done.report.exit, done.report.exit_code()), (None, 1));
    }
    assert_eq!(store.count(""), 0);
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_was() {
    let store = Store::start().await;
    let data: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    store.put("bkt/in/a", data.clone());
    store.fail(
        "GET",
        &[Fault::Status(503), Fault::Break(1000), Fault::Break(50_000), Fault::Status(500), Fault::Break(1)],
    );
    let done = World::new(&store, OUT, COPY).event(mk_event("bkt", "in/a")).run().await;
    assert_eq!((&done.report.failure, store.unused_faults()), (&None, 0), "{}", done.log);
    assert_eq!(store.get("bkt/out/copy"), Some(data));
    assert!(
        done.log.contains("WARNING - Fetching `bkt/in/a` of minio.default: the store answered 503"),
        "{}",
        done.log
    );
}

#[tokio::test]
async fn an_object_that_changes_meanwhile_is_fetched_anew() {
    let store = Store::start().await;
    store.put("bkt/in/a", vec![b'x'; 5000]);
    store.fail("GET", &[Fault::Break(1000)]);
    store.content().change_after = Some(2);
    let done = World::new(&store, OUT, COPY).event(mk_event("bkt", "in/a")).run().await;
    assert_eq!(done.report.failure, None, "{}", done.log);
    assert_eq!(store.get("bkt/out/copy").as_deref(), Some(&b"another"[..]));
}

#[tokio::test]
async fn what_cannot_be_fetched_is_a_sentence_and_no_script_runs() {
    let store = Store::start().await;
    store.put("bkt/in/refused", "x");
    store.put("bkt/in/slow", "x");
    store.put("bkt/in/down", "x");
    store.fail("GET /bkt/in/refused", &[Fault::Echo(403)]);
    store.fail("GET /bkt/in/slow", &[Fault::Stall; 9]);
    store.fail("GET /bkt/in/down", &[Fault::Status(503); 9]);
    for (key, part) in [
        ("in/missing", "it does not exist there (404 NoSuchKey)"),
        ("in/refused", "the store refuses access (403 AccessDenied)"),
        ("in/slow", "the store did not answer in time"),
        ("in/down", "the store answered 503 SlowDown"),
    ] {
        let mut world = World::new(&store, OUT, "touch ran").event(mk_event("bkt", key));
        world.task.limits.stall = Duration::from_millis(100);
        let done = world.run().await;
        let sentence = done.sentence();
        assert!(
            sentence.starts_with(&format!("The input `bkt/{key}` of minio.default could not be fetched: {part}")),
            "{sentence}"
        );
        assert_eq!(done.report.exit, None);
    }
    assert_eq!(store.count("GET /bkt/in/refused"), 1, "a refusal is final");
    assert_eq!(store.count("GET /bkt/in/down"), 4, "attempts have an end");
}

#[tokio::test]
async fn a_store_that_is_away_is_a_sentence() {
    let store = Store::start().await;
    let mut world = World::new(&store, "", COPY).event(mk_event("bkt", "in/a"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    world.task.credentials.values_mut().for_each(|access| access.endpoint = Some(nobody.clone()));
    let done = world.run().await;
    assert!(done.sentence().contains("no connection to the store (Connection refused"), "{}", done.sentence());
}

#[tokio::test]
async fn a_file_of_dcache_is_fetched_by_webdav() {
    let store = Store::start().await;
    store.put("lab/in/a b.txt", "data");
    let event = json!({"event": {"name": "a b.txt"}, "subscription": "https://x"}).to_string();
    let done = World::new(
        &store,
        "- {storage_provider: webdav.dcache, path: lab/out/é}",
        "mkdir \"$TMP_OUTPUT_DIR/x y\"; cp \"$INPUT_FILE_PATH\" \"$TMP_OUTPUT_DIR/x y/copy\"",
    )
    .event(event)
    .run()
    .await;
    assert_eq!(done.report.failure, None);
    assert_eq!(store.get("lab/out/é/x y/copy").as_deref(), Some(&b"data"[..]));
    assert!(store.keys().contains(&"lab/out/é/x y/".to_owned()), "folders are made: {:?}", store.keys());
}

#[tokio::test]
async fn a_delegated_event_is_the_event_inside() {
    let store = Store::start().await;
    store.put("bkt/in/a", "data");
    let wrapped = |provider: &str| json!({"storage_provider": provider, "event": mk_event("bkt", "in/a")}).to_string();
    let done = World::new(&store, OUT, COPY).event(wrapped("minio.default")).run().await;
    assert_eq!((done.report.failure, done.report.event.as_str()), (None, "MINIO"));
    let done = World::new(&store, OUT, COPY).event(wrapped("elsewhere")).run().await;
    assert!(done.sentence().contains("elsewhere"), "{}", done.sentence());
}

#[tokio::test]
async fn stage_in_says_the_opposite_of_its_name() {
    let store = Store::start().await;
    let mut world = World::new(&store, "", "test -z \"$INPUT_FILE_PATH\"").event(mk_event("bkt", "in/a"));
    world.task.config.file_stage_in = true;
    assert_eq!(world.run().await.report.exit, Some(Exit::Code(0)));
    assert_eq!(store.count("GET"), 0);
}

#[tokio::test]
async fn other_kinds_of_storage_are_refused_with_a_sentence() {
    let store = Store::start().await;
    let onedata = json!({"Key": "/s/in/a", "Records": [{"eventSource": "OneTrigger", "objectKey": "a"}]});
    let rucio = json!({"event_type": "close", "payload": {"scope": "s", "name": "n"}});
    for (event, name) in [(onedata, "Onedata"), (rucio, "Rucio")] {
        let done = World::new(&store, "", "true").event(event.to_string()).run().await;
        assert!(done.sentence().contains(&format!("The input is in {name}, which this supervisor cannot read")));
    }
}

#[tokio::test]
async fn large_events_come_by_file() {
    let store = Store::start().await;
    let script = "echo \"${EVENT:-none}\" | head -c 100; wc -c < \"$EVENT_FILE\"; wc -c < \"$INPUT_FILE_PATH\"";
    let event = json!({"data": "x".repeat(10 << 20)}).to_string();
    let done = World::new(&store, "", script).event(event.clone()).run().await;
    assert_eq!(done.report.exit, Some(Exit::Code(0)));
    assert!(done.log.contains("too large for the variable EVENT"), "{}", done.log);
    assert!(done.log.contains(&format!("none\n{0}\n{0}\n", event.len())), "{}", done.log);

    for event in [r#"{"a": "$(id) `id` * \\n  two  blanks"}"#, "plain, text\n"] {
        let done = World::new(&store, "", "printf '<%s>' \"$EVENT\"; cat \"$EVENT_FILE\"").event(event).run().await;
        assert!(done.log.contains(&format!("<{event}>{event}")), "{}", done.log);
    }
    let done = World::new(&store, "", "cksum < \"$INPUT_FILE_PATH\"; printf '\\377\\000' | cksum")
        .event(b"\xff\x00")
        .run()
        .await;
    let sums: Vec<_> = done.log.lines().filter(|line| !line.contains("supervisor")).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "bytes stay what they are: {}", done.log);
}
