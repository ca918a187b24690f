//! Between the library's types and ours.

use std::collections::BTreeMap;

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::dto::{ETag, ETagCondition, EncodingType, Metadata, Tag as S3Tag, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::errors::custom;
use crate::object_changes::{Conditions, ReadConditions, Tag};
use crate::record::{About, from_millis};

/// As S3 writes names in lists when it is asked to.
const IN_LISTS: AsciiSet =
    NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/').remove(b'*');

pub(super) fn encoder(encoding: Option<&EncodingType>) -> S3Result<impl Fn(&str) -> String + use<>> {
    let is_url = match encoding.map(EncodingType::as_str) {
        None | Some("") => false,
        Some(EncodingType::URL) => true,
        Some(_) => {
            let message = "Invalid Encoding Method specified in Request";
            return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, message));
        }
    };
    Ok(move |text: &str| if is_url { utf8_percent_encode(text, &IN_LISTS).to_string() } else { text.to_owned() })
}

pub(super) fn etag(text: &str) -> ETag {
    ETag::Strong(text.to_owned())
}

pub(super) fn tag(condition: Option<ETagCondition>) -> Option<Tag> {
    condition.map(|condition| match condition {
        ETagCondition::Any => Tag::Any,
        ETagCondition::ETag(etag) => Tag::Is(etag.into_value()),
    })
}

pub(super) fn conditions(if_match: Option<ETagCondition>, if_none_match: Option<ETagCondition>) -> Conditions {
    Conditions { if_match: tag(if_match), if_none_match: tag(if_none_match) }
}

pub(super) fn read_conditions(
    tags: Conditions,
    modified_since: Option<&Timestamp>,
    unmodified_since: Option<&Timestamp>,
) -> ReadConditions {
    ReadConditions {
        tags,
        modified_since: modified_since.and_then(to_millis),
        unmodified_since: unmodified_since.and_then(to_millis),
    }
}

pub(super) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from(from_millis(millis))
}

fn to_millis(time: &Timestamp) -> Option<i64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    text.split('.').next()?.parse::<i64>().ok()?.checked_mul(1000)
}

pub(super) fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// The headers of an upload that come back with the object, whatever the type of the request.
macro_rules! about_of {
    ($input:expr) => {{
        let input = &mut $input;
        $crate::s3::convert::about(
            input.content_type.take(),
            [
                ("cache-control", input.cache_control.take()),
                ("content-disposition", input.content_disposition.take()),
                ("content-encoding", $crate::s3::convert::encoding(input.content_encoding.take())),
                ("content-language", input.content_language.take()),
                ("expires", input.expires.as_ref().and_then($crate::s3::convert::http_date)),
            ],
            input.metadata.take(),
            input.tagging.take(),
        )
    }};
}

/// The headers that came with the upload, whatever the type of the answer.
macro_rules! show_about {
    ($output:expr, $about:expr) => {{
        let header = |name: &str| $about.headers.get(name).cloned();
        $output.content_type = Some($about.content_type.clone().unwrap_or_else(|| "binary/octet-stream".to_owned()));
        $output.cache_control = header("cache-control");
        $output.content_disposition = header("content-disposition");
        $output.content_encoding = header("content-encoding");
        $output.content_language = header("content-language");
        $output.expires = header("expires")
            .and_then(|text| s3s::dto::Timestamp::parse(s3s::dto::TimestampFormat::HttpDate, &text).ok());
        $output.metadata = Some($about.metadata.clone().into_iter().collect());
    }};
}

pub(super) use {about_of, show_about};

/// User metadata, names and values together, as MinIO limits it.
const MOST_METADATA: usize = 8 * 1024;

pub(super) fn about<const N: usize>(
    content_type: Option<String>,
    headers: [(&str, Option<String>); N],
    metadata: Option<Metadata>,
    tagging: Option<String>,
) -> S3Result<About> {
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let metadata: BTreeMap<String, String> = metadata.unwrap_or_default().into_iter().collect();
    let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MOST_METADATA {
        let message = "Your metadata headers exceed the maximum allowed metadata size.";
        return Err(S3Error::with_message(S3ErrorCode::MetadataTooLarge, message));
    }
    let tags = tagging.map(|text| tags_of_header(&text)).transpose()?.unwrap_or_default();
    Ok(About { content_type, headers, metadata, tags, ..About::default() })
}

/// `aws-chunked` is how it travelled, not what it is.
pub(super) fn encoding(given: Option<String>) -> Option<String> {
    let given = given?;
    let kept: Vec<&str> =
        given.split(',').map(str::trim).filter(|one| *one != "aws-chunked" && !one.is_empty()).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

fn tags_of_header(text: &str) -> S3Result<BTreeMap<String, String>> {
    let decode =
        |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().map(std::borrow::Cow::into_owned);
    let unreadable = || {
        let message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.";
        S3Error::with_message(S3ErrorCode::InvalidArgument, message)
    };
    if !is_escaped(text) {
        return Err(unreadable());
    }
    let mut tags = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        tags.push((decode(name).map_err(|_| unreadable())?, decode(value).map_err(|_| unreadable())?));
    }
    check_tags(tags, MOST_OBJECT_TAGS)
}

