//! What tests need to meet the real thing: a Kubernetes API server, two identity
//! providers, an object store, upstream's own manager and the published Python client, started
//! on loopback with free ports.
//!
//! A part that is not on this machine is a [`Missing`] with its reason, and the test skips
//! (see [`require!`]). A part that is there but does not start is a panic: a broken part
//! must never look like an absent one.
//!
//! Only a dev-dependency. Nothing here knows the crates it helps to test.

mod apiserver;
mod dex;
mod go_oscar;
mod http;
mod keycloak;
mod kubeconfig;
mod minio;
mod part;
mod pki;
mod ports;
mod python;
mod reaper;
mod record;
mod scratch;
mod server;
mod tokens;

pub use apiserver::{ADMIN_TOKEN, ALICE_TOKEN, Apiserver};
pub use dex::{Dex, DexConfig};
pub use go_oscar::GoOscar;
pub use keycloak::Keycloak;
pub use minio::Minio;
pub use part::{Missing, Part};
pub use ports::free_port;
pub use python::Python;
pub use record::{count, long_run, skip, test_name};
pub use rustix::process::Signal;
pub use scratch::Scratch;
pub use server::{NotReady, Server, eventually};
pub use tokens::Tokens;

/// Unwraps a `Result<_, impl Display>`; on an error the calling test is recorded as skipped
/// with that reason and returns.
///
/// ```ignore
/// let cluster = oscar_testkit::require!(Apiserver::shared());
/// ```
#[macro_export]
macro_rules! require {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(why) => {
                $crate::skip!(why);
                return;
            }
        }
    };
}

/// Records the calling test as skipped, for the reason given. The test has to return itself.
#[macro_export]
macro_rules! skip {
    ($why:expr) => {{
        fn here() {}
        $crate::skip(&$crate::test_name(&here), &$why.to_string());
    }};
}
