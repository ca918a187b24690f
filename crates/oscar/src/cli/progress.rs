//! A sign of life for what takes longer than a second, for people only.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use terminal_size::terminal_size_of;

use super::screen::{printable, write_err};

const FRAMES: [&str; 4] = ["⠋", "⠙", "⠴", "⠦"];
const PATIENCE: Duration = Duration::from_secs(1);
/// Of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;
const STEP: Duration = Duration::from_millis(120);

/// How often it is asked how far the work is.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for `work`; after a second says on the terminal what is being waited for.
pub(super) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    watching(what, work, async || None).await
}

/// As [`during`], and now and then asks `look` how far the work is. It must not disturb the work.
pub(super) async fn watching<T>(
    what: &str,
    work: impl Future<Output = T>,
    look: impl AsyncFn() -> Option<String>,
) -> T {
    // A terminal that cannot wipe a line would be filled with them.
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if dumb || !io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    let told = RefCell::new(String::new());
    let mut looking = pin!(async {
        loop {
            if let Some(news) = look().await {
                told.replace(format!(": {news}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    let mut frames = FRAMES.iter().cycle();
    loop {
        let frame = frames.next().copied().unwrap_or_default();
        let width = terminal_size_of(io::stderr()).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
        let text = line(frame, &format!("{what}{}", told.borrow()), width);
        // Wiped first: what was there may have been longer.
        write_err(&format!("\r\x1b[2K{text}"));
        tokio::select! {
            done = &mut work => {
                // The line is wiped: what comes next begins where it stood.
                write_err("\r\x1b[2K");
                return done;
            }
            () = tokio::time::sleep(STEP) => {}
            () = &mut looking => {}
        }
    }
}

/// One line of the terminal and no more: from a second one there is no way back to the first.
fn line(frame: &str, what: &str, width: usize) -> String {
    let what = printable(what).replace('\n', " ");
    // The frame, two blanks, the dots, and one place left free.
    let what: String = what.chars().take(width.saturating_sub(5)).collect();
    format!("{frame} {what} …")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_into_the_terminal() {
        assert_eq!(line("⠋", "asking main", 80), "⠋ asking main …");
        assert_eq!(line("⠋", "asking\nmain", 12), "⠋ asking  …");
        assert!(line("⠋", &"x".repeat(100), 40).chars().count() < 40);
        assert_eq!(line("⠋", "asking", 1), "⠋  …");
    }
}
