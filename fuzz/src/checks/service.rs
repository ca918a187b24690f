use oscar_api::service::{Mode, decode};
use oscar_api::tree::{Malformed, parse_json};

use super::definition::{is_told, survives};

/// A service as JSON, read as a client's and as a stored one.
pub fn service(data: &[u8]) {
    let node = match parse_json(data) {
        Ok(node) => node,
        Err(malformed) => {
            assert!(malformed != Malformed::Empty || data.iter().all(u8::is_ascii_whitespace));
            return;
        }
    };
    let strict = decode(&node, "", Mode::Json);
    let stored = decode(&node, "", Mode::Stored);
    match strict {
        Ok(draft) => {
            assert!(stored.is_ok(), "what a client may say can be stored");
            survives(draft.definition);
        }
        Err(faults) => is_told(&faults, None),
    }
    if let Err(faults) = stored {
        is_told(&faults, None);
    }
}
