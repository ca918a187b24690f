//! Memory does not grow with the size of an object.

use std::path::Path;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use oscar_engine::ports::buckets::Buckets as _;
use oscar_model::identity::Owner;
use oscar_testkit::{Python, require, skip};

use crate::child::Serving;
use crate::client::Client;
use crate::support::{ROOT, ROOT_SECRET, mk_bucket, serve};

const MIB: usize = 1024 * 1024;
const LARGE: usize = 256 * MIB;
/// Far less than the object, far more than what a few requests need.
const ROOM: usize = 64 * MIB;

/// The most memory that a process ever had, where the system tells.
fn peak(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().ok().map(|kib| kib * 1024)
}

async fn mk_server(folder: &Path) -> Serving {
    let (store, _) = serve(folder).await;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    store.close().await;
    Serving::start(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_object_passes_through_little_memory() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let server = mk_server(folder.path()).await;
    let client = Client::root(server.address);
    assert_eq!(client.put("data", "first", "x").await.status, 200);
    let Some(before) = peak(server.pid()) else {
        return skip!("this system does not tell how much memory a process had");
    };
    let chunk = Bytes::from(vec![9; MIB]);
    let body = futures::stream::iter((0..LARGE / MIB).map(move |_| chunk.clone()));
    assert_eq!(client.put_stream("data", "large", LARGE as u64, body).await.status, 200);
    let mut body = client.open("data", "large").await.into_body();
    let mut taken = 0;
    while let Some(frame) = body.frame().await {
        taken += frame.expect("bytes").into_data().map_or(0, |data| data.len());
    }
    assert_eq!(taken, LARGE);
    let grown = peak(server.pid()).expect("told before") - before;
    assert!(grown < ROOM, "{} MiB for an object of {} MiB", grown / MIB, LARGE / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_one_single_chunk_is_not_held_as_one() {
    let python = require!(Python::find());
    let folder = tempfile::TempDir::new().expect("a folder");
    let server = mk_server(folder.path()).await;
    assert_eq!(Client::root(server.address).put("data", "first", "x").await.status, 200);
    let Some(before) = peak(server.pid()) else {
        return skip!("this system does not tell how much memory a process had");
    };
    let url = format!("http://{}", server.address);
    let output = tokio::task::spawn_blocking(move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/streams.py");
        python.run(&script, &[("S3_URL", &url), ("S3_KEY", ROOT), ("S3_SECRET", ROOT_SECRET), ("S3_TEST", "huge")])
    });
    let output = output.await.expect("the script ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let grown = peak(server.pid()).expect("told before") - before;
    assert!(grown < ROOM, "{} MiB for a chunk of 160 MiB", grown / MIB);
}
