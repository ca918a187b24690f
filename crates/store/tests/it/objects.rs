//! What the manager itself does with objects, and what browsers are told.

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::Method;
use http_body_util::Empty;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Buckets as _, Presign, STAGING_BUCKET};
use oscar_model::identity::Owner;
use oscar_store::{OpenError, Store, Totals, Usage};

use crate::client::{Client, send, send_with};
use crate::support::{Served, mk_bucket, mk_options, mk_subject, serve};

#[tokio::test]
async fn usage_is_counted_through_every_change() {
    let served = Served::start().await;
    let store = &served.store;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("the owner's own is found");
    let other = mk_bucket("data", Owner::User(mk_subject("bob")));
    assert_eq!(store.ensure(&other).await, Err(StoreError::AlreadyExists));
    let root = Client::root(served.address);
    root.put("data", "a", vec![0; 10]).await;
    root.put("data", "b", vec![0; 200_000]).await;
    root.put("data", "a", vec![0; 4]).await;
    let usage = async || store.usage("data").await.expect("usage");
    assert_eq!(usage().await, Usage { objects: 2, bytes: 200_004 });
    root.delete("data", "b").await;
    root.delete("data", "b").await;
    assert_eq!(usage().await, Usage { objects: 1, bytes: 4 });
    store.put_bytes(STAGING_BUCKET, "x", "staged".into(), "").await.expect("put");
    assert_eq!(store.totals().await.expect("totals"), Totals { buckets: 1, objects: 1, bytes: 4 });
    assert_eq!(store.usage("none").await, Err(StoreError::NotFound));
    assert!(store.remove(STAGING_BUCKET).await.is_err());
    store.remove("data").await.expect("removed");
    assert_eq!(store.remove("data").await, Err(StoreError::NotFound));
    assert_eq!(store.totals().await.expect("totals"), Totals::default());
    served.wait_for_files(0).await;
}

#[tokio::test]
async fn a_reader_keeps_the_object_that_he_began_with() {
    let served = Served::start().await;
    let store = &served.store;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let body =
        Bytes::from((0..4_000_000u32).map(|number| u8::try_from(number % 251).expect("small")).collect::<Vec<_>>());
    store.put_bytes("data", "k", body.clone(), "a/b").await.expect("put");
    let (stat, stream) = store.get_stream("data", "k").await.expect("an object");
    assert_eq!((stat.bytes, stat.content_type.as_str(), stream.bytes_left()), (4_000_000, "a/b", 4_000_000));
    store.put_bytes("data", "k", "new".into(), "").await.expect("replaced");
    let old: Vec<Bytes> = stream.try_collect().await.expect("the old bytes");
    assert_eq!(old.concat(), body);
    served.wait_for_files(0).await;
    assert_eq!(store.get_stream("data", "none").await.err(), Some(StoreError::NotFound));
}

