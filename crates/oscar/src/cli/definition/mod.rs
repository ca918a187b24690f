//! Definitions between the file of a person and the body of a request.

pub(super) mod body;
pub(super) mod known;
pub(super) mod node;
pub(super) mod view;
pub(super) mod yaml;
