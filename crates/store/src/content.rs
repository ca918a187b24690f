//! Bodies on their way out: read half a megabyte ahead of whoever takes them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::access::Caller;
use crate::files::{FileId, Files, Pin as FilePin};

const STRIDE: u64 = 512 * 1024;

/// Where the bytes of an object are.
pub(crate) enum Place {
    Inline(Bytes),
    Files(Vec<Segment>, FilePin),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) file: FileId,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The bytes of an object, or of a part of it.
pub struct ContentStream {
    source: Source,
    left: u64,
}

enum Source {
    Memory(Bytes),
    Disk(Box<Disk>),
}

struct Disk {
    files: Arc<Files>,
    ahead: VecDeque<Segment>,
    reading: Option<JoinHandle<io::Result<(Bytes, Open)>>>,
    /// The file that was read last, to go on with.
    open: Option<Open>,
    caller: Option<Caller>,
    _pin: FilePin,
}

struct Open {
    id: FileId,
    file: File,
    position: u64,
}

impl ContentStream {
    /// The bytes in `range`, which lies within the content. A caller whose key is revoked gets
    /// no further.
    pub(crate) fn new(files: &Arc<Files>, place: Place, range: Range<u64>, caller: Option<Caller>) -> Self {
        let left = range.end - range.start;
        let source = match place {
            Place::Inline(bytes) => {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                Source::Memory(bytes.slice(index(range.start)..index(range.end)))
            }
            Place::Files(segments, pin) => Source::Disk(Box::new(Disk {
                files: Arc::clone(files),
                ahead: cut(&segments, range),
                reading: None,
                open: None,
                caller,
                _pin: pin,
            })),
        };
        Self { source, left }
    }

    pub fn bytes_left(&self) -> u64 {
        self.left
    }

    /// The whole of it at once, when it was small enough to be in the database.
    pub(crate) fn into_memory(self) -> Result<Bytes, Self> {
        match self.source {
            Source::Memory(bytes) => Ok(bytes),
            Source::Disk(_) => Err(self),
        }
    }
}

impl Stream for ContentStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = match &mut self.source {
            Source::Memory(bytes) if bytes.is_empty() => None,
            Source::Memory(bytes) => Some(Ok(std::mem::take(bytes))),
            Source::Disk(disk) => ready!(disk.poll(context)),
        };
        if let Some(Ok(chunk)) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk)
    }
}

impl Disk {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.caller.as_ref().is_some_and(|caller| !caller.is_alive()) {
            return Poll::Ready(Some(Err(io::Error::other("the key was revoked"))));
        }
        self.begin();
        let Some(task) = &mut self.reading else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(task).poll(context)).unwrap_or_else(|error| Err(io::Error::other(error)));
        self.reading = None;
        Poll::Ready(Some(outcome.map(|(chunk, open)| {
            self.open = Some(open);
            // The next stride is read while this one is sent.
            self.begin();
            chunk
        })))
    }

    fn begin(&mut self) {
        if self.reading.is_some() {
            return;
        }
        let Some(segment) = self.ahead.pop_front() else { return };
        let take = segment.bytes.min(STRIDE);
        if segment.bytes > take {
            self.ahead.push_front(Segment { start: segment.start + take, bytes: segment.bytes - take, ..segment });
        }
        let (files, open) = (Arc::clone(&self.files), self.open.take());
        self.reading = Some(spawn_blocking(move || read(&files, open, segment, take)));
    }
}

fn read(files: &Files, open: Option<Open>, segment: Segment, take: u64) -> io::Result<(Bytes, Open)> {
    let mut open = match open.filter(|open| open.id == segment.file) {
        Some(open) => open,
        None => Open { id: segment.file, file: File::open(files.path(segment.file))?, position: 0 },
    };
    if open.position != segment.start {
        open.file.seek(SeekFrom::Start(segment.start))?;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(take).unwrap_or_default());
    Read::by_ref(&mut open.file).take(take).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != take {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file of the object store is too short"));
    }
    open.position = segment.start + take;
    Ok((bytes.into(), open))
}

/// The pieces of segments that lie in a range of the whole.
pub(crate) fn cut(segments: &[Segment], range: Range<u64>) -> VecDeque<Segment> {
    let mut position = 0;
    let mut pieces = VecDeque::new();
    for segment in segments {
        let (from, to) = (position.max(range.start), (position + segment.bytes).min(range.end));
        if from < to {
            pieces.push_back(Segment { start: segment.start + (from - position), bytes: to - from, ..*segment });
        }
        position += segment.bytes;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_takes_pieces_of_the_segments_it_touches() {
        let segment = |file, start, bytes| Segment { file, start, bytes };
        let whole = [segment(1, 0, 10), segment(2, 5, 10), segment(3, 0, 0), segment(4, 0, 10)];
        assert_eq!(cut(&whole, 0..30), [whole[0], whole[1], whole[3]]);
        assert_eq!(cut(&whole, 9..11), [segment(1, 9, 1), segment(2, 5, 1)]);
        assert_eq!(cut(&whole, 12..15), [segment(2, 7, 3)]);
        assert!(cut(&whole, 30..30).is_empty());
    }
}
