use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oscar_model::job::JobName;
use tokio::sync::Notify;

use super::faults::{Faults, When};
use crate::ports::runtime::{Ended, LogPart, LogQuery, Observed, Order, ResponsePart, RunId, Runtime, RuntimeError};

/// A runtime in which nothing happens but what a test says.
#[derive(Default)]
pub struct MemoryRuntime {
    state: Mutex<State>,
    changes: Notify,
    faults: Faults,
    /// Whether a start takes more than one step.
    is_slow: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Every order that began, also of what was forgotten.
    orders: Vec<Order>,
    runs: BTreeMap<RunId, Run>,
    /// What never runs (again).
    fenced: BTreeSet<RunId>,
    changed: VecDeque<RunId>,
    logs: BTreeMap<RunId, Vec<u8>>,
    /// Attempts that began while another of the same job was alive: there must be none.
    overlaps: Vec<RunId>,
}

struct Run {
    seen: Observed,
    told_to_end: bool,
    response: Vec<u8>,
}

impl Run {
    fn is_alive(&self) -> bool {
        matches!(self.seen, Observed::Starting | Observed::Running)
    }
}

impl MemoryRuntime {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call of this name fails.
    pub fn plant(&self, call: &'static str, when: When) {
        self.faults.plant(call, when);
    }

    /// Calls of this name do not come back until they are let go.
    pub fn hang(&self, call: &'static str) {
        self.faults.hang(call);
    }

    pub fn let_go(&self) {
        self.faults.let_go();
    }

    pub fn start_slowly(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    pub fn orders(&self) -> Vec<Order> {
        self.state().orders.clone()
    }

    pub fn overlaps(&self) -> Vec<RunId> {
        self.state().overlaps.clone()
    }

    /// Attempts that have begun and not ended.
    pub fn alive(&self) -> Vec<RunId> {
        self.state().runs.iter().filter(|(_, run)| run.is_alive()).map(|(id, _)| id.clone()).collect()
    }

    pub fn was_told_to_end(&self, id: &RunId) -> bool {
        self.state().runs.get(id).is_some_and(|run| run.told_to_end)
    }

    /// The script begins.
    pub fn begin(&self, id: &RunId) {
        self.become_seen(id, Observed::Running);
    }

    pub fn finish(&self, id: &RunId, ended: Ended) {
        self.become_seen(id, Observed::Ended(ended));
    }

    /// As `finish`, with the answer of a synchronous run.
    pub fn answer(&self, id: &RunId, ended: Ended, response: &[u8]) {
        if let Some(run) = self.state().runs.get_mut(id) {
            run.response = response.to_vec();
        }
        self.finish(id, ended);
    }

    /// Whether nothing of it can begin any more.
    pub fn was_fenced(&self, id: &RunId) -> bool {
        self.state().fenced.contains(id)
    }

    /// It ends without saying how.
    pub fn vanish(&self, id: &RunId) {
        let began = self.state().runs.get(id).is_some_and(|run| run.seen == Observed::Running);
        self.become_seen(id, Observed::Vanished { began });
    }

    pub fn say(&self, id: &RunId, text: &[u8]) {
        self.state().logs.entry(id.clone()).or_default().extend_from_slice(text);
    }

    /// Only what is alive changes.
    fn become_seen(&self, id: &RunId, seen: Observed) {
        let mut state = self.state();
        if let Some(run) = state.runs.get_mut(id).filter(|run| run.is_alive()) {
            run.seen = seen;
            state.changed.push_back(id.clone());
            self.changes.notify_one();
        }
    }

    fn strike(&self, call: &'static str, when: When) -> Result<(), RuntimeError> {
        if self.faults.strike(call, when) {
            return Err(RuntimeError::Unavailable(format!("planted in {call}")));
        }
        Ok(())
    }
}

#[async_trait]
impl Runtime for MemoryRuntime {
    async fn ready(&self) -> Result<(), RuntimeError> {
        self.strike("ready", When::Before)
    }

    async fn start(&self, order: Order) -> Result<(), RuntimeError> {
        if self.faults.strike("impossible", When::Before) {
            return Err(RuntimeError::Impossible("its image is not there".to_owned()));
        }
        self.strike("start", When::Before)?;
        if self.is_slow.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        {
            let mut state = self.state();
            let id = order.run.clone();
            if state.fenced.contains(&id) {
                return Err(RuntimeError::Impossible("it was fenced".to_owned()));
            }
            if !state.runs.contains_key(&id) {
                if state.runs.iter().any(|(other, run)| other.job == id.job && run.is_alive()) {
                    state.overlaps.push(id.clone());
                }
                state.orders.push(order);
                state.logs.entry(id.clone()).or_default();
                let run = Run { seen: Observed::Starting, told_to_end: false, response: Vec::new() };
                state.runs.insert(id.clone(), run);
                state.changed.push_back(id);
                self.changes.notify_one();
            }
        }
        self.strike("start", When::After)
    }

    async fn observe(&self, run: &RunId) -> Result<Observed, RuntimeError> {
        self.strike("observe", When::Before)?;
        Ok(self.state().runs.get(run).map_or(Observed::Unknown, |run| run.seen.clone()))
    }

    async fn present(&self) -> Result<Vec<RunId>, RuntimeError> {
        self.strike("present", When::Before)?;
        Ok(self.state().runs.keys().cloned().collect())
    }

    async fn changed(&self) -> RunId {
        loop {
            if let Some(run) = self.state().changed.pop_front() {
                return run;
            }
            self.changes.notified().await;
        }
    }

    async fn end(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.strike("end", When::Before)?;
        self.state().runs.get_mut(run).ok_or(RuntimeError::NotFound)?.told_to_end = true;
        self.strike("end", When::After)
    }

    async fn fence(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.faults.wait("fence").await;
        self.strike("fence", When::Before)?;
        self.state().fenced.insert(run.clone());
        self.vanish(run);
        self.strike("fence", When::After)
    }

    async fn forget(&self, run: &RunId) -> Result<(), RuntimeError> {
        self.strike("forget", When::Before)?;
        self.state().runs.remove(run);
        self.strike("forget", When::After)
    }

    async fn log(&self, run: &RunId, query: &LogQuery) -> Result<LogPart, RuntimeError> {
        let state = self.state();
        let text = state.logs.get(run).ok_or(RuntimeError::NotFound)?;
        let from = usize::try_from(query.from).unwrap_or(usize::MAX).min(text.len());
        let until = text.len().min(from.saturating_add(query.limit));
        let is_last = until == text.len() && !state.runs.get(run).is_some_and(Run::is_alive);
        Ok(LogPart { text: text[from..until].to_vec(), next: until as u64, is_last })
    }

    async fn logged(&self) -> Result<Vec<JobName>, RuntimeError> {
        self.strike("logged", When::Before)?;
        let jobs: BTreeSet<_> = self.state().logs.keys().map(|run| run.job.clone()).collect();
        Ok(jobs.into_iter().collect())
    }

    async fn remove_logs(&self, job: &JobName) -> Result<(), RuntimeError> {
        self.strike("remove_logs", When::Before)?;
        self.state().logs.retain(|run, _| run.job != *job);
        Ok(())
    }

    async fn response(&self, run: &RunId, from: u64, limit: usize) -> Result<ResponsePart, RuntimeError> {
        self.strike("response", When::Before)?;
        let state = self.state();
        let whole = &state.runs.get(run).ok_or(RuntimeError::NotFound)?.response;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let bytes = whole.iter().skip(from).take(limit).copied().collect();
        Ok(ResponsePart { bytes, total: whole.len() as u64, encoded: false })
    }
}
