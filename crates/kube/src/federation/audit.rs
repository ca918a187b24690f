//! The audit: every record is a line of the log at once; the newest are also kept in a
//! ConfigMap, written in batches from the background. A crash loses from there what was
//! appended in the last few seconds, never from the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use oscar_api::federation::Kept as _;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::audit::Audit;
use oscar_model::federation::record::AuditRecord;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{TRIES, crowded};
use crate::calls::Calls;
use crate::layout::federation::MOST_BYTES;
use crate::layout::{MANAGED_BY, OSCAR, texts};
use crate::options::Options;

/// How many are kept.
const MOST_RECORDS: usize = 500;
/// The longest text of a record, so that one act does not push out many.
const MOST_TEXT: usize = 200;
const RECORDS: &str = "records";

pub(crate) struct KubeAudit {
    calls: Calls,
    namespace: String,
    name: String,
    interval: Duration,
    /// Tells our lines from those of other managers and of our own earlier lives.
    process: String,
    waiting: Mutex<Waiting>,
    appended: Notify,
    /// One writes at a time.
    turn: tokio::sync::Mutex<()>,
}

/// Lines that are not stored yet, the oldest first.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<Line>,
    count: u64,
}

/// A record with an id, so that a line whose answer was lost is not written twice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    id: String,
    text: String,
}

impl KubeAudit {
    pub(crate) fn start(calls: &Calls, options: &Options, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Self> {
        let audit = Arc::new(Self {
            calls: calls.clone(),
            namespace: options.namespace.clone(),
            name: format!("{}.audit", options.name),
            interval: options.audit_interval,
            process: Uuid::new_v4().simple().to_string(),
            waiting: Mutex::default(),
            appended: Notify::new(),
            turn: tokio::sync::Mutex::default(),
        });
        tasks.push(tokio::spawn(audit.clone().write_in_the_background()));
        audit
    }

    async fn write_in_the_background(self: Arc<Self>) {
        loop {
            self.appended.notified().await;
            tokio::time::sleep(self.interval).await;
            if let Err(error) = self.tick_flush().await {
                tracing::warn!(%error, "audit records are in the log only, for now");
                self.appended.notify_one();
            }
        }
    }

    /// Stores what is waiting.
    async fn tick_flush(&self) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let lines: Vec<_> = self.waiting().lines.iter().cloned().collect();
        if lines.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let found: Option<ConfigMap> = self.calls.get(&self.namespace, &self.name).await?;
            let text = merged(stored(found.as_ref()), &lines);
            let written = match found {
                Some(mut found) => {
                    found.metadata.managed_fields = None;
                    found.data = Some(BTreeMap::from([(RECORDS.to_owned(), text)]));
                    self.calls.replace(&found).await
                }
                None => self.calls.create(&self.build(text)).await,
            };
            match written {
                Ok(_) => {
                    let done: BTreeSet<_> = lines.iter().map(|line| line.id.as_str()).collect();
                    self.waiting().lines.retain(|line| !done.contains(line.id.as_str()));
                    return Ok(());
                }
                Err(StoreError::Conflict | StoreError::AlreadyExists) => {}
                Err(error) => return Err(error),
            }
        }
        Err(crowded(&format!("ConfigMap {}/{}", self.namespace, self.name)))
    }

    fn build(&self, text: String) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(self.namespace.clone()),
                name: Some(self.name.clone()),
                labels: Some(texts([(MANAGED_BY, OSCAR)])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(RECORDS.to_owned(), text)])),
            ..ConfigMap::default()
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of a ConfigMap, the oldest first.
fn stored(found: Option<&ConfigMap>) -> &str {
    found.and_then(|found| found.data.as_ref()?.get(RECORDS)).map_or("", String::as_str)
}

