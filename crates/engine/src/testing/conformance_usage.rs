//! What the contract of [`Jobs`] promises of statistics, asked of any adapter.

use oscar_model::identity::Owner;
use oscar_model::job::Millis;
use oscar_model::name::ServiceName;

use super::make::mk_owner;
use crate::ports::jobs::Jobs;
use crate::ports::usage::{Amounts, Share, Usage, UsageQuery, UsageSum};

/// A run of half a second on one core.
pub fn mk_usage(service: &str, owner: &Owner, user: &str, at: Millis) -> Usage {
    Usage {
        service: name_of(service),
        owner: owner.clone(),
        user: user.to_owned(),
        synchronous: false,
        at,
        core_millis: 500_000,
        gpu_millis: 2,
    }
}

/// Everything that ran in a stretch of time.
pub fn mk_everything(from: Millis, until: Millis) -> UsageQuery {
    UsageQuery { from, until, shares: None, limit: 1000 }
}

/// How many runs there were in a stretch of time.
pub async fn runs(store: &dyn Jobs, from: Millis, until: Millis) -> u64 {
    let sums = store.usage(&mk_everything(from, until)).await.expect("read").expect("few");
    sums.iter().map(|sum| sum.amounts.synchronous + sum.amounts.asynchronous).sum()
}

fn name_of(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("test names are valid")
}

fn mk_sum(service: &str, user: &str, synchronous: u64, asynchronous: u64) -> UsageSum {
    let runs = u128::from(synchronous + asynchronous);
    let amounts = Amounts { synchronous, asynchronous, core_millis: 500_000 * runs, gpu_millis: 2 * runs };
    UsageSum { service: name_of(service), user: user.to_owned(), amounts }
}

/// Wants a store that has not noted any run.
pub(super) async fn usage(store: &dyn Jobs) {
    sums(store).await;
    shares(store).await;
    numbers_that_are_large(store).await;
}

async fn sums(store: &dyn Jobs) {
    let alice = mk_owner("alice@x");
    assert_eq!(store.usage(&mk_everything(0, Millis::MAX)).await, Ok(Some(vec![])));
    for (service, user, synchronous, at) in [
        ("summing", "bob@x", true, 3000),
        ("summing", "", false, 1500),
        ("summing", "bob@x", false, 1000),
        ("summing", "bob@x", true, 1001),
        ("adding", "carol@x", true, 2000),
    ] {
        store.note_usage(&Usage { synchronous, ..mk_usage(service, &alice, user, at) }).await.expect("noted");
    }
    let between = async |from, until| store.usage(&mk_everything(from, until)).await.expect("read").expect("few");
    let (carol, nobody) = (mk_sum("adding", "carol@x", 1, 0), mk_sum("summing", "", 0, 1));
    assert_eq!(
        between(0, Millis::MAX).await,
        [carol.clone(), nobody.clone(), mk_sum("summing", "bob@x", 2, 1)],
        "by service and user"
    );
    assert_eq!(between(1000, 3000).await, [carol.clone(), nobody.clone(), mk_sum("summing", "bob@x", 1, 1)]);
    assert_eq!(between(1001, 2000).await, [nobody, mk_sum("summing", "bob@x", 1, 0)]);
    assert_eq!(between(3001, Millis::MAX).await, []);
    for (limit, fits) in [(3, true), (2, false), (0, false)] {
        let query = UsageQuery { limit, ..mk_everything(0, Millis::MAX) };
        assert_eq!(store.usage(&query).await.expect("read").is_some(), fits, "three sums, {limit} are wanted");
    }
}

/// A service of one name that was one owner's and then another's.
async fn shares(store: &dyn Jobs) {
    let (former, present) = (mk_owner("former@x"), mk_owner("present@x"));
    for (service, owner, user) in [
        ("sharing", &former, "former@x"),
        ("sharing", &former, "guest@x"),
        ("sharing", &present, "guest@x"),
        ("sharing", &present, "present@x"),
        ("sharing", &present, "guest@x"),
        ("sharing-not", &present, "guest@x"),
        ("sharing-too", &former, "guest@x"),
        ("sharing-too", &former, "present@x"),
    ] {
        store.note_usage(&mk_usage(service, owner, user, 7000)).await.expect("noted");
    }
    let share = |service: &str, owner: Option<&Owner>, user: Option<&str>| Share {
        service: name_of(service),
        owner: owner.cloned(),
        user: user.map(str::to_owned),
    };
    let of = async |shares: Vec<Share>| {
        let query = UsageQuery { shares: Some(shares), ..mk_everything(7000, 7001) };
        store.usage(&query).await.expect("read").expect("few")
    };
    assert_eq!(of(vec![]).await, []);
    assert_eq!(
        of(vec![share("sharing", Some(&present), None)]).await,
        [mk_sum("sharing", "guest@x", 0, 2), mk_sum("sharing", "present@x", 0, 1)],
        "nothing of the former owner's"
    );
    assert_eq!(
        of(vec![share("sharing", Some(&former), None)]).await,
        [mk_sum("sharing", "former@x", 0, 1), mk_sum("sharing", "guest@x", 0, 1)]
    );
    let guest = share("sharing", Some(&present), Some("guest@x"));
    assert_eq!(of(vec![guest.clone()]).await, [mk_sum("sharing", "guest@x", 0, 2)]);
    assert_eq!(
        of(vec![share("sharing-too", Some(&former), Some("present@x")), guest]).await,
        [mk_sum("sharing", "guest@x", 0, 2), mk_sum("sharing-too", "present@x", 0, 1)],
        "by service, in whichever order they are asked for"
    );
    assert_eq!(
        of(vec![share("sharing", None, None)]).await,
        [mk_sum("sharing", "former@x", 0, 1), mk_sum("sharing", "guest@x", 0, 3), mk_sum("sharing", "present@x", 0, 1)]
    );
    assert_eq!(of(vec![share("sharing", None, Some("guest@x"))]).await, [mk_sum("sharing", "guest@x", 0, 3)]);
    assert_eq!(of(vec![share("sharing-never", None, None)]).await, []);
    let query = UsageQuery {
        shares: Some(vec![share("sharing", None, None), share("sharing-too", None, None)]),
        limit: 4,
        ..mk_everything(7000, 7001)
    };
    assert_eq!(store.usage(&query).await, Ok(None), "there are five");
}

async fn numbers_that_are_large(store: &dyn Jobs) {
    let large = Usage { core_millis: i64::MAX.cast_unsigned(), ..mk_usage("large", &Owner::Admin, "", 8000) };
    for _ in 0..3 {
        store.note_usage(&large).await.expect("noted");
    }
    let sums = store.usage(&mk_everything(8000, 8001)).await.expect("read").expect("few");
    assert_eq!(sums[0].amounts.core_millis, 3 * u128::from(large.core_millis));
}
