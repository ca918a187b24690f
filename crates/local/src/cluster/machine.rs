//! What the operating system tells about the machine: Linux in full, others as far as the
//! standard library knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use super::cgroup::Limits;

/// What a machine is taken to have when it does not say: 4 GiB. An operator of a system other
/// than Linux names the amount.
const UNKNOWN_BYTES: i64 = 4 << 30;

/// Where the kernel shows itself.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    proc: PathBuf,
    cgroup: PathBuf,
}

impl Machine {
    pub(super) fn of_this_process() -> Self {
        Self { proc: PathBuf::from("/proc"), cgroup: PathBuf::from("/sys/fs/cgroup") }
    }

    /// The name of the node.
    pub(super) fn name(&self) -> String {
        let kernel = fs::read_to_string(self.proc.join("sys/kernel/hostname")).ok();
        let name = kernel.map(|name| name.trim().to_owned()).or_else(system_name);
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
    }

    /// Millicores that this process may use.
    pub(super) fn cores(&self) -> i64 {
        let machine = available_parallelism().map_or(1, std::num::NonZero::get);
        let machine = i64::try_from(machine).unwrap_or(i64::MAX / 1000) * 1000;
        // The standard library rounds a container's share to whole processors.
        self.limits().cores.map_or(machine, |limit| limit.min(machine)).max(1)
    }

    /// Bytes of memory that this process and its children may use.
    pub(super) fn bytes(&self) -> i64 {
        match (self.memory().map(|memory| memory.total), self.limits().bytes) {
            (Some(total), Some(limit)) => total.min(limit),
            (Some(amount), None) | (None, Some(amount)) => amount,
            (None, None) => UNKNOWN_BYTES,
        }
    }

    /// Bytes that nobody uses, or that the kernel can give back at once.
    pub(super) fn free_bytes(&self) -> Option<i64> {
        let limits = self.limits();
        let machine = self.memory()?.available;
        let container = limits.bytes.zip(limits.used_bytes).map(|(limit, used)| (limit - used).max(0));
        Some(container.map_or(machine, |container| container.min(machine)))
    }

    pub(super) fn cpu_times(&self) -> Option<CpuTimes> {
        CpuTimes::parse(&fs::read_to_string(self.proc.join("stat")).ok()?)
    }

    fn memory(&self) -> Option<Memory> {
        Memory::parse(&fs::read_to_string(self.proc.join("meminfo")).ok()?)
    }

    fn limits(&self) -> Limits {
        let own = fs::read_to_string(self.proc.join("self/cgroup")).unwrap_or_default();
        Limits::read(&self.cgroup, &own)
    }
}

#[cfg(unix)]
fn system_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn system_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

struct Memory {
    total: i64,
    available: i64,
}

impl Memory {
    fn parse(meminfo: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<i64>().ok()?.checked_mul(1024)
        };
        let total = field("MemTotal")?;
        Some(Self { total, available: field("MemAvailable").unwrap_or(total).clamp(0, total) })
    }
}

/// Time spent since the start of the machine, in ticks summed over its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTimes {
    idle: u64,
    total: u64,
    processors: u64,
}

impl CpuTimes {
    /// The columns are user, nice, system, idle, iowait, irq, softirq, steal; what follows is
    /// counted in the first two already.
    fn parse(stat: &str) -> Option<Self> {
        let first = stat.lines().next()?.strip_prefix("cpu ")?;
        let columns: Vec<u64> = first.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let idle = columns.get(3)? + columns.get(4).copied().unwrap_or(0);
        let is_processor = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
        let processors = stat.lines().filter(is_processor).count().max(1);
        Some(Self { idle, total: columns.iter().sum(), processors: u64::try_from(processors).ok()? })
    }

    /// How much of the machine was idle in between; unknown when no tick passed.
    pub(super) fn idle_millicores_since(self, before: Self) -> Option<i64> {
        let total = self.total.checked_sub(before.total).filter(|total| *total > 0)?;
        let idle = self.idle.saturating_sub(before.idle).min(total);
        i64::try_from(u128::from(idle) * u128::from(self.processors) * 1000 / u128::from(total)).ok()
    }
}

