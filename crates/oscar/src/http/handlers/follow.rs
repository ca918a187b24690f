//! A job's log as it leaves: part by part, and if asked for until the job has ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use oscar_engine::Failure;
use oscar_engine::jobs::Dispatcher;
use oscar_engine::ports::runtime::LogQuery;
use oscar_model::identity::Principal;
use oscar_model::job::JobName;
use oscar_model::name::ServiceName;

/// The most of one part.
const PART: usize = 64 << 10;

/// Between two looks at a log that is followed.
const PAUSE: Duration = Duration::from_millis(500);

/// How a log is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) timestamps: bool,
    pub(super) tail_lines: Option<usize>,
    /// Until the job has ended, however long it says nothing.
    pub(super) follow: bool,
    /// Of the attempt before the last one.
    pub(super) previous: bool,
}

/// Reads a log from where it got to. Whether the caller may is asked at each look again.
pub(super) struct Follower {
    jobs: Arc<Dispatcher>,
    principal: Principal,
    service: ServiceName,
    job: JobName,
    query: LogQuery,
    follow: bool,
    previous: bool,
    /// Each has a log of its own.
    attempt: u32,
}

/// What a look found.
enum Seen {
    Text(Vec<u8>),
    NothingYet,
    End,
}

impl Follower {
    pub(super) fn new(
        jobs: Arc<Dispatcher>,
        principal: Principal,
        service: ServiceName,
        job: JobName,
        wish: Wish,
    ) -> Self {
        let Wish { timestamps, tail_lines, follow, previous } = wish;
        let query = LogQuery { timestamps, from: 0, limit: PART, tail_lines };
        // What ended long ago says nothing more.
        let follow = follow && !previous;
        Self { jobs, principal, service, job, query, follow, previous, attempt: 0 }
    }

    /// The whole of it, once the first look was a success.
    pub(super) async fn into_body(mut self) -> Result<Body, Failure> {
        let first = match self.look().await? {
            Seen::Text(text) => text,
            Seen::NothingYet => Vec::new(),
            Seen::End => return Ok(Body::empty()),
        };
        let rest = stream::unfold((self, Some(first)), |(mut follower, first)| async move {
            let part = match first.filter(|text| !text.is_empty()) {
                Some(first) => Ok(Bytes::from(first)),
                None => follower.next().await?.map(Bytes::from),
            };
            Some((part, (follower, None)))
        });
        Ok(Body::from_stream(rest))
    }

    /// The next text; waits for it when the log is followed.
    async fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        loop {
            match self.look().await {
                Ok(Seen::Text(text)) => return Some(Ok(text)),
                Ok(Seen::NothingYet) => tokio::time::sleep(PAUSE).await,
                // Removed, or its service: there is nothing more to say.
                Ok(Seen::End) | Err(Failure::NoJob(_) | Failure::NotFound(_)) => return None,
                // The reader must not take what it has for the whole.
                Err(failure) => return Some(Err(io::Error::other(failure.to_string()))),
            }
        }
    }

    async fn look(&mut self) -> Result<Seen, Failure> {
        let job = self.jobs.job(&self.principal, &self.service, &self.job).await?;
        if job.attempt != self.attempt {
            self.attempt = job.attempt;
            self.query.from = 0;
        }
        match self.jobs.log(&self.principal, &self.service, &self.job, &self.query, self.previous).await {
            Ok(part) => {
                self.query.from = part.next;
                self.query.tail_lines = None;
                // Looked at before the log: nothing was written after the end of the job.
                let over = job.phase.is_final() || !self.follow;
                Ok(match part.text {
                    text if !text.is_empty() => Seen::Text(text),
                    _ if over => Seen::End,
                    _ => Seen::NothingYet,
                })
            }
            Err(Failure::NoLog(_)) if self.follow && !job.phase.is_final() => Ok(Seen::NothingYet),
            Err(failure) => Err(failure),
        }
    }
}
