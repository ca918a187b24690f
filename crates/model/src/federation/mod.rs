//! The federation block of a definition: what it says, and whether it can be meant.

pub mod address;
pub mod check;
pub mod edit;
pub mod expand;
pub mod membership;
pub mod plan;
pub mod record;
pub mod sync;
pub mod topology;

use std::collections::BTreeMap;

use crate::name::ServiceName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Federation {
    /// A label for people; the service's name when it was not given.
    pub group_id: String,
    pub topology: Topology,
    pub delegation: Delegation,
    /// Seconds a job waits before it is placed again; zero when not given.
    pub rescheduler_threshold: u32,
    pub members: Vec<Member>,
    pub local: LocalShare,
    pub on_unknown: OnUnknown,
    /// Foreign managers refuse a mesh worker without the refresh token: sending it is a choice.
    pub share_refresh_token: bool,
    /// Foreign managers keep no secrets apart: sending them their values is a choice.
    pub share_secrets: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Topology {
    #[default]
    None,
    Star,
    Tree,
    Mesh,
}

/// How the next cluster for a job is chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delegation {
    pub mode: Option<DelegationMode>,
    /// By cluster id for `random`, by criterion for `topsis`; in thousandths, so that they
    /// compare and print exactly.
    pub weights: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationMode {
    Static,
    Random,
    LoadBased,
    Topsis,
}

/// Whether this cluster takes part in the choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LocalShare {
    #[default]
    First,
    Equal,
    Never,
}

/// What to do with a job whose fate at a foreign manager is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnknown {
    #[default]
    Wait,
    RunAgain,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub target: Target,
    /// Zero is taken first.
    pub priority: u32,
    pub ssl_verify: bool,
    /// Extra headers of every call to it.
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A service in another OSCAR cluster.
    Oscar {
        cluster_id: String,
        service_name: ServiceName,
        /// In a tree: `<cluster id>` or `<cluster id>/<service>`; the coordinator when absent.
        parent: Option<String>,
    },
    /// Any HTTP endpoint that takes an event.
    Endpoint { url: String },
}

macro_rules! words {
    ($type:ty, $rule:literal, { $($variant:ident => $word:literal),+ }) => {
        impl $type {
            /// The words that are allowed, for an error message.
            pub const RULE: &str = $rule;

            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

words!(Topology, "none, star, tree or mesh", { None => "none", Star => "star", Tree => "tree", Mesh => "mesh" });
words!(DelegationMode, "static, random, load-based or topsis", {
    Static => "static", Random => "random", LoadBased => "load-based", Topsis => "topsis"
});
words!(LocalShare, "first, equal or never", { First => "first", Equal => "equal", Never => "never" });
words!(OnUnknown, "wait or run-again", { Wait => "wait", RunAgain => "run-again" });

impl Federation {
    /// What a service without the block has.
    pub fn blank(service: &str) -> Self {
        Self {
            group_id: service.to_owned(),
            topology: Topology::None,
            delegation: Delegation::default(),
            rescheduler_threshold: 0,
            members: Vec::new(),
            local: LocalShare::First,
            on_unknown: OnUnknown::Wait,
            share_refresh_token: false,
            share_secrets: false,
        }
    }

    /// Whether creating its service deploys to other clusters.
    pub fn deploys(&self) -> bool {
        self.topology != Topology::None
            && self.members.iter().any(|member| matches!(member.target, Target::Oscar { .. }))
    }
}
