//! `BUCKET/KEY`: where an object is. A key may hold anything that a file name can, and more.

use crate::cli::buckets;
use crate::cli::exit::{Exit, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: String,
    /// Blank for the bucket itself; a folder ends with a slash.
    pub(super) key: String,
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
        buckets::check(bucket)?;
        let refused =
            |why: &str| Err(Failure::new(Exit::Usage, format!("`{key}` cannot be the key of an object: {why}")));
        if key.len() > 1024 {
            return refused("it has more than 1024 bytes");
        }
        // An address has no place for these: they would name another object.
        if key.split('/').any(|part| matches!(part, "." | "..")) {
            return refused("`.` and `..` cannot be parts of it");
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// The key of one object.
    pub(super) fn object(&self) -> Result<&str, Failure> {
        if self.key.is_empty() || self.key.ends_with('/') {
            return Err(Failure::new(Exit::Usage, format!("`{}/{}` names no object", self.bucket, self.key))
                .hint(format!("`oscar ls {}/{}` shows what is there", self.bucket, self.key)));
        }
        Ok(&self.key)
    }

    /// Whether things are put below it under their own names.
    pub(super) fn is_folder(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_hold_anything_but_steps() {
        for key in ["in/two words + 100% ä?#.txt", "a//b", "...", "-"] {
            let place = Place::parse(&format!("data/{key}")).expect(key);
            assert_eq!(place.object().expect(key), key);
        }
        for wrong in ["data/../x", "data/a/.", "Data/x", "a/b", "", "/x", "da ta/x"] {
            assert_eq!(Place::parse(wrong).expect_err(wrong).exit, Exit::Usage);
        }
        for folder in ["data", "data/", "data/in/"] {
            let place = Place::parse(folder).expect(folder);
            assert!(place.is_folder() && place.object().is_err(), "{folder}");
        }
    }
}