/// The disk below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    free: u64,
    total: u64,
}

impl Disk {
    #[cfg(unix)]
    pub(super) fn of(path: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(path).ok()?;
        Some(Self { free: disk.f_bavail * disk.f_frsize, total: disk.f_blocks * disk.f_frsize })
    }

    #[cfg(not(unix))]
    pub(super) fn of(_path: &Path) -> Option<Self> {
        None
    }

    /// Less than 1 GiB, or a tenth of a small disk.
    pub(super) fn is_short(self) -> bool {
        self.free < (self.total / 10).min(1 << 30)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A made-up machine in a folder.
    pub(in crate::cluster) struct Root(tempfile::TempDir);

    impl Root {
        pub(in crate::cluster) fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("it has a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
    }

    pub(in crate::cluster) fn mk_machine(total_kib: i64, available_kib: i64, stat: &str) -> (Root, Machine) {
        let root = Root(tempfile::tempdir().expect("a folder"));
        root.write("proc/meminfo", &format!("MemTotal: {total_kib} kB\nMemAvailable:  {available_kib} kB\n"));
        root.write("proc/stat", stat);
        root.write("proc/sys/kernel/hostname", "box\n");
        let machine = Machine { proc: root.0.path().join("proc"), cgroup: root.0.path().join("cgroup") };
        (root, machine)
    }

    #[test]
    fn a_container_of_either_kind_limits_the_machine() {
        let (root, machine) = mk_machine(8 << 20, 8 << 20, "");
        assert_eq!((machine.name().as_str(), machine.bytes()), ("box", 8 << 30));
        root.write("proc/self/cgroup", "0::/pod/own\n");
        root.write("cgroup/pod/memory.max", "1073741824\n");
        root.write("cgroup/pod/memory.current", "536870912\n");
        root.write("cgroup/pod/memory.stat", "anon 1\ninactive_file 268435456\n");
        root.write("cgroup/pod/own/memory.max", "max\n");
        root.write("cgroup/pod/own/cpu.max", "50000 100000\n");
        assert_eq!((machine.bytes(), machine.cores()), (1 << 30, 500));
        assert_eq!(machine.free_bytes(), Some(768 << 20), "what the kernel can drop is free");

        let (root, machine) = mk_machine(8 << 20, 8 << 20, "");
        root.write("proc/self/cgroup", "4:memory:/pod\n2:cpu,cpuacct:/elsewhere\n0::/\n");
        root.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        root.write("cgroup/memory/pod/memory.limit_in_bytes", "2147483648\n");
        root.write("cgroup/memory/pod/memory.usage_in_bytes", "1073741824\n");
        root.write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000\n");
        root.write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        assert_eq!((machine.bytes(), machine.cores()), (2 << 30, 250));
        assert_eq!(machine.free_bytes(), Some(1 << 30));
    }

    #[test]
    fn a_machine_that_says_nothing_has_something() {
        let machine = Machine { proc: PathBuf::from("/nowhere"), cgroup: PathBuf::from("/nowhere") };
        assert_eq!((machine.bytes(), machine.free_bytes(), machine.cpu_times()), (UNKNOWN_BYTES, None, None));
        assert!(machine.cores() >= 1000);
        assert!(!machine.name().is_empty());
    }

    #[test]
    fn nonsense_in_the_files_is_nothing() {
        for text in ["", "cpu", "cpu ", "cpu x y", "cpu 1 2 3", "intr 1 2 3 4"] {
            assert_eq!(CpuTimes::parse(text), None, "{text}");
        }
        assert!(Memory::parse("MemTotal: many kB").is_none());
        let back = CpuTimes { idle: 5, total: 9, processors: 1 };
        let front = CpuTimes { idle: 9, total: 5, processors: 1 };
        assert_eq!(front.idle_millicores_since(back), None, "a counter that went back tells nothing");
    }

    #[test]
    fn a_disk_is_short_below_a_gibibyte_or_a_tenth() {
        let short = |free, total| Disk { free, total }.is_short();
        assert!(short(1 << 20, 1 << 40) && short(9, 100));
        assert!(!short(2 << 30, 1 << 40) && !short(11, 100));
    }
}
