//! The same program again as a server that can be killed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::serve;

const FOLDER: &str = "OSCAR_STORE_CHILD_FOLDER";

/// Does nothing unless a test started this program as a server.
#[test]
fn serves_when_it_is_the_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (_store, address) = serve(Path::new(&folder)).await;
        println!("\nserving {address}");
        std::future::pending::<()>().await;
    });
}

/// A server in a process of its own, killed at the latest when this is dropped.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Serving {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["child::serves_when_it_is_the_child", "--exact", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let address = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("serving ")?.parse().ok());
        Self { address: address.expect("the child serves"), child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As a power cut would, as far as processes go.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}