/// S3's limits.
pub(super) const MOST_OBJECT_TAGS: usize = 10;
pub(super) const MOST_BUCKET_TAGS: usize = 50;

pub(super) fn tags_of_set(set: Vec<S3Tag>, most: usize) -> S3Result<BTreeMap<String, String>> {
    let pair = |tag: S3Tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    check_tags(set.into_iter().map(pair).collect(), most)
}

/// Whether every `%` has its two digits.
fn is_escaped(text: &str) -> bool {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(is_escape)
}

pub(super) fn to_tag_set(tags: &BTreeMap<String, String>) -> Vec<S3Tag> {
    tags.iter().map(|(key, value)| S3Tag { key: Some(key.clone()), value: Some(value.clone()) }).collect()
}

/// S3's rules: names of 128 and values of 256 characters, and which; `aws:` is not for users.
fn check_tags(tags: Vec<(String, String)>, most: usize) -> S3Result<BTreeMap<String, String>> {
    let count = tags.len();
    if count > most {
        let message = format!("There cannot be more than {most} tags.");
        return Err(custom("BadRequest", StatusCode::BAD_REQUEST, &message));
    }
    let may_be = |sign: char| sign.is_alphanumeric() || sign.is_whitespace() || "+-=._:/@".contains(sign);
    let fits = |text: &str, most: usize| text.chars().count() <= most && text.chars().all(may_be);
    let is_good = |(name, value): &(String, String)| {
        !name.is_empty() && fits(name, 128) && fits(value, 256) && !name.to_ascii_lowercase().starts_with("aws:")
    };
    if !tags.iter().all(is_good) {
        return Err(bad_tag());
    }
    let tags: BTreeMap<String, String> = tags.into_iter().collect();
    if tags.len() == count { Ok(tags) } else { Err(bad_tag()) }
}

fn bad_tag() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::InvalidTag,
        "A tag is too long, given twice, or has characters that tags cannot have.",
    )
}

pub(super) fn not_implemented(what: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::NotImplemented, format!("{what} is not implemented."))
}

/// There are no versions but the one that is there, which S3 calls `null`.
pub(super) fn check_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("" | "null") => Ok(()),
        Some(_) => Err(S3Error::with_message(S3ErrorCode::NoSuchVersion, "The specified version does not exist.")),
    }
}

/// Refuses what would be promised and not kept, whatever the type of the request.
macro_rules! refuse_extras {
    ($input:expr) => {{
        let input = &$input;
        if input.server_side_encryption.is_some() || input.sse_customer_algorithm.is_some() {
            return Err($crate::s3::convert::not_implemented("Encryption by the store"));
        }
        if input.object_lock_mode.is_some()
            || input.object_lock_legal_hold_status.is_some()
            || input.object_lock_retain_until_date.is_some()
        {
            return Err($crate::s3::convert::not_implemented("Locking objects"));
        }
        let grants = [&input.grant_full_control, &input.grant_read, &input.grant_read_acp, &input.grant_write_acp];
        if input.acl.as_ref().is_some_and(|acl| !matches!(acl.as_str(), "private" | "bucket-owner-full-control"))
            || grants.iter().any(|grant| grant.is_some())
        {
            return Err($crate::s3::convert::not_implemented("An access list of a single object"));
        }
        if input.website_redirect_location.is_some() {
            return Err($crate::s3::convert::not_implemented("A website"));
        }
        if input.storage_class.as_ref().is_some_and(|class| class.as_str() != "STANDARD") {
            return Err(s3s::S3Error::new(s3s::S3ErrorCode::InvalidStorageClass));
        }
    }};
}

pub(super) use refuse_extras;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_lists_are_written_so_that_every_client_reads_them() {
        let url = encoder(Some(&EncodingType::from_static(EncodingType::URL))).expect("known");
        assert_eq!(url("a b+c%/ä*~"), "a%20b%2Bc%25/%C3%A4*~");
        assert_eq!(encoder(None).expect("nothing to know")("a b+"), "a b+");
        assert!(encoder(Some(&EncodingType::from_static("base64"))).is_err());
    }

    #[test]
    fn tags_in_a_header_are_a_query() {
        let tags = tags_of_header("a=1&b+c=d%2Be%C3%A4&f=").expect("tags");
        let wanted = [("a", "1"), ("b c", "d+eä"), ("f", "")];
        assert_eq!(tags, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        for bad in
            ["a=1&a=2", "=1", "a=%ff", "a=%zz", "a=%2", "aws:a=1", "a=%3Cb%3E", &format!("a={}", "x".repeat(257))]
        {
            assert!(tags_of_header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn how_a_body_travelled_is_not_kept() {
        assert_eq!(encoding(Some("aws-chunked".to_owned())), None);
        assert_eq!(encoding(Some("gzip, aws-chunked".to_owned())), Some("gzip".to_owned()));
        assert_eq!(encoding(Some("gzip".to_owned())), Some("gzip".to_owned()));
    }
}
