//! One run from its start to the end of its last process: limits, streams, time, cancellation.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::cgroup::{Group, Places};
use crate::executor::{Input, Output};
use crate::gate::{self, Start};
use crate::run::{Ended, ExecError, Kind, Limits, Run};
use crate::{leftover, limits, tree, watch};

/// The size of one piece of output.
const PIECE: usize = 32 * 1024;
/// How long the output may stay open after everything that could write to it was killed.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// What is kept of the output to explain a sandbox that did not begin.
const EXPLANATION: usize = 500;
/// `SIGXFSZ`: a file grew beyond the limit.
const FILE_TOO_LARGE: i32 = 25;
/// A limit of time that means none.
const FAR: Duration = Duration::from_hours(24 * 365);

/// Where the processes of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In a pid namespace below the started process; they end with its first one.
    Namespace,
    /// Among all others of this machine.
    Machine,
}

/// Why a run is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Time,
    Cancel,
    Disk,
    Memory,
}

impl From<Cause> for Ended {
    fn from(cause: Cause) -> Ended {
        match cause {
            Cause::Time => Ended::TimedOut,
            Cause::Cancel => Ended::Cancelled,
            Cause::Disk => Ended::DiskFull,
            Cause::Memory => Ended::OutOfMemory,
        }
    }
}

/// The processes of one run. Dropping it kills them, so that a run which is given up leaves
/// nothing behind.
struct Tree {
    pid: i32,
    reach: Reach,
    /// In the environment of everything that has not cleared it; in namespaces, of the sandbox.
    mark: String,
    group: Arc<Group>,
    /// Whether the started process was waited for: its number may belong to another one now.
    is_over: bool,
}

impl Tree {
    /// All that is left, but for the process that was started: its end is waited for.
    fn members(&self) -> Vec<i32> {
        let mut found = tree::union(self.group.members(), tree::marked(&self.mark));
        if !self.is_over {
            found = tree::union(found, tree::descendants(self.pid));
            found.retain(|pid| *pid != self.pid);
        }
        found
    }

    fn ask_to_end(&self) {
        let all = match &self.reach {
            Reach::Machine => tree::union(self.members(), vec![self.pid]),
            // The sandbox itself would end at once and take the script along.
            Reach::Namespace => tree::descendants(self.pid)
                .into_iter()
                .filter(|pid| tree::is_first_of_a_namespace(*pid))
                .flat_map(tree::descendants)
                .collect(),
        };
        for pid in all {
            tree::signal(pid, Signal::TERM);
        }
    }

    fn kill(&self) {
        self.group.kill();
        if !self.is_over {
            tree::signal(self.pid, Signal::KILL);
        }
        let _ = tree::end(&|| self.members());
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = tree::end(&|| self.members());
    }
}

/// Runs what was prepared, within the bounds of the run.
pub(crate) async fn drive(
    kind: Kind,
    run: &Run,
    places: &Places,
    mut start: Start,
    reach: Reach,
    streams: (Option<Input>, Output),
    cancel: impl Future<Output = ()> + Send,
) -> Result<Ended, ExecError> {
    let (stdin, output) = streams;
    let name = leftover::new_name();
    let group = places.make(&name, &run.limits).map_err(ExecError::io("making its control group"))?;
    let group = Arc::new(group);
    let source = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    start.env.push((tree::MARK.into(), name.clone().into()));
    let waiting = gate::start(start, source).map_err(ExecError::io("starting its sandbox"))?;
    group.add(waiting.pid).map_err(ExecError::io("putting it into its control group"))?;
    limits::bound(waiting.pid, &run.limits, places).map_err(ExecError::io("setting its limits"))?;
    let pid = i32::try_from(waiting.pid).unwrap_or_default();
    let mut processes = Tree { pid, reach, mark: name, group: Arc::clone(&group), is_over: false };
    let (mut child, bytes, begun) = waiting.open().map_err(ExecError::io("opening its gate"))?;

    let feeding = stdin.map(|stdin| feed(&mut child, stdin));
    let (everything_ended, ended) = oneshot::channel();
    let listening = tokio::spawn(listen(bytes, output, ended));
    let bounds = Bounds::new(run, !places.bounds_memory());
    let (status, cause) = bounds.wait(&mut child, &processes, cancel).await?;
    processes.is_over = true;
    // What a script leaves running ends with it, as in a container.
    let processes = tokio::task::spawn_blocking(move || {
        processes.kill();
        processes
    })
    .await;
    drop(processes);
    let _ = everything_ended.send(());
    if let Some(feeding) = feeding {
        feeding.abort();
    }
    let said = listening.await.unwrap_or_default();
    if let Some(cause) = cause {
        return Ok(cause.into());
    }
    if !has_begun(begun).await && !group.ran_out_of_memory() {
        return Err(ExecError::Unusable { kind, why: explain(&said, status) });
    }
    Ok(to_ended(status, &run.limits, group.ran_out_of_memory()))
}

/// The bounds that are watched from here.
pub(crate) struct Bounds<'a> {
    limits: &'a Limits,
    output_dir: PathBuf,
    watch_memory: bool,
    /// When the time of the run is over.
    deadline: Instant,
}

