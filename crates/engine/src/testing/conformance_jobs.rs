//! What the contract of [`Jobs`] promises, asked of any adapter.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::identity::Owner;
use oscar_model::job::{Event, Job, JobName, Millis, Need, Output, Phase, Source, Submission};
use oscar_model::name::ServiceName;

use super::conformance_usage::usage;
use super::make::mk_owner;
use crate::ports::StoreError;
use crate::ports::jobs::{Accepted, JobPage, JobQuery, Jobs, NewJob, Once, Removal, Whose};

/// A job of a service, accepted at a time.
pub fn mk_job(service: &str, unique: &str, submitter: Option<&Owner>, at: Millis) -> Job {
    let service = ServiceName::parse(service).expect("test names are valid");
    let submission = Submission {
        name: JobName::of(&service, unique).expect("test names are valid"),
        service,
        owner: Owner::Admin,
        submitter: submitter.cloned(),
        source: Source::Call,
        input: None,
        need: Need { cores: 200, bytes: 1 << 28, gpus: 0 },
    };
    Job::new(submission, at)
}

pub fn mk_new(job: &Job, once: Option<&str>) -> NewJob {
    let once = once.map(|key| Once { key: key.to_owned(), digest: "a digest".to_owned() });
    NewJob { job: job.clone(), event: Arc::from(format!("event of {}", job.name).into_bytes()), once }
}

/// What follows on a job as it was accepted, up to its end.
pub fn mk_success(job: &Job, at: Millis) -> Vec<Job> {
    let output = Output {
        provider: "minio.default".to_owned(),
        bucket: "out".to_owned(),
        key: "k".to_owned(),
        bytes: 3,
        staged: Some("s".to_owned()),
    };
    let events = [
        Event::Queue { reason: "waits".to_owned() },
        Event::Start { reason: "room".to_owned(), access_key: "AK".to_owned(), need: job.need },
        Event::Running { attempt: 1 },
        Event::Decide { attempt: 1, outputs: vec![output] },
        Event::Succeed { attempt: 1 },
    ];
    mk_story(job, events, at)
}

fn mk_story(job: &Job, events: impl IntoIterator<Item = Event>, at: Millis) -> Vec<Job> {
    let mut job = job.clone();
    let next = |event| {
        job = job.apply(event, at).expect("each follows on the one before");
        job.clone()
    };
    events.into_iter().map(next).collect()
}

async fn accept(store: &dyn Jobs, job: &Job) {
    assert_eq!(store.accept(mk_new(job, None)).await, Ok(Accepted::New));
}

/// Brings an accepted job to its end.
async fn succeed(store: &dyn Jobs, job: &Job, at: Millis) -> Job {
    let mut last = job.clone();
    for step in mk_success(job, at) {
        store.save(&step).await.expect("saved");
        last = step;
    }
    last
}

async fn cancel(store: &dyn Jobs, job: &Job, at: Millis) -> Job {
    let next = job.apply(Event::Cancel { by: "x".to_owned() }, at).expect("cancelled");
    store.save(&next).await.expect("saved");
    next
}

/// Every page of a service, the last one last.
pub async fn pages(store: &dyn Jobs, service: &ServiceName, whose: &Whose, limit: usize) -> Vec<JobPage> {
    let mut query = JobQuery { service: service.clone(), whose: whose.clone(), page: None, limit };
    let mut pages = Vec::new();
    loop {
        let page = store.page(&query).await.expect("a page");
        query.page.clone_from(&page.next);
        pages.push(page);
        if query.page.is_none() {
            return pages;
        }
    }
}

/// What one user asked for of a service of the administrator's.
fn mk_submitter(submitter: &Owner) -> Whose {
    Whose::Submitter { owner: Owner::Admin, submitter: submitter.clone() }
}

fn names(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.name.as_str()).collect()
}

async fn count_of(store: &dyn Jobs, phase: Phase) -> u64 {
    let counts = store.counts().await.expect("counted");
    counts.into_iter().filter(|(of, _)| *of == phase).map(|(_, count)| count).sum()
}

/// Everything the contract of [`Jobs`] says. Wants a store without jobs.
pub async fn jobs(store: Arc<dyn Jobs>) {
    acceptance(&*store).await;
    one_of_many(&store).await;
    story(&*store).await;
    listing(&*store).await;
    owners(&*store).await;
    removal(&*store).await;
    old_ones(&*store).await;
    statistics(&*store).await;
    usage(&*store).await;
}

