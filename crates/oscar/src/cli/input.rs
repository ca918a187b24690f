//! What a service is called with.

use std::fs::File;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;

use super::exit::{Exit, Failure};

/// Managers take less; this only keeps a mistake from filling the memory.
const MOST: u64 = 64 << 20;

#[derive(Debug, Args)]
pub struct InputArgs {
    /// The file that the script gets; `-` is the standard input.
    #[arg(value_name = "FILE", conflicts_with = "text")]
    file: Option<String>,
    /// The script gets this text instead of a file.
    #[arg(long)]
    text: Option<String>,
    /// Send the bytes as they are, such as an event of an object store. Without it they travel as base64, and the
    /// script gets exactly what the file holds.
    #[arg(long)]
    raw: bool,
}

impl InputArgs {
    /// The body of the call.
    pub(super) fn event(&self) -> Result<Vec<u8>, Failure> {
        let bytes = match (&self.file, &self.text) {
            (Some(path), _) if path == "-" => read("the standard input", io::stdin().lock())?,
            (Some(path), _) => {
                let file = File::open(path).map_err(|error| unreadable(path, &error))?;
                read(path, file)?
            }
            (None, Some(text)) => text.clone().into_bytes(),
            (None, None) => Vec::new(),
        };
        Ok(if self.raw { bytes } else { STANDARD.encode(bytes).into_bytes() })
    }
}

fn read(what: &str, from: impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(what, &error))?;
    if bytes.len() as u64 > MOST {
        return Err(Failure::new(Exit::Usage, format!("{what} is too large to be sent with a call"))
            .hint("put it into the input bucket of the service: `oscar put FILE BUCKET/FOLDER/`"));
    }
    Ok(bytes)
}

/// A file that is not there is a case of its own.
pub(super) fn unreadable(what: &str, error: &io::Error) -> Failure {
    let mut failure = Failure::io(format!("{what} cannot be read"), error);
    if error.kind() == io::ErrorKind::NotFound {
        failure.exit = Exit::NotFound;
    }
    failure
}
