//! The answer of a synchronous run, on its way to the caller piece by piece: many callers who
//! read slowly must not fill the manager's memory.

use super::invoke::Visit;
use crate::ports::runtime::RuntimeError;

/// Bytes of an answer that are held at a time.
pub(super) const PIECE: usize = 256 << 10;

/// What a synchronous run answered.
#[derive(Debug)]
pub struct Answer {
    pub body: AnswerBody,
    /// How long the script took.
    pub millis: u64,
}

/// What the script said. Everything that is left of its run goes when this does.
pub struct AnswerBody {
    visit: Visit,
    total: u64,
    encoded: bool,
    read: u64,
    next: Vec<u8>,
}

impl AnswerBody {
    pub(super) async fn open(visit: Visit) -> Result<Self, RuntimeError> {
        let first = visit.piece(0, PIECE).await?;
        Ok(Self { visit, total: first.total, encoded: first.encoded, read: 0, next: first.bytes })
    }

    /// How many bytes there are in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether it is base64 of files that the script left, and not what it said.
    pub fn is_encoded(&self) -> bool {
        self.encoded
    }

    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, RuntimeError>> {
        if self.read >= self.total {
            return None;
        }
        let piece = if self.next.is_empty() {
            match self.visit.piece(self.read, PIECE).await {
                Ok(part) => part.bytes,
                Err(error) => return Some(Err(error)),
            }
        } else {
            std::mem::take(&mut self.next)
        };
        if piece.is_empty() {
            // It cannot become shorter; whoever was promised more is told.
            return Some(Err(RuntimeError::NotFound));
        }
        self.read += piece.len() as u64;
        Some(Ok(piece))
    }

    /// All of it, for those who know that it is short.
    pub async fn whole(mut self) -> Result<Vec<u8>, RuntimeError> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await {
            all.extend(piece?);
        }
        Ok(all)
    }
}

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "AnswerBody({} of {} bytes)", self.read, self.total)
    }
}
