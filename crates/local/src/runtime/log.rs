//! What an attempt said: a file with the time before each line.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use oscar_engine::ports::runtime::{LogPart, LogQuery, RunId};
use oscar_model::job::{JobName, MOST_ATTEMPTS};

/// The most that is kept of the beginning of a log.
const MOST_HEAD: u64 = 16 << 20;

/// What is kept of its end beyond that.
const MOST_TAIL: usize = 1 << 20;

/// The most that is looked at for the last lines.
const MOST_TAIL_READ: u64 = 4 << 20;

/// Of how many attempts of a job the logs are kept: the last ones.
const KEPT: u32 = MOST_ATTEMPTS;

/// One that is older gives its place to that which comes after it.
pub(super) fn file_name(run: &RunId) -> String {
    format!("{}.{}.log", run.job, run.attempt.saturating_sub(1) % KEPT + 1)
}

/// Removes the log whose place the attempt takes.
pub(super) fn make_place(logs: &Path, run: &RunId) -> io::Result<()> {
    if run.attempt > KEPT { remove(&logs.join(file_name(run))) } else { Ok(()) }
}

pub(super) fn remove_all(logs: &Path, job: &JobName) -> io::Result<()> {
    (1..=KEPT).try_for_each(|attempt| remove(&logs.join(file_name(&RunId { job: job.clone(), attempt }))))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Jobs of which there is a log.
pub(super) fn list(logs: &Path) -> io::Result<Vec<JobName>> {
    let mut jobs = BTreeSet::new();
    for entry in fs::read_dir(logs)? {
        let name = entry?.file_name();
        let run = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|run| run.rsplit_once('.'));
        jobs.extend(run.and_then(|(job, _)| JobName::parse(job)));
    }
    Ok(jobs.into_iter().collect())
}

/// Writes a log within its bounds: the beginning as it comes, and the end when it is known.
pub struct LogWriter {
    file: File,
    written: u64,
    at_line_start: bool,
    tail: VecDeque<u8>,
    left_out: u64,
    now: fn() -> String,
}

impl LogWriter {
    /// `now` prints the time as it stands before lines.
    pub fn create(path: &Path, now: fn() -> String) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { file, written, at_line_start: true, tail: VecDeque::new(), left_out: 0, now })
    }

    /// A log that cannot be written is no reason to end a job, so there is no error.
    pub fn write(&mut self, bytes: &[u8]) {
        let mut stamped = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start {
                stamped.extend_from_slice((self.now)().as_bytes());
                stamped.push(b' ');
            }
            stamped.extend_from_slice(line);
            self.at_line_start = line.ends_with(b"\n");
        }
        let room = usize::try_from(MOST_HEAD.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let (head, rest) = stamped.split_at(room.min(stamped.len()));
        if !head.is_empty() && self.file.write_all(head).is_ok() {
            self.written += head.len() as u64;
        }
        self.tail.extend(rest);
        let beyond = self.tail.len().saturating_sub(MOST_TAIL);
        self.left_out += beyond as u64;
        self.tail.drain(..beyond);
    }

    /// Writes the end of a log that was too long.
    pub fn finish(mut self) {
        if self.tail.is_empty() {
            return;
        }
        let tail: Vec<u8> = self.tail.drain(..).collect();
        // Begins with a whole line, after one that says what is missing.
        let start = if self.left_out == 0 { 0 } else { tail.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1) };
        let missing = self.left_out + start as u64;
        let note = match missing {
            0 => String::new(),
            bytes => format!("\n{} [{bytes} bytes of this log were left out]\n", (self.now)()),
        };
        let _ = self.file.write_all(note.as_bytes());
        let _ = self.file.write_all(&tail[start..]);
    }
}

pub(super) fn read(path: &Path, query: &LogQuery) -> io::Result<LogPart> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let (from, limit) = match query.tail_lines {
        Some(_) => (size.saturating_sub(MOST_TAIL_READ), MOST_TAIL_READ),
        None => (query.from.min(size), query.limit as u64),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut raw = Vec::new();
    file.take(limit).read_to_end(&mut raw)?;
    let reaches_end = from + raw.len() as u64 >= size;
    if !reaches_end {
        // Up to the last whole line, so that the next part begins with one.
        let whole = raw.iter().rposition(|byte| *byte == b'\n').map_or(raw.len(), |at| at + 1);
        raw.truncate(whole);
    }
    let next = from + raw.len() as u64;
    if let Some(most) = query.tail_lines {
        let lines: Vec<_> = raw.split_inclusive(|byte| *byte == b'\n').collect();
        raw = lines[lines.len().saturating_sub(most)..].concat();
    }
    let text = if query.timestamps { raw } else { without_times(&raw) };
    Ok(LogPart { text, next, is_last: reaches_end })
}

fn without_times(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(line.get(stamp_length(line)..).unwrap_or_default());
    }
    text
}

/// The time before a line and the blank after it: digits of a date, and what belongs to one.
fn stamp_length(line: &[u8]) -> usize {
    let Some(blank) = line.iter().take(40).position(|byte| *byte == b' ') else { return 0 };
    let stamp = &line[..blank];
    let is_time = stamp.len() >= 20
        && stamp.ends_with(b"Z")
        && stamp.iter().all(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(byte));
    if is_time { blank + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_the_last_attempts_are_kept_and_all_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let job = JobName::parse("a-1").expect("a name");
        for attempt in 1..=MOST_ATTEMPTS + 3 {
            let run = RunId { job: job.clone(), attempt };
            make_place(folder.path(), &run).expect("made");
            let mut log = LogWriter::create(&folder.path().join(file_name(&run)), String::new).expect("opened");
            log.write(format!("attempt {attempt}").as_bytes());
        }
        let query = LogQuery { limit: 100, ..LogQuery::default() };
        for attempt in 4..=MOST_ATTEMPTS + 3 {
            let part = read(&folder.path().join(file_name(&RunId { job: job.clone(), attempt })), &query);
            assert_eq!(part.expect("read").text, format!(" attempt {attempt}").into_bytes());
        }
        fs::write(folder.path().join("no log"), "").expect("written");
        assert_eq!(list(folder.path()).expect("listed"), std::slice::from_ref(&job));
        remove_all(folder.path(), &job).expect("removed");
        assert_eq!(list(folder.path()).expect("listed"), []);
    }
}
