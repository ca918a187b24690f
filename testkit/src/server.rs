//! A server process of a test: its own process group, its output in a file, ended on drop.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::reaper;

/// How often a condition is looked at. Short, for what is waited for is mostly near.
const GLANCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    log: PathBuf,
    ended: bool,
}

/// Why a server did not become ready, with the end of its output.
#[derive(Debug)]
pub enum NotReady {
    /// Another process took the port first.
    PortTaken,
    Ended(String),
    TimedOut(String),
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotReady::PortTaken => write!(f, "its port is taken"),
            NotReady::Ended(log) => write!(f, "it ended:\n{log}"),
            NotReady::TimedOut(log) => write!(f, "it was not ready in time:\n{log}"),
        }
    }
}

impl Server {
    /// Starts `command` with its output in `folder/<name>.log`.
    pub fn spawn(name: &str, folder: &Path, command: &mut Command) -> Server {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).unwrap_or_else(|error| panic!("creating {}: {error}", log.display()));
        let errors = output.try_clone().expect("a file handle can be copied");
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name}: {error}"));
        reaper::watch_group(child.id());
        Server { name: name.to_owned(), child, log, ended: false }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal to the whole group, say `Signal::TERM`, without waiting for the end.
    pub fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (false, Some(group)) = (self.ended, group) {
            // It may have ended by itself: then there is nobody to tell.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        if self.ended {
            return;
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.ended = true;
        reaper::forget_group(self.child.id());
    }

    /// Everything it printed so far.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until `probe` is true and the process still lives.
    ///
    /// The process is looked at after the probe: an answer by whoever else has the port is
    /// not taken for ours, since ours cannot live on without its port.
    pub fn wait_ready(&mut self, limit: Duration, mut probe: impl FnMut() -> bool) -> Result<(), NotReady> {
        let deadline = Instant::now() + limit;
        loop {
            let ready = probe();
            if self.try_wait().is_some() {
                let output = self.output();
                let taken = output.contains("address already in use")
                    || output.contains("Address already in use")
                    || output.contains("Port already bound");
                return Err(if taken { NotReady::PortTaken } else { NotReady::Ended(tail(&output)) });
            }
            if ready {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(NotReady::TimedOut(tail(&self.output())));
            }
            std::thread::sleep(GLANCE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the end of {}'s output:\n{}", self.name, tail(&self.output()));
        }
    }
}

/// Starts something on fresh ports until nobody else was quicker to take them.
pub(crate) fn on_free_ports<T>(name: &str, start: impl Fn() -> Result<T, NotReady>) -> T {
    for _ in 0..5 {
        match start() {
            Ok(started) => return started,
            Err(NotReady::PortTaken) => {}
            Err(why) => panic!("{name} did not start: {why}"),
        }
    }
    panic!("{name} did not start: five times in a row its port was taken");
}

/// Looks at `probe` until it gives a value; a panic naming `what` after `limit`.
pub fn eventually<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(GLANCE);
    }
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
