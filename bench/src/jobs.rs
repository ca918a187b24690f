//! Jobs: how fast they are accepted and done, what a waiting crowd of them costs, and how long
//! a file takes to become a result.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use crate::Options;
use crate::load::{Call, Connection, Load, Until, drive};
use crate::objects::{Target, keys};
use crate::report::Report;
use crate::server::Server;

const CALLERS: usize = 64;
/// How many wait already when the cost of one more is measured.
const CROWDS: [usize; 3] = [100, 10_000, 100_000];
/// Requests of one measurement, over all callers.
const BATCH: usize = 3200;
const FILES: usize = 200;
const LATENCIES: usize = 60;
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) async fn measure(binary: &Path, options: &Options, report: &mut Report) {
    accepts(binary, options, report).await;
    crowds(binary, report).await;
    for executor in ["process", "bubblewrap"] {
        files(binary, executor, report).await;
    }
}

/// A service whose script does next to nothing.
fn trivial(name: &str, cpu: &str) -> Vec<u8> {
    let service = json!({
        "name": name,
        "image": "none",
        "cpu": cpu,
        "memory": "32Mi",
        "script": "#!/bin/sh\ncp \"$INPUT_FILE_PATH\" \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\").out\"\n",
        "input": [{"storage_provider": "minio.default", "path": format!("{name}/in")}],
        "output": [{"storage_provider": "minio.default", "path": format!("{name}/out")}],
    });
    service.to_string().into_bytes()
}

async fn deploy(address: SocketAddr, definition: Vec<u8>) -> Connection {
    let mut connection = Connection::open(address).await;
    let (status, _) = connection.call(&Call::post("/system/services", definition)).await;
    assert_eq!(status, 201, "the service is made");
    connection
}

fn submit(_: usize, _: usize) -> Call {
    Call::post("/job/waits", br#"{"message":"hello"}"#.to_vec())
}

/// Nothing can run: the manager may use less than the service asks for.
async fn unable(binary: &Path) -> Server {
    let mut environment = keys().to_vec();
    environment.extend([("OSCAR_EXECUTOR", "process"), ("OSCAR_CPU", "1")]);
    let manager = Server::manager(binary, &environment);
    let blocker = json!({"name": "holds", "image": "none", "cpu": "1", "memory": "32Mi", "script": "#!/bin/sh\nexec sleep 3600\n"});
    let mut connection = deploy(manager.address, blocker.to_string().into_bytes()).await;
    assert!(connection.call(&Call::post("/job/holds", b"{}".to_vec())).await.0.is_success());
    wait_for("the processor to be held", || async {
        let mut connection = Connection::open(manager.address).await;
        let text = connection.text(&Call::get("/system/jobs/holds")).await;
        text.contains("\"running\"")
    })
    .await;
    deploy(manager.address, trivial("waits", "1")).await;
    manager
}

/// Ends what holds the processor, so that nothing outlives the manager.
async fn release(manager: &Server) {
    let mut connection = Connection::open(manager.address).await;
    let gone = Call { method: hyper::Method::DELETE, path: "/system/services/holds".to_owned(), body: Bytes::new() };
    assert!(connection.call(&gone).await.0.is_success());
}

async fn accepts(binary: &Path, options: &Options, report: &mut Report) {
    let manager = unable(binary).await;
    let callers = callers(manager.address).await;
    report.put_load("accept a job", drive(callers, Until::Passed(options.duration), submit).await);
    release(&manager).await;
}

async fn callers(address: SocketAddr) -> Vec<Connection> {
    futures::future::join_all((0..CALLERS).map(|_| Connection::open(address))).await
}

/// What one more costs when so many wait already, and what the manager's memory is then.
async fn crowds(binary: &Path, report: &mut Report) {
    let manager = unable(binary).await;
    let mut waiting = 0;
    for crowd in CROWDS {
        let missing = crowd.saturating_sub(waiting).div_ceil(CALLERS);
        if missing > 0 {
            drive(callers(manager.address).await, Until::Sent(missing), submit).await;
        }
        let load = drive(callers(manager.address).await, Until::Sent(BATCH / CALLERS), submit).await;
        waiting += missing * CALLERS + BATCH;
        report.put(&format!("accept with {crowd} waiting, µs each"), 1e6 / load.per_second);
        let mut connection = Connection::open(manager.address).await;
        let mut times = Vec::new();
        for _ in 0..50 {
            let begin = Instant::now();
            assert_eq!(connection.call(&Call::get("/system/logs/waits")).await.0, 200);
            times.push(begin.elapsed());
        }
        report.put(&format!("a page of jobs of {crowd}, ms"), millis(Load::of(times, PATIENCE).p50));
        report.put(&format!("memory with {crowd} waiting, MiB"), manager.resident_kib() / 1024.0);
    }
    // Now they are let go: one at a time, because each asks for the whole processor.
    let before = done(manager.address).await;
    release(&manager).await;
    wait_for("the crowd to move", || async { done(manager.address).await > before }).await;
    let (begin, first) = (Instant::now(), done(manager.address).await);
    wait_for("a hundred of the crowd", || async { done(manager.address).await >= first + 100.0 }).await;
    let last = done(manager.address).await;
    report.put("one at a time with 100000 waiting, ms each", millis(begin.elapsed()) / (last - first));
    report.put("memory while they run, MiB", manager.resident_kib() / 1024.0);
    let mut connection = Connection::open(manager.address).await;
    let gone = Call { method: hyper::Method::DELETE, path: "/system/services/waits".to_owned(), body: Bytes::new() };
    assert!(connection.call(&gone).await.0.is_success());

    deploy(manager.address, trivial("few", "1")).await;
    let few = |_, _| Call::post("/job/few", br#"{"message":"hello"}"#.to_vec());
    let (begin, before) = (Instant::now(), done(manager.address).await);
    drive(callers(manager.address).await.into_iter().take(10).collect(), Until::Sent(10), few).await;
    wait_for("a hundred alone", || async { done(manager.address).await >= before + 100.0 }).await;
    report.put("one at a time with 100 waiting, ms each", millis(begin.elapsed()) / 100.0);
}

/// How many jobs have ended, as Prometheus is told.
async fn done(address: SocketAddr) -> f64 {
    let mut connection = Connection::open(address).await;
    let text = connection.text(&Call::get("/metrics")).await;
    let ended = ["oscar_jobs{state=\"succeeded\"} ", "oscar_jobs{state=\"failed\"} "];
    let ended = ended.map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok()));
    ended.into_iter().flatten().sum()
}

