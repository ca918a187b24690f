//! Follows the objects of one kind for as long as the world lives.
//!
//! kube's watcher lists, watches with bookmarks and goes on after a broken connection. This
//! module adds what it leaves to its user: a pause that grows between failures, a new list
//! when the apiserver refuses to go on from the last version (410) or when a reader asks for
//! one, and a state that says whether the whole was seen yet and what stands in the way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, DefaultBackoff, Event};
use oscar_engine::ports::StoreError;
use tokio::sync::{Notify, watch};

use crate::error;

/// The apiserver ends a watch after this long and it is begun anew from where it was, so that
/// a connection that died silently is noticed.
const WATCH_SECONDS: u32 = 60;

/// After so many failures in a row the watch no longer insists on its last version.
const STUBBORN: u32 = 6;

/// What receives the objects of a watch.
pub(crate) trait Sink<K>: Send + Sync + 'static {
    fn begin(&self);
    fn listed(&self, object: K);
    fn finish(&self);
    fn applied(&self, object: K);
    fn deleted(&self, object: K);
    /// What the sink's readers see of the watch itself.
    fn link(&self) -> &Link;
}

/// Whether a watch has seen the whole, and why not.
pub(crate) struct Link {
    state: watch::Sender<State>,
    relist: Notify,
}

#[derive(Debug, Clone, Default)]
struct State {
    synced: bool,
    problem: Option<StoreError>,
}

impl Default for Link {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::default()), relist: Notify::new() }
    }
}

impl Link {
    pub(crate) fn is_synced(&self) -> bool {
        self.state.borrow().synced
    }

    pub(crate) async fn synced(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.synced).await;
    }

    /// Before the first whole list nothing can be answered; after it, what is known is
    /// answered also while the apiserver is away.
    pub(crate) fn check(&self, what: &str) -> Result<(), StoreError> {
        let state = self.state.borrow();
        match (&state.problem, state.synced) {
            (_, true) => Ok(()),
            (Some(problem), false) => Err(problem.clone()),
            (None, false) => Err(StoreError::Unavailable(format!("the {what} were not read yet"))),
        }
    }

    /// Asks the watch to list again.
    pub(crate) fn doubt(&self) {
        self.relist.notify_one();
    }

    fn succeed(&self) {
        self.state.send_modify(|state| *state = State { synced: true, problem: None });
    }

    fn fail(&self, problem: StoreError) {
        self.state.send_modify(|state| state.problem = Some(problem));
    }
}

pub(crate) fn settings() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Runs until it is dropped. `open` makes a watch that begins with a list.
pub(crate) async fn follow<K, S, W>(what: &'static str, sink: Arc<S>, open: impl Fn() -> W + Send)
where
    S: Sink<K>,
    W: Stream<Item = watcher::Result<Event<K>>> + Send,
    K: Send,
{
    let mut pauses = DefaultBackoff::default();
    let mut failures = 0;
    loop {
        let mut events = pin!(open());
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = sink.link().relist.notified() => break,
            };
            match next {
                Some(Ok(event)) => {
                    if failures > 0 && !matches!(event, Event::Init) {
                        tracing::info!(what, "the watch goes on");
                        failures = 0;
                        pauses = DefaultBackoff::default();
                    }
                    tell(&*sink, event);
                }
                Some(Err(error)) => {
                    failures += 1;
                    let anew = wants_list(&error) || failures % STUBBORN == 0;
                    report(what, sink.link(), &error, failures);
                    tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(30))).await;
                    if anew {
                        break;
                    }
                }
                None => break,
            }
        }
    }
}

fn tell<K, S: Sink<K>>(sink: &S, event: Event<K>) {
    match event {
        Event::Init => sink.begin(),
        Event::InitApply(object) => sink.listed(object),
        Event::InitDone => {
            sink.finish();
            sink.link().succeed();
        }
        Event::Apply(object) => sink.applied(object),
        Event::Delete(object) => sink.deleted(object),
    }
}

/// Whether the apiserver no longer has what happened since the last version.
fn wants_list(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code == 410,
        _ => false,
    }
}

/// The first failure of a row is news; the others are told quietly.
fn report(what: &'static str, link: &Link, error: &watcher::Error, failures: u32) {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => error::explain("watch", what, cause),
        watcher::Error::WatchError(status) => error::of_status("watch", what, status),
        watcher::Error::NoResourceVersion => StoreError::Unavailable(format!("watching {what}: no resourceVersion")),
    };
    if failures == 1 && !wants_list(error) {
        tracing::warn!(what, %cause, "the watch is interrupted; trying again");
    } else {
        tracing::debug!(what, %cause, failures, "the watch is interrupted; trying again");
    }
    link.fail(cause);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn only_a_version_that_is_gone_asks_for_a_new_list() {
        let status = |code| Status::failure("said", "Reason").with_code(code).boxed();
        assert!(wants_list(&watcher::Error::WatchError(status(410))));
        assert!(wants_list(&watcher::Error::WatchStartFailed(kube::Error::Api(status(410)))));
        assert!(!wants_list(&watcher::Error::WatchStartFailed(kube::Error::Api(status(429)))));
        assert!(!wants_list(&watcher::Error::NoResourceVersion));
    }

    #[test]
    fn a_problem_is_answered_until_the_whole_was_seen_and_not_after() {
        let link = Link::default();
        assert!(matches!(link.check("things"), Err(StoreError::Unavailable(_))));
        link.fail(StoreError::Forbidden("no".to_owned()));
        assert_eq!(link.check("things"), Err(StoreError::Forbidden("no".to_owned())));
        link.succeed();
        link.fail(StoreError::Unavailable("away".to_owned()));
        assert_eq!(link.check("things"), Ok(()));
    }
}