/// What is stored with what is not stored yet, without the oldest: as many as are kept, and as
/// fit into a ConfigMap.
fn merged(stored: &str, new: &[Line]) -> String {
    let known: BTreeSet<_> = stored.lines().filter_map(|line| line.split_once(' ')).map(|(id, _)| id).collect();
    let new = new.iter().filter(|line| !known.contains(line.id.as_str()));
    let mut all: VecDeque<_> =
        stored.lines().map(str::to_owned).chain(new.map(|line| format!("{} {}", line.id, line.text))).collect();
    let mut bytes: usize = all.iter().map(|line| line.len() + 1).sum();
    while all.len() > MOST_RECORDS || bytes > MOST_BYTES {
        let Some(oldest) = all.pop_front() else { break };
        bytes -= oldest.len() + 1;
    }
    all.iter().map(|line| format!("{line}\n")).collect()
}

fn cut(text: &mut String) {
    if text.chars().count() > MOST_TEXT {
        *text = text.chars().take(MOST_TEXT).chain(['…']).collect();
    }
}

#[async_trait]
impl Audit for KubeAudit {
    async fn append(&self, mut record: AuditRecord) {
        {
            let AuditRecord { at, actor, owner, act, service, target, outcome } = &record;
            tracing::info!(target: "audit", at, actor, owner, act, service, target, outcome, "an act for another cluster");
        }
        let AuditRecord { at: _, actor, owner, act, service, target, outcome } = &mut record;
        [actor, owner, act, service, target, outcome].into_iter().for_each(cut);
        let text = String::from_utf8_lossy(&record.to_bytes()).into_owned();
        {
            let mut waiting = self.waiting();
            waiting.count += 1;
            let id = format!("{}-{}", self.process, waiting.count);
            waiting.lines.push_back(Line { id, text });
            // The log has those that do not fit while the apiserver is away.
            while waiting.lines.len() > MOST_RECORDS {
                waiting.lines.pop_front();
            }
        }
        self.appended.notify_one();
    }

    async fn recent(&self, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.tick_flush().await?;
        let found: Option<ConfigMap> = self.calls.get(&self.namespace, &self.name).await?;
        let lines = stored(found.as_ref()).lines().rev().take(most);
        let broken = |cause: String| StoreError::Broken(format!("ConfigMap {}/{}: {cause}", self.namespace, self.name));
        let read = |line: &str| {
            let text = line.split_once(' ').map_or("", |(_, text)| text);
            AuditRecord::from_bytes(text.as_bytes()).map_err(broken)
        };
        lines.map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_line(id: u32) -> Line {
        Line { id: format!("p-{id}"), text: "{}".to_owned() }
    }

    #[test]
    fn a_line_whose_answer_was_lost_is_not_written_twice() {
        let once = merged("", &[mk_line(1), mk_line(2)]);
        assert_eq!(once, "p-1 {}\np-2 {}\n");
        assert_eq!(merged(&once, &[mk_line(2), mk_line(3)]), "p-1 {}\np-2 {}\np-3 {}\n");
    }

    #[test]
    fn the_oldest_make_room() {
        let many: Vec<_> = (0..600).map(mk_line).collect();
        let text = merged("", &many);
        assert_eq!(text.lines().count(), MOST_RECORDS);
        assert!(text.starts_with("p-100 ") && text.ends_with("p-599 {}\n"));
    }

    #[test]
    fn a_full_ring_fits_into_a_config_map() {
        let long = |id: u32| Line { id: format!("p-{id}"), text: "x".repeat(7000) };
        let many: Vec<_> = (0..500).map(long).collect();
        let text = merged("", &many);
        assert!(text.len() <= MOST_BYTES && text.len() > MOST_BYTES - 7100, "{}", text.len());
        assert!(text.lines().next_back().is_some_and(|line| line.starts_with("p-499 ")), "the newest stay");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let mut text = "ü".repeat(MOST_TEXT + 1);
        cut(&mut text);
        assert_eq!(text.chars().count(), MOST_TEXT + 1);
        assert!(text.ends_with('…'));
    }
}
