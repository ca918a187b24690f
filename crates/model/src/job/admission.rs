//! Who runs next, when not all can.
//!
//! Users take turns by what they hold already. Within one user it is first come, first served,
//! among those of his services that are below their own limits. A job that does not fit yet may
//! be overtaken by smaller ones of others, but only so often: then nobody else starts until there
//! is room for it. So no job starves, and little room is idle.

use std::collections::BTreeMap;

use super::{JobName, Millis, Need};
use crate::identity::Owner;
use crate::name::ServiceName;

/// How many others may start before a job that came earlier and needs more.
pub const MOST_OVERTAKEN: u32 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub job: JobName,
    pub user: Owner,
    pub service: ServiceName,
    pub since: Millis,
    /// What its service asked for when it was looked at; what counts is [`Queue::set_terms`].
    pub terms: Terms,
}

/// What a service asks for: the same for all its jobs that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// Of one run.
    pub need: Need,
    pub limit: ServiceLimit,
}

/// `total_cpu` and `total_memory` of a service: what all its runs together may hold.
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

/// A job that was given room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    pub waiting: Waiting,
    /// What is held for it.
    pub need: Need,
}

#[derive(Debug, Clone)]
struct Entry {
    waiting: Waiting,
    overtaken: u32,
}

/// Where a job stands in its line: by its age, then by when it was pushed.
type Place = (Millis, u64);

/// The jobs of one service that one user pays for.
type Line = BTreeMap<Place, Entry>;

/// A service of which something waits.
#[derive(Debug, Clone)]
struct Wanted {
    terms: Terms,
    waiting: usize,
}

/// What waits and what is held. It knows nothing of time but the order of arrivals. A hundred
/// thousand may wait: only the first of each line is looked at.
#[derive(Debug, Clone)]
pub struct Queue {
    capacity: Need,
    held: Need,
    waiting: BTreeMap<Owner, BTreeMap<ServiceName, Line>>,
    services: BTreeMap<ServiceName, Wanted>,
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
            services: BTreeMap::new(),
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
        self.services.values().map(|wanted| wanted.waiting).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether it could ever run here.
    pub fn is_possible(&self, terms: &Terms) -> bool {
        terms.need.fits(&self.capacity) && terms.limit.allows(&terms.need)
    }

    /// Services of which something waits.
    pub fn services(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    /// A service asks for something else now, also for what waits already. Whether that is news.
    pub fn set_terms(&mut self, service: &ServiceName, terms: Terms) -> bool {
        let Some(wanted) = self.services.get_mut(service) else { return false };
        let is_news = wanted.terms != terms;
        wanted.terms = terms;
        is_news
    }

    /// Adds a job; in its line the order is that of `since`. One that waits already keeps its
    /// place. Where others of its service wait, what was known of the service stays.
    pub fn push(&mut self, waiting: Waiting) {
        if self.place_of(&waiting.user, &waiting.service, waiting.since, &waiting.job).is_some() {
            return;
        }
        let place = (waiting.since, self.pushed);
        self.pushed += 1;
        let wanted = self.services.entry(waiting.service.clone());
        wanted.or_insert_with(|| Wanted { terms: waiting.terms, waiting: 0 }).waiting += 1;
        let lines = self.waiting.entry(waiting.user.clone()).or_default();
        lines.entry(waiting.service.clone()).or_default().insert(place, Entry { waiting, overtaken: 0 });
    }

    /// Takes a job out that shall not start.
    pub fn remove(&mut self, user: &Owner, service: &ServiceName, since: Millis, job: &JobName) -> bool {
        let Some(place) = self.place_of(user, service, since, job) else { return false };
        self.take(user, service, place).is_some()
    }

    /// Few came in the same millisecond.
    fn place_of(&self, user: &Owner, service: &ServiceName, since: Millis, job: &JobName) -> Option<Place> {
        let mut of_its_age = self.waiting.get(user)?.get(service)?.range((since, 0)..=(since, u64::MAX));
        of_its_age.find(|(_, entry)| entry.waiting.job == *job).map(|(place, _)| *place)
    }

    fn take(&mut self, user: &Owner, service: &ServiceName, place: Place) -> Option<Admitted> {
        let lines = self.waiting.get_mut(user)?;
        let line = lines.get_mut(service)?;
        let Entry { waiting, .. } = line.remove(&place)?;
        if line.is_empty() {
            lines.remove(service);
            if lines.is_empty() {
                self.waiting.remove(user);
            }
        }
        let wanted = self.services.get_mut(service)?;
        let need = wanted.terms.need;
        wanted.waiting -= 1;
        if wanted.waiting == 0 {
            self.services.remove(service);
        }
        Some(Admitted { waiting, need })
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
    pub fn admit(&mut self) -> Option<Admitted> {
        let fronts = self.fronts();
        let chosen = self.choose(&fronts)?;
        let (user, service, place) = (chosen.user.clone(), chosen.service.clone(), chosen.place);
        let since = chosen.since;
        let overtaken = fronts.iter().filter(|one| one.since <= since && *one.user != user);
        let overtaken: Vec<_> = overtaken.map(|one| (one.user.clone(), one.service.clone(), one.place)).collect();
        let admitted = self.take(&user, &service, place)?;
        for (user, service, place) in overtaken {
            let line = self.waiting.get_mut(&user).and_then(|lines| lines.get_mut(&service));
            if let Some(entry) = line.and_then(|line| line.get_mut(&place)) {
                entry.overtaken += 1;
            }
        }
        self.hold(&user, &service, admitted.need);
        Some(admitted)
    }

    /// Of each user the job that is next. As many as there are users.
    fn fronts(&self) -> Vec<Front<'_>> {
        // Whatever many users wait for is looked at once.
        let allowed: BTreeMap<_, _> = self.services.iter().filter_map(|(name, one)| self.allowed(name, one)).collect();
        self.waiting.iter().filter_map(|(user, lines)| self.front(user, lines, &allowed)).collect()
    }

    /// What one run of a service needs, if its own limit and this cluster let one start. One that
    /// is too large for what there is now waits without holding anybody up.
    fn allowed<'a>(&self, service: &'a ServiceName, wanted: &Wanted) -> Option<(&'a ServiceName, Need)> {
        let Terms { need, limit } = wanted.terms;
        let held = self.by_service.get(service).copied().unwrap_or_default();
        (need.fits(&self.capacity) && limit.allows(&held.plus(need))).then_some((service, need))
    }

