//! A server under test: a process of its own that says on its first line where it listens.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use oscar_testkit::Part;
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "bench-password";

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Its data; gone with it.
    _folder: TempDir,
}

impl Server {
    /// A manager with an empty data folder.
    pub(crate) fn manager(binary: &Path, environment: &[(&str, &str)]) -> Server {
        // Beside the binary: a temporary folder may be memory, which is no durable place.
        let folder = tempfile::tempdir_in(binary.parent().expect("a folder")).expect("a folder");
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
        for (name, _) in std::env::vars() {
            if name.starts_with("OSCAR_") || name.starts_with("OIDC_") || name.starts_with("MINIO_") {
                command.env_remove(name);
            }
        }
        if let Ok(bubblewrap) = Part::find("bubblewrap") {
            let others = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(bubblewrap.folder().to_owned()).chain(std::env::split_paths(&others));
            command.env("PATH", std::env::join_paths(folders).expect("folders without colons"));
        }
        command.env("OSCAR_PASSWORD", PASSWORD).envs(environment.iter().copied());
        Self::spawn(command, folder)
    }

    pub(crate) fn hello() -> Server {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg(crate::hello::COMMAND);
        Self::spawn(command, tempfile::tempdir().expect("a folder"))
    }

    fn spawn(mut command: Command, folder: TempDir) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("ready http://").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the server did not become ready: {line:?}"));
        Server { child, address, _folder: folder }
    }

    /// Memory that is its own and in use, in KiB.
    pub(crate) fn resident_kib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.expect("Linux says how much memory a process has")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
