//! Starting supervisors, and noticing that they ended.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use oscar_engine::ports::runtime::RunId;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::RuntimeOptions;
use super::folder::AttemptFolder;

/// Starts the supervisor of an attempt, apart from this process: it does not end with it.
pub(super) fn start(
    options: &RuntimeOptions,
    folder: &AttemptFolder,
    run: &RunId,
    children: Arc<Mutex<HashSet<RunId>>>,
    news: mpsc::UnboundedSender<RunId>,
) -> io::Result<()> {
    let mut command = Command::new(&options.program);
    command.args(&options.arguments).arg(folder.path()).env_clear();
    // What tools need to be found and to find their own; nothing else of the environment.
    let is_kept = |name: &str| {
        ["PATH", "HOME", "TMPDIR"].contains(&name)
            || ["XDG_", "CONTAINERS_", "DOCKER_"].iter().any(|start| name.starts_with(start))
    };
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(folder.complaints())?)
        .current_dir(folder.path())
        .process_group(0)
        .kill_on_drop(false);
    let child = command.spawn()?;
    tokio::spawn(follow(child, run.clone(), children, news));
    Ok(())
}

/// One byte says that the script runs; then the end is waited for.
async fn follow(
    mut child: Child,
    run: RunId,
    children: Arc<Mutex<HashSet<RunId>>>,
    news: mpsc::UnboundedSender<RunId>,
) {
    if let Some(mut said) = child.stdout.take()
        && matches!(said.read_u8().await, Ok(b'r'))
    {
        let _ = news.send(run.clone());
    }
    let _ = child.wait().await;
    children.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    let _ = news.send(run);
}

/// Watches an attempt that an earlier manager started.
pub(super) fn watch(folder: AttemptFolder, run: RunId, news: mpsc::UnboundedSender<RunId>) -> io::Result<()> {
    let name = "oscar-attempt".to_owned();
    let wait = move || {
        let _ = folder.wait_for_lock();
        let _ = news.send(run);
    };
    // A thread of its own: it waits as long as the attempt takes and must not keep the process.
    std::thread::Builder::new().name(name).stack_size(64 << 10).spawn(wait).map(drop)
}
