//! What a manager does, over ports: no Kubernetes, HTTP, S3, SQL or OIDC library is known here.

pub mod catalogue;
pub mod memory;
pub mod ports;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
