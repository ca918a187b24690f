//! Which names buckets and objects may have.

use crate::error::Refusal;

/// S3's limit, in bytes.
const LONGEST_KEY: usize = 1024;

/// As MinIO: a segment `.` or `..` is refused, because tools that copy objects to a disk would
/// be led astray by it. Keys never become paths here.
pub(crate) fn check_key(key: &str) -> Result<(), Refusal> {
    if key.len() > LONGEST_KEY {
        return Err(Refusal::KeyTooLong);
    }
    let bad = key.is_empty() || key.contains('\0') || key.split('/').any(|segment| matches!(segment, "." | ".."));
    if bad { Err(Refusal::BadObjectName) } else { Ok(()) }
}

pub(crate) fn check_bucket(name: &str) -> Result<(), Refusal> {
    if s3s::path::check_bucket_name(name) { Ok(()) } else { Err(Refusal::BadBucketName) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_key_but_for_dots_nul_and_length() {
        for good in ["a", "a b+c%d", "ä/ö/日本", "a/", "/a", "a//b", "...", "a/..b/.c", "\u{7f}\n", &"k".repeat(1024)]
        {
            assert_eq!(check_key(good), Ok(()), "{good:?}");
        }
        for bad in ["", ".", "..", "a/../b", "../a", "a/..", "./a", "a\0b"] {
            assert_eq!(check_key(bad), Err(Refusal::BadObjectName), "{bad:?}");
        }
        assert_eq!(check_key(&"ä".repeat(513)), Err(Refusal::KeyTooLong));
    }

    #[test]
    fn buckets_are_named_as_s3_says() {
        for good in ["abc", "a-b.c", "0ab", &"b".repeat(63)] {
            assert_eq!(check_bucket(good), Ok(()), "{good}");
        }
        for bad in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "192.168.1.1", "a/b", "", &"b".repeat(64)] {
            assert_eq!(check_bucket(bad), Err(Refusal::BadBucketName), "{bad}");
        }
    }
}
