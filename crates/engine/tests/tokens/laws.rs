//! Whatever happens in whatever order.

use std::collections::BTreeMap;

use oscar_model::federation::record::GrantState;
use proptest::prelude::*;

use super::*;

const SERVICES: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone)]
enum Event {
    /// The service is given the token of this sign-in, whether it was given before or not.
    Submit(usize, usize),
    Replace(usize, usize),
    Mint(usize),
    Release(usize),
    Abandon(usize),
    Revoke(usize),
    Time(u64),
    Down(bool),
    Store(bool),
    Tick,
}

fn event() -> impl Strategy<Value = Event> {
    let service = 0..SERVICES.len();
    prop_oneof![
        3 => (service.clone(), 0..4usize).prop_map(|(service, sign_in)| Event::Submit(service, sign_in)),
        2 => (service.clone(), 0..4usize).prop_map(|(service, sign_in)| Event::Replace(service, sign_in)),
        6 => service.clone().prop_map(Event::Mint),
        2 => service.clone().prop_map(Event::Release),
        1 => service.clone().prop_map(Event::Abandon),
        1 => service.prop_map(Event::Revoke),
        4 => (1..400u64).prop_map(Event::Time),
        1 => any::<bool>().prop_map(Event::Down),
        1 => any::<bool>().prop_map(Event::Store),
        1 => Just(Event::Tick),
    ]
}

/// What a caller remembers: which service has which grants.
type Held = BTreeMap<usize, Vec<String>>;

async fn happen(world: &World, tokens: &Tokens, given: &[Secret], held: &mut Held, event: &Event) -> String {
    let (owner, namespace) = (alice(), "oscar-svc-alice");
    let name = |number: usize| service(SERVICES[number]);
    let mut told = String::new();
    match event {
        Event::Submit(number, sign_in) => {
            match tokens.submit(&owner, namespace, &name(*number), &given[*sign_in], None, true).await {
                Ok(submitted) => held.entry(*number).or_default().push(submitted.id),
                Err(failure) => told = format!("{failure:?} {failure}"),
            }
        }
        Event::Replace(number, sign_in) => {
            match tokens.replace(&owner, namespace, &name(*number), &given[*sign_in], None).await {
                Ok(submitted) => drop(held.insert(*number, vec![submitted.id])),
                Err(failure) => told = format!("{failure:?} {failure}"),
            }
        }
        Event::Mint(number) => {
            for id in held.get(number).into_iter().flatten() {
                told = format!("{:?}", tokens.mint(id).await);
            }
        }
        Event::Release(number) | Event::Abandon(number) => {
            for id in held.get(number).cloned().into_iter().flatten() {
                let done = match event {
                    Event::Release(_) => tokens.release(&id, &name(*number), "").await,
                    _ => tokens.abandon(&id, &name(*number)).await,
                };
                told = format!("{done:?}");
            }
            held.remove(number);
        }
        Event::Revoke(number) => told = format!("{:?}", tokens.revoke(&name(*number), "").await),
        Event::Time(seconds) => world.clock.advance(*seconds),
        Event::Down(down) => world.issuers.set_down(*down),
        Event::Store(works) => world.vault.behave(if *works { Conduct::Stores } else { Conduct::Fails }),
        Event::Tick => told = format!("{:?}", tokens.tick_abandoned().await),
    }
    told
}

/// What was ended is used up; nobody gives it to a service again.
async fn sign_in_again(
    world: &World,
    tokens: &Tokens,
    given: &mut [Secret],
    known: &mut BTreeMap<String, usize>,
    event: &Event,
) {
    if let Event::Submit(_, sign_in) | Event::Replace(_, sign_in) = event {
        for name in SERVICES {
            for status in tokens.by_holder(&service(name)).await.expect("an answer") {
                known.entry(status.id).or_insert(*sign_in);
            }
        }
    }
    for (id, sign_in) in known.clone() {
        if tokens.status(&id).await.is_err() {
            given[sign_in] = world.issuers.sign_in("alice");
            known.remove(&id);
        }
    }
}

proptest! {
    /// As long as the manager lives it never uses a token twice, whatever its callers, its store
    /// and the issuer do. What ends a token is an owner who revokes it, or the last service.
    #[test]
    fn no_token_is_used_twice_and_none_is_told(events in proptest::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let world = World::new();
            let tokens = world.tokens();
            let mut given: Vec<Secret> = (0..4).map(|_| world.issuers.sign_in("alice")).collect();
            let (mut held, mut known) = (Held::new(), BTreeMap::new());
            for event in &events {
                let told = happen(&world, &tokens, &given, &mut held, event).await;
                prop_assert!(!told.contains("-token-"), "{event:?}: {told}");
                prop_assert!(!told.contains("used before"), "{event:?}: {told}");
                sign_in_again(&world, &tokens, &mut given, &mut known, event).await;
            }
            for act in world.acts().await {
                prop_assert!(!act.contains("used before"), "{act}");
            }
            // What is left can be used, when everybody works again.
            world.vault.behave(Conduct::Stores);
            world.issuers.set_down(false);
            world.clock.advance(3600);
            for (number, name) in SERVICES.iter().enumerate() {
                for status in tokens.by_holder(&service(name)).await.expect("an answer") {
                    let minted = tokens.mint(&status.id).await;
                    let ended = matches!(&status.state, GrantState::SignInAgain(why) if !why.contains("used before"));
                    prop_assert!(minted.is_ok() || ended, "{number}: {status:?}: {minted:?}");
                }
            }
            Ok(())
        })?;
    }
}
