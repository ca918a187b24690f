//! What a story stands on: clusters whose stores last, managers that do not, and the dice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oscar_model::service::Cluster as KnownCluster;

use crate::federate::Own;
use crate::memory::{MemoryAudit, MemoryCluster, MemoryJournal, MemoryServices, MemorySettings, MemoryUsers};
use crate::{FederationPorts, Manager, OwnPeer, Policy, Ports};

use super::executor::{Life, Millis, Sim, give_way};
use super::ledger::Ledger;
use super::mint::SimMint;
use super::network::SimPeers;
use super::scenario::{Rates, Scenario};
use super::stores::{SimJournal, SimServices};
use super::story::{Figures, Story};

/// One cluster. What it stores outlives its manager.
pub(super) struct Site {
    pub(super) endpoint: String,
    pub(super) services: Arc<MemoryServices>,
    pub(super) journal: Arc<MemoryJournal>,
    users: Arc<MemoryUsers>,
    pub(super) mint: Arc<SimMint>,
    /// How often its stores were written.
    pub(super) writes: AtomicU64,
    run: Mutex<Run>,
}

#[derive(Default)]
struct Run {
    number: u32,
    manager: Option<Arc<Manager>>,
}

impl Site {
    fn new(index: usize, sim: &Arc<Sim>) -> Self {
        Self {
            endpoint: endpoint(index),
            services: Arc::default(),
            journal: Arc::default(),
            users: Arc::new(MemoryUsers::new("oscar-svc")),
            mint: Arc::new(SimMint::new(sim.clone())),
            writes: AtomicU64::new(0),
            run: Mutex::default(),
        }
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn manager(&self) -> Option<Arc<Manager>> {
        self.run().manager.clone()
    }
}

/// How often a manager looks after its federations before it slows down.
const RESTLESS: usize = 40;

pub(super) fn endpoint(index: usize) -> String {
    format!("https://c{index}.example")
}

/// Everything that the parts of one story share.
pub(super) struct Ground {
    pub(super) sim: Arc<Sim>,
    pub(super) story: Story,
    pub(super) scenario: Scenario,
    pub(super) sites: Vec<Site>,
    rates: Mutex<Rates>,
    figures: Mutex<Figures>,
    /// Pairs that cannot hear each other, the lesser first.
    cuts: Mutex<BTreeSet<(usize, usize)>>,
    ledger: Mutex<Ledger>,
    /// When the last request that went astray arrives.
    last_stray: AtomicU64,
}

impl Ground {
    pub(super) fn new(seed: u64, told: bool) -> Arc<Self> {
        let sim = Sim::new(seed);
        let scenario = sim.with_random(Scenario::draw);
        let sites = (0..scenario.sites).map(|index| Site::new(index, &sim)).collect();
        let rates = Mutex::new(scenario.rates);
        let (figures, cuts, ledger) = Default::default();
        let (story, last_stray) = (Story::new(told), AtomicU64::new(0));
        Arc::new(Self { sim, story, scenario, sites, rates, figures, cuts, ledger, last_stray })
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rates(&self) -> Rates {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing goes wrong any more.
    pub(super) fn calm(&self) {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = Rates::calm();
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn tell(&self, line: impl FnOnce() -> String) {
        self.story.tell(self.sim.millis(), line);
    }

    pub(super) fn dice(&self, of_ten_thousand: u32) -> bool {
        of_ten_thousand > 0 && self.sim.with_random(|random| random.chance(of_ten_thousand))
    }

    pub(super) fn between(&self, least: Millis, most: Millis) -> Millis {
        self.sim.with_random(|random| random.between(least, most))
    }

    pub(super) fn find(&self, endpoint: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.endpoint == endpoint.trim_end_matches('/'))
    }

    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn set_cut(&self, a: usize, b: usize, cut: bool) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = if cut { cuts.insert((a.min(b), a.max(b))) } else { cuts.remove(&(a.min(b), a.max(b))) };
        drop(cuts);
        if changed {
            self.tell(|| {
                format!("c{a} and c{b} {}", if cut { "are cut off from each other" } else { "hear each other again" })
            });
            if cut {
                self.count(|figures| figures.cuts += 1);
            }
        }
    }

    pub(super) fn expect_stray(&self, delay: Millis) {
        self.last_stray.fetch_max(self.sim.millis() + delay, Ordering::Relaxed);
    }

    /// Waits until nothing is under way that nobody waits for.
    pub(super) async fn let_strays_arrive(&self) {
        let left = self.last_stray.load(Ordering::Relaxed).saturating_sub(self.sim.millis());
        if left > 0 {
            self.sim.sleep(left + 1_000).await;
        }
    }

    pub(super) fn writes(&self) -> u64 {
        self.sites.iter().map(|site| site.writes.load(Ordering::Relaxed)).sum()
    }

    /// A manager at work there, and its life.
    pub(super) fn at_work(&self, site: usize) -> Option<(Arc<Manager>, Life)> {
        let run = self.sites[site].run();
        let life = Life { site, number: run.number };
        run.manager.clone().map(|manager| (manager, life))
    }

    /// A manager starts, with nothing but what the stores of its cluster hold.
    pub(super) fn start(self: &Arc<Self>, index: usize) {
        let site = &self.sites[index];
        let life = {
            let mut run = site.run();
            if run.manager.is_some() {
                return;
            }
            run.number += 1;
            Life { site: index, number: run.number }
        };
        let own_peer = Arc::new(OwnPeer::default());
        let services = Arc::new(SimServices { ground: self.clone(), life });
        let own = Own {
            public_url: site.endpoint.clone(),
            urls: vec![site.endpoint.clone()],
            instance_id: format!("instance-{index}"),
            cluster_id: format!("c{index}"),
            grace: 0,
            patience: None,
        };
        let federation = FederationPorts {
            journal: Arc::new(SimJournal { ground: self.clone(), life }),
            peers: Arc::new(SimPeers { ground: self.clone(), life, own: own_peer.clone() }),
            mint: site.mint.clone(),
            audit: Arc::<MemoryAudit>::default(),
            own,
        };
        let ports = Ports {
            services,
            users: site.users.clone(),
            settings: Arc::<MemorySettings>::default(),
            cluster: Arc::<MemoryCluster>::default(),
            clock: self.sim.clone(),
            entropy: self.sim.clone(),
            federation,
            jobs: None,
        };
        let registry = if self.scenario.registry { self.scenario.clusters().collect() } else { BTreeMap::default() };
        let manager = Arc::new(Manager::new(ports, Policy { registry, ..Policy::default() }));
        own_peer.bind(Arc::downgrade(&manager));
        site.run().manager = Some(manager.clone());
        self.tell(|| format!("c{index} starts"));
        self.keep_ticking(life, manager);
    }

    /// What `serve` does beside answering requests.
    fn keep_ticking(self: &Arc<Self>, life: Life, manager: Arc<Manager>) {
        let ground = self.clone();
        let interval = self.scenario.interval;
        self.sim.spawn(Some(life), async move {
            for looks in 0_usize.. {
                // Restless managers calm down: there is little to see in looking ever again.
                let interval = if looks < RESTLESS { interval } else { interval.max(30_000) };
                let pause = ground.between(interval / 2, interval);
                tokio::select! {
                    biased;
                    () = manager.federator().nudged() => {}
                    () = ground.sim.sleep(pause) => {}
                }
                ground.tell(|| format!("c{} looks after its federations", life.site));
                if let Err(failure) = manager.tick_federations().await {
                    ground.tell(|| format!("c{} cannot look after its federations: {failure}", life.site));
                }
                if ground.rates().is_calm() {
                    return;
                }
            }
        });
    }

    /// The manager is gone with everything that it was doing.
    pub(super) fn crash(self: &Arc<Self>, index: usize) {
        let life = {
            let mut run = self.sites[index].run();
            if run.manager.take().is_none() {
                return;
            }
            Life { site: index, number: run.number }
        };
        self.sim.end(life);
        if !self.rates().is_calm() {
            self.count(|figures| figures.crashes += 1);
        }
        self.tell(|| format!("c{index} crashes"));
        let (ground, down) = (self.clone(), self.between(200, 40_000));
        self.sim.spawn(None, async move {
            ground.sim.sleep(down).await;
            ground.start(index);
        });
    }

    /// Between any two steps of a manager others may get a turn, or it may be the last step.
    pub(super) async fn step(self: &Arc<Self>, life: Life) {
        let rates = self.rates();
        if self.dice(rates.crash) {
            self.crash(life.site);
            return std::future::pending().await;
        }
        if self.dice(rates.wait) {
            give_way().await;
        } else if self.dice(rates.slow) {
            let pause = self.between(1, 300);
            self.sim.sleep(pause).await;
        }
    }

    /// Breaks the circles of references: the story is over.
    pub(super) fn close(&self) {
        for site in &self.sites {
            site.run().manager = None;
        }
        self.sim.clear();
    }
}

pub(super) fn known_cluster(index: usize) -> KnownCluster {
    KnownCluster {
        endpoint: endpoint(index),
        auth_user: String::new(),
        auth_password: oscar_model::secret::Secret::default(),
        ssl_verify: true,
    }
}
