//! What was asked and answered, as far as it is kept: how many answers of each status, and the
//! last calls of services.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use oscar_api::body::jobs::Execution;
use oscar_model::identity::Principal;
use oscar_store::Peer;

use crate::time::rfc3339_nanos;

/// Older calls are forgotten.
const MOST_CALLS: usize = 1000;

/// A longer path is no service's.
const LONGEST_PATH: usize = 256;

/// Who called; handlers whose calls are remembered tell it with their answer.
#[derive(Debug, Clone)]
pub(super) struct CalledBy(String);

impl CalledBy {
    /// Upstream's word for the administrator and for holders of a service's token is `oscar`.
    pub(super) fn principal(principal: &Principal) -> Self {
        Self(principal.user().map_or("oscar", |user| user.subject.as_str()).to_owned())
    }
}

#[derive(Default)]
pub struct Traffic {
    /// By status, from 100 on.
    answers: Vec<AtomicU64>,
    calls: Mutex<VecDeque<Call>>,
}

struct Call {
    at: SystemTime,
    took: Duration,
    status: u16,
    from: Option<IpAddr>,
    method: Method,
    path: String,
    user: Option<String>,
}

/// A call that has not been answered.
pub(super) struct Pending {
    at: SystemTime,
    began: Instant,
    from: Option<IpAddr>,
    method: Method,
    path: String,
}

impl Traffic {
    pub fn new() -> Self {
        Self { answers: (100..600).map(|_| AtomicU64::new(0)).collect(), calls: Mutex::default() }
    }

    /// What is needed to remember the request, if it is one that is remembered.
    pub(super) fn expect(request: &Request) -> Option<Pending> {
        let path = request.uri().path();
        let is_call = path.starts_with("/job/") || path.starts_with("/run/");
        (request.method() == Method::POST && is_call && path.len() <= LONGEST_PATH).then(|| Pending {
            at: SystemTime::now(),
            began: Instant::now(),
            from: request.extensions().get::<Peer>().map(|peer| peer.0),
            method: request.method().clone(),
            path: path.to_owned(),
        })
    }

    pub(super) fn answered(&self, pending: Option<Pending>, answer: &Response) {
        let status = answer.status().as_u16();
        if let Some(counter) = self.answers.get(usize::from(status).wrapping_sub(100)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let Some(Pending { at, began, from, method, path }) = pending else { return };
        let user = answer.extensions().get::<CalledBy>().map(|by| by.0.clone());
        let call = Call { at, took: began.elapsed(), status, from, method, path, user };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() == MOST_CALLS {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    /// Each status that was answered, with how often.
    pub(super) fn counts(&self) -> Vec<(u16, u64)> {
        let counts = (100..).zip(&self.answers).map(|(status, counter)| (status, counter.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The last calls of services, the newest last.
    pub(super) fn calls(&self) -> Vec<Execution> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).iter().map(print).collect()
    }
}

fn print(call: &Call) -> Execution {
    let (timestamp, latency) = (rfc3339_nanos(call.at), go_duration(call.took));
    let client_ip = call.from.map(|from| from.to_string()).unwrap_or_default();
    // Upstream's word for somebody it cannot name.
    let user = call.user.clone().unwrap_or_else(|| "nil".to_owned());
    let (status, method, path) = (call.status, call.method.to_string(), call.path.clone());
    let raw = format!(
        "[GIN-EXECUTIONS-LOGGER] {timestamp} | {status:3} | {latency:>13} | {client_ip} | {method:<7} {path} | {user}"
    );
    Execution { timestamp, status, latency, client_ip, method, path, user, raw }
}

/// `12.3ms`: the largest unit that is at least one, with the digits that are needed.
fn go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let in_unit = |size: u128, unit: &str| {
        let width = size.ilog10() as usize;
        let digits = format!("{}.{:0width$}", nanos / size, nanos % size);
        format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => in_unit(1_000, "µs"),
        1_000_000..1_000_000_000 => in_unit(1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => in_unit(1_000_000_000, "s"),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let rest = go_duration(Duration::from_nanos(u64::try_from(nanos % 60_000_000_000).unwrap_or(0)));
            let rest = if rest.ends_with("ms") || rest.ends_with("µs") || rest.ends_with("ns") {
                "0s".to_owned()
            } else {
                rest
            };
            let (hours, minutes) = (minutes / 60, minutes % 60);
            if hours > 0 { format!("{hours}h{minutes}m{rest}") } else { format!("{minutes}m{rest}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(traffic: &Traffic, path: &str, status: u16) {
        let request = Request::builder().method(Method::POST).uri(path).body(axum::body::Body::empty());
        let pending = Traffic::expect(&request.expect("a request"));
        let mut answer = Response::new(axum::body::Body::empty());
        *answer.status_mut() = axum::http::StatusCode::from_u16(status).expect("a status");
        traffic.answered(pending, &answer);
    }

    #[test]
    fn durations_are_printed_as_go_does() {
        let printed = |nanos| go_duration(Duration::from_nanos(nanos));
        assert_eq!(printed(0), "0s");
        assert_eq!(printed(999), "999ns");
        assert_eq!(printed(1_500), "1.5µs");
        assert_eq!(printed(12_300_000), "12.3ms");
        assert_eq!(printed(1_000_000_000), "1s");
        assert_eq!(printed(61_500_000_000), "1m1.5s");
        assert_eq!(printed(3_600_000_000_000), "1h0m0s");
    }

    #[test]
    fn only_calls_of_services_are_remembered_and_only_the_last_ones() {
        let traffic = Traffic::new();
        answered(&traffic, "/system/services", 201);
        for number in 0..=MOST_CALLS {
            answered(&traffic, &format!("/job/s-{number}"), 201);
        }
        let calls = traffic.calls();
        assert_eq!(calls.len(), MOST_CALLS);
        assert_eq!((calls[0].path.as_str(), calls[0].user.as_str()), ("/job/s-1", "nil"));
        assert!(calls[0].raw.starts_with("[GIN-EXECUTIONS-LOGGER] 2") && calls[0].raw.contains("| POST    /job/s-1 |"));
        assert_eq!(traffic.counts(), [(201, MOST_CALLS as u64 + 2)]);
    }
}
