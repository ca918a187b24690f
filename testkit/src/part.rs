//! Where a part is on this machine.
//!
//! The scripts in `scripts/parts` pin the versions and own the cache; asking them with
//! `--find` keeps that knowledge in one place. Nothing is fetched or built from here.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set by the runner's quick mode, which leaves every part alone.
const QUICK: &str = "OSCAR_TEST_QUICK";

/// A folder of third-party programs.
#[derive(Debug, Clone)]
pub struct Part {
    folder: PathBuf,
}

/// Why a part cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub part: String,
    pub why: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no {}: {}", self.part, self.why)
    }
}

impl std::error::Error for Missing {}

impl Part {
    /// Looks for the part that `scripts/parts/<name>.sh` makes.
    pub fn find(name: &str) -> Result<Part, Missing> {
        let missing = |why: String| Missing { part: name.to_owned(), why };
        if std::env::var_os(QUICK).is_some_and(|value| value != "0") {
            return Err(missing("the quick run leaves it out".to_owned()));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/parts").join(format!("{name}.sh"));
        let found = Command::new("bash")
            .arg(&script)
            .arg("--find")
            .output()
            .map_err(|error| missing(format!("bash could not be run: {error}")))?;
        let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if found.status.success() && !folder.is_empty() {
            return Ok(Part { folder: folder.into() });
        }
        let said = String::from_utf8_lossy(&found.stderr);
        let why = said.trim().lines().last().unwrap_or("no reason given");
        Err(missing(why.to_owned()))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_is_missing_with_a_reason() {
        let missing = Part::find("no-such-part").expect_err("there is no such script");
        assert_eq!(missing.part, "no-such-part");
        assert!(!missing.why.is_empty());
    }
}
