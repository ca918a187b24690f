//! The embedded object store beside MinIO: the same requests, on the same disk, in the same run.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use oscar_testkit::Minio;
use rusty_s3::actions::{CreateBucket, GetObject, HeadObject, ListObjectsV2, PutObject, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};

use crate::Options;
use crate::load::{Call, Connection, Until, drive};
use crate::report::Report;
use crate::server::Server;

pub(crate) const ACCESS_KEY: &str = "bench-access";
pub(crate) const SECRET_KEY: &str = "bench-secret-key";

const CONNECTIONS: usize = 16;
const SMALL: usize = 1024;
const LARGE: usize = 64 << 20;
const LARGE_REPEATS: usize = 5;
const SIGNED_FOR: Duration = Duration::from_hours(1);

/// An object store that answers somewhere, and keys to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    bucket: Bucket,
    credentials: Credentials,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, bucket: &str, access_key: &str, secret_key: &str) -> Target {
        let url = format!("http://{address}").parse().expect("an address");
        let bucket = Bucket::new(url, UrlStyle::Path, bucket.to_owned(), "us-east-1").expect("a bucket");
        Target { address, bucket, credentials: Credentials::new(access_key, secret_key) }
    }

    /// The embedded store of a manager that was started with [`keys`].
    pub(crate) fn embedded(manager: &Server, bucket: &str) -> Target {
        Target::new(manager.address, bucket, ACCESS_KEY, SECRET_KEY)
    }

    pub(crate) fn make(&self) -> Call {
        call(Method::PUT, &CreateBucket::new(&self.bucket, &self.credentials), Bytes::new())
    }

    pub(crate) fn put(&self, key: &str, body: Bytes) -> Call {
        call(Method::PUT, &PutObject::new(&self.bucket, Some(&self.credentials), key), body)
    }

    pub(crate) fn get(&self, key: &str) -> Call {
        call(Method::GET, &GetObject::new(&self.bucket, Some(&self.credentials), key), Bytes::new())
    }

    pub(crate) fn head(&self, key: &str) -> Call {
        call(Method::HEAD, &HeadObject::new(&self.bucket, Some(&self.credentials), key), Bytes::new())
    }

    pub(crate) fn list(&self, prefix: &str) -> Call {
        let mut list = ListObjectsV2::new(&self.bucket, Some(&self.credentials));
        list.with_prefix(prefix.to_owned());
        call(Method::GET, &list, Bytes::new())
    }

    pub(crate) async fn connections(&self, count: usize) -> Vec<Connection> {
        futures::future::join_all((0..count).map(|_| Connection::anonymous(self.address))).await
    }
}

/// The variables that give a manager's embedded store the keys of this program.
pub(crate) fn keys() -> [(&'static str, &'static str); 2] {
    [("MINIO_ACCESS_KEY", ACCESS_KEY), ("MINIO_SECRET_KEY", SECRET_KEY)]
}

fn call<'a>(method: Method, action: &impl S3Action<'a>, body: Bytes) -> Call {
    let url = action.sign(SIGNED_FOR);
    let path = url.as_str().splitn(4, '/').nth(3).map_or_else(|| "/".to_owned(), |rest| format!("/{rest}"));
    Call { method, path, body }
}

pub(crate) async fn measure(binary: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let manager = Server::manager(binary, &keys());
    stress("store", &Target::embedded(&manager, "bench"), options, report).await;
    report.put("store MiB", manager.resident_kib() / 1024.0);
    drop(manager);
    // Beside the binary: where the manager had its data, too.
    let minio = tokio::task::spawn_blocking({
        let folder = binary.parent().expect("a folder").to_owned();
        move || Minio::start_in(&folder)
    });
    let minio = minio.await.expect("it does not panic").map_err(|missing| missing.to_string())?;
    let address = minio.url().strip_prefix("http://").and_then(|rest| rest.parse().ok()).expect("an address");
    let target = Target::new(address, "bench", Minio::ACCESS_KEY, Minio::SECRET_KEY);
    stress("MinIO", &target, options, report).await;
    Ok(())
}

async fn stress(name: &str, target: &Target, options: &Options, report: &mut Report) {
    let mut one = Connection::anonymous(target.address).await;
    // MinIO says that it is ready a moment before it is.
    for patience in (0..100).rev() {
        if one.call(&target.make()).await.0.is_success() {
            break;
        }
        assert!(patience > 0, "{name} makes no bucket");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let body = Bytes::from(vec![7; SMALL]);
    let put = target.clone();
    let puts = drive(target.connections(CONNECTIONS).await, Until::Passed(options.duration), move |lane, number| {
        put.put(&format!("small/{lane}/{number}"), body.clone())
    });
    report.put_load(&format!("{name}: PUT 1 KiB"), puts.await);
    let get = target.clone();
    let gets = drive(target.connections(CONNECTIONS).await, Until::Passed(options.duration), move |lane, number| {
        get.get(&format!("small/{lane}/{}", number % 50))
    });
    report.put_load(&format!("{name}: GET 1 KiB"), gets.await);

    let body = Bytes::from(vec![7; LARGE]);
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for number in 0..LARGE_REPEATS {
        let key = format!("large/{number}");
        let begin = Instant::now();
        assert!(one.call(&target.put(&key, body.clone())).await.0.is_success(), "{name} takes no large object");
        puts.push(begin.elapsed());
        let begin = Instant::now();
        let (status, length) = one.call(&target.get(&key)).await;
        gets.push(begin.elapsed());
        assert!(status.is_success() && length == LARGE, "{name} gives a large object back: {status}, {length}");
    }
    report.put(&format!("{name}: PUT 64 MiB, MiB/s"), rate(puts));
    report.put(&format!("{name}: GET 64 MiB, MiB/s"), rate(gets));
}

fn rate(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    64.0 / times[times.len() / 2].as_secs_f64()
}
