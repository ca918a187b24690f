//! Tells the program which commit it was built from. Without a repository, or without `git`, it
//! does not know, which is no failure. `OSCAR_GIT_COMMIT` says it for those who build from an
//! archive.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "OSCAR_GIT_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var(VARIABLE).unwrap_or_default();
    let commit = if given.trim().is_empty() { of_repository().unwrap_or_default() } else { given.trim().to_owned() };
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

fn of_repository() -> Option<String> {
    // The repository of somebody who unpacked an archive inside of it is not ours.
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != workspace {
        return None;
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // A file that is not there would have everything built anew each time.
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--verify", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
