//! What a script left in its output folder, and where it goes.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use oscar_model::service::Isolation;
use oscar_model::service::storage::{ProviderKind, ProviderRef, StorageIo};
use tokio_util::sync::CancellationToken;

use crate::config::FunctionConfig;
use crate::event::{ObjectEvent, ObjectStore};
use crate::http::Trouble;
use crate::journal::{Journal, Notes};
use crate::names::{below, bucket_and_folder, matches, staged_key};
use crate::providers::{Providers, Store, Unusable};
use crate::report::{Complaint, Written};
use crate::s3::S3Store;
use crate::slice::Slice;
use crate::task::Outputs;

/// Folders deeper than this are not looked into.
const MOST_DEPTH: usize = 128;

/// A file that the script wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Produced {
    /// Relative to the output folder.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// What was found in the output folder, and remarks about what was left out.
#[derive(Debug, Default)]
pub(crate) struct Harvest {
    pub(crate) files: Vec<Produced>,
    pub(crate) remarks: Vec<String>,
}

/// Looks through the output folder. Links that lead out of it are not followed: what they show
/// was not made by the script.
pub(crate) fn harvest(folder: &Path, most: usize) -> Result<Harvest, String> {
    let unreadable = |path: &Path, error: &std::io::Error| {
        format!("The output folder cannot be read at {}: {error}.", path.display())
    };
    let root = fs::canonicalize(folder).map_err(|error| unreadable(folder, &error))?;
    let mut harvest = Harvest::default();
    let mut folders = vec![(root.clone(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let path = entry.path();
            let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
            if kind.is_dir() && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() || (kind.is_symlink() && stays_inside(&root, &path)) {
                if harvest.files.len() >= most {
                    return Err(format!("The script left more than {most} files in its output folder."));
                }
                harvest.files.push(Produced { name, path });
            } else if kind.is_symlink() {
                harvest.remarks.push(format!(
                    "`{name}` is a link to something that is no file of the output folder; it is left out."
                ));
            } else {
                harvest.remarks.push(format!("`{name}` is no ordinary file; it is left out."));
            }
        }
    }
    harvest.files.sort();
    Ok(harvest)
}

fn stays_inside(root: &Path, link: &Path) -> bool {
    fs::canonicalize(link).is_ok_and(|target| target.starts_with(root) && target.is_file())
}

/// Opens a file of the output folder, and looks again at what was opened: something that the
/// script left running could have put a link there in the meantime.
pub(crate) fn open(folder: &Path, file: &Produced) -> Result<(File, u64), String> {
    let fault = |cause: &str| format!("The output `{}` cannot be read: {cause}.", file.name);
    let root = fs::canonicalize(folder).map_err(|error| fault(&error.to_string()))?;
    // A pipe without a writer would be waited for; a link inside is followed by its target.
    let path = fs::canonicalize(&file.path).map_err(|error| fault(&error.to_string()))?;
    if !path.starts_with(&root) || !path.is_file() {
        return Err(fault("it is no file of the output folder any more"));
    }
    let opened = File::open(&path).map_err(|error| fault(&error.to_string()))?;
    let seen = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    if seen.is_ok_and(|seen| !seen.starts_with(&root)) {
        return Err(fault("it is no file of the output folder any more"));
    }
    let length = opened.metadata().map_err(|error| fault(&error.to_string()))?.len();
    Ok((opened, length))
}

/// One output of the service with its store.
pub(crate) struct Target<'a> {
    job: &'a str,
    output: &'a StorageIo,
    store: Store,
    /// Staged: the bucket and the folder in it.
    staging: Option<(String, String)>,
    /// The bucket of USER isolation.
    bucket: Option<String>,
}

/// The outputs of a service that can be used, and those for which there are no keys.
pub(crate) struct Targets<'a> {
    pub(crate) usable: Vec<Target<'a>>,
    pub(crate) without_keys: Vec<&'a StorageIo>,
}

impl<'a> Targets<'a> {
    /// Looks at every output before the script runs, so that nobody computes for nothing.
    pub(crate) fn open(
        job: &'a str,
        config: &'a FunctionConfig,
        outputs: &Outputs,
        event: Option<&ObjectEvent>,
        providers: &Providers<'_>,
    ) -> Result<Self, String> {
        let mut targets = Self { usable: Vec::new(), without_keys: Vec::new() };
        for output in &config.output {
            match providers.open(&output.provider) {
                Ok(store) => targets.usable.push(Target {
                    job,
                    output,
                    store,
                    staging: staging_of(outputs, &output.provider),
                    bucket: event.and_then(|event| user_bucket(config, output, event)),
                }),
                Err(Unusable::NoKeys) => targets.without_keys.push(output),
                Err(Unusable::Because(why)) => {
                    return Err(format!("The output `{}` cannot be stored: {why}.", output.path));
                }
            }
        }
        Ok(targets)
    }
}

fn staging_of(outputs: &Outputs, provider: &ProviderRef) -> Option<(String, String)> {
    match outputs {
        Outputs::Staged { bucket, prefix } if provider.is_own_store() => Some((bucket.clone(), prefix.clone())),
        _ => None,
    }
}

/// With USER isolation, what came from a user's own bucket goes back to it.
fn user_bucket(config: &FunctionConfig, output: &StorageIo, event: &ObjectEvent) -> Option<String> {
    let own = config.isolation == Isolation::User
        && event.store == ObjectStore::Minio
        && output.provider.kind == ProviderKind::Minio
        && config.bucket_list.contains(&event.bucket);
    own.then(|| event.bucket.clone())
}

