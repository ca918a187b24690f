//! The homes of owners: the services namespace for the administrator, one namespace of its own
//! for each user.
//!
//! A name that is free or already the user's is used; one that is somebody else's never, and
//! the longer candidates of the model follow. Creating a namespace is what decides between
//! two users, or two managers, that want the same name at once. Namespaces are watched, so a
//! user who was here before costs no call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::watcher;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::users::{Home, Users};
use oscar_model::identity::Owner;
use oscar_model::namespace::candidates;
use tokio::task::JoinHandle;

use crate::calls::{Calls, Namespaced};
use crate::layout::home::{Room, build_binding, build_namespace, build_role, read_room};
use crate::mirror::Mirror;
use crate::options::Options;
use crate::shelf::Key;
use crate::watch::{self, Link, Sink};

type Rooms = Mirror<PartialObjectMeta<Namespace>, Room>;

pub(crate) struct KubeUsers {
    calls: Calls,
    options: Arc<Options>,
    rooms: Arc<Rooms>,
    /// Homes that were made ready by this manager, each with its namespace.
    ready: Mutex<HashMap<Owner, String>>,
}

impl KubeUsers {
    pub(crate) fn start(calls: &Calls, options: &Arc<Options>, tasks: &mut Vec<JoinHandle<()>>) -> Arc<Self> {
        let rooms = Arc::new(Rooms::new(|found| read_room(&found.metadata)));
        // Only metadata is asked for: it says whose a namespace is.
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(calls.client.clone());
        let open = move || watcher(api.clone(), watch::settings());
        tasks.push(tokio::spawn(watch::follow("namespaces", rooms.clone(), open)));
        Arc::new(Self { calls: calls.clone(), options: options.clone(), rooms, ready: Mutex::default() })
    }

    pub(crate) fn link(&self) -> &Link {
        Sink::link(&*self.rooms)
    }

    /// The home that was made ready before, if it is still what it was.
    fn known(&self, owner: &Owner) -> Option<String> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = ready.get(owner)?;
        let rooms = self.rooms.read();
        let room = rooms.get(&Key::new("", namespace))?;
        (room.is_of(owner) && !room.ending).then(|| namespace.clone())
    }

    /// The namespace of the owner, made when there is none.
    async fn ensure_namespace(&self, owner: &Owner) -> Result<String, StoreError> {
        let names = candidates(owner, &self.options.services_namespace);
        let free = match self.find(owner, &names).await? {
            Place::Own(name) => return Ok(name),
            Place::Free(name) => Some(name),
            Place::Nowhere => None,
        };
        for name in free.iter().chain(&names) {
            match self.create_namespace(name, owner).await {
                Ok(()) => return Ok(name.clone()),
                Err(StoreError::AlreadyExists) => match self.room(name).await? {
                    Some(room) if room.is_of(owner) => return open(name, &room),
                    _ => {}
                },
                Err(error) => return Err(error),
            }
        }
        Err(crowded_out(owner))
    }

    async fn find(&self, owner: &Owner, names: &[String]) -> Result<Place, StoreError> {
        let mut free = None;
        for name in names {
            match self.room(name).await? {
                Some(room) if room.is_of(owner) => return open(name, &room).map(Place::Own),
                Some(_) => {}
                // A name further down may still be the owner's: this one was taken once.
                None => drop(free.get_or_insert_with(|| name.clone())),
            }
        }
        Ok(free.map_or(Place::Nowhere, Place::Free))
    }

    /// Asked of the apiserver: another manager may have made it an instant ago.
    async fn room(&self, name: &str) -> Result<Option<Room>, StoreError> {
        let found: Option<Namespace> = self.calls.get_cluster(name).await?;
        Ok(found.map(|found| read_room(&found.metadata)))
    }

    async fn create_namespace(&self, name: &str, owner: &Owner) -> Result<(), StoreError> {
        let ticket = self.rooms.begin_write();
        let made = self.calls.create_cluster(&build_namespace(name, owner)).await;
        let (answer, outcome) = match made {
            Ok(made) => (Some(PartialObjectMeta { metadata: made.metadata, ..PartialObjectMeta::default() }), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.rooms.end_write(ticket, answer);
        outcome
    }

    /// Adds what is missing; what is there may have been widened by hand and stays.
    async fn ensure<K: Namespaced>(&self, object: &K) -> Result<(), StoreError> {
        let meta = object.meta();
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        if self.calls.get_metadata::<K>(namespace, name).await?.is_some() {
            return Ok(());
        }
        match self.calls.create(object).await {
            Ok(_) | Err(StoreError::AlreadyExists) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What there is for an owner.
enum Place {
    Own(String),
    /// The first that nobody has.
    Free(String),
    Nowhere,
}

fn crowded_out(owner: &Owner) -> StoreError {
    StoreError::Unavailable(format!("every namespace that '{owner}' could have is somebody else's"))
}

fn open(name: &str, room: &Room) -> Result<String, StoreError> {
    if room.ending {
        return Err(StoreError::Unavailable(format!("the namespace '{name}' is being deleted")));
    }
    Ok(name.to_owned())
}

#[async_trait]
impl Users for KubeUsers {
    async fn ensure(&self, owner: &Owner, _display_name: &str) -> Result<Home, StoreError> {
        if let Some(namespace) = self.known(owner) {
            return Ok(Home { namespace });
        }
        let namespace = self.ensure_namespace(owner).await?;
        if let Owner::User(_) = owner {
            self.ensure::<Role>(&build_role(&namespace)).await?;
            self.ensure::<RoleBinding>(&build_binding(&namespace, &self.options)).await?;
        }
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(owner.clone(), namespace.clone());
        Ok(Home { namespace })
    }

    async fn look(&self, owner: &Owner) -> Result<Home, StoreError> {
        if let Some(namespace) = self.known(owner) {
            return Ok(Home { namespace });
        }
        let names = candidates(owner, &self.options.services_namespace);
        match self.find(owner, &names).await? {
            Place::Own(namespace) | Place::Free(namespace) => Ok(Home { namespace }),
            Place::Nowhere => Err(crowded_out(owner)),
        }
    }
}
