//! The contract of the ports.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use oscar_engine::ports::buckets::Keys;
use oscar_engine::testing::conformance_buckets;
use oscar_store::Store;

use crate::client::Client;
use crate::support::Served;

struct Door {
    store: Store,
    address: SocketAddr,
}

#[async_trait]
impl conformance_buckets::Client for Door {
    async fn put(&self, keys: Option<&Keys>, bucket: &str, key: &str, body: &str) -> bool {
        let client = keys.map_or_else(|| Client::root(self.address), |keys| Client::new(self.address, keys));
        client.put(bucket, key, body.to_owned()).await.status == 200
    }

    async fn content(&self, bucket: &str, key: &str) -> Option<String> {
        let (_, stream) = self.store.get_stream(bucket, key).await.ok()?;
        let body: Vec<Bytes> = stream.try_collect().await.expect("its bytes");
        Some(String::from_utf8_lossy(&body.concat()).into_owned())
    }
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    let served = Served::start().await;
    let store = Arc::new(served.store.clone());
    let client = Arc::new(Door { store: served.store.clone(), address: served.address });
    conformance_buckets::buckets(&conformance_buckets::Store { buckets: store.clone(), uploads: store, client }).await;
}
