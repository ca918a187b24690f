//! Control groups, where this process may make some: memory, number of processes and share of
//! the cores of a whole tree of processes. Both generations are known: one hierarchy for
//! everything (2), and one per controller (1).
//!
//! A group is made below the group of this process, so that whatever bounds us bounds the job
//! too; in the second generation also beside it, because there a group that has processes
//! cannot have bounded children.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run::Limits;
use crate::{gate, leftover, tree};

/// How the names of groups begin that are only tried. Those of runs are names of [`leftover`].
const PROBE: &str = "oscar-probe";

/// The length of one round of the scheduler, in microseconds.
const PERIOD: u64 = 100_000;

/// Where groups can be made on this machine. Each is a folder that was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Places {
    generation: Generation,
    memory: Option<PathBuf>,
    processes: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Generation {
    #[default]
    One,
    Two,
}

impl Places {
    /// Looks where groups can be made. None at all is an answer too.
    pub(crate) fn find() -> Places {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let two = Places::find_two(&mounts, &own);
        let places = if two.memory.is_some() { two } else { Places::find_one(&mounts, &own) };
        places.remove_leftovers();
        places
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory, &self.processes, &self.cpu].into_iter().flatten()
    }

    /// What goes on in groups of runs whose maker is gone.
    pub(crate) fn left(&self) -> Vec<i32> {
        let folders = self.all().flat_map(|place| groups(place, leftover::is_left));
        folders.flat_map(|folder| members_of(&folder)).collect()
    }

    /// Removes empty groups of processes that were killed before they could. What has members stays.
    pub(crate) fn remove_leftovers(&self) {
        let is_gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        let is_left = |name: &str| leftover::is_left(name) || gate::maker_of(name, PROBE).is_some_and(is_gone);
        for folder in self.all().flat_map(|place| groups(place, is_left)) {
            let _ = fs::remove_dir(folder);
        }
    }

    fn find_two(mounts: &str, own: &str) -> Places {
        let folder = mount_of(mounts, |kind, _| kind == "cgroup2").zip(path_of(own, ""));
        let Some((mount, path)) = folder else { return Places::default() };
        let here = below(&mount, path);
        let beside = if here == mount { None } else { here.parent().map(Path::to_owned) };
        for place in std::iter::once(here).chain(beside) {
            let find = |file: &str| can_bound(&place, file).then(|| place.clone());
            if let Some(memory) = find("memory.max") {
                let (processes, cpu) = (find("pids.max"), find("cpu.max"));
                return Places { generation: Generation::Two, memory: Some(memory), processes, cpu };
            }
        }
        Places::default()
    }

    fn find_one(mounts: &str, own: &str) -> Places {
        let find = |controller: &str, file: &str| {
            let mount =
                mount_of(mounts, |kind, options| kind == "cgroup" && options.split(',').any(|o| o == controller))?;
            let place = below(&mount, path_of(own, controller)?);
            can_bound(&place, file).then_some(place)
        };
        Places {
            generation: Generation::One,
            memory: find("memory", "memory.limit_in_bytes"),
            processes: find("pids", "pids.max"),
            cpu: find("cpu", "cpu.cfs_quota_us"),
        }
    }

    pub(crate) fn bounds_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn bounds_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    pub(crate) fn bounds_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// For people: what is enforced by groups here.
    pub(crate) fn describe(&self) -> Option<String> {
        let bounded: Vec<&str> = [("memory", &self.memory), ("processes", &self.processes), ("cpu", &self.cpu)]
            .into_iter()
            .filter_map(|(name, place)| place.as_ref().map(|_| name))
            .collect();
        let generation = if self.generation == Generation::Two { 2 } else { 1 };
        (!bounded.is_empty()).then(|| format!("{} by control groups (version {generation})", bounded.join(", ")))
    }

    /// Makes the groups of one run, with its bounds. What cannot be bounded here is left to
    /// other means; what can be and fails is an error.
    pub(crate) fn make(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group { generation: self.generation, folders: Vec::new(), memory: None };
        for place in self.all() {
            let folder = place.join(name);
            if !group.folders.contains(&folder) {
                fs::create_dir(&folder)?;
                group.folders.push(folder);
            }
        }
        let two = self.generation == Generation::Two;
        if let (Some(place), Some(bytes)) = (&self.memory, limits.memory_bytes) {
            let folder = place.join(name);
            let file = if two { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(folder.join(file), bytes.to_string())?;
            // Swap would only make the end slower. Not every kernel has it, or counts it.
            let (swap, most) = if two { ("memory.swap.max", 0) } else { ("memory.memsw.limit_in_bytes", bytes) };
            let _ = fs::write(folder.join(swap), most.to_string());
            if two {
                let _ = fs::write(folder.join("memory.oom.group"), "1");
            }
            group.memory = Some(folder);
        }
        if let (Some(place), Some(most)) = (&self.processes, limits.processes) {
            fs::write(place.join(name).join("pids.max"), most.to_string())?;
        }
        if let (Some(place), Some(millis)) = (&self.cpu, limits.cpu_millis) {
            // The kernel takes no less than one hundredth of a core.
            let quota = (millis.saturating_mul(PERIOD) / 1000).max(PERIOD / 100);
            let folder = place.join(name);
            if two {
                fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            } else {
                fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        Ok(group)
    }
}

/// The groups of one run. Dropping it kills what is in them and removes them.
#[derive(Debug)]
pub(crate) struct Group {
    generation: Generation,
    folders: Vec<PathBuf>,
    memory: Option<PathBuf>,
}

impl Group {
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), pid.to_string()))
    }

    /// Everything that is in a group now.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.folders.iter().flat_map(|folder| members_of(folder)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Whether the kernel killed something here for its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let Some(folder) = &self.memory else { return false };
        let file = if self.generation == Generation::Two { "memory.events" } else { "memory.oom_control" };
        fs::read_to_string(folder.join(file))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.split_once(' '))
            .any(|(key, count)| key == "oom_kill" && count.trim() != "0")
    }

    /// Kills all members at once where the kernel can. The caller looks for what is left.
    pub(crate) fn kill(&self) {
        for folder in &self.folders {
            // Whoever waits for his share of the processor cannot end.
            let (file, free) =
                if self.generation == Generation::Two { ("cpu.max", "max") } else { ("cpu.cfs_quota_us", "-1") };
            let _ = fs::write(folder.join(file), free);
        }
        if self.generation == Generation::Two {
            for folder in &self.folders {
                let _ = fs::write(folder.join("cgroup.kill"), "1");
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let _ = tree::end(&|| self.members());
        for folder in self.folders.iter().rev() {
            // A group of processes that have just ended can be busy for a moment.
            for _ in 0..50 {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
    }
}

fn members_of(folder: &Path) -> Vec<i32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The groups here with such names.
fn groups(place: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter(|entry| is_wanted(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect()
}

/// Whether a group below `place` has the file, and can be written.
fn can_bound(place: &Path, file: &str) -> bool {
    let folder = place.join(gate::unique_name(PROBE));
    if fs::create_dir(&folder).is_err() {
        return false;
    }
    let writable = fs::OpenOptions::new().write(true).open(folder.join(file)).is_ok()
        // Processes are moved from the group that both have above them, which must be ours as well.
        && fs::OpenOptions::new().write(true).open(folder.join("cgroup.procs")).is_ok()
        && fs::OpenOptions::new().write(true).open(place.join("cgroup.procs")).is_ok();
    let _ = fs::remove_dir(&folder);
    writable
}

/// The folder where a hierarchy is mounted.
fn mount_of(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1).unwrap_or_default());
        wanted(kind, options).then(|| front.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// The path of this process in the hierarchy of a controller; the second generation has the
/// one without controllers.
fn path_of<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

fn below(mount: &Path, path: &str) -> PathBuf {
    let relative = path.trim_start_matches('/');
    if relative.is_empty() { mount.to_owned() } else { mount.join(relative) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "31 20 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                          32 20 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                          33 20 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const OWN: &str = "4:memory:/a/b:c\n3:cpu,cpuacct:/\n0::/user.slice\n";

    #[test]
    fn both_generations_are_found_by_what_the_kernel_says() {
        let memory = mount_of(MOUNTS, |kind, options| kind == "cgroup" && options.contains("memory"));
        assert_eq!(memory.as_deref(), Some(Path::new("/sys/fs/cgroup/memory")));
        let two = mount_of(MOUNTS, |kind, _| kind == "cgroup2");
        assert_eq!(two.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(
            (path_of(OWN, "memory"), path_of(OWN, "cpu"), path_of(OWN, "")),
            (Some("/a/b:c"), Some("/"), Some("/user.slice"))
        );
        assert_eq!(below(Path::new("/x"), "/"), Path::new("/x"));
    }

    #[test]
    fn only_groups_of_processes_that_are_gone_are_leftovers() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, last) = (leftover::new_name(), leftover::new_name());
        // No process has so large a number.
        let gone = last.replacen(&std::process::id().to_string(), "4194305", 1);
        for name in ["oscar-probe-4194305-1-1", &gone, &own, "oscar-run-x", "somebody-else"] {
            fs::create_dir(folder.path().join(name)).expect("a group");
        }
        let places = Places { memory: Some(folder.path().to_owned()), ..Places::default() };
        fs::write(folder.path().join(&own).join("cgroup.procs"), "11\n").expect("a member");
        let members = folder.path().join(&gone).join("cgroup.procs");
        fs::write(&members, "12\n13\n").expect("members");
        assert_eq!(places.left(), [12, 13]);
        places.remove_leftovers();
        assert!(folder.path().join(&gone).exists(), "it has members");
        fs::remove_file(members).expect("they have ended");
        places.remove_leftovers();
        assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 3);
        assert!(folder.path().join(&own).exists() && !folder.path().join(&gone).exists());
    }

    #[test]
    fn nothing_is_found_where_nothing_is_mounted() {
        assert_eq!(Places::find_two("", OWN), Places::default());
        assert_eq!(Places::find_one("", OWN).describe(), None);
    }
}
