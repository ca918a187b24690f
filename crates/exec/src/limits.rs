//! Bounds on a process that waits at the gate, where control groups do not bound it.

use std::io;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::cgroup::Places;
use crate::run::Limits;

/// Room that every program needs before it does anything, on top of what was asked for.
const BACKSTOP_ROOM: u64 = 64 * 1024 * 1024;

/// Files that a sandbox makes for itself, like a copy of the script, must fit.
const LEAST_FILE: u64 = 1024 * 1024;

pub(crate) fn bound(pid: u32, limits: &Limits, places: &Places) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let set =
        |resource, most: u64| prlimit(pid, resource, Rlimit { current: Some(most), maximum: Some(most) }).map(|_| ());
    // A dump of memory is a file that nobody asked for, as large as the memory.
    set(Resource::Core, 0)?;
    if let Some(bytes) = limits.disk_bytes {
        set(Resource::Fsize, bytes.max(LEAST_FILE))?;
    }
    if let Some(bytes) = limits.memory_bytes.filter(|_| !places.bounds_memory()) {
        // The sum is watched (see `watch`); this stops a single process that outruns the watch.
        set(Resource::Data, bytes.saturating_mul(2).saturating_add(BACKSTOP_ROOM))?;
    }
    Ok(())
}

/// The number for the shell inside, when no control group bounds the number of processes.
/// `others` is how many processes of the same user count as well.
pub(crate) fn processes_for_shell(limits: &Limits, places: &Places, others: u64) -> Option<u64> {
    limits.processes.filter(|_| !places.bounds_processes()).map(|most| most.saturating_add(others))
}