    fn front<'a>(
        &'a self,
        user: &'a Owner,
        lines: &'a BTreeMap<ServiceName, Line>,
        allowed: &BTreeMap<&ServiceName, Need>,
    ) -> Option<Front<'a>> {
        let heads = lines.iter().filter_map(|(service, line)| {
            let need = *allowed.get(service)?;
            let (&place, entry) = line.first_key_value()?;
            Some((place, service, need, entry))
        });
        let (place, service, need, entry) = heads.min_by_key(|(place, ..)| *place)?;
        let held = self.by_user.get(user).copied().unwrap_or_default();
        Some(Front {
            user,
            service,
            place,
            since: entry.waiting.since,
            need,
            overtaken: entry.overtaken,
            share: share(held, self.capacity),
        })
    }

    fn choose<'a, 'b>(&self, fronts: &'b [Front<'a>]) -> Option<&'b Front<'a>> {
        let free = self.capacity.minus(self.held);
        let starving = fronts.iter().filter(|one| one.overtaken >= MOST_OVERTAKEN);
        if let Some(starving) = starving.min_by_key(|one| one.since) {
            return Some(starving).filter(|one| one.need.fits(&free));
        }
        fronts.iter().filter(|one| one.need.fits(&free)).min_by_key(|one| (one.share, one.since))
    }
}

