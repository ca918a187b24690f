//! The project's files.

use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours. In a work tree beside the clone, `.git` is a file.
const FOREIGN: [&str; 4] = [".git", "node_modules", "target", "__pycache__"];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Every file below `folder`, as paths relative to it, in order.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, Path::new(""), &mut found);
    found.sort();
    found
}

/// The files with this extension, and their contents.
pub(crate) fn read_all(folder: &Path, extension: &str) -> Vec<(PathBuf, String)> {
    list(folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(folder.join(path)).ok()?)))
        .collect()
}

fn walk(root: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    // A folder that vanishes meanwhile (an editor's, say) holds nothing to judge.
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if FOREIGN.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_file() {
            found.push(path);
        } else if kind.is_dir() {
            walk(root, &path, found);
        }
    }
}
