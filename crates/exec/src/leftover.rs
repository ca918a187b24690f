//! Names by which what outlives its maker is told from what is still somebody's.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The form of a name: this, the number of its maker, when that was started, in which numbering
/// of processes, and a number of its own.
const RUN: &str = "oscar-run";

/// A name for something that this process makes.
pub(crate) fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let pid = std::process::id();
    let (started, numbering) = (start_of(pid).unwrap_or_default(), numbering().unwrap_or_default());
    format!("{RUN}-{pid}-{started}-{numbering}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the maker of the name is gone. Another process may have got its number since; of makers
/// that are numbered elsewhere, as in another container, nothing is known.
pub(crate) fn is_left(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(RUN).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let numbers: Vec<u64> = rest.split('-').map_while(|number| number.parse().ok()).collect();
    let &[pid, started, of, _] = &numbers[..] else { return false };
    let Ok(pid) = u32::try_from(pid) else { return false };
    numbering() == Some(of) && start_of(pid).map_or_else(|| !is_hidden(pid), |now| now != started)
}

/// Whether a process is there that is not shown to us: a machine can hide those of other users.
fn is_hidden(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
}

/// In the clock of the kernel.
fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program comes before, in brackets, and may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // One that has ended and was not waited for makes nothing any more.
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// Which numbering of processes this one is part of. Nothing is known where `/proc` shows another:
/// then the numbers in it mean other processes.
fn numbering() -> Option<u64> {
    let own = fs::read_link("/proc/self").ok()?;
    if own != Path::new(&std::process::id().to_string()) {
        return None;
    }
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.trim_start_matches("pid:[").trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_maker_left_is_told_from_what_it_has() {
        let name = new_name();
        assert!(!is_left(&name), "{name}");
        assert_ne!(new_name(), name);
        let numbers: Vec<u64> =
            name[RUN.len() + 1..].split('-').map(|number| number.parse().expect("a number")).collect();
        let [pid, started, of, last] = numbers[..] else { panic!("{name}") };
        assert!(is_left(&format!("{RUN}-{pid}-{}-{of}-{last}", started + 1)), "the number was given again");
        assert!(!is_left(&format!("{RUN}-{pid}-{}-{}-{last}", started + 1, of + 1)), "numbered elsewhere");
        for other in ["web", "oscar-run", "oscar-run-1", "oscar-run-x-1-1-1", "oscar-run-1-2-3"] {
            assert!(!is_left(other), "{other}");
        }
    }
}
