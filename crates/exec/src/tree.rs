//! Processes of a run, found and ended.
//!
//! A process can leave its group, its session and its parent. It cannot leave a control group
//! or a pid namespace; where there is neither, the mark in its environment finds it, unless it
//! cleared that as well.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::leftover;

/// The name of the variable whose value marks the processes of one run: a name of [`leftover`].
pub(crate) const MARK: &str = "OSCAR_RUN_MARK";

/// How often a tree is looked at before it is given up. Each look kills what it finds, so only
/// something that cannot be killed is left after so many.
const LOOKS: u32 = 500;

/// Kills until nothing is found any more; how many were found.
///
/// # Errors
///
/// What was still there at the last look.
pub(crate) fn end(find: &dyn Fn() -> Vec<i32>) -> Result<usize, Vec<i32>> {
    let mut ended = HashSet::new();
    for _ in 0..LOOKS {
        let found = find();
        if found.is_empty() {
            return Ok(ended.len());
        }
        ended.extend(found.iter().copied());
        for pid in found {
            signal(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let left = find();
    if left.is_empty() { Ok(ended.len()) } else { Err(left) }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    // Zero, one and negative numbers mean something else than one process of ours.
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        let _ = kill_process(pid, signal);
    }
}

/// All descendants of a process, without itself. Zombies are left out: they have ended.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in alive() {
        children.entry(parent).or_default().push(pid);
    }
    let (mut found, mut waiting) = (Vec::new(), vec![root]);
    while let Some(parent) = waiting.pop() {
        let of_it = children.remove(&parent).unwrap_or_default();
        found.extend(&of_it);
        waiting.extend(of_it);
    }
    found
}

/// Every process whose environment has the mark.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    with_mark(|found| found == mark.as_bytes())
}

/// Every process of a run whose maker is gone. A manager that a script started may itself be one;
/// it does not end itself.
pub(crate) fn left() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mut found = with_mark(|mark| std::str::from_utf8(mark).is_ok_and(leftover::is_left));
    found.retain(|pid| *pid != own);
    found
}

fn with_mark(is_wanted: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let mark_in = |variable: &[u8]| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=").map(&is_wanted);
    let has_it = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|variable| mark_in(variable) == Some(true)))
    };
    alive().into_iter().map(|(pid, _)| pid).filter(has_it).collect()
}

/// Whether a process is the first of a pid namespace below ours.
pub(crate) fn is_first_of_a_namespace(pid: i32) -> bool {
    numbers_in_namespaces(pid).is_some_and(|numbers| numbers.len() > 1 && numbers.last() == Some(&1))
}

/// The memory that processes have for themselves, in bytes.
pub(crate) fn memory_of(pids: &[i32]) -> u64 {
    pids.iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .filter_map(|status| {
            let kilobytes = field(&status, "RssAnon:")?.trim_end_matches("kB").trim().parse::<u64>().ok()?;
            Some(kilobytes * 1024)
        })
        .sum()
}

/// How many processes the real user of this process has, on the whole machine.
pub(crate) fn count_of_user(uid: u32) -> u64 {
    let of_user = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .ok()
            .and_then(|status| field(&status, "Uid:")?.split_whitespace().next()?.parse::<u32>().ok())
            == Some(uid)
    };
    alive().into_iter().map(|(pid, _)| pid).filter(of_user).count() as u64
}

/// Adds two lists of processes.
pub(crate) fn union(first: Vec<i32>, second: Vec<i32>) -> Vec<i32> {
    let all: HashSet<i32> = first.into_iter().chain(second).collect();
    all.into_iter().collect()
}

fn numbers_in_namespaces(pid: i32) -> Option<Vec<i32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(field(&status, "NSpid:")?.split_whitespace().filter_map(|number| number.parse().ok()).collect())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Every process with its parent, but for zombies.
fn alive() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// The fourth field; the second is a name in parentheses that can hold anything.
fn parent_of(stat: &str) -> Option<i32> {
    let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = rest.next()?;
    (state != "Z" && state != "X").then(|| rest.next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pretend_to_be_another_field() {
        assert_eq!(parent_of("12 (a) S 1 (b)) S 7 12 12"), Some(7));
        assert_eq!(parent_of("12 (a) Z 7 12 12"), None);
        assert_eq!(parent_of("nonsense"), None);
    }

    #[test]
    fn this_process_is_found_below_its_parent() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        let parent = alive().into_iter().find(|(pid, _)| *pid == own).expect("we are alive").1;
        assert!(descendants(parent).contains(&own));
    }
}
