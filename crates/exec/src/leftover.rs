//! Names by which what outlives its maker is told from what is still somebody's.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

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
    numbering() == Some(of) && start_of(pid) != Some(started)
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

/// Which numbering of processes this one is part of.
fn numbering() -> Option<u64> {
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
