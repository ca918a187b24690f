//! An OpenID provider for trying things out on one machine.
//!
//! **Never for production.** It keeps everything in memory, forgets it at its end, accepts
//! passwords over plain HTTP and has no limits. So it listens on loopback only and refuses
//! everything else. It exists so that `oscar demo` has real tokens: signed, refreshed, rotated and
//! revoked as those of a real provider.

mod routes;
mod sessions;
mod signing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oscar_engine::ports::clock::{Clock, Entropy};
use oscar_model::secret::Secret;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use sessions::Sessions;
use signing::Signer;

/// Somebody who can sign in. The provider makes a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevUser {
    /// For signing in and for showing.
    pub name: String,
    /// The claim `sub`.
    pub subject: String,
    pub groups: Vec<String>,
}

pub struct DevIdpOptions {
    /// The one client; it is public.
    pub client_id: String,
    pub access_lifetime: Duration,
    pub refresh_lifetime: Duration,
    /// Whether a refresh token is good for one use; a second use then ends its session.
    pub rotate: bool,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl DevIdpOptions {
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            client_id: "oscar".to_owned(),
            access_lifetime: Duration::from_mins(5),
            refresh_lifetime: Duration::from_hours(24),
            rotate: true,
            clock,
            entropy,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DevIdpError {
    #[error("the development identity provider is for this machine only and does not listen on {0}")]
    NotLoopback(SocketAddr),
    #[error("the development identity provider has no address: {0}")]
    Address(#[from] io::Error),
}

/// A provider that runs. It ends when this is dropped.
pub struct DevIdp {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl DevIdp {
    /// Makes a key and passwords, and begins to answer. Needs a runtime around it.
    pub fn start(listener: TcpListener, users: Vec<DevUser>, options: DevIdpOptions) -> Result<Self, DevIdpError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(DevIdpError::NotLoopback(address));
        }
        let entropy = &*options.entropy;
        let users = users.into_iter().map(|user| (user.name.clone(), Account { password: mk_secret(entropy), user }));
        let shared = Arc::new(Shared {
            issuer: format!("http://{address}"),
            users: users.collect(),
            signer: Signer::new(entropy),
            sessions: Mutex::new(Sessions::new(options.rotate)),
            options,
        });
        let router = routes::router(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "development identity provider has ended");
            }
        });
        Ok(Self { shared, server })
    }

    pub fn issuer_url(&self) -> &str {
        &self.shared.issuer
    }

    pub fn client_id(&self) -> &str {
        &self.shared.options.client_id
    }

    /// `None` when nobody has that name.
    pub fn password(&self, user: &str) -> Option<&Secret> {
        self.shared.users.get(user).map(|account| &account.password)
    }

    /// Signs a user in: an access token and a refresh token. `None` when nobody has that name.
    pub fn mint(&self, user: &str) -> Option<(Secret, Secret)> {
        let account = self.shared.users.get(user)?;
        let (access, refresh) = self.shared.sign_in(&account.user);
        Some((Secret::new(access), Secret::new(refresh)))
    }
}

impl Drop for DevIdp {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Account {
    user: DevUser,
    password: Secret,
}

/// What every request sees.
struct Shared {
    issuer: String,
    options: DevIdpOptions,
    /// By name.
    users: BTreeMap<String, Account>,
    signer: Signer,
    sessions: Mutex<Sessions>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.options.clock.now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

fn mk_secret(entropy: &dyn Entropy) -> Secret {
    let mut bytes = [0; 15];
    entropy.fill(&mut bytes);
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}
