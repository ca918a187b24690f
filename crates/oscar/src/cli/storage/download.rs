//! Objects on their way to a file. What was interrupted goes on where it stopped, as long as the
//! object is still the same: the unfinished file has the object's tag in its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reqwest::header::{IF_MATCH, RANGE};
use reqwest::{Response, StatusCode};
use rusty_s3::S3Action as _;
use tokio::io::AsyncWriteExt as _;

use super::body::Sent;
use super::failure::Trouble;
use super::store::{Head, SIGNATURE, Store, far};
use crate::cli::exit::{Exit, Failure};
use crate::cli::{progress, screen};

/// So often nothing new may come before it is given up.
const MOST_SILENT: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Where an object goes.
pub(super) fn destination(key: &str, wanted: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let name = key.rsplit('/').next().unwrap_or(key);
    let own = PathBuf::from(name);
    match wanted {
        None => Ok(own),
        Some(folder) if folder.is_dir() => Ok(folder.join(own)),
        Some(file) if file.as_os_str().to_string_lossy().ends_with('/') => {
            Err(Failure::new(Exit::NotFound, format!("there is no folder {}", file.display())))
        }
        // What a link points to is replaced, not the link.
        Some(link) if link.is_symlink() => fs::canonicalize(&link)
            .map_err(|error| Failure::io(format!("{} leads nowhere", link.display()), &error))
            .and_then(only_file),
        Some(file) => only_file(file),
    }
}

/// A device or a pipe would be gone, and a file in its place.
fn only_file(file: PathBuf) -> Result<PathBuf, Failure> {
    match fs::metadata(&file) {
        Ok(found) if !found.is_file() => {
            Err(Failure::new(Exit::Usage, format!("{} is no file that could be replaced", file.display()))
                .hint("`-` writes to the standard output"))
        }
        _ => Ok(file),
    }
}

/// Downloads an object; gives its size.
pub(super) async fn run(store: &Store, bucket: &str, key: &str, file: &Path) -> Result<u64, Failure> {
    let what = format!("downloading {bucket}/{key}");
    let head = progress::during(&what, store.head(bucket, key)).await?;
    let part = unfinished(file, &head.etag);
    let failed = |error: &std::io::Error| Failure::io(format!("{} cannot be written", part.display()), error);
    let out = fs::OpenOptions::new().append(true).create(true).open(&part).map_err(|error| failed(&error))?;
    let have = out.metadata().map_err(|error| failed(&error))?.len();
    let have = if have > head.size { 0 } else { have };
    out.set_len(have).map_err(|error| failed(&error))?;
    let (got, since) = (Sent::default(), Instant::now());
    got.store(have, Ordering::Relaxed);
    let fetching = Fetch { store, bucket, key, head: &head, part: &part, got: &got };
    let look = async || Some(far(&got, head.size, since, have));
    let fetched = progress::watching(&what, fetching.whole(tokio::fs::File::from_std(out)), look).await;
    fetched.map_err(|failure| failure.hint("the same command again goes on where this one stopped"))?;
    fs::rename(&part, file).map_err(|error| Failure::io(format!("{} cannot be written", file.display()), &error))?;
    Ok(head.size)
}

/// Beside the file, so that it can take its place at once.
fn unfinished(file: &Path, etag: &str) -> PathBuf {
    let tag: String = etag.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(80).collect();
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{tag}.part"));
    file.with_file_name(name)
}

struct Fetch<'a> {
    store: &'a Store,
    bucket: &'a str,
    key: &'a str,
    head: &'a Head,
    part: &'a Path,
    got: &'a Sent,
}

impl Fetch<'_> {
    async fn whole(&self, mut out: tokio::fs::File) -> Result<(), Failure> {
        let mut silent = 0;
        loop {
            let before = self.got.load(Ordering::Relaxed);
            if before >= self.head.size {
                break;
            }
            let trouble = match self.rest(&mut out).await {
                Ok(()) => continue,
                Err(trouble) => trouble,
            };
            silent = if self.got.load(Ordering::Relaxed) > before { 0 } else { silent + 1 };
            if !trouble.passing || silent >= MOST_SILENT {
                return Err(trouble.failure);
            }
            tokio::time::sleep(PAUSE).await;
        }
        out.sync_all().await.map_err(|error| self.unwritable(&error).failure)
    }

    /// What is missing, as far as it comes.
    async fn rest(&self, out: &mut tokio::fs::File) -> Result<(), Trouble> {
        let have = self.got.load(Ordering::Relaxed);
        let url = self.store.bucket(self.bucket)?.get_object(Some(&self.store.keys), self.key).sign(SIGNATURE);
        let mut request = self.store.http.get(url).header(IF_MATCH, &self.head.etag);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let mut answer = self.store.send(request, &format!("{}/{}", self.bucket, self.key)).await?;
        if have > 0 && answer.status() != StatusCode::PARTIAL_CONTENT {
            // It begins from the beginning, whatever was asked for.
            out.set_len(0).await.map_err(|error| self.unwritable(&error))?;
            self.got.store(0, Ordering::Relaxed);
        }
        loop {
            let chunk = next(&mut answer, self.store).await?;
            let Some(chunk) = chunk else { break };
            out.write_all(&chunk).await.map_err(|error| self.unwritable(&error))?;
            // What is counted is in the file, so that the next request begins behind it.
            out.flush().await.map_err(|error| self.unwritable(&error))?;
            self.got.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        if self.got.load(Ordering::Relaxed) == self.head.size {
            return Ok(());
        }
        let short = format!("{}/{} did not come whole", self.bucket, self.key);
        Err(Trouble { failure: Failure::new(Exit::Failed, short), passing: true })
    }

    fn unwritable(&self, error: &std::io::Error) -> Trouble {
        Failure::io(format!("{} cannot be written", self.part.display()), error).into()
    }
}

/// Writes an object to the standard output, once.
pub(super) async fn to_output(store: &Store, bucket: &str, key: &str) -> Result<(), Failure> {
    let there = store.bucket(bucket)?;
    let make = || Ok(store.http.get(there.get_object(Some(&store.keys), key).sign(SIGNATURE)));
    let mut answer = store.retry(&format!("{bucket}/{key}"), make).await?;
    while let Some(chunk) = next(&mut answer, store).await.map_err(|trouble| trouble.failure)? {
        if !screen::put(&chunk) {
            break;
        }
    }
    Ok(())
}

async fn next(answer: &mut Response, store: &Store) -> Result<Option<axum::body::Bytes>, Trouble> {
    let chunk = answer.chunk().await;
    chunk.map_err(|error| Trouble::unanswered(store.endpoint.as_str(), &error.without_url()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_name_in_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("two words");
        assert_eq!(destination("in/two words", Some(folder.path().to_owned())), Ok(inside));
        assert_eq!(destination("in/x", None), Ok(PathBuf::from("x")));
        assert_eq!(destination("in/x", Some(PathBuf::from("y"))), Ok(PathBuf::from("y")));
        assert!(destination("in/x", Some(folder.path().join("absent/"))).is_err());
        assert_eq!(unfinished(Path::new("a/b"), "\"12-3/../\""), PathBuf::from("a/b.12-3.part"));
    }
}
