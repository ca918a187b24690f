//! The settings of a manager: from flags, the environment, a file, or a default, in that order.

mod catalogue;
mod parse;
mod settings;
mod show;

pub use catalogue::{CATALOGUE, Kind, Setting};
pub use settings::{ConfigError, Effective, Origin, Sources, World};
pub use show::{show_json, show_table};
