//! The promises of the store while the disk is full or cannot be written to.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Bucket, Buckets as _, Keys, Subscription, Uploads as _};
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_engine::ports::seal::{Seal, SealError};
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::Visibility;

use crate::{Options, Store};

struct Here(std::sync::atomic::AtomicU64);

impl Clock for Here {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl Entropy for Here {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let words = (0u64..).flat_map(|at| (number + at).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        bytes.iter_mut().zip(words).for_each(|(byte, value)| *byte = value);
    }
}

impl Seal for Here {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(plain.to_vec())
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(sealed.to_vec())
    }
}

async fn mk_store(folder: &std::path::Path) -> Store {
    let here = Arc::new(Here(1.into()));
    let options = Options {
        folder: folder.to_owned(),
        root: Keys { access_key: "root".to_owned(), secret_key: Secret::new("secret") },
        endpoint: "http://localhost:9000".to_owned(),
        region: "us-east-1".to_owned(),
        clock: Arc::clone(&here) as Arc<dyn Clock>,
        entropy: Arc::clone(&here) as Arc<dyn Entropy>,
        seal: here,
    };
    let store = Store::open(options).await.expect("the store opens");
    let bucket = Bucket {
        name: "data".to_owned(),
        owner: Owner::Admin,
        visibility: Visibility::Private,
        allowed_users: Vec::new(),
        from_service: None,
    };
    store.ensure(&bucket).await.expect("made");
    let all = Subscription { bucket: "data".to_owned(), prefix: "in/".to_owned(), service: "s".to_owned() };
    store.subscribe(&all).await.expect("subscribed");
    store
}

async fn limit_pages(store: &Store, more: Option<i64>) {
    let set = move |batch: &mut crate::writer::Batch<'_>| {
        let pages: i64 = batch.sql.query_row("PRAGMA page_count", (), |row| row.get(0))?;
        let limit = more.map_or(1 << 30, |more| pages + more);
        batch.sql.query_row(&format!("PRAGMA max_page_count = {limit}"), (), |_| Ok(()))?;
        Ok(())
    };
    store.change(set).await.expect("limited");
}

#[tokio::test]
async fn a_full_database_says_so_and_goes_on_when_there_is_room() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = mk_store(folder.path()).await;
    let body = Bytes::from(vec![1; 60_000]);
    store.put_bytes("data", "in/before", body.clone(), "").await.expect("put");
    limit_pages(&store, Some(6)).await;
    let refused = store.put_bytes("data", "in/no", body.clone(), "").await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    // Some of them fit, and do not fail because others do not.
    let small = |number: u32| store.put_bytes("data", "in/small", Bytes::from(number.to_string()), "");
    let (large, one, two) = futures::join!(store.put_bytes("data", "in/no", body.clone(), ""), small(1), small(2));
    assert!(matches!(large, Err(StoreError::Full(_))), "{large:?}");
    one.and(two).expect("what fits is kept");
    assert_eq!(store.stat("data", "in/no").await.expect("asked"), None);
    assert_eq!(store.next(10).await.expect("events").len(), 3);
    limit_pages(&store, None).await;
    store.put_bytes("data", "in/no", body, "").await.expect("there is room now");
    assert_eq!(store.usage("data").await.expect("usage").objects, 3);
}

#[tokio::test]
async fn a_body_that_cannot_be_written_leaves_nothing() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = mk_store(folder.path()).await;
    // A file where the folders of bodies should be: no name can be made below it.
    let data = folder.path().join("data");
    std::fs::remove_dir_all(&data).expect("removed");
    std::fs::write(&data, "in the way").expect("written");
    let large = Bytes::from(vec![1; 200_000]);
    assert!(store.put_bytes("data", "in/large", large.clone(), "").await.is_err());
    assert_eq!(store.stat("data", "in/large").await.expect("asked"), None);
    assert!(store.next(10).await.expect("events").is_empty());
    store.put_bytes("data", "in/small", "x".into(), "").await.expect("small ones need no file");
    std::fs::remove_file(&data).expect("removed");
    std::fs::create_dir(&data).expect("made");
    store.put_bytes("data", "in/large", large, "").await.expect("it goes on");
}
