use oscar_model::service::Isolation;
use oscar_supervisor::{Exit, Manifest, Outputs, Stage};

use crate::store::{Fault, Store};
use crate::world::{World, mk_event};

const OUT: &str = "- {storage_provider: minio, path: bkt/out}";

#[tokio::test]
async fn files_go_to_every_output_that_wants_them() {
    let store = Store::start().await;
    let outputs = "- {storage_provider: minio, path: bkt/text, suffix: [.txt]}\n- {storage_provider: minio.default, path: bkt, prefix: [sub/]}\n- {storage_provider: webdav.dcache, path: lab, suffix: [.png]}";
    let script = "cd $TMP_OUTPUT_DIR; mkdir -p sub/deep; echo a > 'a b+%.txt'; echo b > sub/deep/ñ.txt; echo c > c.png; : > empty.txt";
    let done = World::new(&store, outputs, script).run().await;
    assert_eq!(done.report.failure, None, "{}", done.log);
    let expected = [
        "bkt/sub/deep/ñ.txt",
        "bkt/text/a b+%.txt",
        "bkt/text/empty.txt",
        "bkt/text/sub/deep/ñ.txt",
        "lab/",
        "lab/c.png",
    ];
    assert_eq!(store.keys(), expected);
    assert_eq!(done.report.outputs.len(), 5);
    let first = &done.report.outputs[0];
    assert_eq!((first.bucket.as_str(), first.key.as_str(), first.bytes), ("bkt", "text/a b+%.txt", 2));
    assert!(first.etag.is_some());
}

#[tokio::test]
async fn large_files_go_in_parts() {
    let store = Store::start().await;
    let script = "head -c 1000000 /dev/urandom > $TMP_OUTPUT_DIR/big";
    let mut world = World::new(&store, OUT, script);
    world.task.limits.part_bytes = 64 * 1024;
    store.fail("partNumber=3&", &[Fault::Status(500), Fault::Lose]);
    store.fail("POST*uploads=1", &[Fault::Status(503)]);
    let done = world.run().await;
    assert_eq!(store.unused_faults(), 0);
    assert_eq!(done.report.failure, None, "{}", done.log);
    assert_eq!(store.get("bkt/out/big"), std::fs::read(world.output_dir().join("big")).ok());
    assert_eq!((store.count("partNumber="), store.open_uploads()), (16 + 2, 0));
    assert_eq!(done.report.outputs[0].bytes, 1_000_000);
}

#[tokio::test]
async fn the_end_of_an_upload_may_fail_inside_a_success_or_get_lost() {
    for faults in [&[Fault::ErrorInside][..], &[Fault::Lose], &[Fault::Status(500), Fault::Lose]] {
        let store = Store::start().await;
        let mut world = World::new(&store, OUT, "head -c 300000 /dev/zero > $TMP_OUTPUT_DIR/big");
        world.task.limits.part_bytes = 100_000;
        store.fail("POST*uploadId=", faults);
        let done = world.run().await;
        assert_eq!(store.unused_faults(), 0);
        assert_eq!(done.report.failure, None, "{faults:?} {}", done.log);
        assert_eq!(store.get("bkt/out/big").map(|big| big.len()), Some(300_000));
    }
}

#[tokio::test]
async fn an_upload_that_fails_for_good_leaves_no_parts() {
    let store = Store::start().await;
    let mut world = World::new(&store, OUT, "head -c 300000 /dev/zero > $TMP_OUTPUT_DIR/big");
    world.task.limits.part_bytes = 100_000;
    store.fail("partNumber=2", &[Fault::Echo(403)]);
    let done = world.run().await;
    assert_eq!(store.unused_faults(), 0);
    assert_eq!(
        done.sentence(),
        "The output `big` could not be stored as `bkt/out/big` of minio.default: the store refuses access (403 AccessDenied); the credentials of this job may not do that there."
    );
    assert_eq!((store.open_uploads(), store.keys().len()), (0, 0));
    assert_eq!((done.report.exit, done.report.exit_code()), (Some(Exit::Code(0)), 1));
}