/// What is next of a user.
struct Front<'a> {
    user: &'a Owner,
    service: &'a ServiceName,
    place: Place,
    since: Millis,
    need: Need,
    overtaken: u32,
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
            since,
            terms: Terms { need: Need { cores, bytes: 1, gpus: 0 }, limit: ServiceLimit::default() },
        }
    }

    fn mk_queue(cores: i64) -> Queue {
        Queue::new(Need { cores, bytes: 1 << 30, gpus: 0 })
    }

    fn started(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.admit()).map(|one| one.waiting.job.as_str().to_owned()).collect()
    }

    fn service(name: &str) -> ServiceName {
        ServiceName::parse(name).expect("a name")
    }

    fn end(queue: &mut Queue, one: &Admitted) {
        queue.release(&one.waiting.user, &one.waiting.service, one.need);
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
        queue.hold(&user("carol"), &service("x"), Need { cores: 1000, bytes: 0, gpus: 0 });
        queue.push(mk_waiting("large", "alice", "s", 2000, 0));
        let mut overtakers = 0;
        for n in 0..100 {
            queue.push(mk_waiting(&format!("b{n}"), "bob", "t", 1000, n + 1));
            if let Some(one) = queue.admit() {
                overtakers += 1;
                end(&mut queue, &one);
            }
        }
        assert_eq!(overtakers, MOST_OVERTAKEN);
        queue.release(&user("carol"), &service("x"), Need { cores: 1000, bytes: 0, gpus: 0 });
        assert_eq!(started(&mut queue), ["large"]);
    }

    #[test]
    fn a_service_at_its_own_limit_holds_up_no_other_of_its_owner() {
        let mut queue = mk_queue(8000);
        let limit = ServiceLimit { cores: Some(1000), bytes: None };
        for n in 0..1000 {
            let mut waiting = mk_waiting(&format!("small{n}"), "alice", "small", 1000, n);
            waiting.terms.limit = limit;
            queue.push(waiting);
        }
        queue.push(mk_waiting("other", "alice", "other", 1000, 2000));
        assert_eq!(started(&mut queue), ["small0", "other"]);
        assert!(!queue.is_possible(&Terms { need: Need { cores: 2000, bytes: 0, gpus: 0 }, limit }));
    }

    #[test]
    fn what_is_held_up_by_its_own_service_starves_nobody_later() {
        let mut queue = mk_queue(2000);
        let mut waiting = mk_waiting("capped", "alice", "s", 1000, 0);
        waiting.terms.limit = ServiceLimit { cores: Some(1000), bytes: None };
        queue.push(waiting.clone());
        let first = queue.admit().expect("there is room");
        queue.push(Waiting { job: JobName::parse("capped2").expect("a name"), ..waiting });
        for n in 0..u64::from(MOST_OVERTAKEN) + 9 {
            queue.push(mk_waiting(&format!("b{n}"), "bob", "t", 1000, n + 1));
            let one = queue.admit().expect("there is room");
            end(&mut queue, &one);
        }
        end(&mut queue, &first);
        queue.push(mk_waiting("b", "bob", "t", 2000, 99));
        assert_eq!(started(&mut queue), ["capped2"], "the oldest, and nobody overtook it");
    }

    #[test]
    fn a_service_that_is_changed_is_changed_for_what_waits_too() {
        let mut queue = mk_queue(4000);
        for n in 0..4 {
            let mut waiting = mk_waiting(&format!("a{n}"), "alice", "s", 1000, n);
            waiting.terms.limit = ServiceLimit { cores: Some(1000), bytes: None };
            queue.push(waiting);
        }
        assert_eq!(started(&mut queue), ["a0"]);
        let raised = Terms { need: Need { cores: 1500, bytes: 1, gpus: 0 }, limit: ServiceLimit::default() };
        assert!(queue.set_terms(&service("s"), raised) && !queue.set_terms(&service("s"), raised));
        assert_eq!(started(&mut queue), ["a1", "a2"]);
        assert_eq!(queue.held().cores, 4000, "with what it needs now");
        assert!(!queue.set_terms(&service("t"), raised), "nothing of it waits");
    }

    #[test]
    fn a_job_that_never_fits_holds_nobody_up() {
        let mut queue = mk_queue(1000);
        queue.push(mk_waiting("huge", "alice", "huge", 2000, 0));
        queue.push(mk_waiting("behind", "alice", "s", 1000, 1));
        for n in 0..u64::from(MOST_OVERTAKEN) + 9 {
            queue.push(mk_waiting(&format!("b{n}"), "bob", "t", 1000, n + 2));
        }
        let mut served = 0;
        while let Some(one) = queue.admit() {
            end(&mut queue, &one);
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
        let mut remove =
            |job: &str| queue.remove(&user("alice"), &service("s"), 0, &JobName::parse(job).expect("a name"));
        assert!(remove("a") && !remove("a") && remove("b"));
        assert!(queue.is_empty() && queue.admit().is_none());
    }

    proptest! {
        /// Every job that fits the machine starts, no more is held than there is and than its
        /// service may hold, each user's jobs of a service start in the order they came, and no
        /// room is idle that the next job of a user could have.
        #[test]
        fn everybody_is_served(
            jobs in proptest::collection::vec((0usize..4, 0usize..5, 0u64..50), 1..80),
            sizes in proptest::collection::vec((1i64..9, proptest::option::of(0i64..8)), 5),
            ends in proptest::collection::vec(0usize..8, 400),
        ) {
            let mut queue = mk_queue(8000);
            let names = ["alice", "bob", "carol", "dave"];
            let limit = |(cores, more): (i64, Option<i64>)| more.map(|more| (cores + more) * 1000);
            for (n, (who, which, since)) in jobs.iter().enumerate() {
                let mut waiting =
                    mk_waiting(&format!("j{n}"), names[*who], &format!("s{which}"), sizes[*which].0 * 1000, *since);
                waiting.terms.limit.cores = limit(sizes[*which]);
                queue.push(waiting);
            }
            let (mut running, mut order): (Vec<Admitted>, Vec<Waiting>) = (vec![], vec![]);
            for end_of in ends {
                while let Some(one) = queue.admit() {
                    order.push(one.waiting.clone());
                    running.push(one);
                }
                prop_assert!(queue.held().fits(&queue.capacity()));
                for (which, size) in sizes.iter().enumerate() {
                    let mine = running.iter().filter(|one| one.waiting.service == service(&format!("s{which}")));
                    let held: i64 = mine.map(|one| one.need.cores).sum();
                    prop_assert!(limit(*size).is_none_or(|most| held <= most));
                }
                let (free, fronts) = (queue.capacity().minus(queue.held()), queue.fronts());
                let is_starving = fronts.iter().any(|one| one.overtaken >= MOST_OVERTAKEN);
                prop_assert!(is_starving || fronts.iter().all(|one| !one.need.fits(&free)));
                if !running.is_empty() {
                    let ended = running.remove(end_of % running.len());
                    end(&mut queue, &ended);
                }
            }
            prop_assert_eq!(order.len(), jobs.len());
            prop_assert!(queue.is_empty() && queue.services().next().is_none());
            for (name, which) in names.into_iter().flat_map(|name| (0..5).map(move |which| (name, which))) {
                let mine = order.iter().filter(|one| one.user == user(name) && one.service == service(&format!("s{which}")));
                let mine: Vec<_> = mine.map(|one| one.since).collect();
                prop_assert!(mine.is_sorted(), "{:?}", mine);
            }
        }
    }
}
