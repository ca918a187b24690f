//! Bodies that are too large for a row: one file each, with a random name.
//!
//! A file is written and flushed before a row names it, and removed after the last row that
//! named it is gone. What a crash left behind is found at the next start. A file that somebody
//! is reading is removed when he has finished.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use oscar_engine::ports::clock::Entropy;
use rusqlite::Connection;

pub(crate) type FileId = i64;

pub(crate) struct Files {
    folder: PathBuf,
    entropy: Arc<dyn Entropy>,
    hold: Mutex<Hold>,
    /// Unlinking a large file takes a while: a thread of its own does it.
    broom: Mutex<mpsc::Sender<FileId>>,
}

#[derive(Default)]
struct Hold {
    pinned: HashMap<FileId, usize>,
    /// To be removed, now or when the last pin goes.
    doomed: HashSet<FileId>,
}

impl Files {
    pub(crate) fn open(folder: &Path, entropy: Arc<dyn Entropy>) -> io::Result<Arc<Self>> {
        make_folder(folder)?;
        let (broom, dust) = mpsc::channel();
        let files =
            Arc::new(Self { folder: folder.to_owned(), entropy, hold: Mutex::default(), broom: Mutex::new(broom) });
        let swept = Arc::downgrade(&files);
        thread::Builder::new().name("oscar-store-broom".to_owned()).spawn(move || {
            while let Ok(file) = dust.recv() {
                let Some(files) = swept.upgrade() else { return };
                files.unlink(file);
            }
        })?;
        Ok(files)
    }

    pub(crate) fn path(&self, file: FileId) -> PathBuf {
        let name = format!("{file:016x}");
        self.folder.join(&name[..2]).join(name)
    }

    /// An empty file that goes away unless it is kept.
    pub(crate) fn create(self: &Arc<Self>) -> io::Result<(File, Unnamed)> {
        loop {
            let mut bytes = [0; 8];
            self.entropy.fill(&mut bytes);
            let id = FileId::from_be_bytes(bytes) & FileId::MAX;
            let path = self.path(id);
            match open_new(&path) {
                Ok(file) => return Ok((file, Unnamed { files: Arc::clone(self), id, kept: AtomicBool::new(false) })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_folder(path.parent().expect("files are in folders"))?;
                    sync_folder(&self.folder)?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the name of a file as durable as its bytes.
    pub(crate) fn sync_name(&self, file: FileId) -> io::Result<()> {
        sync_folder(self.path(file).parent().expect("files are in folders"))
    }

    /// Keeps files until the pin is dropped. `None` when one of them is on its way out: whoever
    /// named it has changed, and has to be asked again.
    pub(crate) fn pin(self: &Arc<Self>, files: Vec<FileId>) -> Option<Pin> {
        let mut hold = self.lock();
        if files.iter().any(|file| hold.doomed.contains(file)) {
            return None;
        }
        for file in &files {
            *hold.pinned.entry(*file).or_default() += 1;
        }
        drop(hold);
        let pin = Pin { files: Arc::clone(self), pinned: files };
        pin.pinned.iter().all(|file| self.path(*file).exists()).then_some(pin)
    }

    /// No row names it any more.
    pub(crate) fn doom(&self, file: FileId) {
        let mut hold = self.lock();
        hold.doomed.insert(file);
        if !hold.pinned.contains_key(&file) {
            drop(hold);
            self.sweep_away(file);
        }
    }

    /// Removes what a crash left behind: files that no row names.
    pub(crate) fn remove_orphans(&self, connection: &Connection) -> io::Result<u64> {
        let mut named = connection.prepare("SELECT 1 FROM segments WHERE file = ?1").map_err(io::Error::other)?;
        let mut removed = 0;
        for folder in fs::read_dir(&self.folder)? {
            let folder = folder?.path();
            if !folder.is_dir() {
                continue;
            }
            for file in fs::read_dir(&folder)? {
                let path = file?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                // What has another name was not made here, and is left alone.
                let Some(id) = FileId::from_str_radix(name, 16).ok().filter(|id| self.path(*id) == path) else {
                    continue;
                };
                if !named.exists([id]).map_err(io::Error::other)? {
                    fs::remove_file(&path)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    fn sweep_away(&self, file: FileId) {
        let broom = self.broom.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the thread the file waits for the next start.
        let _ = broom.send(file);
    }

    fn unlink(&self, file: FileId) {
        if let Err(error) = fs::remove_file(self.path(file))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a file of the object store could not be removed; the next start tries again");
        }
        self.lock().doomed.remove(&file);
    }

    fn lock(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that no row names yet. Dropping it removes the file, unless it was kept.
pub(crate) struct Unnamed {
    files: Arc<Files>,
    pub(crate) id: FileId,
    kept: AtomicBool,
}

impl Unnamed {
    /// A row names it, or may be found to name it after a crash.
    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Acquire) {
            self.files.doom(self.id);
        }
    }
}

/// Files that stay as long as this value does.
pub(crate) struct Pin {
    files: Arc<Files>,
    pinned: Vec<FileId>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut hold = self.files.lock();
        let mut free = Vec::new();
        for file in &self.pinned {
            if let Some(count) = hold.pinned.get_mut(file) {
                *count -= 1;
                if *count == 0 {
                    hold.pinned.remove(file);
                    if hold.doomed.contains(file) {
                        free.push(*file);
                    }
                }
            }
        }
        drop(hold);
        for file in free {
            self.files.sweep_away(file);
        }
    }
}

pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Options for files that only the manager's user may read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn open_new(path: &Path) -> io::Result<File> {
    private().write(true).create_new(true).open(path)
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
