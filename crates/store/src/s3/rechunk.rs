//! Keeps chunks of `aws-chunked` bodies small.
//!
//! The library holds a chunk until it has all of it, and some clients send a whole object as one.
//! Chunks without signatures are cut into smaller ones on their way in; one with a signature
//! cannot be cut, so it must not be too large.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};
use http::Request;
use s3s::{Body, StdError};

const LARGEST: u64 = 1024 * 1024;
/// Clients sign chunks of 64 KiB to 1 MiB.
const LARGEST_SIGNED: u64 = 16 * 1024 * 1024;
const LONGEST_LINE: usize = 1024;

/// The same request; its body in small chunks if it comes in chunks at all.
pub(super) fn bound(request: Request<Body>) -> Request<Body> {
    let kind = request.headers().get("x-amz-content-sha256").and_then(|value| value.to_str().ok());
    let is_signed = match kind {
        Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER") => false,
        Some(kind) if kind.starts_with("STREAMING-") => true,
        _ => return request,
    };
    request.map(|body| {
        let chunks = cut(body, is_signed);
        let frames = chunks.map(|chunk| chunk.map(http_body::Frame::data));
        Body::http_body_unsync(http_body_util::StreamBody::new(frames))
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the chunks of the body cannot be read")]
struct Unreadable;

/// Where in the framing the next byte is.
enum State {
    /// In a line that says how long a chunk is.
    Head,
    /// In a chunk: bytes left of it, and of the piece that was announced last.
    Data { left: u64, piece: u64 },
    /// In the line break behind a chunk.
    Tail(&'static [u8]),
    /// Behind the last chunk: trailers, as they are.
    Rest,
}

struct Cutter {
    state: State,
    is_signed: bool,
    buffer: BytesMut,
}

fn cut<S>(body: S, is_signed: bool) -> impl Stream<Item = Result<Bytes, StdError>>
where
    S: Stream<Item = Result<Bytes, StdError>> + Unpin,
{
    let cutter = Cutter { state: State::Head, is_signed, buffer: BytesMut::new() };
    stream::unfold(Some((body, cutter)), |running| async move {
        let (mut body, mut cutter) = running?;
        match body.next().await? {
            Err(error) => Some((Err(error), None)),
            Ok(bytes) => match cutter.pass(bytes) {
                Ok(passed) => Some((Ok(passed), Some((body, cutter)))),
                Err(unreadable) => Some((Err(StdError::from(unreadable)), None)),
            },
        }
    })
}

impl Cutter {
    /// What these bytes become.
    fn pass(&mut self, mut bytes: Bytes) -> Result<Bytes, Unreadable> {
        let mut out = BytesMut::with_capacity(bytes.len() + 64);
        while !bytes.is_empty() {
            match self.state {
                State::Head => self.read_head(&mut bytes, &mut out)?,
                State::Data { left, piece } => self.read_data(&mut bytes, &mut out, left, piece),
                State::Tail(expected) => {
                    let rest = expected.strip_prefix(&bytes[..1]).ok_or(Unreadable)?;
                    bytes.advance(1);
                    self.state = if rest.is_empty() { State::Head } else { State::Tail(rest) };
                }
                State::Rest => out.extend_from_slice(&bytes.split_to(bytes.len())),
            }
        }
        Ok(out.freeze())
    }

    fn read_head(&mut self, bytes: &mut Bytes, out: &mut BytesMut) -> Result<(), Unreadable> {
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        self.buffer.extend_from_slice(&bytes.split_to(end.unwrap_or(bytes.len())));
        if self.buffer.len() > LONGEST_LINE {
            return Err(Unreadable);
        }
        if end.is_none() {
            return Ok(());
        }
        let line = self.buffer.split();
        let digits = line[..].split(|byte| !byte.is_ascii_hexdigit()).next().unwrap_or_default();
        let digits = std::str::from_utf8(digits).map_err(|_| Unreadable)?;
        let left = u64::from_str_radix(digits, 16).map_err(|_| Unreadable)?;
        if self.is_signed && left > LARGEST_SIGNED {
            return Err(Unreadable);
        }
        if left == 0 || self.is_signed || left <= LARGEST {
            out.extend_from_slice(&line);
            self.state = if left == 0 { State::Rest } else { State::Data { left, piece: left } };
        } else {
            self.announce(out, left);
        }
        Ok(())
    }

    fn announce(&mut self, out: &mut BytesMut, left: u64) {
        let piece = left.min(LARGEST);
        out.extend_from_slice(format!("{piece:x}\r\n").as_bytes());
        self.state = State::Data { left, piece };
    }

    fn read_data(&mut self, bytes: &mut Bytes, out: &mut BytesMut, left: u64, piece: u64) {
        let take = usize::try_from(piece).unwrap_or(usize::MAX).min(bytes.len());
        out.extend_from_slice(&bytes.split_to(take));
        let (left, piece) = (left - take as u64, piece - take as u64);
        if piece > 0 {
            self.state = State::Data { left, piece };
            return;
        }
        out.extend_from_slice(b"\r\n");
        if left > 0 {
            self.announce(out, left);
        } else {
            self.state = State::Tail(b"\r\n");
        }
    }
}
