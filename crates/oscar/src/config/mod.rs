//! The settings of a manager: from flags, the environment, a file, or a default, in that order.

mod catalogue;
mod derived;
mod document;
mod file;
mod parse;
mod settings;
mod show;
#[cfg(test)]
mod tests;

pub use catalogue::{CATALOGUE, Kind, Setting, UNUSED, UPSTREAM, unused};
pub use derived::{Derived, PASSWORD_FILE, Password, default_data_folder};
pub use document::settings_table;
pub use file::{Client, Issuer};
pub use settings::{ConfigError, Effective, Origin, Sources, World};
pub use show::{show_json, show_table};
