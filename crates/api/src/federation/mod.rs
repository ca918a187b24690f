//! What managers keep of federations, and the membership that they tell each other.
//!
//! [`Kept`] is for what a manager's own store holds: it contains credentials, so the bytes must
//! go nowhere but into a store that keeps them from other eyes. [`channel`] is what they tell
//! each other.

pub mod channel;
mod definition;
mod parts;
pub mod replicas;
mod stored;

pub use stored::Kept;

use serde::de::DeserializeOwned;

/// The version of everything that is [`Kept`]. A field that is added does not raise it: readers
/// pass over what they do not know, and what is absent has a default.
const VERSION: u32 = 1;

/// Reads JSON. The cause of a failure quotes nothing of it: any text may be a credential.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "it does not have the expected form",
            serde_json::error::Category::Eof => "it is cut off",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "it is not JSON",
        };
        format!("{what} (line {}, column {})", error.line(), error.column())
    })
}