async fn acceptance(store: &dyn Jobs) {
    let job = mk_job("accepting", "1", None, 10);
    assert_eq!(store.get(&job.name).await, Ok(None));
    assert_eq!(store.accept(mk_new(&job, Some("key"))).await, Ok(Accepted::New));
    assert_eq!(store.get(&job.name).await, Ok(Some(job.clone())));
    assert_eq!(store.event(&job.name).await.as_deref(), Ok(format!("event of {}", job.name).as_bytes()));
    let again = mk_job("accepting", "2", None, 11);
    let known = Accepted::Known { job: Box::new(job.clone()), digest: "a digest".to_owned() };
    let mut other = mk_new(&again, Some("key"));
    other.once = Some(Once { key: "key".to_owned(), digest: "another".to_owned() });
    assert_eq!(store.accept(mk_new(&again, Some("key"))).await, Ok(known.clone()));
    assert_eq!(store.accept(other).await, Ok(known), "the digest is that of the first");
    assert_eq!(store.get(&again.name).await, Ok(None), "nothing was changed");
    assert_eq!(store.accept(mk_new(&job, None)).await, Err(StoreError::AlreadyExists));
    assert_eq!(store.accept(mk_new(&job, Some("free"))).await, Err(StoreError::AlreadyExists));
    assert_eq!(store.accept(mk_new(&again, Some("free"))).await, Ok(Accepted::New), "a refusal took no key");
    for job in [job, again] {
        let ended = cancel(store, &job, 12).await;
        let known = store.accept(mk_new(&mk_job("accepting", "3", None, 13), Some("key"))).await;
        assert!(matches!(known, Ok(Accepted::Known { .. })), "known as long as the job is kept: {known:?}");
        assert_eq!(ended.phase, Phase::Cancelled);
    }
    let all = Removal::OfService { service: name_of("accepting"), whose: Whose::Everybody, succeeded_only: false };
    assert_eq!(store.remove(&all).await.map(|gone| gone.len()), Ok(2));
    let third = mk_job("accepting", "3", None, 13);
    assert_eq!(store.accept(mk_new(&third, Some("key"))).await, Ok(Accepted::New), "forgotten with its job");
    cancel(store, &third, 14).await;
}

async fn one_of_many(store: &Arc<dyn Jobs>) {
    let tries = (0..32).map(|n| {
        let job = mk_job("racing", &n.to_string(), None, n);
        let new = mk_new(&job, Some("one"));
        let store = store.clone();
        async move { (job.name, store.accept(new).await.expect("answered")) }
    });
    let outcomes = join_all(tries).await;
    let made: Vec<_> = outcomes.iter().filter(|(_, accepted)| *accepted == Accepted::New).collect();
    let [(winner, _)] = made[..] else { panic!("exactly one is new: {made:?}") };
    for (_, accepted) in &outcomes {
        if let Accepted::Known { job, .. } = accepted {
            assert_eq!(job.name, *winner);
        }
    }
    assert_eq!(pages(&**store, &name_of("racing"), &Whose::Everybody, 100).await[0].jobs.len(), 1);
}

async fn story(store: &dyn Jobs) {
    let job = mk_job("telling", "1", Some(&mk_owner("alice@x")), 10);
    assert_eq!(store.save(&job).await, Err(StoreError::NotFound), "it was not accepted");
    accept(store, &job).await;
    assert_eq!(store.save(&job).await, Err(StoreError::Conflict), "its version is stored already");
    let steps = mk_success(&job, 20);
    assert_eq!(store.save(&steps[1]).await, Err(StoreError::Conflict), "one step is missing");
    for step in &steps {
        assert!(store.event(&job.name).await.is_ok(), "kept until the end");
        let unfinished = store.unfinished().await.expect("listed");
        assert!(unfinished.iter().any(|job| job.name == step.name));
        store.save(step).await.expect("saved");
        assert_eq!(store.save(step).await, Err(StoreError::Conflict), "a stale version");
        assert_eq!(store.get(&job.name).await, Ok(Some(step.clone())));
    }
    assert_eq!(store.event(&job.name).await, Err(StoreError::NotFound), "and no longer");
    let unfinished = store.unfinished().await.expect("listed");
    assert!(!unfinished.iter().any(|one| one.name == job.name));
}

