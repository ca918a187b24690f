//! What a widely used client does with the store.

use std::path::Path;

use oscar_engine::ports::buckets::Buckets as _;
use oscar_model::identity::Owner;
use oscar_testkit::{Python, require};

use crate::support::{ROOT, ROOT_SECRET, Served, mk_bucket};

async fn run(python: Python, script: &'static str, what: &'static str) {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let url = served.url();
    let outcome = tokio::task::spawn_blocking(move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
        python.run(&script, &[("S3_URL", &url), ("S3_KEY", ROOT), ("S3_SECRET", ROOT_SECRET), ("S3_TEST", what)])
    });
    let output = outcome.await.expect("the script ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}:\n{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains(&format!("{what} done")), "{what} ran to its end");
}

macro_rules! scripts {
    ($script:literal: $($name:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let python = require!(Python::find());
            run(python, $script, stringify!($name)).await;
        })*
    };
}

scripts! {
    "operations.py":
    objects_and_metadata
    ranges_and_conditions
    lists
    multipart_uploads
    copies
    deletes_and_tags
    strange_names
    refusals
    checksums_and_streams
    presigned_addresses
    what_is_left_out
}

scripts! {
    "streams.py":
    kinds
    spoiled
}
