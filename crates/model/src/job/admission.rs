//! Who runs next, when not all can.
//!
//! Users take turns by what they hold already; within one user it is first come, first served. A
//! job that does not fit yet may be overtaken by smaller ones of others, but only so often: then
//! nobody else starts until there is room for it. So no job starves, and little room is idle.

use std::collections::BTreeMap;

use super::{JobName, Millis, Need};
use crate::identity::Owner;
use crate::name::ServiceName;

/// How many others may start before a job that came earlier and needs more.
pub const MOST_OVERTAKEN: u32 = 32;

/// How far behind a job of a service that is at its own limit others of the same user are
/// looked for.
const LOOKAHEAD: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub job: JobName,
    pub user: Owner,
    pub service: ServiceName,
    pub need: Need,
    pub since: Millis,
    /// What all runs of the service together may hold.
    pub limit: ServiceLimit,
}

/// `total_cpu` and `total_memory` of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceLimit {
    pub cores: Option<i64>,
    pub bytes: Option<i64>,
}

impl ServiceLimit {
    fn allows(&self, held: &Need) -> bool {
        self.cores.is_none_or(|most| held.cores <= most) && self.bytes.is_none_or(|most| held.bytes <= most)
    }
}

#[derive(Debug, Clone)]
struct Entry {
    waiting: Waiting,
    overtaken: u32,
}

/// Where a job stands in the line of its user: by its age, then by when it was pushed.
type Place = (Millis, u64);

type Line = BTreeMap<Place, Entry>;

/// What waits and what is held. It knows nothing of time but the order of arrivals. A hundred
/// thousand may wait: nothing here looks at them all.
#[derive(Debug, Clone)]
pub struct Queue {
    capacity: Need,
    held: Need,
    waiting: BTreeMap<Owner, Line>,
    pushed: u64,
    by_user: BTreeMap<Owner, Need>,
    by_service: BTreeMap<ServiceName, Need>,
}

impl Queue {
    pub fn new(capacity: Need) -> Self {
        Self {
            capacity,
            held: Need::default(),
            waiting: BTreeMap::new(),
            pushed: 0,
            by_user: BTreeMap::new(),
            by_service: BTreeMap::new(),
        }
    }

    pub fn set_capacity(&mut self, capacity: Need) {
        self.capacity = capacity;
    }

    pub fn capacity(&self) -> Need {
        self.capacity
    }

    pub fn held(&self) -> Need {
        self.held
    }

