//! Statistics read much, and nothing that jobs need waits for them.

use std::sync::mpsc;
use std::time::Duration;

use oscar_engine::ports::StoreError;
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::testing::conformance_jobs::mk_job;
use oscar_engine::testing::conformance_usage::mk_everything;

use super::mk_store;

/// Two threads for everything that blocks.
fn with_few_threads(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().max_blocking_threads(2).build().expect("a runtime").block_on(test);
}

#[test]
fn jobs_are_read_while_many_wait_for_statistics() {
    with_few_threads(async {
        let (_folder, store) = mk_store();
        let (opener, closed) = mpsc::channel::<()>();
        let (began, begins) = tokio::sync::oneshot::channel();
        let long = store.statistics.clone();
        let long = tokio::spawn(async move {
            let query = move |_: &rusqlite::Connection| {
                let _ = began.send(());
                let _opened = closed.recv();
                Ok(())
            };
            long.read(query).await
        });
        begins.await.expect("it began");
        let waiting =
            |store: std::sync::Arc<crate::state::LocalStore>| async move { store.usage(&mk_everything(0, 10)).await };
        let waiting: Vec<_> = (0..8).map(|_| tokio::spawn(waiting(store.clone()))).collect();
        tokio::task::yield_now().await;
        let job = mk_job("s", "1", None, 1);
        let read = tokio::time::timeout(Duration::from_mins(1), store.get(&job.name)).await;
        assert_eq!(read, Ok(Ok(None)), "it did not wait");
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        drop(opener);
        assert_eq!(long.await.expect("ran"), Ok(()));
        for waiting in waiting {
            assert_eq!(waiting.await.expect("ran"), Ok(Some(vec![])));
        }
    });
}

#[tokio::test]
async fn a_closed_store_has_no_statistics() {
    let (_folder, store) = mk_store();
    store.close().await.expect("closed");
    assert!(matches!(store.usage(&mk_everything(0, 10)).await, Err(StoreError::Unavailable(_))));
}
