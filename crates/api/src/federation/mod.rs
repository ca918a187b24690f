//! Federation on the wire.

pub mod channel;
