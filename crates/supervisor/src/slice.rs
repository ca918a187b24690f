//! A piece of a file as the body of a request: read when it is sent, never held whole.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::Body;

const CHUNK: u64 = 256 * 1024;

/// Can be sent again: it reads by position.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    file: Arc<File>,
    offset: u64,
    length: u64,
}

impl Slice {
    pub(crate) fn whole(file: File, length: u64) -> Self {
        Self { file: Arc::new(file), offset: 0, length }
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Pieces of at most `size` bytes.
    pub(crate) fn parts(&self, size: u64) -> impl Iterator<Item = Self> + '_ {
        let size = size.max(1);
        (0..self.length.div_ceil(size)).map(move |index| {
            let offset = index * size;
            Self { file: self.file.clone(), offset: self.offset + offset, length: size.min(self.length - offset) }
        })
    }

    pub(crate) fn body(&self) -> Body {
        if self.length == 0 {
            return Body::from(Bytes::new());
        }
        let stream = futures::stream::try_unfold(self.clone(), |rest| async move {
            if rest.length == 0 {
                return Ok(None);
            }
            let read = tokio::task::spawn_blocking(move || rest.next()).await;
            read.map_err(|_| Error::other("reading was interrupted"))?.map(Some)
        });
        Body::wrap_stream(stream)
    }

    fn next(mut self) -> Result<(Bytes, Self), Error> {
        let most = usize::try_from(self.length.min(CHUNK)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; most];
        let count = self.file.read_at(&mut buffer, self.offset)?;
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the file became shorter while it was sent"));
        }
        buffer.truncate(count);
        self.offset += count as u64;
        self.length -= count as u64;
        Ok((Bytes::from(buffer), self))
    }
}
