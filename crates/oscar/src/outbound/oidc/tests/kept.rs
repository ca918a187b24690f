//! The pace of readings, in a time that passes as fast as the tests can run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;

use super::super::kept::{Fetched, Kept, Pace};
use super::super::standing::{Source, Standing};
use super::*;

/// Follows the paused time of the runtime.
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOON) + self.0.elapsed()
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A document that counts its readings; each takes a tenth of a second.
struct Counted {
    kept: Arc<Kept<u64>>,
    readings: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Counted {
    fn new() -> Self {
        let readings = Arc::new(AtomicU64::new(0));
        let broken = Arc::new(AtomicBool::new(false));
        let (counter, switch) = (Arc::clone(&readings), Arc::clone(&broken));
        let fetch = Box::new(move || {
            let (counter, switch) = (Arc::clone(&counter), Arc::clone(&switch));
            async move {
                let value = counter.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(SECOND / 10).await;
                if switch.load(Ordering::SeqCst) {
                    return Err("broken".to_owned());
                }
                Ok(Fetched { value, max_age: None })
            }
            .boxed()
        });
        let pace = Pace {
            lifetime: 600 * SECOND,
            stale: 3600 * SECOND,
            patience: SECOND,
            forced_pause: SECOND,
            retry_first: SECOND / 2,
            retry_max: 5 * SECOND,
        };
        let clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
        let kept = Arc::new(Kept::new(Source::Keys, &Arc::new(Standing::new("an issuer")), pace, clock, fetch));
        Self { kept, readings, broken }
    }

    fn readings(&self) -> u64 {
        self.readings.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn readings_that_are_forced_are_a_pause_apart() {
    let document = Counted::new();
    document.kept.current().await.expect("it can be read");
    let began = tokio::time::Instant::now();
    let mut askers = Vec::new();
    while began.elapsed() < 20 * SECOND {
        let kept = Arc::clone(&document.kept);
        askers.push(tokio::spawn(async move {
            let last = kept.begun();
            let mut held = kept.current().await?;
            while held.number <= last {
                held = kept.later_than(held.number).await?;
            }
            Ok::<_, String>(())
        }));
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    for asker in askers {
        asker.await.expect("no panic").expect("it can be read");
    }
    assert!((15..=24).contains(&document.readings()), "{} readings", document.readings());
}

#[tokio::test(start_paused = true)]
async fn a_later_version_is_one_that_was_begun_later() {
    let document = Counted::new();
    let first = document.kept.current().await.expect("it can be read");
    assert_eq!((first.number, *first.value), (1, 1));
    let kept = Arc::clone(&document.kept);
    let forced = tokio::spawn(async move { kept.later_than(1).await.map(|held| held.number) });
    tokio::time::sleep(SECOND / 20).await;
    assert_eq!(document.kept.begun(), 2, "the second reading is on its way");
    assert_eq!(forced.await.expect("no panic"), Ok(2));
    assert_eq!(document.kept.later_than(2).await.map(|held| held.number), Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_broken_issuer_is_asked_more_and_more_rarely() {
    let document = Counted::new();
    document.broken.store(true, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    while began.elapsed() < 60 * SECOND {
        assert!(document.kept.current().await.is_err());
        assert!(document.kept.later_than(0).await.is_err());
        tokio::time::sleep(SECOND / 50).await;
    }
    assert!((8..=18).contains(&document.readings()), "{} readings", document.readings());
    assert_eq!(document.kept.last_error().as_deref(), Some("broken"));

    document.broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(5 * SECOND).await;
    document.kept.current().await.expect("it is well again");
    assert_eq!(document.kept.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_stale_version_is_served_without_a_wait_while_renewal_fails() {
    let document = Counted::new();
    document.kept.current().await.expect("it can be read");
    document.broken.store(true, Ordering::SeqCst);
    tokio::time::sleep(600 * SECOND).await;
    document.kept.current().await.expect("the old version serves");

    for _ in 0..10 {
        // Each time the next attempt is due, and begins.
        tokio::time::sleep(6 * SECOND).await;
        let before = tokio::time::Instant::now();
        document.kept.current().await.expect("the old version serves");
        assert_eq!(before.elapsed(), Duration::ZERO, "the paused time did not move");
    }
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(document.readings(), 12);
    assert!(document.kept.current().await.is_err(), "but not for ever");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_nobody_waits_for_arrives_all_the_same() {
    let document = Counted::new();
    document.kept.current().await.expect("it can be read");
    document.broken.store(true, Ordering::SeqCst);
    tokio::time::sleep(600 * SECOND).await;
    document.kept.current().await.expect("the old version serves");

    document.broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(SECOND).await;
    assert_eq!(document.kept.current().await.map(|held| *held.value), Ok(1), "nobody waits");
    tokio::time::sleep(SECOND).await;
    assert_eq!(document.kept.current().await.map(|held| *held.value), Ok(3));
}

#[tokio::test(start_paused = true)]
async fn what_is_doubted_is_read_again() {
    let document = Counted::new();
    document.kept.doubt();
    document.kept.current().await.expect("it can be read");
    document.kept.doubt();
    assert_eq!(document.kept.current().await.map(|held| *held.value), Ok(2));
    assert_eq!(document.kept.current().await.map(|held| *held.value), Ok(2));
}
