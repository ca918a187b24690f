//! Bodies on their way in: hashed and written while they arrive, a megabyte at a time.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use md5::{Digest as _, Md5};
use s3s::StdError;
use s3s::checksum::ChecksumHasher;
use s3s::dto::Checksum;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{Refusal, of_io};
use crate::files::{Files, Unnamed};

/// Bodies up to this are kept in the database: one flush for the row is cheaper than three for a
/// file, its name and the row.
pub(crate) const INLINE: usize = 64 * 1024;
/// What is gathered before a thread hashes and writes it.
const STRIDE: usize = 1024 * 1024;

/// A body that arrived whole, on disk when it is a file.
pub(crate) struct Received {
    pub(crate) body: Body,
    pub(crate) bytes: u64,
    pub(crate) md5: [u8; 16],
    pub(crate) checksum: Checksum,
}

#[derive(Clone)]
pub(crate) enum Body {
    Inline(Bytes),
    File(Arc<Unnamed>),
}

pub(crate) struct Plan {
    /// The most bytes that are taken.
    pub(crate) limit: u64,
    /// Up to this a body stays in memory.
    pub(crate) inline: usize,
    /// What to compute beside the MD5.
    pub(crate) hasher: ChecksumHasher,
}

pub(crate) async fn receive<S>(files: &Arc<Files>, mut stream: S, plan: Plan) -> Result<Received, Refusal>
where
    S: Stream<Item = Result<Bytes, StdError>> + Unpin,
{
    let mut sums = Sums { md5: Md5::new(), hasher: plan.hasher };
    let mut held = Held::default();
    let mut bytes = 0u64;
    let mut sink = None;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| of_stream(&error))?;
        bytes += chunk.len() as u64;
        if bytes > plan.limit {
            return Err(Refusal::TooLarge);
        }
        held.push(chunk);
        sink = match sink.take() {
            None if held.bytes > plan.inline => {
                let sums = std::mem::replace(&mut sums, Sums { md5: Md5::new(), hasher: ChecksumHasher::default() });
                Some(Sink::create(files, sums).await?)
            }
            other => other,
        };
        if let Some(sink) = &mut sink
            && held.bytes >= STRIDE
        {
            sink.write(held.take()).await?;
        }
    }
    if sink.is_none() && plan.inline == 0 {
        let sums = std::mem::replace(&mut sums, Sums { md5: Md5::new(), hasher: ChecksumHasher::default() });
        sink = Some(Sink::create(files, sums).await?);
    }
    let (body, sums) = match sink {
        None => {
            let body = held.join();
            sums.update(&body);
            (Body::Inline(body), sums)
        }
        Some(mut sink) => {
            sink.write(held.take()).await?;
            let (file, sums) = sink.finish().await?;
            (Body::File(Arc::new(file)), sums)
        }
    };
    Ok(Received { body, bytes, md5: sums.md5.finalize().into(), checksum: sums.hasher.finalize() })
}

/// The library's errors of bodies have no public type; their names do not change without a test
/// of ours noticing.
pub(crate) fn of_stream(error: &StdError) -> Refusal {
    let name = format!("{error:?}").to_lowercase();
    if name.contains("signature") {
        Refusal::BadDigest("its signature")
    } else if name.contains("checksum") || name.contains("sha256") || name.contains("mismatch") {
        Refusal::BadDigest("x-amz-content-sha256")
    } else {
        Refusal::Incomplete
    }
}

struct Sums {
    md5: Md5,
    hasher: ChecksumHasher,
}

impl Sums {
    fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.hasher.update(bytes);
    }
}

#[derive(Default)]
struct Held {
    chunks: Vec<Bytes>,
    bytes: usize,
}

impl Held {
    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push(chunk);
    }

    fn take(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }

    fn join(self) -> Bytes {
        let mut chunks = self.chunks;
        if chunks.len() == 1 {
            return chunks.remove(0);
        }
        let mut joined = BytesMut::with_capacity(self.bytes);
        for chunk in &chunks {
            joined.extend_from_slice(chunk);
        }
        joined.freeze()
    }
}

/// A file that a thread writes while the next stride arrives. No thread waits for a slow client.
struct Sink {
    files: Arc<Files>,
    unnamed: Unnamed,
    stage: Option<Stage>,
}

enum Stage {
    Idle(Box<(File, Sums)>),
    Busy(JoinHandle<io::Result<(File, Sums)>>),
}

impl Sink {
    async fn create(files: &Arc<Files>, sums: Sums) -> Result<Self, Refusal> {
        let maker = Arc::clone(files);
        let (file, unnamed) = blocking(move || maker.create()).await?;
        Ok(Self { files: Arc::clone(files), unnamed, stage: Some(Stage::Idle(Box::new((file, sums)))) })
    }

    async fn write(&mut self, chunks: Vec<Bytes>) -> Result<(), Refusal> {
        let (mut file, mut sums) = self.settle().await?;
        self.stage = Some(Stage::Busy(spawn_blocking(move || {
            for chunk in chunks {
                file.write_all(&chunk)?;
                sums.update(&chunk);
            }
            Ok((file, sums))
        })));
        Ok(())
    }

    async fn finish(mut self) -> Result<(Unnamed, Sums), Refusal> {
        let (file, sums) = self.settle().await?;
        let (files, id) = (Arc::clone(&self.files), self.unnamed.id);
        blocking(move || {
            file.sync_all()?;
            files.sync_name(id)
        })
        .await?;
        Ok((self.unnamed, sums))
    }

    async fn settle(&mut self) -> Result<(File, Sums), Refusal> {
        match self.stage.take() {
            Some(Stage::Idle(idle)) => Ok(*idle),
            Some(Stage::Busy(task)) => flatten(task.await),
            None => Err(Refusal::Incomplete),
        }
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    flatten(spawn_blocking(work).await)
}

fn flatten<T>(outcome: Result<io::Result<T>, tokio::task::JoinError>) -> Result<T, Refusal> {
    outcome.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| Refusal::Store(of_io(&error)))
}
