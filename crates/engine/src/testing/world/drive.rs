//! A story from its first line to its last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};
use tokio::sync::oneshot;

use crate::ports::services::Services as _;
use crate::testing::make::mk_owner;

use super::acts::{describe, foresee, perform, plain};
use super::check;
use super::deeds::{Deed, OWNER, STRANGER, Wish, draw, name};
use super::executor::Stuck;
use super::ground::Ground;
use super::ledger::{Entry, Meaning, Outcome, judge};
use super::story::{Figures, Violation};

/// How a story ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    pub figures: Figures,
    pub violations: Vec<Violation>,
}

/// No story takes longer, unless it turns in circles.
const MOST_STEPS: usize = 400_000;
/// Everybody looks after everything so often before it must be quiet.
const MOST_ROUNDS: usize = 40;
/// So long nothing must be written before it counts as quiet.
const QUIET_ROUNDS: usize = 2;

/// Tells the story of a seed, and what is wrong with its end.
pub fn simulate(seed: u64) -> Report {
    play(seed, false).0
}

/// The same as text: numbered lines with time, who, what; then the promises that were not kept.
pub fn tell(seed: u64) -> String {
    let (report, mut text) = play(seed, true);
    for Violation { promise, found } in &report.violations {
        text.push_str(&format!("\nNOT KEPT  {promise}\n          {found}\n"));
    }
    text.push_str(&format!(
        "\nseed {seed}: {}\nagain: OSCAR_SEED={seed} cargo test -p oscar-engine --test simulation -- --nocapture\n",
        report.figures
    ));
    text
}

fn play(seed: u64, told: bool) -> (Report, String) {
    let ground = Ground::new(seed, told);
    let main = run(ground.clone());
    let ended = catch_unwind(AssertUnwindSafe(|| ground.sim.run(main, MOST_STEPS)));
    let mut violations = std::mem::take(&mut ground.ledger().violations);
    match ended {
        Ok(Ok(found)) => violations.extend(found),
        Ok(Err(Stuck::Deadlock)) => violations.push(Violation::new("it goes on", "everybody waits for somebody")),
        Ok(Err(Stuck::Endless)) => violations.push(Violation::new("it ends", "something turns in circles")),
        Err(_) => violations.push(Violation::new("no panic", "the engine panicked")),
    }
    let text = ground.story.read();
    let report = Report { seed, figures: ground.figures(), violations };
    ground.close();
    (report, text)
}

async fn run(ground: Arc<Ground>) -> Vec<Violation> {
    plant(&ground).await;
    for site in 0..ground.sites.len() {
        ground.start(site);
    }
    for _ in 0..ground.scenario.deeds {
        weather(&ground);
        if let Some(wish) = draw(&ground).await {
            match second_thoughts(&wish).filter(|_| ground.dice(800)) {
                Some(second) => {
                    begin(&ground, wish, Patience::None).await;
                    let pause = ground.between(1, 150);
                    ground.sim.sleep(pause).await;
                    begin(&ground, second, Patience::Some).await;
                }
                None => begin(&ground, wish, Patience::Some).await,
            }
        }
        let pause = ground.between(0, ground.scenario.pause);
        ground.sim.sleep(pause).await;
    }
    ground.sim.sleep((4 * ground.scenario.interval).clamp(2_000, 20_000)).await;
    settle(&ground).await
}

/// Services that were there before anybody federated.
async fn plant(ground: &Arc<Ground>) {
    for site in 0..ground.sites.len() {
        for text in ["r0", "r1", "f0"] {
            let dice = ground.between(0, 9);
            let user = match dice {
                0..2 => OWNER,
                2 => STRANGER,
                _ => continue,
            };
            let entry = Entry {
                spot: (site, name(text)),
                begun: 0,
                ended: Some(0),
                outcome: Outcome::Done,
                authors: true,
                marks: None,
                removes: false,
                founds: false,
                federation: None,
                detaches: false,
                own: None,
                meaning: Meaning::default(),
            };
            let number = ground.ledger().begin(entry);
            let mut definition = plain(&name(text), number);
            let sensitive = Sensitive::take_from(&mut definition);
            let service = mk_planted(definition, mk_owner(user));
            ground.tell(|| format!("c{site} has a service {text} of {user}"));
            ground.ledger().created(site, &service);
            // The stores are empty: nothing stands in its way.
            let _ = ground.sites[site].services.create(service, sensitive).await;
        }
    }
}

fn mk_planted(definition: oscar_model::service::Definition, owner: Owner) -> Service {
    Service {
        definition,
        owner_name: owner.to_string(),
        owner,
        token: Secret::new("cd".repeat(32)),
        namespace: "planted".to_owned(),
        bucket_list: Vec::new(),
    }
}

