//! What is written while a job runs: the script's own output, and lines of the supervisor in
//! the form that OSCAR's users know.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use oscar_model::service::LogLevel;

/// Where the output of a job goes. An implementation may wait a while, which slows the script
/// down; not for ever, because a time-out cannot be noticed meanwhile. It must not fail: a job
/// is not lost because nobody reads its log.
#[async_trait]
pub trait OutputSink: Send {
    /// Bytes of the script, as they come.
    async fn write(&mut self, bytes: &[u8]);

    /// One line of the supervisor, without its end.
    async fn log(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes()).await;
    }
}

/// Keeps the beginning of what it gets, and counts the rest.
#[derive(Debug)]
pub struct MemorySink {
    most: usize,
    pub kept: Vec<u8>,
    pub dropped: u64,
}

impl MemorySink {
    pub fn new(most: usize) -> Self {
        Self { most, kept: Vec::new(), dropped: 0 }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

#[async_trait]
impl OutputSink for MemorySink {
    async fn write(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.dropped += (bytes.len() - room) as u64;
    }
}

/// Writes the supervisor's lines at or above the service's level.
pub(crate) struct Journal<'a> {
    pub(crate) sink: &'a mut dyn OutputSink,
    level: LogLevel,
}

impl<'a> Journal<'a> {
    pub(crate) fn new(sink: &'a mut dyn OutputSink, level: LogLevel) -> Self {
        Self { sink, level }
    }

    pub(crate) async fn line(&mut self, level: LogLevel, message: &str) {
        if rank(level) < rank(self.level) {
            return;
        }
        let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        // One message is one line, whatever is in the names that it quotes.
        let message: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let date = now.strftime("%Y-%m-%d %H:%M:%S");
        let line = format!("{date},{:03} - supervisor - {} - {message}", now.millisecond(), level.as_str());
        self.sink.log(&line).await;
    }

    pub(crate) async fn debug(&mut self, message: &str) {
        self.line(LogLevel::Debug, message).await;
    }

    pub(crate) async fn info(&mut self, message: &str) {
        self.line(LogLevel::Info, message).await;
    }

    pub(crate) async fn warning(&mut self, message: &str) {
        self.line(LogLevel::Warning, message).await;
    }

    pub(crate) async fn error(&mut self, message: &str) {
        self.line(LogLevel::Error, message).await;
    }

    pub(crate) async fn take_notes(&mut self, notes: &Notes) {
        for note in notes.take() {
            self.warning(&note).await;
        }
    }
}

/// What transfers have to say, collected because several run at once.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub(crate) fn add(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::NotSet => 0,
        LogLevel::Debug => 1,
        LogLevel::Info => 2,
        LogLevel::Warning => 3,
        LogLevel::Error => 4,
        LogLevel::Critical => 5,
    }
}
