//! Text that must not be printed: passwords, tokens, keys.
//!
//! A [`Secret`] has no `Display` and no `Serialize`; its `Debug` shows only whether it
//! is blank. The value leaves by [`Secret::expose`], so every place that lets one out
//! can be found by its name.

use std::fmt;

/// A value that is never shown. Blank means "not given" (and on an update: "keep").
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that has to send or store it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_blank(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares without telling by its duration where the difference is.
    pub fn matches(&self, candidate: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), candidate.as_bytes());
        // The length is no secret: tokens have a fixed one.
        if ours.is_empty() || ours.len() != theirs.len() {
            return false;
        }
        let difference = ours.iter().zip(theirs).fold(0u8, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
        difference == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.is_blank() { "Secret(blank)" } else { "Secret(…)" })
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_shows_its_value() {
        let shown = format!("{:?}", Secret::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_blank_secret_matches_nothing_not_even_a_blank() {
        assert!(!Secret::default().matches(""));
        assert!(Secret::new("abc").matches("abc"));
        assert!(!Secret::new("abc").matches("abd"));
        assert!(!Secret::new("abc").matches("abcd"));
    }
}
