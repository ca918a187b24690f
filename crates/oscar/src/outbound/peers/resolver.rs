//! Names become addresses here and nowhere else, so what is permitted is what is connected to.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::outbound::address::AddressPolicy;

/// The names of the system.
pub(super) struct SystemLookup;

impl Resolve for SystemLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Hands out only what the policy permits. The connection is made to what this answered, not to
/// what a second question would be answered.
pub(super) struct Guarded {
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) lookup: Arc<dyn Resolve>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, policy) = (name.as_str().to_owned(), Arc::clone(&self.policy));
        let found = self.lookup.resolve(name);
        Box::pin(async move {
            let mut permitted: Vec<SocketAddr> = Vec::new();
            let mut refused = None;
            for address in found.await? {
                match policy.permits(&host, address.ip()) {
                    Ok(()) => permitted.push(address),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            match refused {
                Some(error) if permitted.is_empty() => Err(error.into()),
                _ => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}
