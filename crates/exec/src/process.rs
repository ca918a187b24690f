//! Scripts as plain processes, for machines without anything better.
//!
//! With the tools of util-linux a script still gets namespaces: it does not see other processes
//! or what is hidden, and has a `/tmp` of its own; but it sees the rest of the machine. Without
//! them it is an ordinary process of an unprivileged user.

use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::bubblewrap::become_nobody;
use crate::cgroup::Places;
use crate::drive::{Reach, drive};
use crate::executor::{Input, Output, environment, to_shell};
use crate::gate::{self, FIRST_FREE, Start, file_in_memory};
use crate::limits;
use crate::ownership::{self, NOBODY};
use crate::run::{Description, Ended, ExecError, Kind, Network, Paths, Run};
use crate::tree;

/// Where a script in namespaces finds its things.
const JOB: &str = "/tmp/oscar";

/// Prepares the mounts, in a namespace of them. All words are arguments: the stage, the input,
/// the output, the script, the folders to hide, `--`, the command. The stage becomes `/tmp` only
/// at the end, because anything may lie in the `/tmp` of the machine. The shell stays, as the first
/// process of the namespace: signals pass a first process by that does not ask for them.
const SET_UP: &str = r#"set -e
stage=$1 input=$2 output=$3 script=$4; shift 4
mount -t tmpfs -o mode=0755,nosuid,nodev oscar "$stage"
mkdir "$stage/tmp" "$stage/tmp/oscar" "$stage/tmp/oscar/input" "$stage/tmp/oscar/output"
chmod 1777 "$stage/tmp"
cat "$script" > "$stage/tmp/oscar/script.sh"
mount --bind "$input" "$stage/tmp/oscar/input"
mount -o remount,bind,ro,nosuid,nodev "$stage/tmp/oscar/input" 2>/dev/null || :
mount --bind "$output" "$stage/tmp/oscar/output"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mount -t tmpfs -o ro,mode=0000,size=4k oscar "$1"; fi
  shift
done
shift
for secret in /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow-; do
  if [ -e "$secret" ]; then mount --bind /dev/null "$secret"; fi
done
mount --rbind "$stage/tmp" /tmp
cd /tmp
set +e
"$@"
exit $?"#;

/// Reads the environment of the script, which nothing before it may see.
const ENTER: &str = ". /dev/fd/5; exec \"$@\"";
/// The same in namespaces, where a script needs no mark to be found.
const ENTER_UNMARKED: &str = ". /dev/fd/5; unset OSCAR_RUN_MARK OLDPWD; exec \"$@\"";

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Process {
    pub(crate) places: Places,
    /// Whether namespaces were found to work.
    pub(crate) namespaces: bool,
    pub(crate) as_root: bool,
    /// Whether `setpriv` is here.
    pub(crate) setpriv: bool,
    /// Whether it can have a process killed with its parent; that of busybox cannot.
    #[serde(default)]
    pub(crate) ends_with_parent: bool,
}

impl Process {
    pub(crate) fn paths(&self, run: &Run) -> Paths {
        if self.namespaces {
            let job = Path::new(JOB);
            let (script, input, output) = (job.join("script.sh"), job.join("input"), job.join("output"));
            return Paths { script, input, output, temporary: "/tmp".into() };
        }
        let (script, input, output) = (run.script.clone(), run.input_dir.clone(), run.output_dir.clone());
        Paths { script, input, output, temporary: scratch(run) }
    }

    pub(crate) fn describe(&self) -> Description {
        let mut weaknesses = vec!["a script sees the files of this machine that its user may read".to_owned()];
        if !self.namespaces {
            weaknesses.push("a script sees the other processes of this machine".to_owned());
            weaknesses.push("`network: none` cannot be kept: such jobs are refused".to_owned());
            if !self.ends_with_parent {
                weaknesses.push("a script whose supervisor is killed goes on until the manager notices".to_owned());
            }
            if !self.as_root {
                weaknesses
                    .push("a script runs as the manager's own user, and can read what the manager can".to_owned());
            }
        }
        weaknesses.push("system calls are not filtered".to_owned());
        weaknesses.extend(crate::probe::weak_limits(&self.places));
        weaknesses.push("programs are those of this machine: the image of a service is not used".to_owned());
        let with = if self.namespaces { "namespaces by unshare" } else { "a process group" };
        let limits = crate::probe::describe_limits(&self.places);
        Description { kind: Kind::Process, with: with.to_owned(), limits, weaknesses }
    }

