use std::time::Duration;

use crate::store::{Fault, Store};
use crate::world::{PASSWORD, SECRET, World, mk_event};

/// A job in which everything fails somehow, against a store that repeats what it was sent.
#[tokio::test]
async fn no_credential_and_no_signed_address_is_ever_told() {
    let outputs = "- {storage_provider: minio, path: bkt/out}\n- {storage_provider: webdav.dcache, path: lab}";
    let cases: [(&str, &[Fault]); 6] = [
        ("GET", &[Fault::Status(503), Fault::Break(3), Fault::Echo(403)]),
        ("GET", &[Fault::Stall; 9]),
        ("PUT /bkt", &[Fault::Status(500), Fault::Echo(403)]),
        ("PUT /lab", &[Fault::Echo(500), Fault::Echo(401)]),
        ("MKCOL", &[Fault::Echo(403); 9]),
        ("PUT", &[Fault::Echo(500); 40]),
    ];
    for (about, faults) in cases {
        let store = Store::start().await;
        store.put("bkt/in/a", "some data");
        store.fail(about, faults);
        let mut world = World::new(&store, outputs, "echo x > $TMP_OUTPUT_DIR/a").event(mk_event("bkt", "in/a"));
        world.task.limits.stall = Duration::from_millis(100);
        let done = world.run().await;
        let told = format!("{} {} {:?}", done.log, serde_json::to_string(&done.report).expect("JSON"), done.report);
        for secret in [SECRET, PASSWORD, "X-Amz", "AKTEST", "Signature", "c2NpZW50aXN0"] {
            assert!(!told.contains(secret), "{about}: {secret} in {told}");
        }
    }
}

#[tokio::test]
async fn the_level_of_the_service_decides_what_is_logged() {
    use oscar_model::service::LogLevel;
    let store = Store::start().await;
    let mut world = World::new(&store, "", "echo said; ln -s /etc $TMP_OUTPUT_DIR/x; exit 1").event("{}");
    for (level, lines) in [(LogLevel::Critical, 0), (LogLevel::Error, 1), (LogLevel::Warning, 2), (LogLevel::Debug, 5)]
    {
        world.task.config.log_level = level;
        let _ = std::fs::remove_dir_all(&world.task.work);
        let done = world.run().await;
        let ours = done.log.lines().filter(|line| line.contains(" - supervisor - ")).count();
        assert_eq!(ours, lines, "{level:?}: {}", done.log);
        assert!(done.log.contains("said\n"));
    }
    assert!(world.dir.path().exists());
}
