//! The folder of one attempt, as the manager and the supervisor of the attempt see it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oscar_engine::ports::runtime::{Observed, ResponsePart, RunId};
use oscar_model::job::JobName;
use oscar_supervisor::{Response, ResponseKind};
use rustix::process::{Pid, Signal, kill_process};

use super::order::{AttemptOrder, AttemptResult};

/// A folder that is being written begins with this; it is no attempt yet.
const DRAFT: &str = "new-";

/// The answer of a synchronous run: as the script said it, or files as base64.
const SAID: &str = "response";
const ENCODED: &str = "response.base64";

#[derive(Debug, Clone)]
pub struct AttemptFolder {
    path: PathBuf,
}

/// That this process is the one supervisor of the attempt; let go of when the process ends.
pub struct Claim {
    _lock: File,
}

impl AttemptFolder {
    pub(super) fn new(attempts: &Path, run: &RunId) -> Self {
        Self { path: attempts.join(format!("{}.{}", run.job, run.attempt)) }
    }

    /// The folder that a supervisor was given.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn event(&self) -> PathBuf {
        self.file("event")
    }

    pub fn script(&self) -> PathBuf {
        self.file("script.sh")
    }

    pub fn work(&self) -> PathBuf {
        self.file("work")
    }

    /// What the supervisor itself says when something is wrong with it.
    pub(super) fn complaints(&self) -> PathBuf {
        self.file("supervisor.log")
    }

    /// Writes the folder whole or not at all; false when it is there already.
    pub(super) fn write(&self, order: &AttemptOrder, event: &[u8], script: &str) -> io::Result<bool> {
        if self.path.exists() {
            return Ok(false);
        }
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let draft = self.path.with_file_name(format!("{DRAFT}{name}"));
        let _ = fs::remove_dir_all(&draft);
        let written = Self::write_draft(&draft, order, event, script).and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            // It must not take the room that it did not find.
            let _ = fs::remove_dir_all(&draft);
        }
        written.map(|()| true)
    }

    fn write_draft(draft: &Path, order: &AttemptOrder, event: &[u8], script: &str) -> io::Result<()> {
        make_private(draft)?;
        let write = |name: &str, bytes: &[u8]| private_file(&draft.join(name))?.write_all(bytes);
        write("event", event)?;
        write("script.sh", script.as_bytes())?;
        write("lock", b"")?;
        write("order.json", &serde_json::to_vec(order).map_err(io::Error::other)?)
    }

    pub fn order(&self) -> io::Result<AttemptOrder> {
        serde_json::from_slice(&fs::read(self.file("order.json"))?).map_err(io::Error::other)
    }

    /// Makes this process the supervisor of the attempt; none when another one is, or was.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        let lock = OpenOptions::new().read(true).write(true).open(self.file("lock"))?;
        // Waits: a manager that looks holds it for a moment.
        lock.lock()?;
        // Whoever had it before left its number: an attempt runs at most once.
        if self.file("pid").exists() {
            return Ok(None);
        }
        private_file(&self.file("pid"))?.write_all(std::process::id().to_string().as_bytes())?;
        Ok(Some(Claim { _lock: lock }))
    }

    /// Whether somebody asked the attempt to end before its supervisor could be told.
    pub fn is_to_end(&self) -> bool {
        self.file("end").exists()
    }

    /// The script begins.
    pub fn mark_running(&self) -> io::Result<()> {
        private_file(&self.file("running")).map(drop)
    }

    /// The one end of the attempt, whole or not there. Can be repeated when there was no room.
    pub fn finish(&self, result: &AttemptResult, response: Option<&Response>) -> io::Result<()> {
        if let Some(response) = response.filter(|response| response.file.exists()) {
            let name = if response.kind == ResponseKind::ScriptOutput { SAID } else { ENCODED };
            fs::rename(&response.file, self.file(name))?;
        }
        replace(&self.file("result.json"), &serde_json::to_vec(result).map_err(io::Error::other)?)
    }

    /// A piece of what the script answered; one that said nothing left no file.
    pub(super) fn response(&self, from: u64, limit: usize) -> io::Result<ResponsePart> {
        let open = |name: &str| match File::open(self.file(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        let (file, encoded) = match open(SAID)? {
            Some(said) => (Some(said), false),
            None => (open(ENCODED)?, true),
        };
        let Some(mut file) = file else {
            fs::metadata(&self.path)?;
            return Ok(ResponsePart { bytes: Vec::new(), total: 0, encoded: false });
        };
        let total = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(ResponsePart { bytes, total, encoded })
    }

    pub(super) fn observe(&self, is_child: bool) -> io::Result<Observed> {
        let lock = File::open(self.file("lock"))?;
        // In this order: one that ends meanwhile has left its result when its lock is free.
        let held = is_held(&lock)?;
        if let Some(result) = self.result()? {
            return Ok(Observed::Ended(result.into()));
        }
        Ok(match (held, self.file("running").exists()) {
            (true, true) => Observed::Running,
            (true, false) => Observed::Starting,
            // Its supervisor was started and has not come so far.
            (false, _) if is_child => Observed::Starting,
            (false, began) => Observed::Vanished { began },
        })
    }

    fn result(&self) -> io::Result<Option<AttemptResult>> {
        match fs::read(self.file("result.json")) {
            // One that cannot be read was torn by a power cut, and tells nothing.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Told by a file for a supervisor that has not begun, and by a signal for one that has.
    pub(super) fn ask_to_end(&self) -> io::Result<()> {
        let lock = File::open(self.file("lock"))?;
        private_file(&self.file("end"))?;
        if is_held(&lock)?
            && let Some(pid) = self.pid()
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        Ok(())
    }

    /// Waits until the supervisor has ended, and kills it when it takes too long. A supervisor
    /// that has not begun finds that it should not.
    pub(super) fn wait_for_end(&self, grace: Duration) -> io::Result<()> {
        let lock = match File::open(self.file("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let deadline = Instant::now() + grace;
        while is_held(&lock)? {
            if Instant::now() >= deadline
                && let Some(pid) = self.pid()
            {
                // Its sandbox dies with it.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Blocks until the supervisor has ended.
    pub(super) fn wait_for_lock(&self) -> io::Result<()> {
        let lock = File::open(self.file("lock"))?;
        lock.lock_shared()
    }

    fn pid(&self) -> Option<Pid> {
        let mut text = String::new();
        File::open(self.file("pid")).ok()?.read_to_string(&mut text).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// Whether a supervisor has the lock. Others who look at the same time are none: they share it.
fn is_held(lock: &File) -> io::Result<bool> {
    match lock.try_lock_shared() {
        Ok(()) => lock.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A small file with other content; whoever reads meanwhile gets the one or the other.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = private_file(&draft)?;
    file.write_all(content)?;
    // Else a power cut could leave the name without the content.
    file.sync_all()?;
    fs::rename(draft, path)
}

/// A folder that only its owner can look into.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn sweep_drafts(attempts: &Path) -> io::Result<()> {
    for entry in fs::read_dir(attempts)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(DRAFT) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn list(attempts: &Path) -> io::Result<Vec<RunId>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(attempts)? {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
        if let Some((job, attempt)) = parts
            && let (Some(job), Ok(attempt)) = (JobName::parse(job), attempt.parse())
            && !job.as_str().starts_with(DRAFT)
        {
            runs.push(RunId { job, attempt });
        }
    }
    runs.sort();
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::order::ResultExit;

    /// A folder whose supervisor has ended.
    fn mk_folder(parent: &Path) -> AttemptFolder {
        let folder = AttemptFolder::at(&parent.join("job.1"));
        make_private(folder.path()).expect("made");
        private_file(&folder.file("lock")).expect("made");
        folder
    }

    #[test]
    fn a_torn_result_is_no_result() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = mk_folder(parent.path());
        folder.mark_running().expect("marked");
        let result = AttemptResult { exit: ResultExit::Success, outputs: vec![], began: Some(1), ended: 2 };
        folder.finish(&result, None).expect("finished");
        assert!(matches!(folder.observe(false), Ok(Observed::Ended(_))));
        let whole = fs::read(folder.file("result.json")).expect("read");
        for length in [0, 1, whole.len() / 2] {
            fs::write(folder.file("result.json"), &whole[..length]).expect("torn");
            assert_eq!(folder.observe(false).ok(), Some(Observed::Vanished { began: true }), "{length} bytes");
        }
    }

    #[test]
    fn those_who_look_at_once_take_no_other_for_the_supervisor() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = mk_folder(parent.path());
        let looking = File::open(folder.file("lock")).expect("opened");
        looking.lock_shared().expect("locked");
        assert_eq!(folder.observe(false).ok(), Some(Observed::Vanished { began: false }));
        drop(looking);
        let claim = folder.claim().expect("claimed");
        assert_eq!(folder.observe(false).ok(), Some(Observed::Starting));
        drop(claim);
        assert!(folder.claim().expect("read").is_none(), "it runs at most once");
    }
}
