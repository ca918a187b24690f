//! Checksums beside the MD5, as headers, as trailers and as they are kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::dto::{Checksum, ChecksumType};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::Refusal;
use crate::record::Checksums;

pub(crate) const ALGORITHMS: [&str; 5] = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"];

/// What a request or an answer of the library says, whatever its type.
macro_rules! declared {
    ($from:expr) => {
        $crate::s3::checksums::of_values([
            ("crc32", &$from.checksum_crc32),
            ("crc32c", &$from.checksum_crc32c),
            ("crc64nvme", &$from.checksum_crc64nvme),
            ("sha1", &$from.checksum_sha1),
            ("sha256", &$from.checksum_sha256),
        ])
    };
}

/// Fills in what is kept, whatever the type of the answer.
macro_rules! declare {
    ($to:expr, $checksums:expr) => {{
        let value = |name: &str| $checksums.values.get(name).cloned();
        $to.checksum_crc32 = value("crc32");
        $to.checksum_crc32c = value("crc32c");
        $to.checksum_crc64nvme = value("crc64nvme");
        $to.checksum_sha1 = value("sha1");
        $to.checksum_sha256 = value("sha256");
    }};
}

pub(super) use {declare, declared};

pub(crate) fn of_values<'a>(values: impl IntoIterator<Item = (&'a str, &'a Option<String>)>) -> Checksums {
    let given = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    Checksums { values: given.collect(), composite: false }
}

pub(crate) fn from_dto(checksum: &Checksum) -> Checksums {
    declared!(checksum)
}

/// What headers say, those before a body or those behind it.
pub(super) fn from_headers(headers: &HeaderMap) -> Checksums {
    let value = |name: &str| headers.get(format!("x-amz-checksum-{name}"))?.to_str().ok().map(str::to_owned);
    let values = ALGORITHMS.into_iter().filter_map(|name| Some((name.to_owned(), value(name)?)));
    Checksums { values: values.collect(), composite: false }
}

/// The algorithms that a request announces for its trailer.
pub(super) fn announced(headers: &HeaderMap) -> Vec<&'static str> {
    let text = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    let is_announced = |name: &&str| names.contains(&format!("x-amz-checksum-{name}"));
    ALGORITHMS.into_iter().filter(is_announced).collect()
}

pub(crate) fn hasher<'a>(names: impl IntoIterator<Item = &'a str>) -> ChecksumHasher {
    use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
    let mut hasher = ChecksumHasher::default();
    for name in names {
        match name {
            "crc32" => hasher.crc32 = Some(Crc32::new()),
            "crc32c" => hasher.crc32c = Some(Crc32c::new()),
            "crc64nvme" => hasher.crc64nvme = Some(Crc64Nvme::new()),
            "sha1" => hasher.sha1 = Some(Sha1::new()),
            "sha256" => hasher.sha256 = Some(Sha256::new()),
            _ => {}
        }
    }
    hasher
}

/// At most one may be said, and it has to be one.
pub(super) fn check_said(said: &Checksums) -> S3Result<()> {
    let invalid = |message: String| Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    if said.values.len() > 1 {
        return invalid(
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.".to_owned(),
        );
    }
    let is_value = |(name, value): (&String, &String)| {
        let bytes = STANDARD.decode(value).ok().map(|bytes| bytes.len());
        bytes.is_some() && bytes == length(name)
    };
    match said.values.iter().find(|one| !is_value(*one)) {
        Some((name, _)) => invalid(format!("Value for x-amz-checksum-{name} header is invalid.")),
        None => Ok(()),
    }
}

fn length(algorithm: &str) -> Option<usize> {
    match algorithm {
        "crc32" | "crc32c" => Some(4),
        "crc64nvme" => Some(8),
        "sha1" => Some(20),
        "sha256" => Some(32),
        _ => None,
    }
}

/// A trailer has to hold what was announced and no other checksum: else a body would be taken
/// without having been compared with anything.
pub(super) fn check_trailer(announced: &[&str], trailers: Option<&HeaderMap>) -> Result<(), Refusal> {
    let sent = trailers.map(from_headers).unwrap_or_default();
    let sent: Vec<&str> = sent.values.keys().map(String::as_str).collect();
    let is_whole = announced.iter().all(|name| sent.contains(name)) && sent.iter().all(|name| announced.contains(name));
    if is_whole { Ok(()) } else { Err(Refusal::BadTrailer) }
}

/// Everything that was said has to be so.
pub(crate) fn compare(said: &Checksums, found: &Checksums) -> Result<(), Refusal> {
    let differs = |(name, value): (&String, &String)| found.values.get(name).is_some_and(|other| other != value);
    if said.values.iter().any(differs) { Err(Refusal::BadDigest("checksum")) } else { Ok(()) }
}

pub(super) fn type_of(checksums: &Checksums) -> Option<ChecksumType> {
    let name = if checksums.composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
    (!checksums.is_empty()).then(|| ChecksumType::from_static(name))
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| u8::try_from(digit).unwrap_or(0)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect()
}