#[tokio::test]
async fn a_flaky_store_gets_its_files_in_the_end() {
    let store = Store::start().await;
    store.fail("PUT", &[Fault::Status(503), Fault::Lose, Fault::Status(500), Fault::Status(429)]);
    let script = "for n in 1 2 3 4 5 6; do head -c 200000 /dev/urandom > $TMP_OUTPUT_DIR/$n; done";
    let world = World::new(&store, OUT, script);
    let done = world.run().await;
    assert_eq!((done.report.failure, store.unused_faults()), (None, 0), "{}", done.log);
    for n in 1..=6 {
        assert_eq!(store.get(&format!("bkt/out/{n}")), std::fs::read(world.output_dir().join(n.to_string())).ok());
    }
}

#[tokio::test]
async fn staged_outputs_wait_with_a_manifest() {
    let store = Store::start().await;
    let outputs = "- {storage_provider: minio, path: bkt/out}\n- {storage_provider: webdav.dcache, path: lab}";
    let mut world = World::new(&store, outputs, "echo x > $TMP_OUTPUT_DIR/a");
    world.task.outputs = Outputs::Staged { bucket: "staging".to_owned(), prefix: "job-1/try-2/".to_owned() };
    let done = world.run().await;
    assert_eq!(done.report.exit, Some(Exit::Code(0)));
    assert_eq!(store.keys(), ["lab/", "lab/a", "staging/job-1/try-2/.manifest.json", "staging/job-1/try-2/bkt/out/a"]);
    let manifest = store.get("staging/job-1/try-2/.manifest.json").expect("written");
    let manifest: Manifest = serde_json::from_slice(&manifest).expect("a manifest");
    assert_eq!(manifest.exit, Some(Exit::Code(0)));
    assert_eq!(manifest.outputs, [done.report.outputs[0].clone()], "others went direct");
    assert_eq!(manifest.outputs[0].staged_key.as_deref(), Some("job-1/try-2/bkt/out/a"));
    assert_eq!((manifest.outputs[0].bucket.as_str(), manifest.outputs[0].key.as_str()), ("bkt", "out/a"));
    assert_eq!(done.report.manifest.as_deref(), Some("job-1/try-2/.manifest.json"));
}

#[tokio::test]
async fn of_a_script_that_fails_nothing_is_staged_and_the_log_says_so() {
    let store = Store::start().await;
    let outputs = "- {storage_provider: minio, path: bkt/out}\n- {storage_provider: webdav.dcache, path: lab}";
    for (staged, keys) in [(true, vec!["lab/", "lab/a"]), (false, vec!["bkt/out/a", "lab/", "lab/a"])] {
        let mut world = World::new(&store, outputs, "echo x > $TMP_OUTPUT_DIR/a; exit 3");
        if staged {
            world.task.outputs = Outputs::Staged { bucket: "staging".to_owned(), prefix: "job-1/1".to_owned() };
        }
        let done = world.run().await;
        assert_eq!((done.report.exit, done.report.manifest), (Some(Exit::Code(3)), None));
        assert_eq!(store.keys(), keys);
        assert!(!done.log.contains("Kept for"), "{}", done.log);
        assert_eq!(done.log.contains("Outputs for the cluster's own store are left out"), staged, "{}", done.log);
    }
}

#[tokio::test]
async fn a_store_that_is_full_is_told_apart_and_a_file_of_that_name_is_not() {
    let store = Store::start().await;
    store.fail("PUT", &[Fault::Status(507), Fault::Echo(403)]);
    let script = "echo x > \"$TMP_OUTPUT_DIR/the store is full: No space left on device\"";
    for wants_room in [true, false] {
        let done = World::new(&store, OUT, script).run().await;
        let failure = done.report.failure.expect("it failed");
        assert_eq!(failure.wants_room, wants_room, "{}", failure.sentence);
    }
}

