//! A piece of a file as the body of a request: read when it is sent, never held whole.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use md5::{Digest as _, Md5};
use reqwest::Body;

const CHUNK: u64 = 256 << 10;

/// How much was sent, for whoever watches.
pub(super) type Sent = Arc<AtomicU64>;

/// From the current position of the file on.
struct Rest {
    file: File,
    length: u64,
    sent: Sent,
}

/// The bytes of a file from `offset` on, so many of them.
pub(super) fn piece(path: &Path, offset: u64, length: u64, sent: &Sent) -> Result<Body, Error> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let rest = Rest { file, length, sent: sent.clone() };
    let stream = futures::stream::try_unfold(rest, |rest| async move {
        if rest.length == 0 {
            return Ok::<_, Error>(None);
        }
        let read = tokio::task::spawn_blocking(move || rest.next()).await;
        read.map_err(|_| Error::other("reading was interrupted"))?.map(Some)
    });
    Ok(Body::wrap(StreamBody::new(stream)))
}

impl Rest {
    fn next(mut self) -> Result<(Frame<Bytes>, Self), Error> {
        let mut buffer = vec![0; usize::try_from(self.length.min(CHUNK)).unwrap_or(usize::MAX)];
        let count = self.file.read(&mut buffer)?;
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the file became shorter while it was sent"));
        }
        buffer.truncate(count);
        self.length -= count as u64;
        self.sent.fetch_add(count as u64, Ordering::Relaxed);
        Ok((Frame::data(Bytes::from(buffer)), self))
    }
}

/// The tag that a store gives these bytes.
pub(super) fn md5_of(path: &Path, offset: u64, length: u64) -> Result<String, Error> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let (mut sum, mut buffer, mut rest) = (Md5::new(), vec![0; 1 << 20], length);
    while rest > 0 {
        let most = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        sum.update(&buffer[..count]);
        rest -= count as u64;
    }
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