/// Cuts, heals, and now and then a crash that no step of a manager brought about.
fn weather(ground: &Arc<Ground>) {
    let sites = ground.sites.len();
    let rates = ground.rates();
    if ground.dice(rates.cut) {
        let (a, b) = ground.sim.with_random(|random| (random.below(sites), random.below(sites)));
        if a != b {
            ground.set_cut(a, b, true);
        }
    }
    for a in 0..sites {
        for b in a + 1..sites {
            if ground.is_cut(a, b) && ground.dice(2_500) {
                ground.set_cut(a, b, false);
            }
        }
    }
    if rates.crash > 0 && ground.dice(500) {
        let site = ground.sim.with_random(|random| random.below(sites));
        ground.crash(site);
    }
}

/// Whoever has just changed a service may want it away before the change has reached everybody.
fn second_thoughts(wish: &Wish) -> Option<Wish> {
    match &wish.deed {
        Deed::Put { name, .. } | Deed::Edit { name, .. } | Deed::Found { name, .. } => {
            let deed = Deed::Remove { name: name.clone(), detach: false };
            Some(Wish { site: wish.site, user: wish.user, deed })
        }
        Deed::Create(_) | Deed::Remove { .. } | Deed::Drift(_) => None,
    }
}

/// Whether the next deed may wait for the end of this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Some,
}

/// Begins a deed; often, but not always, the next one waits for its end.
async fn begin(ground: &Arc<Ground>, wish: Wish, patience: Patience) {
    let Some((manager, life)) = ground.at_work(wish.site) else { return };
    let entry = foresee(ground, &wish).await;
    let drifts = matches!(wish.deed, Deed::Drift(_));
    let number = ground.ledger().begin(entry);
    ground.tell(|| format!("#{number} {}", describe(&wish)));
    ground.count(|figures| figures.deeds += 1);
    let (sender, receiver) = oneshot::channel::<()>();
    let there = ground.clone();
    let task = ground.sim.spawn(Some(life), async move {
        let done = Box::pin(perform(&there, &manager, number, &wish)).await;
        let outcome = done.as_ref().map_or_else(judge, |()| Outcome::Done);
        there.tell(|| match &done {
            Ok(()) => format!("#{number} is done"),
            Err(failure) => format!("#{number} fails: {failure}"),
        });
        if outcome == Outcome::Done && !drifts {
            there.count(|figures| figures.acknowledged += 1);
        }
        there.ledger().end(number, there.sim.millis(), outcome);
        // The next deed may not wait for this one.
        let _ = sender.send(());
    });
    if patience == Patience::None {
        return;
    }
    if ground.dice(6_500) {
        tokio::select! {
            biased;
            _ = receiver => {}
            () = ground.sim.sleep(60_000) => {}
        }
    } else if ground.dice(ground.rates().hang_up / 10) {
        let pause = ground.between(1, 200);
        ground.sim.sleep(pause).await;
        ground.tell(|| format!("#{number} is not waited for any more"));
        ground.count(|figures| figures.hang_ups += 1);
        ground.sim.hang_up(task);
    }
}

/// Everything heals, everybody is at work, and goes on until nobody has anything left to do.
async fn settle(ground: &Arc<Ground>) -> Vec<Violation> {
    ground.calm();
    ground.tell(|| "everything heals".to_owned());
    if ground.scenario.restart {
        for site in 0..ground.sites.len() {
            ground.crash(site);
        }
    } else {
        ground.sim.sleep(120_000).await;
    }
    for site in 0..ground.sites.len() {
        ground.start(site);
    }
    ground.let_strays_arrive().await;
    let mut quiet = 0;
    for round in 0..MOST_ROUNDS {
        let before = ground.writes();
        ground.tell(|| format!("round {round}"));
        for site in 0..ground.sites.len() {
            tick(ground, site).await;
        }
        ground.sim.sleep(5_000).await;
        quiet = if ground.writes() == before { quiet + 1 } else { 0 };
        if quiet > QUIET_ROUNDS {
            return check::everything(ground).await;
        }
    }
    let found = format!("something is still written after {MOST_ROUNDS} rounds");
    vec![Violation::new("I10: it is recovered, and an idle federation makes no write", found)]
}

async fn tick(ground: &Arc<Ground>, site: usize) {
    let Some((manager, life)) = ground.at_work(site) else { return };
    let (sender, receiver) = oneshot::channel::<()>();
    let there = ground.clone();
    ground.sim.spawn(Some(life), async move {
        if let Err(failure) = manager.tick_federations().await {
            there.tell(|| format!("c{site} cannot look after its federations: {failure}"));
        }
        let _ = sender.send(());
    });
    let _ = receiver.await;
}
