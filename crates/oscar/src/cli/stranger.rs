//! Bytes of somebody's script on their way to the standard output.
//!
//! A file or a pipe gets them as they are. A terminal would obey what is in them, so there
//! control characters are spelled out; tabs and line ends stay.

use std::io::{self, IsTerminal as _};

use super::screen::{is_harmful, put};

pub(super) struct Stranger {
    for_people: bool,
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
}

impl Stranger {
    pub(super) fn new() -> Self {
        Self { for_people: io::stdout().is_terminal(), begun: Vec::new() }
    }

    /// False when nobody reads any more.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        if self.for_people {
            let shown = self.shown(bytes);
            return put(shown.as_bytes());
        }
        put(bytes)
    }

    fn shown(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            // Only an end that is missing is waited for.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.begun, rest)).into_owned();
        let spelled = |c: char| if is_harmful(c) && c != '\t' { c.escape_unicode().to_string() } else { c.to_string() };
        text.chars().map(spelled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_and_gets_whole_characters() {
        let mut stranger = Stranger { for_people: true, begun: Vec::new() };
        assert_eq!(stranger.shown(b"a\tb\x1b[2J\n\xc3"), "a\tb\\u{1b}[2J\n");
        assert_eq!(stranger.shown(b"\xa4!"), "ä!");
        assert_eq!(stranger.shown(b"\xff."), "\u{fffd}.");
    }
}
