//! What nobody counts for us: the size of a folder, and memory where there is no control group.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How often it is looked at. What a script writes in between is how far it can go too far.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// Whether more than `most` bytes are allocated in a folder. Links are not followed, and the
/// count ends as soon as the answer is known.
pub(crate) fn exceeds(folder: &Path, most: u64) -> bool {
    let (mut sum, mut waiting) = (0_u64, vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            sum = sum.saturating_add(metadata.blocks().saturating_mul(512));
            if sum > most {
                return true;
            }
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_with_its_folders_and_without_what_links_point_to() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("a")).expect("a folder in it");
        fs::write(folder.path().join("a/b"), vec![1; 100_000]).expect("a file");
        std::os::unix::fs::symlink("/usr", folder.path().join("link")).expect("a link");
        assert!(exceeds(folder.path(), 90_000));
        assert!(!exceeds(folder.path(), 200_000));
    }
}
