//! Scripts in `bwrap`: namespaces of their own for users, processes, mounts, messages and names
//! (and the network on wish), an unprivileged user, a root of their own that is read-only, a
//! filter of system calls.
//!
//! A manager that runs as root starts it in two steps. The outer one may see the job's folders,
//! wherever they are, and shows nothing but those and the system; it becomes the user of scripts
//! *on the machine* and starts the inner one, which is the sandbox. With one step the script
//! would be root to everything outside of its namespace.

use std::ffi::OsString;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::cgroup::Places;
use crate::drive::{Reach, drive};
use crate::executor::{Input, Output, environment};
use crate::gate::{self, FIRST_FREE, Start, file_in_memory};
use crate::ownership::{self, NOBODY};
use crate::run::{Description, Ended, ExecError, Kind, Network, Paths, Run};
use crate::{limits, seccomp, visible};

const INPUT: &str = "/oscar/job/input";
const OUTPUT: &str = "/oscar/job/output";
const SCRIPT: &str = "/oscar/config/script.sh";
/// Where the outer step shows the program to the inner one.
const ITSELF: &str = "/oscar/bwrap";
const TEMPORARY: &str = "/tmp";

/// The size of `/tmp` when memory is not bounded.
const DEFAULT_TEMPORARY_BYTES: u64 = 1024 * 1024 * 1024;

const ACCOUNTS: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:job:/tmp:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Bubblewrap {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    pub(crate) places: Places,
    /// Further folders that scripts see, read-only.
    pub(crate) shown: Vec<PathBuf>,
    /// Whether the machine was found to need the two steps.
    pub(crate) as_root: bool,
}

impl Bubblewrap {
    pub(crate) fn paths() -> Paths {
        Paths { script: SCRIPT.into(), input: INPUT.into(), output: OUTPUT.into(), temporary: TEMPORARY.into() }
    }

    pub(crate) fn describe(&self) -> Description {
        let mut weaknesses = Vec::new();
        if let Err(why) = seccomp::filter() {
            weaknesses.push(why);
        }
        weaknesses.extend(crate::probe::weak_limits(&self.places));
        weaknesses.push("programs are those of this machine: the image of a service is not used".to_owned());
        Description {
            kind: Kind::Bubblewrap,
            with: format!("{} ({})", self.version, self.program.display()),
            limits: crate::probe::describe_limits(&self.places),
            weaknesses,
        }
    }

    pub(crate) async fn run(
        &self,
        run: &Run,
        stdin: Option<Input>,
        output: Output,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Ended, ExecError> {
        let start = self.prepare(run)?;
        drive(Kind::Bubblewrap, run, &self.places, start, Reach::Namespace, (stdin, output), cancel).await
    }

    fn prepare(&self, run: &Run) -> Result<Start, ExecError> {
        let mut descriptors = Vec::new();
        let mut program = vec![OsString::from(&self.program)];
        let job = if self.as_root {
            for folder in [&run.input_dir, &run.output_dir] {
                let doing = format!("giving {} to the user of scripts", folder.display());
                ownership::give_to_scripts(folder).map_err(ExecError::io(doing))?;
            }
            let outer = self.build_outer(run);
            program.extend(by_descriptor(&mut descriptors, "outer", &outer)?);
            program.extend(become_nobody());
            program.push(ITSELF.into());
            Job { input: Path::new(INPUT), output: Path::new(OUTPUT) }
        } else {
            Job { input: &run.input_dir, output: &run.output_dir }
        };
        let inner = self.build_inner(run, &job, &mut descriptors)?;
        program.extend(by_descriptor(&mut descriptors, "inner", &inner)?);
        let most = limits::processes_for_shell(&run.limits, &self.places, 0);
        program.extend(gate::inside(Path::new(SCRIPT), most));
        let path = OsString::from("/usr/sbin:/usr/bin:/sbin:/bin");
        Ok(Start { program, env: vec![("PATH".into(), path)], descriptors, folder: "/".into(), errors_apart: false })
    }

    /// A root with the system and the job's folders, without any namespace but that of mounts.
    fn build_outer(&self, run: &Run) -> Vec<OsString> {
        let mut words = words(&["--die-with-parent", "--tmpfs", "/", "--perms", "1777", "--dir", "/tmp"]);
        for folder in ["/oscar", "/oscar/job"] {
            words.extend(self::words(&["--perms", "0755", "--dir", folder]));
        }
        words.extend(visible::system(&self.shown, &run.hidden));
        // The inner step may mount a /proc of its own only where a whole one is in sight.
        words.extend(self::words(&["--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev"]));
        show(&mut words, "--ro-bind", &self.program, ITSELF);
        words.extend(job_words(&Job { input: &run.input_dir, output: &run.output_dir }));
        words.extend(self::words(&["--cap-drop", "ALL"]));
        for capability in ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"] {
            words.extend(self::words(&["--cap-add", capability]));
        }
        words
    }

