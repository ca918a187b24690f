//! A document of an issuer that is read when needed, kept for a while, and read again.
//!
//! One reading at a time, whoever asks; a reading goes on when the request that started
//! it is given up. Never holds its lock while waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use oscar_engine::ports::clock::Clock;

use super::backoff::Backoff;
use super::standing::{Source, Standing};

/// The bounds of what an issuer may say about the lifetime of its documents.
const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);
const LONGEST_LIFETIME: Duration = Duration::from_hours(24);

/// What a reading brought.
pub(super) struct Fetched<T> {
    pub(super) value: T,
    /// How long the issuer says that it is good.
    pub(super) max_age: Option<Duration>,
}

/// One version of the document. Later versions have greater numbers.
pub(super) struct Held<T> {
    pub(super) value: Arc<T>,
    pub(super) number: u64,
    fetched_at: SystemTime,
    lifetime: Duration,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        let Self { value, number, fetched_at, lifetime } = self;
        Self { value: Arc::clone(value), number: *number, fetched_at: *fetched_at, lifetime: *lifetime }
    }
}

impl<T> Held<T> {
    /// A version from the future was read before the clock was set back: not to be relied on.
    fn is_fresh(&self, now: SystemTime) -> bool {
        now.duration_since(self.fetched_at).is_ok_and(|age| age < self.lifetime)
    }

    fn serves_stale(&self, now: SystemTime, longer: Duration) -> bool {
        now.duration_since(self.fetched_at).is_ok_and(|age| age < self.lifetime + longer)
    }
}

/// How patiently and how often to read.
pub(super) struct Pace {
    pub(super) lifetime: Duration,
    pub(super) stale: Duration,
    pub(super) patience: Duration,
    pub(super) forced_pause: Duration,
    pub(super) retry_first: Duration,
    pub(super) retry_max: Duration,
}

type Fetch<T> = Box<dyn Fn() -> BoxFuture<'static, Result<Fetched<T>, String>> + Send + Sync>;
type Flight<T> = Shared<BoxFuture<'static, Result<Held<T>, String>>>;

/// Keeps one document.
pub(super) struct Kept<T>(Arc<Inner<T>>);

struct Inner<T> {
    source: Source,
    standing: Arc<Standing>,
    fetch: Fetch<T>,
    pace: Pace,
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
}

struct State<T> {
    held: Option<Held<T>>,
    /// How many readings have begun; the number of the last one.
    begun: u64,
    flight: Option<Flight<T>>,
    forced_at: Option<SystemTime>,
    backoff: Backoff,
}

impl<T: Send + Sync + 'static> Kept<T> {
    pub(super) fn new(
        source: Source,
        standing: &Arc<Standing>,
        pace: Pace,
        clock: Arc<dyn Clock>,
        fetch: Fetch<T>,
    ) -> Self {
        let backoff = Backoff::new(pace.retry_first, pace.retry_max);
        let state = State { held: None, begun: 0, flight: None, forced_at: None, backoff };
        let standing = Arc::clone(standing);
        Self(Arc::new(Inner { source, standing, fetch, pace, clock, state: Mutex::new(state) }))
    }

    /// The document as it is to be used now: fresh, or stale while it cannot be renewed.
    pub(super) async fn current(&self) -> Result<Held<T>, String> {
        let (flight, fallback, in_trouble) = {
            let mut state = self.0.lock();
            let now = self.0.clock.now();
            if let Some(held) = state.held.as_ref().filter(|held| held.is_fresh(now)) {
                return Ok(held.clone());
            }
            let fallback = state.held.clone().filter(|it| it.serves_stale(now, self.0.pace.stale));
            if let Some(cause) = state.backoff.blocks(now) {
                return fallback.ok_or_else(|| cause.to_owned());
            }
            let in_trouble = state.backoff.cause().is_some();
            (self.0.join_or_start(&mut state, Duration::ZERO), fallback, in_trouble)
        };
        match fallback {
            None => flight.await,
            // The issuer failed the last time: nobody waits to see it fail again.
            Some(stale) if in_trouble => Ok(stale),
            Some(stale) => match tokio::time::timeout(self.0.pace.patience, flight).await {
                Ok(Ok(new)) => Ok(new),
                Ok(Err(_)) | Err(_) => Ok(stale),
            },
        }
    }

    /// A version later than this number, for a caller who saw that something is missing.
    ///
    /// Readings forced in this way are at least a pause apart. The caller waits for the
    /// next one, so that being early is never a reason to be told no.
    pub(super) async fn later_than(&self, number: u64) -> Result<Held<T>, String> {
        let flight = {
            let mut state = self.0.lock();
            let now = self.0.clock.now();
            if let Some(held) = state.held.as_ref().filter(|held| held.number > number) {
                return Ok(held.clone());
            }
            if let Some(cause) = state.backoff.blocks(now) {
                return Err(cause.to_owned());
            }
            if state.flight.is_some() {
                self.0.join_or_start(&mut state, Duration::ZERO)
            } else {
                let pause = self.0.pace.forced_pause;
                let since = state.forced_at.and_then(|at| now.duration_since(at).ok());
                let wait = since.map_or(Duration::ZERO, |since| pause.saturating_sub(since));
                state.forced_at = Some(now + wait);
                self.0.join_or_start(&mut state, wait)
            }
        };
        flight.await
    }

    /// The number of the last reading that began. Whoever needs to know how things are
    /// now needs a version with a greater number.
    pub(super) fn begun(&self) -> u64 {
        self.0.lock().begun
    }

    /// Reads again at the next opportunity; until then the present version serves.
    pub(super) fn doubt(&self) {
        if let Some(held) = self.0.lock().held.as_mut() {
            held.lifetime = Duration::ZERO;
        }
    }

    /// Why the last reading failed, unless it succeeded.
    pub(super) fn last_error(&self) -> Option<String> {
        self.0.lock().backoff.cause().map(str::to_owned)
    }
}

impl<T: Send + Sync + 'static> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join_or_start(self: &Arc<Self>, state: &mut State<T>, wait: Duration) -> Flight<T> {
        if let Some(flight) = &state.flight {
            return flight.clone();
        }
        let inner = Arc::clone(self);
        let flight = async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let number = {
                let mut state = inner.lock();
                state.begun += 1;
                state.begun
            };
            let outcome = (inner.fetch)().await;
            inner.land(number, outcome)
        }
        .boxed()
        .shared();
        state.flight = Some(flight.clone());
        // Polled here too, so that it arrives when every request that waited has left.
        tokio::spawn(flight.clone());
        flight
    }

    fn land(&self, number: u64, outcome: Result<Fetched<T>, String>) -> Result<Held<T>, String> {
        let mut state = self.lock();
        let now = self.clock.now();
        state.flight = None;
        match outcome {
            Ok(Fetched { value, max_age }) => {
                state.backoff.clear();
                self.standing.answered(self.source);
                let lifetime = max_age.map_or(self.pace.lifetime, |age| age.clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME));
                let held = Held { value: Arc::new(value), number, fetched_at: now, lifetime };
                state.held = Some(held.clone());
                Ok(held)
            }
            Err(cause) => {
                state.backoff.fail(now, cause.clone());
                self.standing.failed(self.source, &cause);
                Err(cause)
            }
        }
    }
}
