//! `oscar run`: call a service and wait for what it says.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use oscar_api::client::RunAnswer;
use serde_json::json;

use super::exit::Failure;
use super::input::InputArgs;
use super::service::check_name;
use super::stranger::Stranger;
use super::{Session, progress, screen, target};

/// The manager ends a run that takes too long; this is only for one that never answers.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug, Args)]
pub struct RunArgs {
    service: String,
    #[command(flatten)]
    input: InputArgs,
    /// Write the answer to this file, decoded when it is base64.
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Decode the answer when it is base64.
    #[arg(long)]
    decode: bool,
}

pub(super) async fn run(session: &Session, args: RunArgs) -> Result<(), Failure> {
    check_name(&args.service)?;
    let event = args.input.event()?;
    let target = target::current(session)?;
    let client = target.client(LONGEST)?;
    let what = format!("running {} on {}", args.service, target.title());
    let RunAnswer { body: mut answer, encoded } = progress::during(&what, client.run(&args.service, event)).await?;
    // Managers of other kinds do not say it; much plain text could be base64 as well.
    if (args.decode || args.output.is_some()) && encoded.unwrap_or(true) {
        answer = decoded(answer);
    }
    if let Some(path) = &args.output {
        let written = std::fs::write(path, &answer);
        written.map_err(|error| Failure::io(format!("{} cannot be written", path.display()), &error))?;
        let told = json!({"file": path.display().to_string(), "bytes": answer.len()});
        if session.screen.json {
            screen::value(&told);
        } else {
            screen::note(&format!("{} bytes written to {}", answer.len(), path.display()));
        }
    } else if session.screen.json {
        screen::value(&match String::from_utf8(answer) {
            Ok(text) => json!({"answer": text}),
            Err(binary) => json!({"answer_base64": STANDARD.encode(binary.as_bytes())}),
        });
    } else {
        Stranger::new().write(&answer);
    }
    Ok(())
}

/// What base64 stands for, line ends in it or not; anything else as it is.
fn decoded(answer: Vec<u8>) -> Vec<u8> {
    let dense: Vec<u8> = answer.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(dense).unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn only_base64_is_decoded() {
        assert_eq!(decoded(b"aGVs\nbG8=\n".to_vec()), b"hello");
        assert_eq!(decoded(b"plain text!".to_vec()), b"plain text!");
        assert_eq!(decoded(vec![0xff, 0]), [0xff, 0]);
    }
}
