//! Names of things, valid by construction.

use std::fmt;

/// The name of a service: a DNS label of at most 39 characters, because it becomes the
/// name of Kubernetes objects, buckets and jobs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

/// What a service name may be, in the words of an error message.
pub const SERVICE_NAME_RULE: &str =
    "1 to 39 characters: lower-case letters, digits and `-`, beginning and ending with a letter or digit";

impl ServiceName {
    pub const MAX: usize = 39;

    pub fn parse(text: &str) -> Option<Self> {
        (text.len() <= Self::MAX && is_dns_label(text)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// RFC 1123: lower-case letters, digits and inner dashes, at most 63.
pub fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !bytes.is_empty()
        && bytes.len() <= 63
        && bytes.iter().all(|b| plain(b) || *b == b'-')
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
}

/// The value of a Kubernetes label: at most 63 of letters, digits, `-`, `_` and `.`,
/// beginning and ending with a letter or digit; or blank.
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: &u8| b.is_ascii_alphanumeric();
    bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && (bytes.is_empty() || (bytes.first().is_some_and(ends) && bytes.last().is_some_and(ends)))
}

/// The key of a Kubernetes label or annotation: a label value that is not blank, with
/// an optional DNS prefix before a slash.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(|p| p.len() <= 253 && p.split('.').all(is_dns_label))
}

/// What the id of a cluster may be, in the words of an error message.
pub const CLUSTER_ID_RULE: &str = "at most 63 letters, digits, `-`, `_` and `.`";

/// A user's name for a cluster. Upstream puts no rule on it; ours keeps it printable,
/// short, and free of the `/` that separates it from a service name.
pub fn is_cluster_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The name of an environment variable, as a shell would accept it in an export; dots
/// and dashes are tolerated because container runtimes pass them on.
pub fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && !text.as_bytes()[0].is_ascii_digit()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_name_is_a_short_dns_label() {
        for good in ["a", "grayify", "a-1", &"x".repeat(39)] {
            assert!(ServiceName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "ä", &"x".repeat(40)] {
            assert!(ServiceName::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn label_keys_may_have_a_domain() {
        assert!(is_label_key("oscar.grycap/user-service"));
        assert!(is_label_key("vo"));
        assert!(!is_label_key("/x"));
        assert!(!is_label_key("a/b/c"));
        assert!(!is_label_key(""));
    }
}
