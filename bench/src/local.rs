//! The local world.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Options;
use crate::load::{Call, Connection, Load, load};
use crate::report::Report;
use crate::server::Server;

const SERVICES: &str = "/system/services";

/// As many as clients of a busy cluster keep open; group commit needs company to show.
const CONNECTIONS: usize = 64;

const STARTS: usize = 10;

pub(crate) async fn measure(binary: &Path, options: &Options, report: &mut Report) {
    starts(binary, report).await;
    bare(options, report).await;
    creates(binary, options, report).await;
    gets(binary, options, report).await;
    lists(binary, report).await;
}

/// A service such as people have: two buckets, some variables, a short script.
pub(crate) fn definition(name: &str) -> Vec<u8> {
    let service = json!({
        "name": name,
        "image": "ghcr.io/grycap/cowsay",
        "cpu": "0.5",
        "memory": "512Mi",
        "script": "#!/bin/sh\ncowsay < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/out.txt\"\n".repeat(5),
        "input": [{"storage_provider": "minio.default", "path": format!("{name}/in")}],
        "output": [{"storage_provider": "minio.default", "path": format!("{name}/out"), "suffix": ["txt"]}],
        "environment": {"variables": {"COLOUR": "red", "LEVEL": "3"}},
    });
    serde_json::to_vec(&service).expect("JSON")
}

/// Creates `<prefix>-<from>` to `<prefix>-<to>`, some at a time.
pub(crate) async fn fill(address: SocketAddr, prefix: &str, from: usize, to: usize) {
    let lanes = (0..16).map(|lane| {
        let prefix = prefix.to_owned();
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            for number in (from + lane..to).step_by(16) {
                let call = Call::post(SERVICES, definition(&format!("{prefix}-{number}")));
                assert_eq!(connection.call(&call).await.0, 201);
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("the services are made");
    }
}

async fn starts(binary: &Path, report: &mut Report) {
    let mut times = Vec::new();
    for start in 0..STARTS {
        let begin = Instant::now();
        let manager = Server::manager(binary, &[]);
        let mut connection = Connection::open(manager.address).await;
        assert_eq!(connection.call(&Call::get("/health")).await.0, 200);
        times.push(begin.elapsed());
        if start == 0 {
            // What it does after its start has then been done.
            tokio::time::sleep(Duration::from_secs(1)).await;
            report.put("idle MiB", manager.resident_kib() / 1024.0);
        }
    }
    report.put("start ms", millis(Load::of(times, Duration::from_secs(1)).p50));
}

async fn bare(options: &Options, report: &mut Report) {
    let hello = Server::hello();
    let times = load(hello.address, CONNECTIONS, options.duration, |_, _| Call::get(crate::hello::PATH)).await;
    report.put_load("hello", times);
}

async fn creates(binary: &Path, options: &Options, report: &mut Report) {
    let manager = Server::manager(binary, &[]);
    let create = |lane, number| Call::post(SERVICES, definition(&format!("c-{lane}-{number}")));
    report.put_load("create", load(manager.address, CONNECTIONS, options.duration, create).await);
}

async fn gets(binary: &Path, options: &Options, report: &mut Report) {
    let manager = Server::manager(binary, &[]);
    fill(manager.address, "s", 0, 1000).await;
    let get = |lane: usize, number: usize| Call::get(format!("{SERVICES}/s-{}", (lane * 31 + number * 7) % 1000));
    report.put_load("get", load(manager.address, CONNECTIONS, options.duration, get).await);
    report.put_load("list 1000", load(manager.address, 4, options.duration, |_, _| Call::get(SERVICES)).await);
}

/// One caller alone, so that the time is that of one answer and not of a queue.
async fn lists(binary: &Path, report: &mut Report) {
    let manager = Server::manager(binary, &[]);
    let mut filled = 0;
    for count in [100, 1000, 10_000] {
        fill(manager.address, "s", filled, count).await;
        filled = count;
        let mut connection = Connection::open(manager.address).await;
        let repeats = 20_000 / count + 20;
        let mut times = Vec::new();
        for _ in 0..repeats {
            let begin = Instant::now();
            let (status, length) = connection.call(&Call::get(SERVICES)).await;
            times.push(begin.elapsed());
            assert!(status == 200 && length > 100 * count, "{status}, {length} bytes");
        }
        let once = Load::of(times, Duration::from_secs(1));
        report.put(&format!("list {count} ms"), millis(once.p50));
        let services = u32::try_from(count).map_or(f64::MAX, f64::from);
        report.put(&format!("list {count} µs per service"), millis(once.p50) * 1000.0 / services);
    }
    report.put("full MiB", manager.resident_kib() / 1024.0);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
