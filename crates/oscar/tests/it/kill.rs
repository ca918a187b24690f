//! SIGKILL in the middle of a thousand concurrent creates, updates and deletes, ten times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::manager::{Manager, PASSWORD, mk_body};

const ROUNDS: u64 = 10;
/// Names that are changed at once, each by a lane of its own.
const LANES: usize = 1000;
/// Changes of one lane in one round.
const CHANGES: u64 = 3;
/// Each carries many requests at once (HTTP/2), so that no limit on open files is met.
const CONNECTIONS: usize = 10;

/// What was told of one name: the versions that it may have now. `None` is "not there".
type Possible = Vec<Option<u64>>;

/// Each name is changed by one task at a time, so its history is a sequence: an acknowledged
/// change leaves one possible state, an unanswered one leaves two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_and_nothing_is_half_made() {
    let mut manager = Manager::start(&[]);
    let ledger: Arc<Vec<Mutex<Possible>>> = Arc::new((0..LANES).map(|_| Mutex::new(vec![None])).collect());
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let url = manager.url.clone();
        let connections: Vec<_> = (0..CONNECTIONS).map(|_| mk_connection()).collect();
        // The kill falls at another place in each round.
        let kill_after = 100 + usize::try_from(round).expect("small") * 150;
        let answered = Arc::new(AtomicUsize::new(0));
        let (reached, mut at_kill) = tokio::sync::mpsc::channel(1);
        let work = {
            let (ledger, answered) = (ledger.clone(), answered.clone());
            tokio::spawn(async move {
                let lanes = (0..LANES).map(|index| {
                    let (http, url, ledger) = (connections[index % CONNECTIONS].clone(), url.clone(), ledger.clone());
                    let (answered, reached) = (answered.clone(), reached.clone());
                    async move {
                        for step in 0..CHANGES {
                            let version = round * CHANGES + step + 1;
                            if !change(&http, &url, index, version, &ledger[index]).await {
                                return;
                            }
                            if answered.fetch_add(1, Ordering::SeqCst) + 1 == kill_after {
                                let _ = reached.send(()).await;
                            }
                        }
                    }
                });
                join_all(lanes).await;
            })
        };
        at_kill.recv().await.expect("enough changes are answered");
        manager.kill();
        work.await.expect("the lanes end");
        let interrupted = ledger.iter().filter(|possible| possible.lock().expect("unpoisoned").len() > 1).count();
        assert!(interrupted > 0, "the kill fell while changes were under way");
        acknowledged += answered.load(Ordering::SeqCst);
        manager.start_again();
        check(&manager, &ledger).await;
    }
    assert!(acknowledged >= 100 * usize::try_from(ROUNDS).expect("small"));
    oscar_testkit::count("kills survived", ROUNDS);
}

fn mk_connection() -> reqwest::Client {
    reqwest::Client::builder().http2_prior_knowledge().build().expect("a client")
}

fn body(index: usize, version: u64) -> Value {
    let mut body = mk_body(&format!("kill-{index}"));
    body["environment"] =
        json!({"variables": {"VERSION": version.to_string()}, "secrets": {"KEY": version.to_string()}});
    body
}

/// One change of one name; false when the manager is gone.
async fn change(http: &reqwest::Client, url: &str, index: usize, version: u64, ledger: &Mutex<Possible>) -> bool {
    let before = ledger.lock().expect("unpoisoned").clone();
    let now = *before.last().expect("never empty");
    let services = format!("{url}/system/services");
    let (request, after) = match now {
        None => (http.post(&services).json(&body(index, version)), Some(version)),
        Some(_) if version.is_multiple_of(5) => (http.delete(format!("{services}/kill-{index}")), None),
        Some(_) => (http.put(&services).json(&body(index, version)), Some(version)),
    };
    // From the moment it is sent, both states are possible.
    ledger.lock().expect("unpoisoned").push(after);
    match request.basic_auth("oscar", Some(PASSWORD)).send().await {
        Ok(answer) if answer.status().is_success() => {
            *ledger.lock().expect("unpoisoned") = vec![after];
            true
        }
        Ok(answer) => panic!("kill-{index}: {} for {now:?} -> {after:?}", answer.status()),
        Err(_) => false,
    }
}

/// Every name is in one of the states that it can be in; then that is its only one.
async fn check(manager: &Manager, ledger: &[Mutex<Possible>]) {
    let list = manager.as_admin(Method::GET, "/system/services").send().await.expect("sent");
    assert!(list.headers().get("oscar-unreadable").is_none(), "nothing half-made is stored");
    let list: Vec<Value> = list.json().await.expect("JSON");
    let found: BTreeMap<String, u64> = list
        .iter()
        .map(|service| {
            let version = service["environment"]["variables"]["VERSION"].as_str().and_then(|text| text.parse().ok());
            (service["name"].as_str().unwrap_or_default().to_owned(), version.expect("a version"))
        })
        .collect();
    // The values of secrets are not shown; but a dry run tells whether sending them again would
    // change something.
    let versions: Vec<_> = found.iter().map(|(name, version)| (name.clone(), *version)).collect();
    for some in versions.chunks(50) {
        let asks = some.iter().map(|(name, version)| async move {
            let index = name.trim_start_matches("kill-").parse().expect("a number");
            let put = manager.as_admin(Method::PUT, "/system/services?dry_run=true").json(&body(index, *version));
            let told: Value = put.send().await.expect("sent").json().await.expect("JSON");
            assert_eq!(told["action"], "none", "{name} has the secrets of version {version}");
        });
        join_all(asks).await;
    }
    for (index, possible) in ledger.iter().enumerate() {
        let state = found.get(&format!("kill-{index}")).copied();
        let mut possible = possible.lock().expect("unpoisoned");
        assert!(possible.contains(&state), "kill-{index}: found {state:?}, possible {possible:?}");
        *possible = vec![state];
    }
}
