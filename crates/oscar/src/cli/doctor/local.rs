use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::path::Path;

use crate::cli::clusters::file::open_to_others;
use crate::cli::doctor::Finding;
use crate::cli::places::{LOCK_FILE, PASSWORD_FILE, Places, variable};
use crate::config::{Derived, Effective, Sources};

/// Files of the data folder that hold secrets, and folders with what users stored.
const PRIVATE: [&str; 7] =
    ["oscar.db", "secret.key", "s3.secret", "minio-webhook.secret", PASSWORD_FILE, "objects", "minio"];

/// The manager of this machine: its settings, its data folder, and whether one could start.
pub(super) fn check(places: &Places) -> Vec<Finding> {
    let (settings, faults) = Effective::gather(&Sources::of_process(BTreeMap::new(), None));
    let mut findings: Vec<_> = faults.iter().map(|fault| fault_of_settings(fault)).collect();
    findings.extend(look(places, &Derived::of(&settings, &variable).listen));
    findings
}

fn fault_of_settings(fault: &str) -> Finding {
    Finding::broken(
        format!("a manager would not start with these settings: {}", fault.trim_start_matches("- ")),
        "`oscar config show` prints every setting and where it comes from",
    )
}

/// `listen` is where a manager without flags would listen.
fn look(places: &Places, listen: &str) -> Vec<Finding> {
    let data = &places.data;
    if !data.exists() {
        let unused = Finding::fine(format!("no manager was started here yet ({} does not exist)", data.display()));
        return vec![unused, port(listen)];
    }
    let mut findings = vec![folder(data)];
    findings.extend(PRIVATE.iter().filter_map(|name| private(&data.join(name))));
    if places.is_manager_running() {
        findings.push(Finding::fine(format!("a manager is running{}", holder(data))));
    } else {
        findings.push(Finding::fine("no manager is running"));
        findings.push(port(listen));
    }
    findings
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
    let right = if path.is_dir() { "700" } else { "600" };
    Some(Finding::broken(
        format!("others may read {}, which is for the manager alone (mode {mode:03o})", path.display()),
        format!("close it: chmod {right} {}", path.display()),
    ))
}

fn port(listen: &str) -> Finding {
    let addresses = listen.to_socket_addrs().map(Vec::from_iter);
    match addresses.and_then(|addresses| TcpListener::bind(addresses.as_slice())) {
        Ok(_) if listen.ends_with(":0") => Finding::fine("a manager would take any free port"),
        Ok(_) => Finding::fine(format!("{listen} is free")),
        Err(error) => Finding::doubtful(
            format!("a manager could not listen on {listen}: {error}"),
            "stop what listens there, or choose another: oscar serve --listen HOST:PORT",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::cli::doctor::Level;

    const ANYWHERE: &str = "127.0.0.1:0";

    fn places(folder: &Path) -> Places {
        Places { config: folder.join("config"), data: folder.join("data") }
    }

    #[test]
    fn a_running_manager_is_known_by_its_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = places(folder.path());
        assert!(!places.is_manager_running());
        fs::create_dir(&places.data).expect("made");
        let lock = File::create(places.data.join(LOCK_FILE)).expect("made");
        assert!(!places.is_manager_running());
        lock.lock().expect("locked");
        fs::write(places.data.join(LOCK_FILE), "42\n").expect("written");
        assert!(places.is_manager_running());
        assert!(look(&places, ANYWHERE).iter().any(|finding| finding.text.contains("process 42")));
    }

    #[cfg(unix)]
    #[test]
    fn secrets_that_others_can_read_are_broken() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let places = places(folder.path());
        fs::create_dir(&places.data).expect("made");
        for name in [PASSWORD_FILE, "secret.key", "s3.secret"] {
            let path = places.data.join(name);
            fs::write(&path, "hunter2").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened");
        }
        let objects = places.data.join("objects");
        fs::create_dir(&objects).expect("made");
        fs::set_permissions(&objects, fs::Permissions::from_mode(0o755)).expect("opened");
        let findings = look(&places, ANYWHERE);
        let broken: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Broken).collect();
        assert_eq!(broken.len(), 4, "{findings:?}");
        let hints = broken.iter().map(|finding| finding.hints[0].as_str());
        assert_eq!(hints.filter(|hint| hint.contains("chmod 600")).count(), 3);
        assert!(broken.iter().any(|finding| finding.hints[0] == format!("close it: chmod 700 {}", objects.display())));
    }

    #[test]
    fn a_port_that_is_taken_is_found() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
        let listen = taken.local_addr().expect("an address").to_string();
        let finding = port(&listen);
        assert_eq!(finding.level, Level::Doubtful);
        assert!(finding.text.contains(&listen), "{finding:?}");
        drop(taken);
        assert_eq!(port(&listen), Finding::fine(format!("{listen} is free")));
        assert_eq!(port("nowhere").level, Level::Doubtful);
    }
}
