//! Starting a process that waits until its bounds are set, with exactly the descriptors that it
//! was meant to have.
//!
//! Bounds that are put on a process after its start come too late for what it has forked until
//! then. So the first program is a shell of ours that reads a line and only then becomes the
//! wanted program: its pid stays, and everything that comes later is within the bounds.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use command_fds::{CommandFdExt, FdMapping};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// The descriptor on which the shell waits.
const GATE: i32 = 3;
/// The descriptor on which the inside says that it has begun.
const BEGUN: i32 = 4;
/// The first descriptor that a way may use for itself; 9 is the last that every shell knows.
pub(crate) const FIRST_FREE: i32 = 5;

/// Waits for a line on the gate; an end without one means that whoever started it is gone.
const WAIT: &str = "read -r go <&3 || exit 125; exec 3<&-; exec \"$@\"";

/// The last thing of ours, within the sandbox: says that it has begun, lets go of every
/// descriptor of ours, bounds the number of processes when it is told to (shells disagree about
/// the letter), and becomes the script.
const INSIDE: &str = "echo >&4; exec 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; \
    [ -z \"$1\" ] || ulimit -u \"$1\" 2>/dev/null || ulimit -p \"$1\"; shift; exec \"$@\"";

/// What is to be started. Nothing in `program` is read by a shell.
pub(crate) struct Start {
    pub(crate) program: Vec<OsString>,
    /// The whole environment of the program.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Its further descriptors are numbered from [`FIRST_FREE`].
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) folder: PathBuf,
    /// Standard error goes the way of [`Waiting::begun`] instead of into the output.
    pub(crate) errors_apart: bool,
}

/// A process that waits for [`Waiting::open`].
pub(crate) struct Waiting {
    pub(crate) child: Child,
    pub(crate) output: pipe::Receiver,
    /// Says something when the inside was reached.
    pub(crate) begun: pipe::Receiver,
    pub(crate) pid: u32,
    gate: File,
}

/// The command of the inside, which runs the script at this path.
pub(crate) fn inside(script: &Path, most_processes: Option<u64>) -> Vec<OsString> {
    let most = most_processes.map(|most| most.to_string()).unwrap_or_default();
    let words = ["/bin/sh", "-c", INSIDE, "oscar", &most, "/bin/sh"];
    words.iter().map(OsString::from).chain([script.into()]).collect()
}

impl Waiting {
    pub(crate) fn open(mut self) -> io::Result<(Child, pipe::Receiver, pipe::Receiver)> {
        self.gate.write_all(b"go\n")?;
        Ok((self.child, self.output, self.begun))
    }
}

/// A name that nothing else has, with the number of this process in it. A process that is
/// started later may have the same number, but not the same time.
pub(crate) fn unique_name(of: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{of}-{}-{}-{now}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The number of the process that made a name.
pub(crate) fn maker_of(name: &str, of: &str) -> Option<u32> {
    name.strip_prefix(of)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

/// A file in memory with this content, to be read from its beginning.
pub(crate) fn file_in_memory(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(content)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Starts it. Standard output and standard error are one pipe where their order matters.
pub(crate) fn start(what: Start, stdin: Stdio) -> io::Result<Waiting> {
    let (gate_inside, gate) = pipe_with(PipeFlags::CLOEXEC)?;
    let (output, output_inside) = pipe_with(PipeFlags::CLOEXEC)?;
    let (begun, begun_inside) = pipe_with(PipeFlags::CLOEXEC)?;
    let errors = if what.errors_apart { begun_inside.try_clone()? } else { output_inside.try_clone()? };
    let mut mappings = vec![
        FdMapping { parent_fd: gate_inside, child_fd: GATE },
        FdMapping { parent_fd: begun_inside, child_fd: BEGUN },
    ];
    for (number, descriptor) in (FIRST_FREE..).zip(what.descriptors) {
        mappings.push(FdMapping { parent_fd: descriptor, child_fd: number });
    }
    // What our own parent let us inherit must not go on to the script.
    let null = File::open("/dev/null")?;
    for number in inheritable() {
        if mappings.iter().all(|mapping| mapping.child_fd != number) {
            mappings.push(FdMapping { parent_fd: null.as_fd().try_clone_to_owned()?, child_fd: number });
        }
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WAIT, "oscar-gate"]).args(&what.program);
    command.env_clear().envs(what.env).current_dir(&what.folder);
    command.stdin(stdin).stdout(output_inside).stderr(errors);
    command.process_group(0).kill_on_drop(true);
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    let child = command.spawn()?;
    // The command still holds the other ends of the pipes.
    drop(command);
    let pid = child.id().ok_or_else(|| io::Error::other("it ended before it began"))?;
    let (output, begun) = (pipe::Receiver::from_owned_fd(output)?, pipe::Receiver::from_owned_fd(begun)?);
    Ok(Waiting { child, output, begun, pid, gate: gate.into() })
}

/// The descriptors above standard error that a program started by us would inherit.
fn inheritable() -> Vec<i32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let entries = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(entry.path()).ok()?;
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
            (number > 2 && flags & CLOSE_ON_EXEC == 0).then_some(number)
        })
        .collect()
}
