use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::path::Path;

use crate::cli::clusters::file::open_to_others;
use crate::cli::doctor::Finding;
use crate::cli::places::{PASSWORD_FILE, Places};

/// The port that a manager without settings listens on.
const PORT: u16 = 8080;
/// Held by the manager that uses the data folder.
const LOCK_FILE: &str = "oscar.lock";
/// Files of the data folder that hold secrets.
const PRIVATE: [&str; 2] = ["oscar.db", PASSWORD_FILE];

/// The manager of this machine: its data folder, and whether one could start.
pub(super) fn check(places: &Places) -> Vec<Finding> {
    let data = &places.data;
    if !data.exists() {
        let unused = Finding::fine(format!("no manager was started here yet ({} does not exist)", data.display()));
        return vec![unused, port(PORT)];
    }
    let mut findings = vec![folder(data)];
    findings.extend(PRIVATE.iter().filter_map(|name| private(&data.join(name))));
    if is_running(places) {
        findings.push(Finding::fine(format!("a manager is running{}", holder(data))));
    } else {
        findings.push(Finding::fine("no manager is running"));
        findings.push(port(PORT));
    }
    findings
}

/// Whether somebody holds the lock of the data folder. It is not kept, so that a manager that
/// starts just now is not disturbed for longer than this takes.
pub(super) fn is_running(places: &Places) -> bool {
    let Ok(file) = File::open(places.data.join(LOCK_FILE)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn holder(data: &Path) -> String {
    let pid = fs::read_to_string(data.join(LOCK_FILE)).ok().and_then(|text| text.trim().parse::<u32>().ok());
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

fn folder(data: &Path) -> Finding {
    if let Err(error) = fs::read_dir(data) {
        return Finding::broken(
            format!("the data folder {} cannot be read: {error}", data.display()),
            "it must belong to the user who runs the manager",
        );
    }
    match open_to_others(data) {
        Some(mode) => Finding::doubtful(
            format!("others may look into the data folder {} (mode {mode:03o})", data.display()),
            format!("close it: chmod 700 {}", data.display()),
        ),
        None => Finding::fine(format!("the data folder {} is for you only", data.display())),
    }
}

fn private(path: &Path) -> Option<Finding> {
    let mode = open_to_others(path)?;
    Some(Finding::broken(
        format!("others may read {}, which holds secrets (mode {mode:03o})", path.display()),
        format!("close it: chmod 600 {}", path.display()),
    ))
}

fn port(port: u16) -> Finding {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Finding::fine(format!("port {port} is free")),
        Err(error) => Finding::doubtful(
            format!("port {port} cannot be used: {error}"),
            "stop what listens there, or give the manager another port",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    fn places(folder: &Path) -> Places {
        Places { config: folder.join("config"), data: folder.join("data") }
    }

    #[test]
    fn a_running_manager_is_known_by_its_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = places(folder.path());
        assert!(!is_running(&places));
        fs::create_dir(&places.data).expect("made");
        let lock = File::create(places.data.join(LOCK_FILE)).expect("made");
        assert!(!is_running(&places));
        lock.lock().expect("locked");
        fs::write(places.data.join(LOCK_FILE), "42\n").expect("written");
        assert!(is_running(&places));
        assert!(check(&places).iter().any(|finding| finding.text.contains("process 42")));
    }

    #[cfg(unix)]
    #[test]
    fn secrets_that_others_can_read_are_broken() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let places = places(folder.path());
        fs::create_dir(&places.data).expect("made");
        let path = places.data.join(PASSWORD_FILE);
        fs::write(&path, "hunter2").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened");
        let findings = check(&places);
        let broken: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Broken).collect();
        assert_eq!(broken.len(), 1, "{findings:?}");
        assert!(broken[0].hints[0].contains("chmod 600"));
    }

    #[test]
    fn a_port_that_is_taken_is_found() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
        let number = taken.local_addr().expect("an address").port();
        assert_eq!(port(number).level, Level::Doubtful);
    }
}
