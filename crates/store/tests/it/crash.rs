//! A server that is killed in the middle of uploads.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::TryStreamExt as _;
use md5::{Digest as _, Md5};
use oscar_engine::ports::buckets::{Buckets as _, Subscription, Uploads as _};
use oscar_model::identity::Owner;

use crate::child::Serving;
use crate::client::Client;
use crate::support::{files_in, mk_bucket, serve};

const SIZES: [usize; 4] = [0, 1000, 100_000, 1_500_000];
const WORKERS: usize = 6;
const ROUNDS: usize = 5;

/// Each write of a key has bytes of its own.
fn mk_body(worker: usize, turn: usize) -> Bytes {
    let size = SIZES[(worker + turn) % SIZES.len()];
    let seed = format!("{worker}-{turn}-");
    seed.bytes().cycle().take(size + seed.len()).collect::<Vec<u8>>().into()
}

fn etag(body: &[u8]) -> String {
    Md5::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Default)]
struct Ledger {
    /// The ETag that was acknowledged last, by key.
    acknowledged: HashMap<String, String>,
    /// What was sent and not answered, which may be there or not.
    open: HashMap<String, String>,
    versions: HashMap<String, Vec<String>>,
}

#[test]
fn every_acknowledged_object_survives_a_kill_and_no_torn_one_is_seen() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::TempDir::new().expect("a folder");
    runtime.block_on(async {
        let (store, _) = serve(folder.path()).await;
        store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
        let all = Subscription { bucket: "data".to_owned(), prefix: "in/".to_owned(), service: "s".to_owned() };
        store.subscribe(&all).await.expect("subscribed");
        store.close().await;
    });
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    for round in 0..ROUNDS {
        let mut server = Serving::start(folder.path());
        let address = server.address;
        let answered = Arc::new(AtomicUsize::new(0));
        let uploads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (ledger, answered) = (Arc::clone(&ledger), Arc::clone(&answered));
                runtime.spawn(async move {
                    let client = Client::root(address);
                    for turn in round * 1000.. {
                        let key = format!("in/{worker}/{}", turn % 7);
                        let body = mk_body(worker, turn);
                        let tag = etag(&body);
                        ledger.lock().expect("held").open.insert(key.clone(), tag.clone());
                        match client.try_put("data", &key, body).await {
                            Ok(answer) => assert_eq!(answer.status, 200, "{}", answer.text()),
                            Err(_) => return,
                        }
                        let mut ledger = ledger.lock().expect("held");
                        ledger.open.remove(&key);
                        ledger.versions.entry(key.clone()).or_default().push(tag.clone());
                        ledger.acknowledged.insert(key, tag);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        while answered.load(Ordering::Relaxed) < 20 + round * 13 {
            std::thread::yield_now();
        }
        server.kill();
        for upload in uploads {
            runtime.block_on(upload).expect("a worker ends when the server does");
        }
        runtime.block_on(check(folder.path(), &mut ledger.lock().expect("held")));
    }
}

async fn check(folder: &Path, ledger: &mut Ledger) {
    let (store, _) = serve(folder).await;
    let events = store.next(100_000).await.expect("events");
    let mut files = 0;
    let page = store.objects("data", None, 1000).await.expect("a list");
    let listed: Vec<String> = page.objects.iter().map(|object| object.key.clone()).collect();
    for key in ledger.acknowledged.keys() {
        assert!(listed.contains(key), "{key} was acknowledged and is gone");
    }
    for key in listed {
        let (stat, stream) = store.get_stream("data", &key).await.expect("an object");
        let body: Vec<Bytes> = stream.try_collect().await.expect("its bytes");
        let body = body.concat();
        assert_eq!(stat.etag, etag(&body), "{key} is torn");
        files += usize::from(body.len() > 64 * 1024);
        let (known, open) = (ledger.acknowledged.get(&key), ledger.open.remove(&key));
        assert!(
            known == Some(&stat.etag) || open.as_ref() == Some(&stat.etag),
            "{key} is neither the last nor the cut off"
        );
        assert!(events.iter().any(|event| event.version == stat.version), "{key} has no event");
        ledger.acknowledged.insert(key.clone(), stat.etag);
    }
    for (key, tags) in &ledger.versions {
        for tag in tags {
            assert!(
                events.iter().any(|event| event.key == *key && event.etag == *tag),
                "an upload of {key} was not told"
            );
        }
    }
    ledger.open.clear();
    assert_eq!(files_in(folder), files, "no file is left over, and none is missing");
    store.close().await;
}
