//! Measures; asserts nothing about time. Run with
//! `cargo test --release -p oscar-local --test speed -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use oscar_engine::ports::services::{Scope, Services as _};
use oscar_engine::testing::make::mk_secretive;
use oscar_local::{LocalStore, Options};
use oscar_model::identity::Owner;

const CREATES: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn durable_creates_per_second() {
    for callers in [1, 16, 64, 256] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on a real disk");
        let store = LocalStore::open(folder.path(), Options::default()).expect("opened");
        let creates = if callers == 1 { CREATES / 10 } else { CREATES };
        let begin = Instant::now();
        let tasks = (0..callers).map(|caller| tokio::spawn(create(store.clone(), caller, creates / callers)));
        for task in join_all(tasks).await {
            task.expect("ran");
        }
        let made = store.list(&Scope::All).await.expect("listed").len();
        println!("{callers:>4} callers: {:>8.0} durable creates/s", per_second(made, begin));
        store.close().await.expect("closed");
        let begin = Instant::now();
        LocalStore::open(folder.path(), Options::default()).expect("opened");
        println!("              {:>8.0} definitions/s read at opening", per_second(made, begin));
    }
}

async fn create(store: Arc<LocalStore>, caller: usize, count: usize) {
    for n in 0..count {
        let (mut service, sensitive) = mk_secretive(&format!("s-{caller}-{n}"), &Owner::Admin);
        service.definition.script = "#!/bin/sh\necho hello\n".repeat(50);
        store.create(service, sensitive).await.expect("created");
    }
}

fn per_second(count: usize, begin: Instant) -> f64 {
    f64::from(u32::try_from(count).expect("a small number")) / begin.elapsed().as_secs_f64()
}
