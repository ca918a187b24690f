//! Where definitions of services are kept.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use oscar_model::identity::Subject;
use oscar_model::name::ServiceName;
use oscar_model::service::{Sensitive, Service};

use super::StoreError;

/// Definitions by name. A name is unique in the whole cluster, whoever owns it.
///
/// Contract:
/// - A change that returned `Ok` is durable, and every later read by this manager sees it.
/// - A change that returned an error other than `Unavailable` changed nothing.
/// - A change is whole: no reader ever sees a definition without its secrets.
/// - Two creates of one name: exactly one succeeds, the other gets `AlreadyExists`.
/// - [`Services::replace`] and [`Services::remove`] with a revision act only on that revision.
///   A revision is never used twice, also not by a service that was removed and made again.
/// - Reads come from an index in memory: they cost no scan of the store.
/// - One unreadable definition breaks no other: lists show it as [`Entry::Broken`].
/// - Definitions come back with blank secrets; [`Services::reveal`] alone returns the values.
#[async_trait]
pub trait Services: Send + Sync {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError>;

    /// Replaces the definition *and* all its secrets.
    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError>;

    /// Removes it with its secrets; a broken one too.
    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError>;

    /// `Ok(None)` when there is none; `Err(Broken)` when it cannot be read.
    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError>;

    /// By name, in ascending order.
    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError>;

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError>;
}

/// Whose services a list is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    /// What this user may see: own, public, and restricted ones that name the user.
    VisibleTo(Subject),
}

/// A service as it is kept, its secrets blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub service: Service,
    pub revision: Revision,
}

/// One row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Good(Arc<Stored>),
    Broken { name: String, namespace: String, cause: String },
}

impl Entry {
    pub fn name(&self) -> &str {
        match self {
            Self::Good(stored) => stored.service.name().as_str(),
            Self::Broken { name, .. } => name,
        }
    }
}

/// Which state of a service; opaque, printable ASCII without quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(String);

impl Revision {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
