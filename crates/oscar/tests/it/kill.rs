//! SIGKILL in the middle of a thousand concurrent changes, ten times.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use futures::stream;
use reqwest::Method;
use serde_json::{Value, json};

use super::manager::{Manager, PASSWORD, mk_body};

const ROUNDS: u64 = 10;
const CHANGES: usize = 1000;
const NAMES: usize = 100;

/// What was told of one name: the versions that it may have now. `None` is "not there".
type Possible = Vec<Option<u64>>;

/// Each name is changed by one task at a time, so its history is a sequence: an acknowledged
/// change leaves one possible state, an unanswered one leaves two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_and_nothing_is_half_made() {
    let mut manager = Manager::start(&[]);
    let ledger: Arc<Vec<Mutex<Possible>>> = Arc::new((0..NAMES).map(|_| Mutex::new(vec![None])).collect());
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let url = manager.url.clone();
        let http = reqwest::Client::new();
        // The kill falls at another place in each round.
        let kill_after = 100 + usize::try_from(round).expect("small") * 80;
        let answered = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (reached, mut at_kill) = tokio::sync::mpsc::channel(1);
        let work = {
            let (ledger, answered) = (ledger.clone(), answered.clone());
            tokio::spawn(async move {
                // One lane per name, all lanes at once, each lane a sequence of changes.
                let lanes = (0..NAMES).map(|index| {
                    let (http, url, ledger) = (http.clone(), url.clone(), ledger.clone());
                    let (answered, reached) = (answered.clone(), reached.clone());
                    async move {
                        for step in 0..CHANGES / NAMES {
                            let version = round * 1000 + u64::try_from(step).expect("small") + 1;
                            if !change(&http, &url, index, version, &ledger[index]).await {
                                return;
                            }
                            let done = answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                            if done == kill_after {
                                let _ = reached.send(()).await;
                            }
                        }
                    }
                });
                stream::iter(lanes).buffer_unordered(NAMES).collect::<Vec<()>>().await;
            })
        };
        at_kill.recv().await.expect("enough changes are answered");
        manager.kill();
        work.await.expect("the lanes end");
        acknowledged += answered.load(std::sync::atomic::Ordering::SeqCst);
        manager.start_again();
        check(&manager, &ledger).await;
    }
    assert!(acknowledged >= 100 * usize::try_from(ROUNDS).expect("small"));
    oscar_testkit::count("kills survived", ROUNDS);
}

fn body(index: usize, version: u64) -> Value {
    let mut body = mk_body(&format!("kill-{index}"));
    body["environment"] = json!({"variables": {"VERSION": version.to_string()}, "secrets": {"KEY": version.to_string()}});
    body
}

/// One change of one name; false when the manager is gone.
async fn change(http: &reqwest::Client, url: &str, index: usize, version: u64, ledger: &Mutex<Possible>) -> bool {
    let before = ledger.lock().expect("unpoisoned").clone();
    let now = *before.last().expect("never empty");
    let services = format!("{url}/system/services");
    let (request, after) = match now {
        None => (http.post(&services).json(&body(index, version)), Some(version)),
        Some(_) if version % 5 == 0 => (http.delete(format!("{services}/kill-{index}")), None),
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
            assert_eq!(service["environment"]["secrets"], json!({"KEY": ""}), "it has its secrets");
            (service["name"].as_str().unwrap_or_default().to_owned(), version.expect("a version"))
        })
        .collect();
    for (index, possible) in ledger.iter().enumerate() {
        let state = found.get(&format!("kill-{index}")).copied();
        let mut possible = possible.lock().expect("unpoisoned");
        assert!(possible.contains(&state), "kill-{index}: found {state:?}, possible {possible:?}");
        *possible = vec![state];
    }
}