impl Bounds<'_> {
    /// The time begins to run here.
    pub(crate) fn new(run: &Run, watch_memory: bool) -> Bounds<'_> {
        let deadline = Instant::now() + run.limits.time.unwrap_or(FAR).min(FAR);
        Bounds { limits: &run.limits, output_dir: run.output_dir.clone(), watch_memory, deadline }
    }

    async fn wait(
        &self,
        child: &mut Child,
        processes: &Tree,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<(ExitStatus, Option<Cause>), ExecError> {
        let measure = || tree::memory_of(&tree::union(processes.members(), vec![processes.pid]));
        let cause = tokio::select! {
            status = child.wait() => return Ok((status.map_err(ExecError::io("waiting for its end"))?, None)),
            cause = self.broken(measure, cancel) => cause,
        };
        if matches!(cause, Cause::Time | Cause::Cancel) {
            processes.ask_to_end();
            if let Ok(status) = timeout(self.limits.grace, child.wait()).await {
                return Ok((status.map_err(ExecError::io("waiting for its end"))?, Some(cause)));
            }
        }
        processes.kill();
        let status = child.wait().await.map_err(ExecError::io("waiting for its end"))?;
        Ok((status, Some(cause)))
    }

    /// Returns when one of the bounds is broken.
    pub(crate) async fn broken(&self, memory: impl Fn() -> u64, cancel: impl Future<Output = ()> + Send) -> Cause {
        let most_memory = self.limits.memory_bytes.filter(|_| self.watch_memory);
        let watched = most_memory.is_some() || self.limits.disk_bytes.is_some();
        let mut ticks = interval(watch::EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(cancel);
        loop {
            tokio::select! {
                () = &mut cancel => return Cause::Cancel,
                () = sleep_until(self.deadline) => return Cause::Time,
                _ = ticks.tick(), if watched => {
                    if most_memory.is_some_and(|most| memory() > most) {
                        return Cause::Memory;
                    }
                    if let Some(most) = self.limits.disk_bytes {
                        let folder = self.output_dir.clone();
                        // A folder can hold many files; the runtime has other work.
                        if tokio::task::spawn_blocking(move || watch::exceeds(&folder, most)).await.unwrap_or(false) {
                            return Cause::Disk;
                        }
                    }
                }
            }
        }
    }
}

/// Copies to the standard input until either end has enough.
pub(crate) fn feed(child: &mut Child, mut stdin: Input) -> JoinHandle<()> {
    let inside = child.stdin.take();
    tokio::spawn(async move {
        if let Some(mut inside) = inside {
            // A script that does not read its input is no failure.
            let _ = tokio::io::copy(&mut stdin, &mut inside).await;
        }
    })
}

/// Passes the output on, and returns the end of it.
pub(crate) async fn listen(mut bytes: pipe::Receiver, output: Output, ended: oneshot::Receiver<()>) -> Vec<u8> {
    let (mut last, mut piece) = (Vec::new(), vec![0; PIECE]);
    tokio::pin!(ended);
    let mut all_ended = false;
    loop {
        let read = if all_ended {
            timeout(LAST_WORDS, bytes.read(&mut piece)).await.unwrap_or(Ok(0))
        } else {
            tokio::select! {
                read = bytes.read(&mut piece) => read,
                _ = &mut ended => {
                    all_ended = true;
                    continue;
                }
            }
        };
        let Ok(count @ 1..) = read else { return last };
        last.extend_from_slice(&piece[..count]);
        last.drain(..last.len().saturating_sub(EXPLANATION));
        let _ = output.send(piece[..count].to_vec()).await;
    }
}

/// What an exit status means for the user.
pub(crate) fn to_ended(status: ExitStatus, limits: &Limits, out_of_memory: bool) -> Ended {
    let signal =
        status.signal().or_else(|| status.code().filter(|code| (129..=192).contains(code)).map(|code| code - 128));
    match (signal, status.code()) {
        (_, Some(0)) => Ended::Code(0),
        _ if out_of_memory => Ended::OutOfMemory,
        (Some(FILE_TOO_LARGE), _) if limits.disk_bytes.is_some() => Ended::DiskFull,
        (Some(signal), _) => Ended::Signal(signal),
        (None, code) => Ended::Code(code.unwrap_or(1)),
    }
}

/// Whether the inside said that it was reached. Everything has ended, so the answer is there.
async fn has_begun(mut begun: pipe::Receiver) -> bool {
    matches!(timeout(LAST_WORDS, begun.read(&mut [0; 1])).await, Ok(Ok(1)))
}

fn explain(said: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(said);
    match text.trim().lines().last() {
        Some(line) => line.to_owned(),
        None => format!("its sandbox ended before it began ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_shells_that_mean_signals_are_told_as_signals() {
        let limits = Limits { disk_bytes: Some(1), ..Limits::default() };
        let end = |raw: i32| to_ended(ExitStatus::from_raw(raw), &limits, false);
        assert_eq!(end(3 << 8), Ended::Code(3));
        assert_eq!(end(137 << 8), Ended::Signal(9));
        assert_eq!(end(15), Ended::Signal(15));
        assert_eq!(end(153 << 8), Ended::DiskFull);
        assert_eq!(end(255 << 8), Ended::Code(255));
        assert_eq!(to_ended(ExitStatus::from_raw(137 << 8), &limits, true), Ended::OutOfMemory);
        assert_eq!(to_ended(ExitStatus::from_raw(0), &limits, true), Ended::Code(0));
    }
}
