//! A body that can be taken back from whoever read it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use s3s::{Body, StdError};

/// How much of a refused body is thrown away, and for how long, so that its sender gets to hear
/// why. One that sends more, or slower, finds the connection closed.
const MOST: usize = 64 << 20;
const LONGEST: Duration = Duration::from_secs(2);

/// The one body that both have.
struct Shared {
    body: Mutex<Body>,
    is_begun: AtomicBool,
}

/// What the reader gets.
pub(super) struct Lent(Arc<Shared>);

/// What is kept meanwhile.
pub(super) struct Lender(Arc<Shared>);

pub(super) fn lend(body: Body) -> (Lent, Lender) {
    let shared = Arc::new(Shared { body: Mutex::new(body), is_begun: AtomicBool::new(false) });
    (Lent(Arc::clone(&shared)), Lender(shared))
}

impl Shared {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lender {
    /// Whether its reader asked for any of it: only then is a client told to send what it holds
    /// back (`Expect: 100-continue`).
    pub(super) fn is_begun(&self) -> bool {
        self.0.is_begun.load(Ordering::Relaxed)
    }

    /// Takes the rest a moment long, and forgets it.
    pub(super) async fn throw_away(self) {
        let rest = async {
            let mut rest = Limited::new(Lent(self.0), MOST);
            while let Some(Ok(_)) = rest.frame().await {}
        };
        let _ = tokio::time::timeout(LONGEST, rest).await;
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.0.is_begun.store(true, Ordering::Relaxed);
        Pin::new(&mut *self.0.body()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.body().size_hint()
    }
}