/// Stores every file at every output that wants it, a few at a time. What was stored is told
/// even when something else failed.
pub(crate) async fn store(
    targets: &[&Target<'_>],
    folder: &Path,
    files: &[Produced],
    at_once: usize,
    journal: &mut Journal<'_>,
    cancel: &CancellationToken,
) -> (Vec<Written>, Option<Complaint>) {
    let wanted = targets.iter().flat_map(|&target| {
        let files = files.iter().filter(|file| matches(target.output, &file.name));
        files.map(move |file| (target, file))
    });
    let mut transfers = futures::stream::iter(wanted)
        .map(|(target, file)| async move {
            let notes = Notes::default();
            let stored = target.store(&notes, folder, file).await;
            (file, notes, stored)
        })
        .buffered(at_once.max(1));
    let (mut written, mut failure) = (Vec::new(), None);
    loop {
        let next = tokio::select! {
            next = transfers.next() => next,
            () = cancel.cancelled() => {
                failure = Some("The job was cancelled while its outputs were stored.".into());
                break;
            }
        };
        let Some((file, notes, stored)) = next else { break };
        journal.take_notes(&notes).await;
        match stored {
            Ok(stored) => {
                let path = below(&stored.bucket, &stored.key);
                let done = if stored.staged_key.is_some() { "Kept for" } else { "Stored as" };
                journal.info(&format!("{done} `{path}` of {}: `{}`.", stored.provider, file.name)).await;
                written.push(stored);
            }
            Err(complaint) => {
                failure = Some(complaint);
                break;
            }
        }
    }
    (written, failure)
}

impl Target<'_> {
    async fn store(&self, notes: &Notes, folder: &Path, file: &Produced) -> Result<Written, Complaint> {
        let (opened, bytes) = open(folder, file)?;
        let data = Slice::whole(opened, bytes);
        let provider = self.output.provider.to_string();
        let failed = |path: &str, trouble: Trouble| {
            trouble.complain(|cause| {
                format!("The output `{}` could not be stored as `{path}` of {provider}: {cause}.", file.name)
            })
        };
        match &self.store {
            Store::Webdav(store) => {
                let key = below(&self.output.path, &file.name);
                store.put(notes, &key, &data).await.map_err(|trouble| failed(&key, trouble))?;
                Ok(Written { provider, bucket: String::new(), key, staged_key: None, bytes, etag: None })
            }
            Store::S3(store) => {
                let (bucket, folder) = bucket_and_folder(&self.output.path);
                let bucket = self.bucket.as_deref().unwrap_or(bucket).to_owned();
                let key = below(folder, &file.name);
                let staged = self
                    .staging
                    .as_ref()
                    .map(|(staging, prefix)| (staging.as_str(), staged_key(prefix, &format!("{bucket}/{key}"))));
                let (to_bucket, to_key) = match &staged {
                    Some((staging, staged_key)) => (*staging, staged_key.as_str()),
                    None => (bucket.as_str(), key.as_str()),
                };
                // Staged ones are told apart when they are put in place.
                let job = if staged.is_some() { None } else { Some(self.job) };
                let stored = store.put(notes, to_bucket, to_key, &data, job).await;
                let etag = stored.map_err(|trouble| failed(&below(to_bucket, to_key), trouble))?;
                let staged_key = staged.map(|(_, key)| key);
                Ok(Written { provider, bucket, key, staged_key, bytes, etag })
            }
        }
    }

    /// Whether it wants any of these files.
    pub(crate) fn wants_any(&self, files: &[Produced]) -> bool {
        files.iter().any(|file| matches(self.output, &file.name))
    }

    /// The store in which outputs wait, with bucket and prefix.
    pub(crate) fn staged(&self) -> Option<(&S3Store, &str, &str)> {
        match (&self.store, &self.staging) {
            (Store::S3(store), Some((bucket, prefix))) => Some((store, bucket, prefix)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_lead_out_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let (out, secret) = (dir.path().join("out"), dir.path().join("secret"));
        fs::create_dir_all(out.join("sub")).expect("made");
        fs::write(&secret, "key").expect("written");
        fs::write(out.join("sub/real name+%ñ.txt"), "x").expect("written");
        symlink(&secret, out.join("escape")).expect("linked");
        symlink("../../secret", out.join("sub/escape")).expect("linked");
        symlink(dir.path(), out.join("folder")).expect("linked");
        symlink("sub/real name+%ñ.txt", out.join("inside")).expect("linked");
        symlink("nowhere", out.join("dangling")).expect("linked");
        symlink("/dev/zero", out.join("device")).expect("linked");
        let found = harvest(&out, 10).expect("readable");
        let names: Vec<_> = found.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["inside", "sub/real name+%ñ.txt"]);
        assert_eq!(found.remarks.len(), 5, "{:?}", found.remarks);
    }

    #[test]
    fn a_file_that_became_a_link_is_not_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("out");
        fs::create_dir(&out).expect("made");
        fs::write(out.join("a"), "x").expect("written");
        let found = harvest(&out, 10).expect("readable");
        fs::remove_file(out.join("a")).expect("removed");
        symlink("/etc/passwd", out.join("a")).expect("linked");
        assert!(open(&out, &found.files[0]).is_err());
    }

    #[test]
    fn the_number_of_files_has_an_end() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            fs::write(dir.path().join(name), "").expect("written");
        }
        assert!(harvest(dir.path(), 3).is_ok() && harvest(dir.path(), 2).is_err());
    }

    #[test]
    fn special_files_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
        let found = harvest(dir.path(), 3).expect("readable");
        assert_eq!((found.files.len(), found.remarks.len()), (0, 1));
    }
}