async fn listing(store: &dyn Jobs) {
    let (alice, bob) = (mk_owner("alice@x"), mk_owner("bob@x"));
    let service = name_of("listing");
    let who = [Some(&alice), Some(&bob), None];
    // Times that go back: what counts is the order of acceptance.
    let made: Vec<_> = (0..9).map(|n| mk_job("listing", &n.to_string(), who[n % 3], 100 - n as u64)).collect();
    for job in &made {
        accept(store, job).await;
    }
    let unfinished = store.unfinished().await.expect("listed");
    let mine: Vec<_> = unfinished.into_iter().filter(|job| job.service == service).collect();
    assert_eq!(mine, made, "in the order of acceptance");

    let read = pages(store, &service, &Whose::Everybody, 4).await;
    let newest: Vec<_> = made.iter().rev().cloned().collect();
    assert_eq!(read.iter().flat_map(|page| page.jobs.clone()).collect::<Vec<_>>(), newest);
    assert_eq!(read.iter().map(|page| page.remaining).collect::<Vec<_>>(), [5, 1, 0]);
    let read = pages(store, &service, &mk_submitter(&bob), 3).await;
    assert_eq!(read.len(), 1, "a full page may be the last");
    assert_eq!(names(&read[0].jobs), ["listing-7", "listing-4", "listing-1"]);
    let read = pages(store, &service, &mk_submitter(&alice), 2).await;
    assert_eq!(read.iter().map(|page| page.remaining).collect::<Vec<_>>(), [1, 0]);

    let first = JobQuery { service: service.clone(), whose: Whose::Everybody, page: None, limit: 3 };
    let page = store.page(&first).await.expect("a page");
    assert_eq!(names(&page.jobs), ["listing-8", "listing-7", "listing-6"]);
    accept(store, &mk_job("listing", "new", None, 200)).await;
    cancel(store, &made[4], 300).await;
    store.remove(&Removal::One(made[4].name.clone())).await.expect("removed");
    let mut rest = JobQuery { page: page.next, ..first.clone() };
    let second = store.page(&rest).await.expect("a page");
    assert_eq!(names(&second.jobs), ["listing-5", "listing-3", "listing-2"], "none twice, none left out");
    rest.page = second.next;
    let third = store.page(&rest).await.expect("a page");
    assert_eq!((names(&third.jobs), third.next, third.remaining), (vec!["listing-1", "listing-0"], None, 0));
    for strange in ["", "x", "-1", "99999999999999999999", "1.x", "1.2.3"] {
        let page = store.page(&JobQuery { page: Some(strange.to_owned()), ..first.clone() }).await.expect("a page");
        assert_eq!(page, JobPage::default(), "'{strange}' was never given out");
    }
    let none = JobQuery { service: name_of("listing-not"), ..first };
    assert_eq!(store.page(&none).await, Ok(JobPage::default()));
}

/// A service of one name that was one owner's and then another's.
async fn owners(store: &dyn Jobs) {
    let (former, present, guest) = (mk_owner("former@x"), mk_owner("present@x"), mk_owner("guest@x"));
    let service = name_of("owning");
    // Of the nine every third is the former owner's, and the guest asked for each but the last.
    let mut made = Vec::new();
    for n in 0..9 {
        let mut job = mk_job("owning", &n.to_string(), (n < 8).then_some(&guest), 10);
        job.owner = if n % 3 == 0 { former.clone() } else { present.clone() };
        accept(store, &job).await;
        made.push(job);
    }
    let shown = async |whose: &Whose, limit| {
        let pages = pages(store, &service, whose, limit).await;
        let names = pages.iter().flat_map(|page| names(&page.jobs)).map(|name| name["owning-".len()..].to_owned());
        (names.collect::<String>(), pages.iter().map(|page| page.remaining).collect::<Vec<_>>())
    };
    let text = |text: &str| text.to_owned();
    let of = |owner: &Owner| Whose::Owner(owner.clone());
    let asked = |owner: &Owner| Whose::Submitter { owner: owner.clone(), submitter: guest.clone() };
    assert_eq!(shown(&Whose::Everybody, 5).await, (text("876543210"), vec![4, 0]));
    assert_eq!(shown(&of(&present), 4).await, (text("875421"), vec![2, 0]), "pages are full of what is shown");
    assert_eq!(shown(&of(&former), 2).await, (text("630"), vec![1, 0]));
    assert_eq!(shown(&asked(&present), 2).await, (text("75421"), vec![3, 1, 0]));
    assert_eq!(shown(&asked(&former), 3).await, (text("630"), vec![0]));
    assert_eq!(shown(&of(&guest), 3).await, (text(""), vec![0]), "nothing was ever his");

    for job in &made {
        cancel(store, job, 20).await;
    }
    let gone = async |whose: Whose| {
        let removal = Removal::OfService { service: service.clone(), whose, succeeded_only: false };
        store.remove(&removal).await.expect("removed").len()
    };
    assert_eq!(gone(asked(&present)).await, 5);
    assert_eq!(gone(of(&present)).await, 1);
    assert_eq!(shown(&Whose::Everybody, 2).await, (text("630"), vec![1, 0]), "the former owner's are left alone");
    assert_eq!(gone(Whose::Everybody).await, 3);
}

