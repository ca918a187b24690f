//! The limits of the container around this process, of both generations of control groups.

use std::fs;
use std::path::{Path, PathBuf};

/// What the control groups allow; absent is without limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Millicores.
    pub(super) cores: Option<i64>,
    pub(super) bytes: Option<i64>,
    /// What is used of `bytes` and cannot be taken back at once.
    pub(super) used_bytes: Option<i64>,
}

impl Limits {
    /// `own` is `/proc/self/cgroup`: a line `id:controllers:path` for each hierarchy, and the
    /// unified one without controllers.
    pub(super) fn read(mount: &Path, own: &str) -> Self {
        let mut limits = Self::default();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if controllers.is_empty() {
                for group in groups(mount, path) {
                    limits.narrow_cores(unified_cores(&group));
                    limits.narrow_bytes(&group, "memory.max", "memory.current", "inactive_file");
                }
            }
            for group in groups(&mount.join(controllers), path) {
                if has("cpu") {
                    limits.narrow_cores(legacy_cores(&group));
                }
                if has("memory") {
                    let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
                    limits.narrow_bytes(&group, limit, used, "total_inactive_file");
                }
            }
        }
        limits
    }

    fn narrow_cores(&mut self, found: Option<i64>) {
        self.cores = [self.cores, found].into_iter().flatten().min();
    }

    fn narrow_bytes(&mut self, group: &Path, limit: &str, used: &str, reclaimable: &str) {
        let Some(limit) = number(&group.join(limit)) else { return };
        if self.bytes.is_some_and(|bytes| bytes <= limit) {
            return;
        }
        let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let reclaimable =
            statistics.lines().find_map(|line| line.strip_prefix(reclaimable)?.trim().parse::<i64>().ok()).unwrap_or(0);
        self.bytes = Some(limit);
        self.used_bytes = number(&group.join(used)).map(|used| (used - reclaimable).max(0));
    }
}

/// The group and those around it, which limit it too. Inside a container the path may be that
/// of the host, of which only the mount itself can be seen.
fn groups(mount: &Path, path: &str) -> Vec<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|ancestor| mount.join(ancestor)).filter(|group| group.is_dir()).collect()
}

/// `max` or a blank file is no number, hence no limit.
fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn unified_cores(group: &Path) -> Option<i64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace().map(str::parse::<i64>);
    share(words.next()?.ok()?, words.next()?.ok()?)
}

fn legacy_cores(group: &Path) -> Option<i64> {
    share(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
}

/// A quota of minus one is no limit.
fn share(quota: i64, period: i64) -> Option<i64> {
    (quota > 0 && period > 0).then(|| quota.saturating_mul(1000) / period)
}