    pub fn len(&self) -> usize {
        self.waiting.values().map(Line::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether it could ever run here.
    pub fn is_possible(&self, need: &Need, limit: &ServiceLimit) -> bool {
        need.fits(&self.capacity) && limit.allows(need)
    }

    /// Adds a job; among those of its user the order is that of `since`. One that waits already
    /// keeps its place.
    pub fn push(&mut self, waiting: Waiting) {
        if self.place_of(&waiting.user, waiting.since, &waiting.job).is_some() {
            return;
        }
        let place = (waiting.since, self.pushed);
        self.pushed += 1;
        self.waiting.entry(waiting.user.clone()).or_default().insert(place, Entry { waiting, overtaken: 0 });
    }

    /// Takes a job out that shall not start.
    pub fn remove(&mut self, user: &Owner, since: Millis, job: &JobName) -> bool {
        let Some(place) = self.place_of(user, since, job) else { return false };
        self.take(user, place).is_some()
    }

    /// Few came in the same millisecond.
    fn place_of(&self, user: &Owner, since: Millis, job: &JobName) -> Option<Place> {
        let mut of_its_age = self.waiting.get(user)?.range((since, 0)..=(since, u64::MAX));
        of_its_age.find(|(_, entry)| entry.waiting.job == *job).map(|(place, _)| *place)
    }

    fn take(&mut self, user: &Owner, place: Place) -> Option<Waiting> {
        let line = self.waiting.get_mut(user)?;
        let Entry { waiting, .. } = line.remove(&place)?;
        if line.is_empty() {
            self.waiting.remove(user);
        }
        Some(waiting)
    }

    /// Room is taken, also by what was running before this queue was made.
    pub fn hold(&mut self, user: &Owner, service: &ServiceName, need: Need) {
        self.held = self.held.plus(need);
        let by_user = self.by_user.entry(user.clone()).or_default();
        *by_user = by_user.plus(need);
        let by_service = self.by_service.entry(service.clone()).or_default();
        *by_service = by_service.plus(need);
    }

    /// Room is given back.
    pub fn release(&mut self, user: &Owner, service: &ServiceName, need: Need) {
        self.held = self.held.minus(need);
        give_back(&mut self.by_user, user, need);
        give_back(&mut self.by_service, service, need);
    }

    /// The next job to start, whose room is held from now on. None when nothing that may start
    /// fits.
    pub fn admit(&mut self) -> Option<Waiting> {
        let (user, place) = self.choose()?;
        let waiting = self.take(&user, place)?;
        self.count_overtaken(&waiting);
        self.hold(&waiting.user, &waiting.service, waiting.need);
        Some(waiting)
    }

    fn choose(&self) -> Option<(Owner, Place)> {
        let mut candidates: Vec<_> =
            self.waiting.iter().filter_map(|(user, line)| self.candidate(user, line)).collect();
        let free = self.capacity.minus(self.held);
        let starving = candidates.iter().filter(|one| one.entry.overtaken >= MOST_OVERTAKEN);
        if let Some(starving) = starving.min_by_key(|one| one.entry.waiting.since) {
            let fits = starving.entry.waiting.need.fits(&free);
            return fits.then(|| (starving.user.clone(), starving.place));
        }
        candidates.sort_by_key(|one| (one.share, one.entry.waiting.since));
        let fitting = candidates.into_iter().find(|one| one.entry.waiting.need.fits(&free))?;
        Some((fitting.user.clone(), fitting.place))
    }

    /// The first of a user that its service's own limit lets start. One that is too large for
    /// what there is now waits without holding anybody up.
    fn candidate<'a>(&self, user: &'a Owner, line: &'a Line) -> Option<Candidate<'a>> {
        let allowed = |entry: &Entry| {
            let held = self.by_service.get(&entry.waiting.service).copied().unwrap_or_default();
            entry.waiting.need.fits(&self.capacity) && entry.waiting.limit.allows(&held.plus(entry.waiting.need))
        };
        let (&place, entry) = line.iter().take(LOOKAHEAD).find(|(_, entry)| allowed(entry))?;
        let held = self.by_user.get(user).copied().unwrap_or_default();
        Some(Candidate { user, place, entry, share: share(held, self.capacity) })
    }

    /// Those at the head of their lines that came before and still wait.
    fn count_overtaken(&mut self, started: &Waiting) {
        for line in self.waiting.values_mut() {
            if let Some(head) = line.values_mut().next()
                && head.waiting.since <= started.since
                && head.waiting.user != started.user
            {
                head.overtaken += 1;
            }
        }
    }
}

struct Candidate<'a> {
    user: &'a Owner,
    place: Place,
    entry: &'a Entry,
    share: i64,
}

/// The largest part, in millionths, that a user holds of any one resource.
fn share(held: Need, capacity: Need) -> i64 {
    let part = |held: i64, all: i64| if all <= 0 { 0 } else { i128::from(held) * 1_000_000 / i128::from(all) };
    let parts = [part(held.cores, capacity.cores), part(held.bytes, capacity.bytes), part(held.gpus, capacity.gpus)];
    i64::try_from(parts.into_iter().max().unwrap_or(0)).unwrap_or(i64::MAX)
}

fn give_back<K: Ord>(sums: &mut BTreeMap<K, Need>, key: &K, need: Need) {
    if let Some(sum) = sums.get_mut(key) {
        *sum = sum.minus(need);
        if *sum == Need::default() {
            sums.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Subject;

    fn user(name: &str) -> Owner {
        Owner::User(Subject::parse(name).expect("a subject"))
    }

    fn mk_waiting(job: &str, who: &str, service: &str, cores: i64, since: Millis) -> Waiting {
        Waiting {
            job: JobName::parse(job).expect("a name"),
            user: user(who),
            service: ServiceName::parse(service).expect("a name"),
            need: Need { cores, bytes: 1, gpus: 0 },
            since,
            limit: ServiceLimit::default(),
        }
    }

    fn mk_queue(cores: i64) -> Queue {
        Queue::new(Need { cores, bytes: 1 << 30, gpus: 0 })
    }

    fn started(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.admit()).map(|one| one.job.as_str().to_owned()).collect()
    }

    #[test]
    fn users_take_turns_however_many_jobs_one_brings() {
        let mut queue = mk_queue(4000);
        for n in 0..10 {
            queue.push(mk_waiting(&format!("a{n}"), "alice", "s", 1000, n));
        }
        queue.push(mk_waiting("b0", "bob", "s", 1000, 100));
        assert_eq!(started(&mut queue), ["a0", "b0", "a1", "a2"]);
    }

    #[test]
    fn a_large_job_is_overtaken_only_so_often() {
        let mut queue = mk_queue(2000);
        queue.hold(&user("carol"), &ServiceName::parse("x").expect("a name"), Need { cores: 1000, bytes: 0, gpus: 0 });
        queue.push(mk_waiting("large", "alice", "s", 2000, 0));
        let mut overtakers = 0;
        for n in 0..100 {
            queue.push(mk_waiting(&format!("b{n}"), "bob", "t", 1000, n + 1));
            if let Some(one) = queue.admit() {
                overtakers += 1;
                queue.release(&one.user, &one.service, one.need);
            }
        }
        assert_eq!(overtakers, MOST_OVERTAKEN);
        queue.release(
            &user("carol"),
            &ServiceName::parse("x").expect("a name"),
            Need { cores: 1000, bytes: 0, gpus: 0 },
        );
        assert_eq!(queue.admit().map(|one| one.job.as_str().to_owned()).as_deref(), Some("large"));
    }

    #[test]
    fn a_service_at_its_own_limit_holds_up_no_other_of_its_owner() {
        let mut queue = mk_queue(8000);
        let limit = ServiceLimit { cores: Some(1000), bytes: None };
        for n in 0..3 {
            queue.push(Waiting { limit, ..mk_waiting(&format!("small{n}"), "alice", "small", 1000, n) });
        }
        queue.push(mk_waiting("other", "alice", "other", 1000, 9));
        assert_eq!(started(&mut queue), ["small0", "other"]);
        assert!(!queue.is_possible(&Need { cores: 2000, bytes: 0, gpus: 0 }, &limit));
    }

    #[test]
    fn a_job_that_never_fits_holds_nobody_up() {
        let mut queue = mk_queue(1000);
        queue.push(mk_waiting("huge", "alice", "s", 2000, 0));
        queue.push(mk_waiting("behind", "alice", "s", 1000, 1));
        for n in 0..u64::from(MOST_OVERTAKEN) + 9 {
            queue.push(mk_waiting(&format!("b{n}"), "bob", "t", 1000, n + 2));
        }
        let mut served = 0;
        while let Some(one) = queue.admit() {
            queue.release(&one.user, &one.service, one.need);
            served += 1;
        }
        assert_eq!((served, queue.len()), (MOST_OVERTAKEN + 10, 1));
        queue.set_capacity(Need { cores: 2000, bytes: 1 << 30, gpus: 0 });
        assert_eq!(started(&mut queue), ["huge"], "there is room enough now");
    }

    #[test]
    fn a_job_can_be_taken_out() {
        let mut queue = mk_queue(1000);
        queue.push(mk_waiting("a", "alice", "s", 1000, 0));
        queue.push(mk_waiting("a", "alice", "s", 1000, 0));
        queue.push(mk_waiting("b", "alice", "s", 1000, 0));
        assert_eq!(queue.len(), 2, "the first waits already");
        let mut remove = |job: &str| queue.remove(&user("alice"), 0, &JobName::parse(job).expect("a name"));
        assert!(remove("a") && !remove("a") && remove("b"));
        assert!(queue.is_empty() && queue.admit().is_none());
    }

    proptest! {
        /// Every job that fits the machine starts, no more is held than there is, and each user's
        /// jobs start in the order they came.
        #[test]
        fn everybody_is_served(jobs in proptest::collection::vec((0usize..4, 1i64..9, 0u64..50), 1..80), ends in proptest::collection::vec(0usize..8, 400)) {
            let mut queue = mk_queue(8000);
            let names = ["alice", "bob", "carol", "dave"];
            for (n, (who, cores, since)) in jobs.iter().enumerate() {
                queue.push(mk_waiting(&format!("j{n}"), names[*who], "s", cores * 1000, *since));
            }
            let (mut running, mut order): (Vec<Waiting>, Vec<Waiting>) = (vec![], vec![]);
            for end in ends {
                while let Some(one) = queue.admit() {
                    running.push(one.clone());
                    order.push(one);
                }
                prop_assert!(queue.held().fits(&queue.capacity()));
                if !running.is_empty() {
                    let ended = running.remove(end % running.len());
                    queue.release(&ended.user, &ended.service, ended.need);
                }
            }
            prop_assert_eq!(order.len(), jobs.len());
            for name in names {
                let mine: Vec<_> = order.iter().filter(|one| one.user == user(name)).map(|one| one.since).collect();
                prop_assert!(mine.is_sorted(), "{:?}", mine);
            }
        }
    }
}