#[tokio::test]
async fn a_job_that_takes_too_long_in_all_is_stopped() {
    let store = Store::start().await;
    let mut world = World::new(&store, OUT, "echo x > $TMP_OUTPUT_DIR/a");
    store.fail("PUT", &[Fault::Status(503); 64]);
    world.task.limits.attempts = 1_000;
    world.task.limits.pause = std::time::Duration::from_secs(1);
    world.task.limits.whole_time = Some(std::time::Duration::from_secs(2));
    let done = world.run().await;
    assert_eq!(done.report.exit, Some(Exit::Code(0)));
    assert_eq!(done.report.failure.map(|failure| failure.stage), Some(oscar_supervisor::Stage::Time));
    let mut world = World::new(&store, "", "sleep 600").event("{}");
    world.task.limits.whole_time = Some(std::time::Duration::from_millis(200));
    let done = world.run().await;
    assert_eq!(done.report.failure.map(|failure| failure.stage), Some(oscar_supervisor::Stage::Time));
}

#[tokio::test]
async fn a_users_own_bucket_gets_the_users_outputs() {
    for (bucket, expected) in [("bkt-alice", "bkt-alice/out/a"), ("bkt", "bkt/out/a")] {
        let store = Store::start().await;
        store.put(&format!("{bucket}/in/a"), "x");
        let mut world = World::new(&store, OUT, "echo x > $TMP_OUTPUT_DIR/a").event(mk_event(bucket, "in/a"));
        world.task.config.isolation = Isolation::User;
        world.task.config.bucket_list = vec!["bkt-alice".to_owned()];
        assert_eq!(world.run().await.report.failure, None);
        assert!(store.keys().contains(&expected.to_owned()), "{:?}", store.keys());
    }
}

#[tokio::test]
async fn a_link_does_not_carry_files_out() {
    let store = Store::start().await;
    let script =
        "cd $TMP_OUTPUT_DIR; ln -s /etc/passwd stolen; ln -s /etc folder; mkfifo pipe; echo x > real; ln -s real alias";
    let done = World::new(&store, OUT, script).run().await;
    assert_eq!(done.report.failure, None);
    assert_eq!(store.keys(), ["bkt/out/alias", "bkt/out/real"]);
    for name in ["stolen", "folder", "pipe"] {
        assert!(done.log.contains(&format!("WARNING - `{name}` is ")), "{}", done.log);
    }
}

#[tokio::test]
async fn outputs_that_cannot_be_stored_are_known_before_the_script_runs() {
    let store = Store::start().await;
    let done = World::new(&store, "- {storage_provider: onedata.one, path: x}", "true").run().await;
    assert_eq!(done.report.failure.as_ref().map(|failure| failure.stage), Some(Stage::Configuration));
    assert!(done.sentence().contains("the storage provider onedata.one cannot be used"), "{}", done.sentence());
    let done = World::new(&store, "- {storage_provider: s3.mine, path: x/y}", "true").run().await;
    assert!(done.sentence().contains("s3.mine is not among the storage_providers"), "{}", done.sentence());

    let mut world = World::new(&store, OUT, "true");
    world.task.credentials.clear();
    let done = world.run().await;
    assert!(done.sentence().contains("no credentials"), "{}", done.sentence());
    assert_eq!(done.report.exit, None);
    let done = world.synchronous().run().await;
    assert_eq!((done.report.failure, done.report.exit), (None, Some(Exit::Code(0))));
    assert!(done.log.contains("WARNING - Outputs are not stored in `bkt/out` of minio.default"), "{}", done.log);
}

#[tokio::test]
async fn a_store_that_was_away_and_came_back_elsewhere_is_found() {
    let store = Store::start().await;
    let mut world =
        World::new(&store, "- {storage_provider: minio, path: bkt/out}", "echo x > $TMP_OUTPUT_DIR/a.txt\n");
    let former = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let file = world.dir.path().join("store.url");
    std::fs::write(&file, format!("http://{}", former.local_addr().expect("an address"))).expect("written");
    world.task.limits.attempts = 1;
    let access = world.task.credentials.values_mut().next().expect("one");
    access.endpoint_file = Some(file.clone());
    let address = store.address.clone();
    tokio::spawn(async move {
        // Two who ask are not answered; then it is somewhere else.
        for _ in 0..2 {
            drop(former.accept().await);
        }
        drop(former);
        std::fs::write(file, address).expect("written");
    });
    let done = world.run().await;
    assert_eq!(done.sentence(), "");
    assert_eq!(store.get("bkt/out/a.txt").as_deref(), Some(&b"x\n"[..]));
    assert!(done.log.contains("it is tried again"), "{}", done.log);
}
