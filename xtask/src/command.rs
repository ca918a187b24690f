//! Running commands: output kept, a sign of life every half minute, never for ever.

use std::io::{PipeReader, Read, pipe};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::files;

const GLANCE: Duration = Duration::from_secs(1);
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// A process it started may still hold its output open: so long we wait for a last word.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How a command went. `output` holds both streams, in the order they were written.
pub(crate) struct Done {
    pub(crate) success: bool,
    pub(crate) output: String,
    pub(crate) took: Duration,
}

/// The cargo that runs us, in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(files::root());
    command
}

/// Runs to the end or to `limit`, whichever is first. `what` names it in the signs of life.
pub(crate) fn run(what: &str, command: &mut Command, limit: Duration) -> Done {
    let started = Instant::now();
    let (success, output) = match spawn(command) {
        Ok((mut child, reader)) => {
            let (bytes, in_time) = follow(what, &mut child, &read_on(reader), started, limit);
            let mut output = String::from_utf8_lossy(&bytes).into_owned();
            if !in_time {
                output.push_str("\nended: it took too long\n");
            }
            (child.wait().is_ok_and(|status| status.success()) && in_time, output)
        }
        Err(error) => (false, format!("starting {what}: {error}\n")),
    };
    Done { success, output, took: started.elapsed() }
}

fn spawn(command: &mut Command) -> std::io::Result<(Child, PipeReader)> {
    let (reader, writer) = pipe()?;
    let child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn();
    // The command keeps its copies of the write end; with them the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((child?, reader))
}

/// What comes out of the pipe, piece by piece.
fn read_on(mut reader: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Collects the output until its end; false when the command had to be killed.
fn follow(
    what: &str,
    child: &mut Child,
    pieces: &Receiver<Vec<u8>>,
    started: Instant,
    limit: Duration,
) -> (Vec<u8>, bool) {
    let mut output = Vec::new();
    let mut next_sign = SIGN_OF_LIFE;
    let mut ended: Option<Instant> = None;
    let mut in_time = true;
    loop {
        match pieces.recv_timeout(GLANCE) {
            Ok(piece) => output.extend(piece),
            Err(RecvTimeoutError::Disconnected) => return (output, in_time),
            Err(RecvTimeoutError::Timeout) if ended.is_some_and(|at| at.elapsed() > LAST_WORDS) => {
                return (output, in_time);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && !matches!(child.try_wait(), Ok(None)) {
            ended = Some(Instant::now());
        }
        if in_time && started.elapsed() > limit {
            in_time = false;
            // It may have ended this very moment.
            let _ = child.kill();
        }
        if started.elapsed() > next_sign {
            println!("         ... {what}, {} s so far", started.elapsed().as_secs());
            next_sign += SIGN_OF_LIFE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_kept_in_order() {
        let done = run("a shell", &mut mk_shell("echo one; echo two >&2; echo three; exit 3"), GLANCE * 10);
        assert_eq!((done.success, done.output.as_str()), (false, "one\ntwo\nthree\n"));
    }

    #[test]
    fn what_hangs_is_ended() {
        let done = run("a shell", &mut mk_shell("echo hello; exec sleep 600"), Duration::from_millis(100));
        assert!(!done.success && done.output.starts_with("hello\n"), "{}", done.output);
    }
}
