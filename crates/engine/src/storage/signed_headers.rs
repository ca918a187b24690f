//! Which headers an address may be signed for.
//!
//! Addresses are signed by a key that opens every bucket, and a header can turn an upload into a
//! copy of somebody else's object. So what may be signed is a list, and what is not on it is a
//! fault.

use std::collections::BTreeMap;

use oscar_model::fault::{Faults, quoted};

use crate::ports::buckets::JOB_METADATA;

const MOST: usize = 32;
/// Names and values together, as S3 limits metadata.
const MOST_BYTES: usize = 8 * 1024;
const METADATA: &str = "x-amz-meta-";

/// What an upload may say of the object.
const OF_UPLOADS: [&str; 15] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "expires",
    "if-match",
    "if-none-match",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-tagging",
];

/// What a download may be bound to.
const OF_DOWNLOADS: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range", "x-amz-checksum-mode"];

const RULE_OF_UPLOADS: &str = "x-amz-meta-…, Cache-Control, Content-Disposition, Content-Encoding, Content-Language, \
                               Content-MD5, Expires, If-Match, If-None-Match, x-amz-checksum-… or x-amz-tagging";
const RULE_OF_DOWNLOADS: &str =
    "If-Match, If-Modified-Since, If-None-Match, If-Unmodified-Since, Range or x-amz-checksum-mode";

/// Every fault of the headers, whose names are in small letters.
pub(super) fn check(upload: bool, headers: &BTreeMap<String, String>, faults: &mut Faults) {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MOST || bytes > MOST_BYTES {
        let found = format!("{} headers of {bytes} bytes", headers.len());
        return faults.push("extra_headers", found, format!("at most {MOST} headers of {MOST_BYTES} bytes"));
    }
    for (name, value) in headers {
        let path = format!("extra_headers.{}", name.chars().take(64).collect::<String>());
        if !may_be_signed(upload, name) {
            faults.push(path, "a header", if upload { RULE_OF_UPLOADS } else { RULE_OF_DOWNLOADS });
        } else if !is_value(value) {
            faults.push(path, quoted(value), "visible ASCII characters with single spaces between them");
        }
    }
}

fn may_be_signed(upload: bool, name: &str) -> bool {
    if !upload {
        return OF_DOWNLOADS.contains(&name);
    }
    let is_metadata = name.strip_prefix(METADATA).is_some_and(|rest| is_token(rest) && rest != JOB_METADATA);
    is_metadata || OF_UPLOADS.contains(&name)
}

fn is_token(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(is_sign)
}

/// Signatures are made of values whose spaces were counted as one: more of them would be told in
/// one way and signed in another.
fn is_value(text: &str) -> bool {
    !text.is_empty() && text.split(' ').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(upload: bool, headers: &[(&str, &str)]) -> Vec<String> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut faults = Faults::default();
        check(upload, &headers, &mut faults);
        faults.0.into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn what_says_something_of_the_object_may_be_signed() {
        let good = [
            ("x-amz-meta-run.id_2", "a b"),
            ("cache-control", "no-cache"),
            ("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="),
            ("if-none-match", "*"),
            ("x-amz-checksum-sha256", "x"),
            ("x-amz-tagging", "a=1&b=2"),
        ];
        assert_eq!(faults_of(true, &good), Vec::<String>::new());
        assert_eq!(faults_of(false, &[("range", "bytes=0-9"), ("if-match", "\"x\"")]), Vec::<String>::new());
    }

    #[test]
    fn what_means_another_request_may_not() {
        for name in [
            "x-amz-copy-source",
            "x-amz-copy-source-range",
            "x-amz-metadata-directive",
            "x-amz-acl",
            "x-amz-grant-read",
            "x-amz-security-token",
            "x-amz-date",
            "x-amz-content-sha256",
            "x-amz-rename-source",
            "x-amz-meta-",
            "x-amz-meta-a:b",
            "x-amz-meta-oscar-job",
            "x-amz-server-side-encryption",
            "host",
            "authorization",
            "content-type",
            "content-length",
            "range",
            "",
            "a\r\nb",
        ] {
            assert_eq!(faults_of(true, &[(name, "v")]).len(), 1, "{name}");
        }
        for name in ["x-amz-meta-a", "cache-control", "x-amz-copy-source", "host"] {
            assert_eq!(faults_of(false, &[(name, "v")]).len(), 1, "{name}");
        }
        for value in ["", " a", "a ", "a  b", "a\tb", "a\r\nx-amz-copy-source: b/k", "ä"] {
            assert_eq!(faults_of(true, &[("x-amz-meta-a", value)]).len(), 1, "{value:?}");
        }
        assert_eq!(faults_of(true, &[("x-amz-meta-a", &"v".repeat(9000))]), ["extra_headers"]);
    }
}
