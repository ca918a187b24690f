//! The Python environment that holds the published OSCAR client and the API fuzzer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{Missing, Part};

#[derive(Debug, Clone)]
pub struct Python {
    part: Part,
}

impl Python {
    pub fn find() -> Result<Python, Missing> {
        let part = Part::find("python")?;
        Ok(Python { part })
    }

    /// A program of the environment, say `schemathesis`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.part.file("bin").join(name)
    }

    /// Runs a script with these variables added to the environment, to its end.
    pub fn run(&self, script: &Path, environment: &[(&str, &str)]) -> Output {
        Command::new(self.program("python"))
            .arg(script)
            .envs(environment.iter().copied())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // A proxy of the machine has no business on loopback.
            .env("no_proxy", "127.0.0.1,localhost")
            .output()
            .unwrap_or_else(|error| panic!("running {}: {error}", script.display()))
    }
}