    pub(crate) async fn run(
        &self,
        run: &Run,
        stdin: Option<Input>,
        output: Output,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Ended, ExecError> {
        let scratch = Scratch::make(self, run)?;
        let (start, reach) = if self.namespaces {
            (self.prepare_namespaces(run, &scratch.0)?, Reach::Namespace)
        } else {
            (self.prepare_plain(run, &scratch.0)?, Reach::Machine)
        };
        drive(Kind::Process, run, &self.places, start, reach, (stdin, output), cancel).await
    }

    fn prepare_namespaces(&self, run: &Run, stage: &Path) -> Result<Start, ExecError> {
        self.give_folders(run)?;
        // Whoever started it may be killed; then so is this, and with it its namespace.
        let mut program = words(&["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork"]);
        program.extend(words(&["--kill-child", "--ipc", "--uts", "--mount-proc"]));
        if !self.as_root {
            program.extend(words(&["--user", "--map-root-user"]));
        }
        if run.network == Network::None {
            program.push("--net".into());
        }
        program.extend(words(&["--", "/bin/sh", "-c", SET_UP, "oscar-set-up"]));
        program.extend([stage, &run.input_dir, &run.output_dir, &run.script].map(OsString::from));
        program.extend(run.hidden.iter().map(OsString::from));
        program.push("--".into());
        program.extend(self.give_up_rights());
        let others = 0;
        self.start(run, program, others, &to_shell(&environment(run, Path::new("/tmp"))), "/".into())
    }

    fn prepare_plain(&self, run: &Run, scratch: &Path) -> Result<Start, ExecError> {
        if run.network == Network::None {
            let why = "it asks for no network, which this manager can only promise with bubblewrap or containers";
            return Err(ExecError::Unfit(why.to_owned()));
        }
        self.give_folders(run)?;
        if self.as_root
            && let Some(folder) =
                [&run.input_dir, &run.output_dir, &run.script].into_iter().find_map(|path| ownership::barred_at(path))
        {
            let why = format!("scripts run as user {NOBODY}, which cannot pass through {}", folder.display());
            return Err(ExecError::Unusable { kind: Kind::Process, why });
        }
        let user = if self.as_root { NOBODY } else { rustix::process::getuid().as_raw() };
        let (others, env) = (tree::count_of_user(user), to_shell(&environment(run, scratch)));
        self.start(run, self.give_up_rights(), others, &env, scratch.to_owned())
    }

    fn start(
        &self,
        run: &Run,
        before: Vec<OsString>,
        others: u64,
        env: &str,
        folder: PathBuf,
    ) -> Result<Start, ExecError> {
        let environment =
            file_in_memory("environment", env.as_bytes()).map_err(ExecError::io("handing over its environment"))?;
        debug_assert_eq!(FIRST_FREE, 5, "the shell that reads the environment knows it by this number");
        let mut program = before;
        let enter = if self.namespaces { ENTER_UNMARKED } else { ENTER };
        program.extend(words(&["/bin/sh", "-c", enter, "oscar"]));
        let most = limits::processes_for_shell(&run.limits, &self.places, others);
        program.extend(gate::inside(&self.paths(run).script, most));
        let path = OsString::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        Ok(Start {
            program,
            env: vec![("PATH".into(), path)],
            descriptors: vec![environment],
            folder,
            errors_apart: false,
        })
    }

    fn give_up_rights(&self) -> Vec<OsString> {
        let mut program = match (self.as_root, self.setpriv) {
            (true, _) => become_nobody(),
            (false, true) if self.namespaces => {
                words(&["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"])
            }
            (false, true) => words(&["setpriv", "--no-new-privs", "--"]),
            (false, false) => Vec::new(),
        };
        // In namespaces that was asked for before. Who becomes another user must ask afterwards, as
        // the same `setpriv` does.
        if self.ends_with_parent && !self.namespaces {
            program.splice(1..1, words(&["--pdeathsig", "KILL"]));
        }
        program
    }

    fn give_folders(&self, run: &Run) -> Result<(), ExecError> {
        for folder in [&run.input_dir, &run.output_dir].into_iter().filter(|_| self.as_root) {
            let doing = format!("giving {} to the user of scripts", folder.display());
            ownership::give_to_scripts(folder).map_err(ExecError::io(doing))?;
        }
        Ok(())
    }
}

/// A folder of one run that is removed with everything in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make(way: &Process, run: &Run) -> Result<Scratch, ExecError> {
        let folder =
            if way.namespaces { Path::new("/tmp").join(gate::unique_name("oscar-stage")) } else { scratch(run) };
        let doing = || format!("making its folder {}", folder.display());
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(ExecError::io(doing()))?;
        if way.as_root && !way.namespaces {
            ownership::give_to_scripts(&folder).map_err(ExecError::io(doing()))?;
        }
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The working folder of a plain process: beside its output, where there is room for jobs.
fn scratch(run: &Run) -> PathBuf {
    let name = run.output_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    run.output_dir.with_file_name(format!("{name}.scratch"))
}

fn words(all: &[&str]) -> Vec<OsString> {
    all.iter().map(OsString::from).collect()
}
