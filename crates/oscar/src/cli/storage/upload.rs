//! Files on their way to the store.

use std::path::{Path, PathBuf};
use std::time::Instant;

use reqwest::header::CONTENT_LENGTH;
use rusty_s3::S3Action as _;

use super::body::{Sent, piece};
use super::parts;
use super::place::Place;
use super::store::{SIGNATURE, Store, far};
use crate::cli::exit::{Exit, Failure};
use crate::cli::input::unreadable;
use crate::cli::progress;

/// What is larger is sent in parts.
const LARGE: u64 = 64 << 20;

/// Which file becomes which object, and what of a folder becomes none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) wanted: Vec<(PathBuf, String)>,
    /// With the reason, the end of a sentence.
    pub(super) left_out: Vec<(PathBuf, &'static str)>,
}

pub(super) fn plan(files: &[PathBuf], place: &Place, recursive: bool) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    for file in files {
        let found = std::fs::metadata(file).map_err(|error| unreadable(&file.display().to_string(), &error))?;
        if found.is_dir() {
            if !recursive {
                return Err(Failure::new(Exit::Usage, format!("{} is a folder", file.display()))
                    .hint("add `-r` to upload everything below it"));
            }
            let folder = if place.is_folder() { place.key.clone() } else { format!("{}/", place.key) };
            below(file, &format!("{folder}{}/", name_of(file)?), &mut plan)?;
        } else if place.is_folder() {
            plan.wanted.push((file.clone(), format!("{}{}", place.key, name_of(file)?)));
        } else if files.len() > 1 {
            return Err(Failure::new(Exit::Usage, "several files cannot become one object")
                .hint(format!("a folder ends with a slash: {}/{}/", place.bucket, place.key)));
        } else {
            plan.wanted.push((file.clone(), place.key.clone()));
        }
    }
    plan.wanted.iter().try_for_each(|(_, key)| Place::parse(&format!("{}/{key}", place.bucket)).map(drop))?;
    Ok(plan)
}

/// Links are followed for files only: a folder that is a link may lead in a circle.
fn below(folder: &Path, prefix: &str, plan: &mut Plan) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| unreadable(&folder.display().to_string(), error);
    let entries = std::fs::read_dir(folder).map_err(|error| failed(&error))?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    if entries.is_empty() {
        plan.left_out.push((folder.to_owned(), "it is empty, and a store has no folders"));
    }
    for entry in entries {
        let path = entry.path();
        let key = format!("{prefix}{}", name_of(&path)?);
        if entry.file_type().map_err(|error| failed(&error))?.is_dir() {
            below(&path, &format!("{key}/"), plan)?;
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => plan.wanted.push((path, key)),
            Ok(found) if found.is_dir() => plan.left_out.push((path, "it is a link to a folder")),
            Ok(_) => plan.left_out.push((path, "it is no file")),
            Err(_) => plan.left_out.push((path, "it is a link that leads nowhere")),
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> Result<String, Failure> {
    // `.` and `..` have names too.
    let whole = std::fs::canonicalize(path).unwrap_or_default();
    let name = path.file_name().or_else(|| whole.file_name()).and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("the name of {} is no text that a key could be", path.display()))
            .hint("name the object: BUCKET/KEY")
    })
}

/// Uploads one file; gives its size.
pub(super) async fn run(store: &Store, file: &Path, bucket: &str, key: &str) -> Result<u64, Failure> {
    let failed = |error: &std::io::Error| unreadable(&file.display().to_string(), error);
    let found = std::fs::metadata(file).map_err(|error| failed(&error))?;
    if !found.is_file() {
        return Err(Failure::new(Exit::Usage, format!("{} is not a file", file.display())));
    }
    let (size, sent, since) = (found.len(), Sent::default(), Instant::now());
    let what = format!("uploading {bucket}/{key}");
    if size > LARGE {
        let parts = parts::Upload::begin(store, file, size, bucket, key, &sent).await?;
        let skipped = parts.skipped();
        progress::watching(&what, parts.finish(), async || Some(far(&sent, size, since, skipped))).await?;
        return Ok(size);
    }
    let there = store.bucket(bucket)?;
    let place = format!("{bucket}/{key}");
    let stored = store.retry(&place, || {
        sent.store(0, std::sync::atomic::Ordering::Relaxed);
        let url = there.put_object(Some(&store.keys), key).sign(SIGNATURE);
        let body = piece(file, 0, size, &sent).map_err(|error| failed(&error))?;
        Ok(store.http.put(url).header(CONTENT_LENGTH, size).body(body))
    });
    progress::watching(&what, stored, async || Some(far(&sent, size, since, 0))).await?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_names_in_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("deep/er")).expect("made");
        for name in ["a + b.txt", "deep/x", "deep/er/ä%"] {
            std::fs::write(path(name), name).expect("written");
        }
        let keys = |files: &[&str], place: &str, recursive: bool| {
            let files: Vec<_> = files.iter().map(|name| path(name)).collect();
            let planned = plan(&files, &Place::parse(place).expect(place), recursive);
            planned.map(|plan| plan.wanted.into_iter().map(|(_, key)| key).collect::<Vec<_>>())
        };
        assert_eq!(keys(&["a + b.txt"], "data", false), Ok(vec!["a + b.txt".to_owned()]));
        assert_eq!(keys(&["a + b.txt"], "data/in/", false), Ok(vec!["in/a + b.txt".to_owned()]));
        assert_eq!(keys(&["a + b.txt"], "data/other", false), Ok(vec!["other".to_owned()]));
        let all = ["in/deep/er/ä%", "in/deep/x"].map(str::to_owned).to_vec();
        assert_eq!(keys(&["deep"], "data/in/", true), Ok(all));
        assert_eq!(keys(&["deep"], "data/in/", false).expect_err("a folder").exit, Exit::Usage);
        assert_eq!(keys(&["a + b.txt", "deep/x"], "data/one", false).expect_err("two").exit, Exit::Usage);
        assert_eq!(keys(&["absent"], "data/one", false).expect_err("absent").exit, Exit::NotFound);
    }

    #[test]
    fn what_cannot_become_an_object_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join("all").join(name);
        std::fs::create_dir_all(path("empty")).expect("made");
        std::fs::write(path("file"), "x").expect("written");
        std::os::unix::fs::symlink(path("file"), path("link")).expect("made");
        std::os::unix::fs::symlink(folder.path(), path("circle")).expect("made");
        std::os::unix::fs::symlink("nowhere", path("broken")).expect("made");
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("made");
        let planned = plan(&[folder.path().join("all")], &Place::parse("data").expect("valid"), true).expect("planned");
        let keys: Vec<_> = planned.wanted.iter().map(|(_, key)| key.as_str()).collect();
        assert_eq!(keys, ["all/file", "all/link"]);
        let left: Vec<_> = planned.left_out.iter().map(|(path, why)| (path.file_name(), *why)).collect();
        let expected = [
            ("broken", "it is a link that leads nowhere"),
            ("circle", "it is a link to a folder"),
            ("empty", "it is empty, and a store has no folders"),
            ("socket", "it is no file"),
        ];
        assert_eq!(left, expected.map(|(name, why)| (Some(name.as_ref()), why)));
    }
}
