//! The HTTP side over a world in memory.
