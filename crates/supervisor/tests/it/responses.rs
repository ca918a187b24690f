use std::io::{Cursor, Read as _};

use base64::Engine as _;
use oscar_supervisor::ResponseKind;

use crate::store::Store;
use crate::world::{World, mk_event};

fn decoded(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

#[tokio::test]
async fn one_file_is_the_answer() {
    let store = Store::start().await;
    let done = World::new(&store, "", "echo noise; printf '\\001\\377x' > $TMP_OUTPUT_DIR/a")
        .event("{}")
        .synchronous()
        .run()
        .await;
    assert_eq!(decoded(&done.response()), b"\x01\xffx");
    assert_eq!(done.report.response.map(|response| response.kind), Some(ResponseKind::File));
}

#[tokio::test]
async fn several_files_are_an_archive() {
    let store = Store::start().await;
    let script = "mkdir $TMP_OUTPUT_DIR/sub; echo one > $TMP_OUTPUT_DIR/a; echo two > \"$TMP_OUTPUT_DIR/sub/ñ b\"";
    let done = World::new(&store, "", script).event("{}").synchronous().run().await;
    let mut archive = zip::ZipArchive::new(Cursor::new(decoded(&done.response()))).expect("an archive");
    let mut text = String::new();
    archive.by_name("sub/ñ b").expect("it is inside").read_to_string(&mut text).expect("readable");
    assert_eq!((archive.len(), text.as_str()), (2, "two\n"));
}

#[tokio::test]
async fn without_files_the_answer_is_what_was_printed() {
    let store = Store::start().await;
    let done = World::new(&store, "", "echo out; echo err >&2; echo end").event("{}").synchronous().run().await;
    assert_eq!(done.response(), "out\nerr\nend\n", "both streams in their order, and no log line");
}

#[tokio::test]
async fn the_answer_to_a_storage_event_is_what_was_printed() {
    let store = Store::start().await;
    store.put("bkt/in/a", "x");
    let world = World::new(&store, "", "echo said; echo x > $TMP_OUTPUT_DIR/a").event(mk_event("bkt", "in/a"));
    assert_eq!(world.run().await.report.response, None, "nobody waits for it");
    assert_eq!(world.synchronous().run().await.response(), "said\n");
}

#[tokio::test]
async fn a_failing_script_still_has_its_say() {
    let store = Store::start().await;
    let script = "echo half > $TMP_OUTPUT_DIR/a; echo the reason; exit 3";
    let done = World::new(&store, "", script).event("{}").synchronous().run().await;
    assert_eq!((done.response().as_str(), done.report.exit_code()), ("the reason\n", 3));
}

#[tokio::test]
async fn an_answer_has_a_limit() {
    let store = Store::start().await;
    let mut world = World::new(&store, "", "head -c 1000 /dev/zero > $TMP_OUTPUT_DIR/a").event("{}").synchronous();
    world.task.limits.response_bytes = 1000;
    let done = world.run().await;
    assert!(done.sentence().contains("1336 bytes, where 1000 are allowed"), "{}", done.sentence());
    world.task.synchronous = false;
    let done = world.run().await;
    assert_eq!((done.report.failure, done.report.response), (None, None));
}
