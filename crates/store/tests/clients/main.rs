//! Published clients of S3 against the store, and against a real MinIO at the same time.

#[path = "../it/support.rs"]
#[expect(dead_code, reason = "the other suite uses the rest")]
mod support;

mod answers;
mod differences;
mod left_out;
mod round_trips;
mod servers;
