//! What is written on a bucket, and read from it. Pure.
//!
//! Go OSCAR's tags are `owner`, `owner_name` and `from_service`; the visibility is ours.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use oscar_engine::ports::StoreError;
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;

pub(crate) const OWNER: &str = "owner";
pub(crate) const FROM_SERVICE: &str = "from_service";
pub(crate) const VISIBILITY: &str = "visibility";

/// What Go OSCAR calls the administrator on buckets.
const ADMIN: &str = "oscar";
/// Subjects that a tag cannot hold, or that would be taken for another, are encoded.
const ENCODED: &str = "base64:";
const LONGEST: usize = 256;

pub(crate) fn to_owner_tag(owner: &Owner) -> Result<String, StoreError> {
    let Owner::User(subject) = owner else { return Ok(ADMIN.to_owned()) };
    let text = subject.as_str();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-=._:/@".contains(&byte))
        && text.len() <= LONGEST
        && text != ADMIN
        && !text.starts_with(ENCODED);
    if is_plain {
        return Ok(text.to_owned());
    }
    let encoded = format!("{ENCODED}{}", BASE64_URL_SAFE_NO_PAD.encode(text));
    let too_long = || StoreError::Forbidden("the id of this user is too long for a tag of a bucket".to_owned());
    Some(encoded).filter(|encoded| encoded.len() <= LONGEST).ok_or_else(too_long)
}

/// What nobody wrote his name on belongs to the administrator.
pub(crate) fn from_owner_tag(tags: &BTreeMap<String, String>) -> Owner {
    let text = tags.get(OWNER).map(String::as_str).unwrap_or_default();
    if matches!(text, "" | ADMIN) {
        return Owner::Admin;
    }
    let subject = match text.strip_prefix(ENCODED) {
        Some(encoded) => BASE64_URL_SAFE_NO_PAD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default(),
        None => text.to_owned(),
    };
    Subject::parse(&subject).map_or(Owner::Admin, Owner::User)
}

/// Nothing when Go OSCAR made it.
pub(crate) fn visibility_in(tags: &BTreeMap<String, String>) -> Option<Visibility> {
    match tags.get(VISIBILITY)?.as_str() {
        "private" => Some(Visibility::Private),
        "restricted" => Some(Visibility::Restricted),
        "public" => Some(Visibility::Public),
        _ => None,
    }
}

/// Whether it may be the name of a bucket, and so a part of a path.
pub(crate) fn check_bucket(name: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let fits = (3..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'-' | b'.'))
        && bytes.first().is_some_and(|byte| plain(*byte))
        && bytes.last().is_some_and(|byte| plain(*byte))
        && !name.contains("..");
    if fits { Ok(()) } else { Err(StoreError::Forbidden("this is no name for a bucket".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_as_they_were_written() {
        let subjects = ["ada", "62bb11b4@egi.eu", "oscar", "auth0|x ä", "base64:x", "cluster-admin"];
        let subjects = subjects.map(|text| Owner::User(Subject::parse(text).expect("a subject")));
        let mut seen = std::collections::BTreeSet::new();
        for owner in subjects.into_iter().chain([Owner::Admin]) {
            let tag = to_owner_tag(&owner).expect("a tag");
            assert_eq!(from_owner_tag(&BTreeMap::from([(OWNER.to_owned(), tag.clone())])), owner);
            assert!(seen.insert(tag), "two owners share a tag");
        }
        assert_eq!(from_owner_tag(&BTreeMap::new()), Owner::Admin);
        let long = Owner::User(Subject::parse(&"ä".repeat(120)).expect("a subject"));
        assert!(to_owner_tag(&long).is_err());
    }

    #[test]
    fn a_name_that_is_part_of_a_path_is_looked_at() {
        for name in ["abc", "a.b-c1"] {
            assert!(check_bucket(name).is_ok(), "{name}");
        }
        for name in ["ab", "a/b", "../x", "Abc", "a..b", "-abc", "a?b", ""] {
            assert!(check_bucket(name).is_err(), "{name}");
        }
    }
}