async fn removal(store: &dyn Jobs) {
    let (alice, bob) = (mk_owner("alice@x"), mk_owner("bob@x"));
    let service = name_of("removing");
    let mut made = Vec::new();
    for (n, who) in [&alice, &alice, &alice, &bob, &bob].into_iter().enumerate() {
        let job = mk_job("removing", &n.to_string(), Some(who), 10);
        accept(store, &job).await;
        made.push(job);
    }
    accept(store, &mk_job("removing-not", "1", None, 10)).await;
    let one = |n: usize| Removal::One(made[n].name.clone());
    assert_eq!(store.remove(&one(0)).await, Ok(vec![]), "it has not ended");
    assert_eq!(store.remove(&Removal::One(mk_job("removing", "9", None, 0).name)).await, Ok(vec![]));
    succeed(store, &made[0], 20).await;
    succeed(store, &made[3], 20).await;
    cancel(store, &made[1], 20).await;
    let of = |whose: Whose, succeeded_only| Removal::OfService { service: service.clone(), whose, succeeded_only };
    assert_eq!(store.remove(&of(mk_submitter(&alice), true)).await, Ok(vec![made[0].name.clone()]));
    assert_eq!(store.remove(&of(mk_submitter(&alice), false)).await, Ok(vec![made[1].name.clone()]));
    assert_eq!(store.remove(&of(Whose::Everybody, false)).await, Ok(vec![made[3].name.clone()]));
    assert_eq!(store.remove(&of(Whose::Everybody, false)).await, Ok(vec![]));
    assert_eq!(store.get(&made[0].name).await, Ok(None));
    assert_eq!(store.event(&made[0].name).await, Err(StoreError::NotFound));
    assert_eq!(store.save(&mk_success(&made[0], 20)[0]).await, Err(StoreError::NotFound));
    let left = pages(store, &service, &Whose::Everybody, 10).await;
    assert_eq!(names(&left[0].jobs), ["removing-4", "removing-2"]);
    assert!(store.event(&made[2].name).await.is_ok());
    cancel(store, &made[2], 30).await;
    assert_eq!(store.remove(&one(2)).await, Ok(vec![made[2].name.clone()]));
    assert_eq!(store.remove(&one(2)).await, Ok(vec![]));
}

async fn old_ones(store: &dyn Jobs) {
    // What earlier parts left behind must not count.
    let everything = Removal::Old { ended_before: Millis::MAX, most_per_service: 0, limit: 1000 };
    store.remove(&everything).await.expect("removed");
    for (service, ends) in [("old-a", vec![50, 10, 40, 20, 30]), ("old-b", vec![15, 60])] {
        for end in ends {
            let job = mk_job(service, &end.to_string(), None, 1);
            accept(store, &job).await;
            cancel(store, &job, end).await;
        }
        accept(store, &mk_job(service, "waits", None, 1)).await;
    }
    let gone = async |ended_before, most_per_service, limit| {
        let removal = Removal::Old { ended_before, most_per_service, limit };
        let gone = store.remove(&removal).await.expect("removed");
        gone.iter().map(|name| name.as_str().to_owned()).collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(gone(10, 100, 100).await, set(&[]), "what ended at that time stays");
    assert_eq!(gone(20, 100, 1).await, set(&["old-a-10"]), "the oldest first, as many as were asked for");
    assert_eq!(gone(20, 100, 100).await, set(&["old-b-15"]));
    assert_eq!(gone(0, 3, 100).await, set(&["old-a-20"]), "of one service there are more than three");
    assert_eq!(gone(0, 1, 1).await.len(), 1);
    assert_eq!(gone(45, 1, 100).await.len(), 1);
    let left = pages(store, &name_of("old-a"), &Whose::Everybody, 10).await;
    assert_eq!(names(&left[0].jobs), ["old-a-waits", "old-a-50"]);
    assert_eq!(gone(Millis::MAX, 100, 100).await, set(&["old-a-50", "old-b-60"]), "others are left alone");
}

async fn statistics(store: &dyn Jobs) {
    let (queued, succeeded) = (count_of(store, Phase::Queued).await, count_of(store, Phase::Succeeded).await);
    let accepted = count_of(store, Phase::Accepted).await;
    let [one, two] = ["1", "2"].map(|unique| mk_job("counting", unique, None, 10));
    accept(store, &one).await;
    accept(store, &two).await;
    assert_eq!(count_of(store, Phase::Accepted).await, accepted + 2);
    store.save(&mk_success(&one, 11)[0]).await.expect("saved");
    assert_eq!(count_of(store, Phase::Accepted).await, accepted + 1);
    assert_eq!(count_of(store, Phase::Queued).await, queued + 1);
    succeed(store, &two, 12).await;
    assert_eq!(count_of(store, Phase::Succeeded).await, succeeded + 1);
    store.remove(&Removal::One(two.name)).await.expect("removed");
    assert_eq!(count_of(store, Phase::Succeeded).await, succeeded);
}

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("test names are valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryJobs;

    #[tokio::test]
    async fn memory_conforms() {
        jobs(Arc::new(MemoryJobs::default())).await;
    }
}
