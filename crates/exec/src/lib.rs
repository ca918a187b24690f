//! Running a user's script on this machine, apart from everything else on it.
//!
//! There is one interface, [`Executor`], and three ways behind it: `bubblewrap`, `container`
//! (podman or docker) and `process`. [`probe`] tries each for real and says which one works.
//! Who runs a script holds credentials; nothing of them may reach the script: not by files, not
//! by the environment, not by inherited descriptors. The crate must never put something that
//! a user wrote into a command line, a shell or an environment outside of the sandbox.

mod bubblewrap;
mod cgroup;
mod container;
mod drive;
mod engine;
mod executor;
mod gate;
mod leftover;
mod limits;
mod ownership;
mod probe;
mod process;
mod run;
mod seccomp;
mod tree;
mod visible;
mod watch;

pub use executor::{Executor, Input, Output};
pub use probe::{Finding, Findings, Settings, choose, probe};
pub use run::{Description, Ended, ExecError, Kind, Limits, Network, Paths, Run, UnknownKind};
