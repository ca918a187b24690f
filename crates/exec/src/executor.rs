//! The one interface of all ways to run a script.

use std::future::Future;

use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use crate::bubblewrap::Bubblewrap;
use crate::cgroup::Places;
use crate::container::Container;
use crate::process::Process;
use crate::run::{Description, Ended, ExecError, Paths, Run};
use crate::tree;

/// What a script reads from its standard input.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;

/// Where the bytes of its standard output and standard error go, in their order. Who receives
/// slowly makes the script wait; who stops receiving loses the rest, and the script goes on.
pub type Output = mpsc::Sender<Vec<u8>>;

/// A way of running scripts that was tried on this machine. [`crate::probe`] makes them.
/// One that was tried can be written down for another process of the same machine and user.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Executor {
    pub(crate) way: Way,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) enum Way {
    Bubblewrap(Bubblewrap),
    Process(Process),
    Container(Container),
}

impl Executor {
    pub fn describe(&self) -> Description {
        match &self.way {
            Way::Bubblewrap(way) => way.describe(),
            Way::Process(way) => way.describe(),
            Way::Container(way) => way.describe(),
        }
    }

    /// Where the script of this run finds its things.
    pub fn paths(&self, run: &Run) -> Paths {
        match &self.way {
            Way::Bubblewrap(_) => Bubblewrap::paths(),
            Way::Process(way) => way.paths(run),
            Way::Container(_) => Container::paths(),
        }
    }

    /// Ends what goes on although whoever began it was killed; how much that was. Containers
    /// outlive their maker, and so does what a script without namespaces has started.
    pub async fn sweep(&self) -> Result<usize, String> {
        match &self.way {
            Way::Bubblewrap(way) => sweep_processes(way.places.clone()).await,
            Way::Process(way) => sweep_processes(way.places.clone()).await,
            // Before the last start of the manager it may have been another way.
            Way::Container(way) => Ok(sweep_processes(Places::default()).await? + way.sweep().await?),
        }
    }

    /// Runs the script until it, and everything that it started, has ended.
    ///
    /// The input and output folders become the property of the script's user when this process
    /// is root. What the script leaves in the output folder is whatever it likes, also links to
    /// files that it could not read: whoever collects it must not follow them.
    ///
    /// When `cancel` is ready, or the time is over, all processes get SIGTERM, and SIGKILL
    /// after the grace. Dropping the future kills at once.
    ///
    /// The sandbox dies with the *thread* that began the run, so this must be called from one
    /// that lives as long: a worker of the runtime, not `spawn_blocking`.
    pub async fn run(
        &self,
        run: &Run,
        stdin: Option<Input>,
        output: Output,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Ended, ExecError> {
        check(run)?;
        match &self.way {
            Way::Bubblewrap(way) => way.run(run, stdin, output, cancel).await,
            Way::Process(way) => way.run(run, stdin, output, cancel).await,
            Way::Container(way) => way.run(run, stdin, output, cancel).await,
        }
    }
}

async fn sweep_processes(places: Places) -> Result<usize, String> {
    let swept = tokio::task::spawn_blocking(move || {
        let swept = tree::end(&|| tree::union(places.left(), tree::left()));
        places.remove_leftovers();
        swept
    });
    let swept = swept.await.map_err(|error| error.to_string())?;
    swept.map_err(|left| format!("processes of jobs whose supervisor is gone cannot be ended: {left:?}"))
}

/// What no way could run.
fn check(run: &Run) -> Result<(), ExecError> {
    for (name, value) in &run.env {
        if name.is_empty() || name.contains(['=', '\0', '\n']) {
            return Err(ExecError::Unfit(format!("{name:?} cannot be the name of an environment variable")));
        }
        if value.contains('\0') {
            return Err(ExecError::Unfit(format!("the environment variable {name:?} contains a zero byte")));
        }
    }
    for path in [&run.script, &run.input_dir, &run.output_dir] {
        if !path.is_absolute() {
            return Err(ExecError::Unfit(format!("{} is not an absolute path", path.display())));
        }
        std::fs::metadata(path).map_err(ExecError::io(format!("looking at {}", path.display())))?;
    }
    Ok(())
}

/// The environment of the script: what the run says, and what every script may rely on.
pub(crate) fn environment(run: &Run, home: &std::path::Path) -> std::collections::BTreeMap<String, String> {
    let defaults = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("HOME", home.to_string_lossy().into_owned()),
        ("LANG", "C.UTF-8".to_owned()),
    ];
    let mut all: std::collections::BTreeMap<String, String> =
        defaults.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(run.env.clone());
    all
}

/// Variables of bash that cannot be assigned; trying to ends it.
const FIXED: [&str; 6] = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];

/// Assignments that a shell reads back as exactly these values. Names that no shell can hold
/// are left out: the shell that runs the script would drop them as well.
pub(crate) fn to_shell<'a>(env: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let is_name = |name: &str| {
        !name.starts_with(|first: char| first.is_ascii_digit())
            && !FIXED.contains(&name)
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    env.into_iter()
        .filter(|(name, _)| is_name(name))
        .map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let env = [("A".to_owned(), "x'; echo y\n\\'".to_owned()), ("b-c".to_owned(), "z".to_owned())];
        let text = to_shell(env.iter().map(|(name, value)| (name, value)));
        let said = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("{text}printf %s \"$A\"")])
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "x'; echo y\n\\'");
    }
}
