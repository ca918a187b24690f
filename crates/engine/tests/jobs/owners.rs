//! A name that was one owner's and is another's now.

use std::sync::Arc;

use oscar_engine::jobs::Dispatcher;
use oscar_engine::ports::jobs::Jobs as _;
use oscar_engine::ports::runtime::Exit;
use oscar_engine::ports::services::Services as _;
use oscar_engine::ports::usage::{Share, UsageQuery};
use oscar_engine::testing::conformance_usage::{mk_everything, runs};
use oscar_engine::testing::make::mk_owner;
use oscar_model::identity::{Owner, Principal};
use oscar_model::job::JobName;
use oscar_model::service::{Sensitive, Visibility};

use crate::world::{NOW, World, call, mk_ended, name, run, user};

/// The service goes from one owner to another without its jobs being told.
async fn hand_over(world: &World, to: &Owner) {
    let stored = world.services.get(&name("a")).await.expect("read").expect("there");
    let mut service = stored.service.clone();
    service.owner = to.clone();
    world.services.replace(service, Sensitive::default(), &stored.revision).await.expect("replaced");
}

async fn finished(world: &World, dispatcher: &Arc<Dispatcher>, job: &JobName) {
    dispatcher.step().await.expect("ok");
    world.runtime.begin(&run(job, 1));
    world.runtime.finish(&run(job, 1), mk_ended(Exit::Code(1), vec![]));
    dispatcher.step().await.expect("ok");
}

#[tokio::test]
async fn the_next_owner_of_a_name_is_shown_nothing_of_the_former_ones() {
    let world = World::new().await;
    world.serve("a", |definition| definition.visibility = Visibility::Public).await;
    let dispatcher = world.started().await;
    let mut former = Vec::new();
    for who in ["alice", "guest"] {
        let job = dispatcher.submit(&user(who), call("a")).await.expect("submitted").name;
        finished(&world, &dispatcher, &job).await;
        former.push(job);
    }
    let waits = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    hand_over(&world, &mk_owner("carol")).await;
    let listed = async |who: &Principal, limit| {
        let mut names = Vec::new();
        let mut page = None;
        loop {
            let shown = dispatcher.list(who, &name("a"), page, limit).await.expect("listed");
            names.extend(shown.jobs.into_iter().map(|job| job.name));
            page = shown.next;
            if page.is_none() {
                assert_eq!(shown.remaining, 0);
                return names;
            }
        }
    };
    for who in [user("alice"), user("carol"), user("guest"), Principal::Admin] {
        assert_eq!(listed(&who, 1).await, [], "{}", who.label());
    }
    let mut present = Vec::new();
    for who in ["carol", "guest"] {
        present.push(dispatcher.submit(&user(who), call("a")).await.expect("submitted").name);
    }
    present.reverse();
    assert_eq!(listed(&user("carol"), 1).await, present, "page by page");
    assert_eq!(listed(&Principal::Admin, 9).await, present);
    assert_eq!(listed(&user("guest"), 9).await, present[..1]);

    dispatcher.remove_all(&user("carol"), &name("a"), true).await.expect("removed");
    assert_eq!(listed(&user("carol"), 9).await, []);
    for job in former.iter().chain([&waits]) {
        assert!(world.jobs.get(job).await.expect("read").is_some(), "{job} is not hers");
    }
    dispatcher.remove_all(&Principal::Admin, &name("a"), true).await.expect("removed");
    for job in former.iter().chain([&waits]) {
        assert_eq!(world.jobs.get(job).await, Ok(None), "the administrator tidies up");
    }
}

#[tokio::test]
async fn what_ran_is_counted_for_whose_service_it_was() {
    let world = World::new().await;
    world.serve("a", |definition| definition.visibility = Visibility::Public).await;
    let dispatcher = world.started().await;
    let first = dispatcher.submit(&user("guest"), call("a")).await.expect("submitted").name;
    finished(&world, &dispatcher, &first).await;
    let meanwhile = dispatcher.submit(&user("alice"), call("a")).await.expect("submitted").name;
    dispatcher.step().await.expect("ok");
    hand_over(&world, &mk_owner("carol")).await;
    finished(&world, &dispatcher, &meanwhile).await;
    let last = dispatcher.submit(&user("guest"), call("a")).await.expect("submitted").name;
    finished(&world, &dispatcher, &last).await;
    let users_of = async |owner: &str| {
        let share = Share { service: name("a"), owner: Some(mk_owner(owner)), user: None };
        let query = UsageQuery { shares: Some(vec![share]), ..mk_everything(0, NOW + 10) };
        let sums = dispatcher.usage(&query).await.expect("read").expect("few");
        sums.into_iter().map(|sum| (sum.user, sum.amounts.asynchronous)).collect::<Vec<_>>()
    };
    let one = |user: &str| (user.to_owned(), 1);
    assert_eq!(users_of("carol").await, [one("guest")]);
    assert_eq!(users_of("alice").await, [one("alice"), one("guest")], "also what ended when it was hers no more");
    assert_eq!(runs(&*world.jobs, 0, NOW + 10).await, 3);
}