/// Files through the store: a crowd of them at once, then one by one.
async fn files(binary: &Path, executor: &str, report: &mut Report) {
    let mut environment = keys().to_vec();
    environment.push(("OSCAR_EXECUTOR", executor));
    let manager = Server::manager(binary, &environment);
    // A smaller share would measure the share: the set-up of the sandbox counts against it.
    deploy(manager.address, trivial("copies", "1")).await;
    let target = Target::embedded(&manager, "copies");

    let mut connection = Connection::anonymous(target.address).await;
    let mut times = Vec::new();
    for number in 0..LATENCIES {
        let (name, begin) = (format!("one-{number}"), Instant::now());
        upload_and_wait(&mut connection, &target, &name).await;
        // The first one waits until the executor was tried out.
        if number > 0 {
            times.push(begin.elapsed());
        }
    }
    report.put_load(&format!("{executor}: upload to output"), Load::of(times.clone(), times.iter().sum()));

    let put = target.clone();
    let begin = Instant::now();
    drive(target.connections(8).await, Until::Sent(FILES / 8), move |lane, number| {
        put.put(&format!("in/many-{lane}-{number}"), Bytes::from_static(b"hello"))
    })
    .await;
    wait_for("every output", || async {
        let mut connection = Connection::anonymous(target.address).await;
        let text = connection.text(&target.list("out/many-")).await;
        text.matches("<Key>").count() >= FILES
    })
    .await;
    let count = u32::try_from(FILES).map_or(f64::MAX, f64::from);
    report.put(&format!("{executor}: jobs done per second"), count / begin.elapsed().as_secs_f64());
    report.put(&format!("{executor}: MiB"), manager.resident_kib() / 1024.0);
}

async fn upload_and_wait(connection: &mut Connection, target: &Target, name: &str) {
    let put = target.put(&format!("in/{name}"), Bytes::from_static(b"hello"));
    assert!(connection.call(&put).await.0.is_success());
    let begin = Instant::now();
    let output = target.head(&format!("out/{name}.out"));
    while !connection.call(&output).await.0.is_success() {
        assert!(begin.elapsed() < PATIENCE, "no output of {name}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn wait_for<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let begin = Instant::now();
    while !reached().await {
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
