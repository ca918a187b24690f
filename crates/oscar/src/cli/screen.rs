//! Where text goes: the standard output for what was asked for, the standard error for the rest.
//!
//! Text of a manager is a stranger's: control characters in it are shown and never obeyed, so
//! that a service name cannot move the cursor or change the colours.

use std::borrow::Cow;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde_json::Value;

use super::Global;
use super::exit::{Exit, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// Colours or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn on(self, style: Style, text: &str) -> String {
        if self.0 { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub(super) json: bool,
    /// For the standard output.
    pub(super) paint: Paint,
    /// For the standard error.
    paint_errors: Paint,
}

impl Screen {
    pub(super) fn new(global: &Global) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wanted = !global.no_color && !set("NO_COLOR") && !dumb;
        Self {
            json: global.json,
            paint: Paint(wanted && io::stdout().is_terminal()),
            paint_errors: Paint(wanted && io::stderr().is_terminal()),
        }
    }

    /// The width of the terminal; none when the output goes elsewhere and nothing may be cut.
    pub(super) fn width() -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
    }

    pub(super) fn warning(self, text: &str) {
        self.labelled(Style::Yellow, "warning", text);
    }

    pub(super) fn hint(self, text: &str) {
        self.labelled(Style::Cyan, "hint", text);
    }

    /// For programs it is the answer, so that there is always one on the standard output; unless
    /// that is what failed.
    pub(super) fn failure(self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        if self.json && unwritten().is_ok() {
            return value(&failure.to_json());
        }
        self.labelled(Style::Red, "error", &failure.message);
        for detail in &failure.details {
            write_err(&format!("  - {}\n", printable(detail)));
        }
        for hint in &failure.hints {
            self.hint(hint);
        }
    }

    fn labelled(self, style: Style, label: &str, text: &str) {
        write_err(&format!("{} {}\n", self.paint_errors.on(style, &format!("{label}:")), printable(text)));
    }
}

/// One line of what was asked for.
pub(super) fn line(text: &str) {
    write_out(&format!("{text}\n"));
}

pub(super) fn value(value: &Value) {
    // A tree of values has string keys and no failing `Serialize`.
    line(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Something worth knowing that was not asked for.
pub(super) fn note(text: &str) {
    write_err(&format!("{text}\n"));
}

/// Asks before something is changed. Where nobody can answer, `--yes` must have been given.
pub(super) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !is_interactive() {
        return Err(Failure::new(Exit::Usage, "this needs a confirmation, and there is no terminal to ask on")
            .hint("add `--yes` to go ahead without being asked"));
    }
    write_err(&format!("{} [y/N] ", printable(question)));
    let answer = read_line().map_err(|error| Failure::io("the answer could not be read", &error))?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(Exit::Declined, "not confirmed, nothing was changed"))
}

/// Whether there is a person who reads questions and types answers.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

pub(super) fn ask(question: &str) -> io::Result<String> {
    write_err(question);
    read_line().map(|answer| answer.trim().to_owned())
}

pub(super) fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

pub fn write_out(text: &str) {
    put(text.as_bytes());
}

/// What could not be written to the standard output; a process has one, and it is broken once.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Writes to the standard output; false when nobody reads any more. A reader that went away, as
/// `head` does, is no failure. Anything else is kept for [`unwritten`].
pub(super) fn put(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != io::ErrorKind::BrokenPipe {
                let _ = UNWRITTEN.set(error);
            }
            false
        }
    }
}

/// Why not everything that was asked for is on the standard output. A command that ends well
/// although its output is not there would mislead whoever reads the file.
pub(super) fn unwritten() -> Result<(), Failure> {
    UNWRITTEN.get().map_or(Ok(()), |error| Err(Failure::io("the output could not be written", error)))
}

/// How a command ends that did nothing but write.
pub fn end() -> ExitCode {
    match unwritten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            write_err(&format!("error: {}\n", failure.message));
            failure.exit.into()
        }
    }
}

pub(super) fn write_err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The text with control characters spelled out; line ends stay.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// A stranger's words inside a line.
pub(super) fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Controls, and the marks that reverse the direction of what follows.
pub(super) fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\x1b[31mb\rc\nd"), "a\\u{1b}[31mb\\u{d}c\nd");
        assert!(matches!(printable("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn colours_are_only_painted_when_wanted() {
        assert_eq!(Paint(false).on(Style::Red, "x"), "x");
        assert_eq!(Paint(true).on(Style::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