#[tokio::test]
async fn objects_are_listed_page_by_page() {
    let served = Served::start().await;
    let store = &served.store;
    store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    for number in 0..25 {
        store.put_bytes("data", &format!("{number:02}"), "x".into(), "").await.expect("put");
    }
    let (mut page, mut keys) = (None, Vec::new());
    loop {
        let found = store.objects("data", page.as_deref(), 10).await.expect("a page");
        assert!(found.objects.len() <= 10);
        keys.extend(found.objects.into_iter().map(|object| object.key));
        page = found.next;
        if page.is_none() {
            break;
        }
    }
    assert_eq!(keys, (0..25).map(|number| format!("{number:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_address_is_signed_for_the_public_endpoint_and_its_content_type() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    let mk = |upload, content_type: &str| Presign {
        bucket: "data".to_owned(),
        key: "a b/ä+%.txt".to_owned(),
        upload,
        content_type: Some(content_type.to_owned()),
        headers: std::collections::BTreeMap::new(),
        valid_for: std::time::Duration::from_mins(1),
    };
    let put = served.store.presign(&Owner::Admin, &mk(true, "")).await.expect("an address");
    assert!(put.starts_with(&format!("{}/data/", served.url())), "{put}");
    let answer = send(served.address, Method::PUT, &put, None, http_body_util::Full::from("hello")).await;
    assert_eq!(answer.expect("an answer").status, 200);
    let get = served.store.presign(&Owner::Admin, &mk(false, "text/x-made")).await.expect("an address");
    let answer = send(served.address, Method::GET, &get, None, Empty::new()).await.expect("an answer");
    assert_eq!(
        (answer.text().as_str(), &answer.headers["content-type"]),
        ("hello", &"text/x-made".parse().expect("a type"))
    );
    let bound = served.store.presign(&Owner::Admin, &mk(true, "text/csv")).await.expect("an address");
    let answer =
        send(served.address, Method::PUT, &bound, None, http_body_util::Full::from("x")).await.expect("an answer");
    assert_eq!(answer.status, 403, "without the content type that was signed");
}

#[tokio::test]
async fn an_address_is_only_good_with_the_headers_that_it_was_signed_for() {
    let served = Served::start().await;
    served.store.ensure(&mk_bucket("data", Owner::Admin)).await.expect("made");
    served.store.put_bytes("data", "secret", "of somebody else".into(), "").await.expect("put");
    let mk = |upload, headers: &[(&str, &str)]| Presign {
        bucket: "data".to_owned(),
        key: "k".to_owned(),
        upload,
        content_type: Some("a/b".to_owned()).filter(|_| upload),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        valid_for: std::time::Duration::from_mins(1),
    };
    let signed = [("cache-control", "no-cache"), ("x-amz-meta-run", "number 7"), ("x-amz-tagging", "a=1")];
    let put = served.store.presign(&Owner::Admin, &mk(true, &signed)).await.expect("an address");
    let sent = async |url: &str, method: Method, headers: &[(&str, &str)]| {
        let body = http_body_util::Full::from("hello");
        send_with(served.address, method, url, headers, body).await.expect("an answer")
    };
    let all = [&signed[..], &[("content-type", "a/b")]].concat();
    for missing in 0..all.len() {
        let mut some = all.clone();
        some.remove(missing);
        assert_eq!(sent(&put, Method::PUT, &some).await.status, 403, "without {}", all[missing].0);
    }
    let other = [&all[..1], &[("x-amz-meta-run", "number 8")], &all[2..]].concat();
    assert_eq!(sent(&put, Method::PUT, &other).await.status, 403, "another value");
    let more = [&all[..], &[("x-amz-copy-source", "data/secret")]].concat();
    assert_eq!(sent(&put, Method::PUT, &more).await.status, 403, "one more");
    assert_eq!(sent(&put, Method::PUT, &all).await.status, 200);
    let stat = served.store.stat("data", "k").await.expect("asked").expect("it is there");
    assert_eq!((stat.content_type.as_str(), stat.user_metadata["run"].as_str()), ("a/b", "number 7"));
    let get = served.store.presign(&Owner::Admin, &mk(false, &[("range", "bytes=1-2")])).await.expect("an address");
    assert_eq!(sent(&get, Method::GET, &[]).await.status, 403);
    let answer = sent(&get, Method::GET, &[("range", "bytes=1-2")]).await;
    assert_eq!(
        (answer.status, answer.text().as_str(), &answer.headers["cache-control"]),
        (206, "el", &"no-cache".parse().expect("a value"))
    );
}

#[tokio::test]
async fn browsers_are_let_in_by_their_signature() {
    let served = Served::start().await;
    let ask = async |method: Method, headers: &[(&'static str, &'static str)]| {
        let mut request = http::Request::builder().method(method).uri("/data/k");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let service = served.store.service();
        let request = request.body(Empty::<Bytes>::new().map_err_to_std()).expect("a request");
        tower::ServiceExt::oneshot(service, request).await.expect("never fails")
    };
    let origin = ("origin", "https://console.example.org");
    let asked = [
        origin,
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization,x-amz-date"),
    ];
    let answer = ask(Method::OPTIONS, &asked).await;
    assert_eq!(answer.status(), 204);
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    assert_eq!(answer.headers()["access-control-allow-headers"], "authorization,x-amz-date");
    assert!(answer.headers()["access-control-allow-methods"].to_str().expect("text").contains("PUT"));
    let answer = ask(Method::GET, &[origin]).await;
    assert_eq!(answer.status(), 403, "nobody is anonymous");
    assert_eq!(answer.headers()["access-control-allow-origin"], "*", "so that the page can read why");
    assert!(answer.headers()["access-control-expose-headers"].to_str().expect("text").contains("ETag"));
    assert!(!ask(Method::GET, &[]).await.headers().contains_key("access-control-allow-origin"));
}

trait ToStd {
    fn map_err_to_std(
        self,
    ) -> http_body_util::combinators::MapErr<Empty<Bytes>, fn(std::convert::Infallible) -> s3s::StdError>;
}

impl ToStd for Empty<Bytes> {
    fn map_err_to_std(
        self,
    ) -> http_body_util::combinators::MapErr<Self, fn(std::convert::Infallible) -> s3s::StdError> {
        http_body_util::BodyExt::map_err(self, |never| match never {})
    }
}

#[tokio::test]
async fn a_folder_is_one_store_and_no_other_program() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (store, _) = serve(folder.path()).await;
    let second = Store::open(mk_options(folder.path(), "http://localhost")).await;
    assert!(matches!(second.err(), Some(OpenError::Locked { .. })));
    store.close().await;
    assert!(store.ensure(&mk_bucket("late", Owner::Admin)).await.is_err(), "closed is closed");
    drop(store);
    let foreign = tempfile::TempDir::new().expect("a folder");
    std::fs::write(foreign.path().join("objects.db"), "this is no database, but long enough to be one ".repeat(100))
        .expect("written");
    let refused = Store::open(mk_options(foreign.path(), "http://localhost")).await;
    assert!(matches!(refused.err(), Some(OpenError::Corrupt { .. })));
    let not_a_folder = foreign.path().join("objects.db");
    assert!(matches!(Store::open(mk_options(&not_a_folder, "x")).await.err(), Some(OpenError::Folder { .. })));
}
