//! A sign of life for what takes longer than a second, for people only.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use super::screen::{printable, write_err};

const FRAMES: [&str; 4] = ["⠋", "⠙", "⠴", "⠦"];
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(120);

/// Waits for `work`; after a second says on the terminal what is being waited for.
pub(super) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    let mut frames = FRAMES.iter().cycle();
    loop {
        let frame = frames.next().copied().unwrap_or_default();
        write_err(&format!("\r{frame} {} …", printable(what)));
        if let Ok(done) = tokio::time::timeout(STEP, &mut work).await {
            // The line is wiped: what comes next begins where it stood.
            write_err("\r\x1b[2K");
            return done;
        }
    }
}