    fn build_inner(
        &self,
        run: &Run,
        job: &Job<'_>,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Vec<OsString>, ExecError> {
        let mut words =
            words(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        if run.network == Network::None {
            words.push("--unshare-net".into());
        }
        let nobody = NOBODY.to_string();
        words.extend(self::words(&["--uid", &nobody, "--gid", &nobody, "--hostname", "job"]));
        words.extend(self::words(&["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]));
        for (name, value) in environment(run, Path::new(TEMPORARY)) {
            words.extend(self::words(&["--setenv", &name, &value]));
        }
        words.extend(self::words(&["--tmpfs", "/"]));
        for folder in ["/oscar", "/oscar/job", "/oscar/config", "/home", "/root", "/run", "/var", "/var/lib"] {
            words.extend(self::words(&["--perms", "0755", "--dir", folder]));
        }
        words.extend(visible::system(&self.shown, &run.hidden));
        words.extend(self::words(&["--proc", "/proc", "--dev", "/dev", "--symlink", "/tmp", "/var/tmp"]));
        // What lies there is memory: a full folder shall be told as such, before memory is out.
        let size = run.limits.memory_bytes.map_or(DEFAULT_TEMPORARY_BYTES, |bytes| bytes / 2).max(4096).to_string();
        for folder in ["/dev/shm", TEMPORARY] {
            words.extend(self::words(&["--perms", "1777", "--size", &size, "--tmpfs", folder]));
        }
        if run.gpu {
            words.extend(visible::gpu_devices());
        }
        // A copy of the script: its file may be readable for nobody but us.
        let script = std::fs::read(&run.script).map_err(ExecError::io("reading the script"))?;
        for (path, content) in
            [("/etc/passwd", ACCOUNTS.as_bytes()), ("/etc/group", GROUPS.as_bytes()), (SCRIPT, &script)]
        {
            let number = give(descriptors, path, content)?;
            words.extend(self::words(&["--perms", "0644", "--ro-bind-data", &number, path]));
        }
        words.extend(job_words(job));
        words.extend(self::words(&["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", TEMPORARY]));
        if let Ok(filter) = seccomp::filter() {
            let number = give(descriptors, "filter", &filter)?;
            words.extend(self::words(&["--seccomp", &number]));
        }
        Ok(words)
    }
}

/// Where a step finds the things of the job.
struct Job<'a> {
    input: &'a Path,
    output: &'a Path,
}

fn job_words(job: &Job<'_>) -> Vec<OsString> {
    let mut words = Vec::new();
    show(&mut words, "--ro-bind", job.input, INPUT);
    show(&mut words, "--bind", job.output, OUTPUT);
    words
}

/// The words between two steps that give up being root for good.
pub(crate) fn become_nobody() -> Vec<OsString> {
    let nobody = NOBODY.to_string();
    words(&[
        "setpriv",
        "--reuid",
        &nobody,
        "--regid",
        &nobody,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    ])
}

/// Hands arguments over in a file in memory: command lines are readable for everybody.
fn by_descriptor(
    descriptors: &mut Vec<OwnedFd>,
    name: &str,
    arguments: &[OsString],
) -> Result<Vec<OsString>, ExecError> {
    let mut content = Vec::new();
    for word in arguments {
        content.extend(word.as_bytes());
        content.push(0);
    }
    let number = give(descriptors, name, &content)?;
    Ok(words(&["--args", &number, "--"]))
}

fn give(descriptors: &mut Vec<OwnedFd>, name: &str, content: &[u8]) -> Result<String, ExecError> {
    descriptors.push(file_in_memory(name, content).map_err(ExecError::io("handing over its settings"))?);
    let number = FIRST_FREE as usize + descriptors.len() - 1;
    Ok(number.to_string())
}

fn words(all: &[&str]) -> Vec<OsString> {
    all.iter().map(OsString::from).collect()
}

fn show(words: &mut Vec<OsString>, how: &str, outside: &Path, inside: &str) {
    words.extend([how.into(), outside.into(), inside.into()]);
}
