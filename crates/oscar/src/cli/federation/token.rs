//! The refresh token of a federation. Its value comes from a prompt, a file or a pipe, never from
//! an argument, which every user of the machine could read; and it is never shown.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use oscar_model::secret::Secret;
use serde_json::Value;

use crate::cli::Session;
use crate::cli::exit::{Exit, Failure};
use crate::cli::progress;
use crate::cli::screen::{self, is_interactive};

use super::view::Token;
use super::{reach, show};

/// More than this is no token.
const MOST_BYTES: u64 = 1 << 16;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Replace it; the former one is given up.
    Set {
        service: String,
        /// The file that holds it; `-` is the standard input. Without it you are asked, unseen.
        file: Option<PathBuf>,
    },
    /// Revoke it at its issuer and forget it; members stay as they are and wait for a new one.
    Revoke {
        service: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Show its state and age.
    Status { service: String },
}

pub(super) async fn run(session: &Session, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Set { service, file } => set(session, &service, file.as_deref()).await,
        TokenCommand::Revoke { service, yes } => revoke(session, &service, yes).await,
        TokenCommand::Status { service } => status(session, &service).await,
    }
}

async fn set(session: &Session, service: &str, file: Option<&Path>) -> Result<(), Failure> {
    let (_, client) = reach(session, service)?;
    let token = read(file)?;
    let what = format!("giving {service} its refresh token");
    let state = progress::during(&what, client.set_refresh_token(service, &token)).await?;
    tell(session, &state);
    Ok(())
}

async fn revoke(session: &Session, service: &str, yes: bool) -> Result<(), Failure> {
    let (target, client) = reach(session, service)?;
    screen::confirm(&format!("revoke the refresh token of {service} on {}?", target.title()), yes)?;
    progress::during("revoking the refresh token", client.revoke_refresh_token(service)).await?;
    if session.screen.json {
        screen::value(&Value::Null);
    } else {
        screen::line(&format!("the refresh token of {service} is revoked and forgotten"));
        session.screen.hint(&format!("give another one: oscar federation token set {service}"));
    }
    Ok(())
}

async fn status(session: &Session, service: &str) -> Result<(), Failure> {
    let (target, client) = reach(session, service)?;
    let state = progress::during(&format!("asking {}", target.title()), client.refresh_token(service)).await?;
    tell(session, &state);
    Ok(())
}

fn tell(session: &Session, state: &Value) {
    if session.screen.json {
        return screen::value(state);
    }
    let token: Option<Token> = serde_json::from_value(state.clone()).unwrap_or_default();
    screen::write_out(&show::token(token.as_ref(), session.screen.paint));
}

fn read(file: Option<&Path>) -> Result<Secret, Failure> {
    let text = match file {
        Some(path) if path == Path::new("-") => bounded(io::stdin().lock()),
        Some(path) => File::open(path).and_then(bounded),
        None if is_interactive() => rpassword::prompt_password("Refresh token: "),
        None => {
            return Err(Failure::new(Exit::Usage, "there is no terminal to ask for the refresh token on")
                .hint("give a file, or `-` and a pipe: … | oscar federation token set SERVICE -"));
        }
    };
    let text = text.map_err(|error| {
        let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
        Failure::new(exit, format!("the refresh token cannot be read: {error}"))
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::new(Exit::Usage, "no refresh token was given"));
    }
    Ok(Secret::new(token))
}

fn bounded(reader: impl Read) -> io::Result<String> {
    let mut text = String::new();
    reader.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
