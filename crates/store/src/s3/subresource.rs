//! Which parts of a bucket or an object a request may name in its query (`?tagging`).
//!
//! The library takes a name that it does not know for nothing at all, so that removing a part
//! of an object that is newer than it (`DELETE /bucket/key?annotation`) would remove the object.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode};

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Store,
    Bucket,
    Object,
}

/// Parameters of operations, whatever their value.
const PARAMETERS: [&str; 21] = [
    "bucket-region",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "list-type",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "start-after",
    "upload-id-marker",
    "uploadId",
    "versionId",
    // Clients name the operation for people who read logs.
    "x-id",
    "expected-bucket-owner",
];

/// Refuses what this store has no part for. A reader may add parameters that mean nothing here,
/// as long as they have a value.
pub(super) fn check(method: &Method, uri: &Uri) -> Result<(), S3Error> {
    let level = level_of(uri.path());
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = percent_decode_str(name).decode_utf8_lossy();
        let is_ignored = is_reading && !value.is_empty();
        if !is_parameter(&name) && !is_part(level, method, &name) && !is_ignored {
            let shown: String = name.chars().take(64).collect();
            let message = format!("'{shown}' is not implemented for {method} requests of this kind.");
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
    }
    Ok(())
}

fn level_of(path: &str) -> Level {
    match path.trim_start_matches('/').split_once('/') {
        Some((_, key)) if !key.is_empty() => Level::Object,
        None if path.trim_start_matches('/').is_empty() => Level::Store,
        _ => Level::Bucket,
    }
}

fn is_parameter(name: &str) -> bool {
    let starts = |start: &str| name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
    PARAMETERS.contains(&name) || starts("X-Amz-") || starts("response-")
}

fn is_part(level: Level, method: &Method, name: &str) -> bool {
    match (level, name) {
        (Level::Bucket, "location" | "uploads") => method == Method::GET,
        (Level::Bucket, "delete") | (Level::Object, "uploads") => method == Method::POST,
        (Level::Bucket | Level::Object, "tagging") => matches!(*method, Method::GET | Method::PUT | Method::DELETE),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_through(method: &Method, uri: &str) -> bool {
        check(method, &uri.parse().expect("an address")).is_ok()
    }

    #[test]
    fn nothing_is_done_to_the_whole_for_the_sake_of_an_unknown_part() {
        for uri in [
            "/b/k?annotation",
            "/b?abac",
            "/b/k?annotation=",
            "/b/k?%61nnotation",
            "/b/k?uploads",
            "/b?location",
            "/?x",
        ] {
            assert!(!is_let_through(&Method::DELETE, uri), "{uri}");
        }
        for uri in
            ["/b/k?renameObject", "/b/k?renameObject=1", "/b/k?encryption", "/b?location", "/b/k?retention&x-id=P"]
        {
            assert!(!is_let_through(&Method::PUT, uri), "{uri}");
        }
        assert!(!is_let_through(&Method::GET, "/b?versions") && !is_let_through(&Method::GET, "/b/k?attributes"));
        assert!(!is_let_through(&Method::POST, "/b/k?delete"));
    }

    #[test]
    fn what_there_is_is_let_through() {
        for uri in [
            "/",
            "/b",
            "/b/",
            "/b?location",
            "/b?uploads&prefix=&x-id=L",
            "/b?list-type=2&prefix=",
            "/b/k?tagging",
            "/b/k?metadata=true",
        ] {
            assert!(is_let_through(&Method::GET, uri), "{uri}");
        }
        for uri in [
            "/b?tagging=",
            "/b/k?tagging",
            "/b/k?uploadId=1",
            "/b/k?versionId=null",
            "/b/k?X-Amz-Signature=s&x-amz-x=1",
        ] {
            assert!(is_let_through(&Method::DELETE, uri), "{uri}");
        }
        assert!(is_let_through(&Method::POST, "/b?delete=") && is_let_through(&Method::POST, "/b/k?uploads"));
        assert!(is_let_through(&Method::GET, "/b/k?response-content-type=a%2Fb"));
    }
}
