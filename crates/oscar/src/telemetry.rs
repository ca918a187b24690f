//! The log: on standard error, for people or for machines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// Above everything else: this library prints whole answers that it cannot read, and an answer
/// may be a Secret.
const NEVER: &str = "kube_client=error";

/// A bare level is about this project; libraries stay at warnings, because their finest levels
/// print headers, and headers carry tokens.
fn directives(filter: &str) -> String {
    let level = filter.trim();
    if !["error", "warn", "info", "debug", "trace", "off"].contains(&level.to_ascii_lowercase().as_str()) {
        return format!("{filter},{NEVER}");
    }
    let own = ["audit", "oscar", "oscar_api", "oscar_engine", "oscar_kube", "oscar_local"];
    own.iter().fold(format!("warn,{NEVER}"), |all, module| format!("{all},{module}={level}"))
}

/// Sets up the log of this process. A filter that cannot be read is said and replaced.
pub(crate) fn start(filter: &str, format: &str) {
    let chosen = EnvFilter::try_new(directives(filter));
    let refused = chosen.as_ref().err().map(ToString::to_string);
    let builder = fmt()
        .with_env_filter(chosen.unwrap_or_else(|_| EnvFilter::new("info")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    // Set once: a second call in one process keeps the first.
    let _ = if format == "json" { builder.json().try_init() } else { builder.with_target(false).try_init() };
    if let Some(cause) = refused {
        tracing::warn!("the log filter \"{filter}\" cannot be read ({cause}); using info");
    }
}
