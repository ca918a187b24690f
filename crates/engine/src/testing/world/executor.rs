//! One thread, a clock that jumps, and a scheduler that throws dice: which of the tasks that can
//! go on does so is decided by the seed and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

use crate::ports::clock::{Clock, Entropy};

use super::random::Random;

/// Milliseconds since the story began.
pub(super) type Millis = u64;
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One run of a manager, from its start to its crash. Its tasks end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) site: usize,
    pub(super) number: u32,
}

/// Why a story could not be told to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stuck {
    /// Everybody waits for somebody.
    Deadlock,
    /// It goes on and on.
    Endless,
}

pub(super) struct Sim {
    shared: Mutex<Shared>,
    ready: Arc<Ready>,
}

struct Shared {
    now: Millis,
    next: u64,
    timers: BTreeMap<(Millis, u64), Waker>,
    spawned: Vec<(u64, Option<Life>, Job)>,
    ended: Vec<Life>,
    hung_up: BTreeSet<u64>,
    random: Random,
}

#[derive(Default)]
struct Ready(Mutex<Vec<Arc<Alarm>>>);

struct Alarm {
    task: u64,
    rung: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.rung.swap(true, Ordering::Relaxed) {
            let ready = self.ready.clone();
            ready.0.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }
}

struct Task {
    life: Option<Life>,
    job: Job,
    alarm: Arc<Alarm>,
}

impl Sim {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let shared = Shared {
            now: 0,
            next: 0,
            timers: BTreeMap::new(),
            spawned: Vec::new(),
            ended: Vec::new(),
            hung_up: BTreeSet::new(),
            random: Random::new(seed),
        };
        Arc::new(Self { shared: Mutex::new(shared), ready: Arc::default() })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn millis(&self) -> Millis {
        self.shared().now
    }

    pub(super) fn with_random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.shared().random)
    }

    /// A task of a manager, or of the world when it is nobody's.
    pub(super) fn spawn(&self, life: Option<Life>, job: impl Future<Output = ()> + Send + 'static) -> u64 {
        let mut shared = self.shared();
        let id = shared.next;
        shared.next += 1;
        shared.spawned.push((id, life, Box::pin(job)));
        id
    }

    /// Every task of that life is dropped before anything else happens.
    pub(super) fn end(&self, life: Life) {
        self.shared().ended.push(life);
    }

    /// Drops one task, as a server does whose client has gone.
    pub(super) fn hang_up(&self, task: u64) {
        self.shared().hung_up.insert(task);
    }

    pub(super) fn sleep(self: &Arc<Self>, duration: Millis) -> Sleep {
        Sleep { until: self.millis() + duration, sim: self.clone(), key: None }
    }

    /// Runs until `main` ends.
    pub(super) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        main: impl Future<Output = T> + Send + 'static,
        most_steps: usize,
    ) -> Result<T, Stuck> {
        let result = Arc::new(Mutex::new(None));
        let place = result.clone();
        self.spawn(None, async move {
            let done = main.await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        let mut tasks: BTreeMap<u64, Task> = BTreeMap::new();
        for _ in 0..most_steps {
            self.settle(&mut tasks);
            if let Some(done) = result.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(done);
            }
            let Some(id) = self.choose() else {
                if self.advance() {
                    continue;
                }
                return Err(Stuck::Deadlock);
            };
            let Some(task) = tasks.get_mut(&id) else { continue };
            task.alarm.rung.store(false, Ordering::Relaxed);
            let waker = Waker::from(task.alarm.clone());
            if task.job.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                tasks.remove(&id);
            }
        }
        Err(Stuck::Endless)
    }

    /// Takes in new tasks and buries those of managers that are gone.
    fn settle(&self, tasks: &mut BTreeMap<u64, Task>) {
        loop {
            let (spawned, ended, hung_up) = {
                let mut shared = self.shared();
                let shared = &mut *shared;
                let (spawned, ended) = (std::mem::take(&mut shared.spawned), std::mem::take(&mut shared.ended));
                (spawned, ended, std::mem::take(&mut shared.hung_up))
            };
            if spawned.is_empty() && ended.is_empty() && hung_up.is_empty() {
                return;
            }
            for (task, life, job) in spawned {
                let alarm = Arc::new(Alarm { task, rung: AtomicBool::new(false), ready: self.ready.clone() });
                tasks.insert(task, Task { life, job, alarm: alarm.clone() });
                alarm.wake();
            }
            // Dropped one by one outside of every lock: a destructor may wake somebody.
            let gone =
                |id: &u64, task: &Task| task.life.is_some_and(|life| ended.contains(&life)) || hung_up.contains(id);
            let dead: Vec<u64> = tasks.iter().filter(|(id, task)| gone(id, task)).map(|(id, _)| *id).collect();
            for id in dead {
                tasks.remove(&id);
            }
        }
    }

    /// Drops what was never begun.
    pub(super) fn clear(&self) {
        let spawned = std::mem::take(&mut self.shared().spawned);
        drop(spawned);
    }

    fn choose(&self) -> Option<u64> {
        let mut ready = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() {
            return None;
        }
        let index = self.with_random(|random| random.below(ready.len()));
        Some(ready.swap_remove(index).task)
    }

    /// The clock jumps to the next moment at which something happens.
    fn advance(&self) -> bool {
        let first = {
            let mut shared = self.shared();
            let Some(((at, _), waker)) = shared.timers.pop_first() else { return false };
            shared.now = at;
            waker
        };
        first.wake();
        true
    }
}

/// A moment in the past of every real clock, so that nobody takes it for one.
const BEGINNING: Duration = Duration::from_secs(1_000_000);

impl Clock for Sim {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINNING + Duration::from_millis(self.millis())
    }

    /// No longer than others need to go first.
    fn pause(&self, _long: Duration) -> BoxFuture<'static, ()> {
        Box::pin(give_way())
    }
}

impl Entropy for Sim {
    fn fill(&self, bytes: &mut [u8]) {
        let mut shared = self.shared();
        for chunk in bytes.chunks_mut(8) {
            let word = shared.random.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

pub(super) struct Sleep {
    until: Millis,
    sim: Arc<Sim>,
    key: Option<(Millis, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sim = self.sim.clone();
        let mut shared = sim.shared();
        if shared.now >= self.until {
            self.key = None;
            return Poll::Ready(());
        }
        let until = self.until;
        let key = *self.key.get_or_insert_with(|| {
            shared.next += 1;
            (until, shared.next)
        });
        shared.timers.insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let waker = self.sim.shared().timers.remove(&key);
            drop(waker);
        }
    }
}

/// Lets others go first, if the dice say so.
pub(super) fn give_way() -> GiveWay {
    GiveWay(false)
}

pub(super) struct GiveWay(bool);

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
