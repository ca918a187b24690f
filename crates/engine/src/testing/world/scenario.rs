//! What kind of story a seed tells: how many clusters, how bad the network, how restless the users.

use oscar_model::service::Cluster;

use super::executor::Millis;
use super::ground::known_cluster;
use super::random::Random;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) sites: usize,
    /// Whether operators know all clusters; otherwise definitions name them.
    pub(super) registry: bool,
    pub(super) rates: Rates,
    /// How often a manager looks after its federations by itself.
    pub(super) interval: Millis,
    pub(super) deeds: usize,
    /// The longest time between two deeds.
    pub(super) pause: Millis,
    /// Whether everybody is restarted at the end; otherwise what runs is let run.
    pub(super) restart: bool,
}

/// How often something goes wrong, out of ten thousand times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rates {
    /// At each step of a manager.
    pub(super) crash: u32,
    /// At each step: others get a turn.
    pub(super) wait: u32,
    pub(super) slow: u32,
    /// At each call between managers.
    pub(super) late: u32,
    pub(super) lose: u32,
    pub(super) repeat: u32,
    /// When nobody waits for an answer any more.
    pub(super) hang_up: u32,
    /// Of what was lost or arrived: so often it arrives (again) when its sender has given up.
    pub(super) stray: u32,
    /// At each deed.
    pub(super) cut: u32,
}

impl Rates {
    pub(super) fn calm() -> Self {
        Self { crash: 0, wait: 1_000, slow: 0, late: 0, lose: 0, repeat: 0, hang_up: 0, stray: 0, cut: 0 }
    }

    pub(super) fn is_calm(&self) -> bool {
        *self == Self::calm()
    }
}

impl Scenario {
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut often = |rates: &[u32]| *random.pick(rates).unwrap_or(&0);
        let rates = Rates {
            crash: often(&[0, 0, 5, 20, 60]),
            wait: often(&[500, 2_000, 5_000]),
            slow: often(&[0, 100, 500]),
            late: often(&[0, 0, 200, 1_000]),
            lose: often(&[0, 0, 100, 500, 1_500]),
            repeat: often(&[0, 0, 200, 1_000]),
            hang_up: often(&[0, 3_000, 10_000]),
            stray: often(&[0, 0, 300, 1_500]),
            cut: often(&[0, 0, 1_000, 3_000]),
        };
        let paces = [(200, 200), (5_000, 2_000), (30_000, 15_000), (120_000, 2_000), (120_000, 50)];
        let (interval, pause) = *random.pick(&paces).unwrap_or(&(30_000, 2_000));
        Self {
            sites: 2 + random.below(5),
            registry: random.chance(5_000),
            rates,
            interval,
            deeds: 3 + random.below(12),
            pause,
            restart: random.chance(6_000),
        }
    }

    /// Every cluster under each of its names; two of them name one manager.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (String, Cluster)> {
        (0..self.sites).flat_map(|index| {
            [(format!("c{index}"), known_cluster(index)), (format!("x{index}"), known_cluster(index))]
        })
    }

    /// Which cluster an id names.
    pub(super) fn site_of(&self, cluster_id: &str) -> Option<usize> {
        let index = cluster_id.get(1..)?.parse().ok()?;
        (index < self.sites).then_some(index)
    }
}
