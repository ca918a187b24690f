//! Nothing outlives the test process.
//!
//! `Drop` ends servers when a test ends. Statics are not dropped, though, and a killed or
//! aborted test process drops nothing at all. So one shell per test process holds the read
//! end of a pipe whose only write end is here: when this process is gone, however it went,
//! the shell reads end-of-file, ends every process group it was told of and removes the
//! scratch folders.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

const SCRIPT: &str = r#"
groups=" "
while read -r verb thing; do
  case $verb in
    group) groups="$groups$thing " ;;
    forget) groups="${groups%% $thing *} ${groups#* $thing }" ;;
    folder) set -- "$@" "$thing" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
for attempt in 1 2 3 4 5; do
  rm -rf -- "$@" 2>/dev/null && break
  sleep 0.2
done
"#;

#[expect(clippy::zombie_processes, reason = "the reaper ends after this process, which therefore cannot wait for it")]
static REAPER: LazyLock<Mutex<ChildStdin>> = LazyLock::new(|| {
    // A group of its own: the interrupt key must end the tests, not their reaper. No
    // inherited output: whoever reads the tests' output must not wait for the reaper.
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT, "reaper"])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh can be run");
    Mutex::new(shell.stdin.take().expect("its input is a pipe"))
});

/// The process group `id` has to end with this process.
pub(crate) fn watch_group(id: u32) {
    tell(&format!("group {id}"));
}

/// The process group `id` has ended; the number may be another's from now on.
pub(crate) fn forget_group(id: u32) {
    tell(&format!("forget {id}"));
}

/// The folder has to go with this process.
pub(crate) fn watch_folder(path: &Path) {
    tell(&format!("folder {}", path.display()));
}

fn tell(line: &str) {
    let mut pipe = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(pipe, "{line}").expect("the reaper listens as long as this process lives");
}
