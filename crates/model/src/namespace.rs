//! The namespace that a user's services live in.
//!
//! Upstream keeps eight characters of the subject, so two users can be given one
//! namespace. The short name is used where it is free or already that owner's; the long
//! one, which holds the whole hash, otherwise.

use std::fmt::Write as _;

use sha1::{Digest, Sha1};

use crate::identity::{Owner, Subject};

const SHORT: usize = 18;

/// The names to try for the services of `owner`, best first.
pub fn candidates(owner: &Owner, prefix: &str) -> Vec<String> {
    match owner {
        Owner::Admin => vec![prefix.to_owned()],
        Owner::User(subject) => {
            let long = format!("{prefix}-{}", &owner_hash(subject)[..16]);
            vec![short_name(subject, prefix), long, format!("{prefix}-{}", owner_hash(subject))]
        }
    }
}

/// The label that tells whose namespace it is.
pub fn owner_hash(subject: &Subject) -> String {
    let digest = Sha1::digest(subject.as_str().as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn short_name(subject: &Subject, prefix: &str) -> String {
    let room = SHORT.saturating_sub(prefix.len() + 1).max(1);
    let mut plain = String::new();
    for c in subject.as_str().to_lowercase().chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' {
            plain.push(c);
        } else if !plain.ends_with('-') {
            plain.push('-');
        }
    }
    let plain = plain.trim_matches('-');
    let mut suffix: String = plain.chars().take(room).collect();
    if suffix.len() < room {
        if !suffix.is_empty() {
            suffix.push('-');
        }
        let missing = room - suffix.len();
        suffix.push_str(&owner_hash(subject)[..missing.min(40)]);
    }
    format!("{prefix}-{}", suffix.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::is_dns_label;
    use proptest::prelude::*;

    fn short(text: &str) -> String {
        short_name(&Subject::parse(text).expect("a subject"), "oscar-svc")
    }

    #[test]
    fn the_short_name_is_that_of_upstream() {
        assert_eq!(short("62bb11b40398ff@egi.eu"), "oscar-svc-62bb11b4");
        let padded = short("ab");
        assert!(padded.starts_with("oscar-svc-ab-") && padded.len() == 18, "{padded}");
    }

    proptest! {
        #[test]
        fn every_candidate_is_a_valid_namespace(text in "\\PC{1,60}") {
            if let Some(subject) = Subject::parse(&text) {
                for name in candidates(&Owner::User(subject), "oscar-svc") {
                    prop_assert!(is_dns_label(&name), "{}", name);
                }
            }
        }
    }
}
