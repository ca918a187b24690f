//! The member's side: what a manager does when a coordinator deploys to it.
//!
//! Whatever stands under the name is kept before it is touched, labelled with the operation, so
//! that a rollback restores it exactly, secrets included.

use std::sync::Arc;

use oscar_model::federation::expand::{FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};
use oscar_model::federation::plan::{Found, Origination};
use oscar_model::federation::record::{Against, Fence, Former, Role, Seconds};
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{
    Definition, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, Sensitive, Service, WORKER_ANNOTATION,
};

use crate::bugs::{Bug, planted};
use crate::failure::Failure;
use crate::grants::take_refresh_token;
use crate::ports::StoreError;
use crate::ports::journal::Journal;
use crate::ports::services::{Services, Stored};

pub struct Member {
    pub services: Arc<dyn Services>,
    pub journal: Arc<dyn Journal>,
    pub now: Seconds,
}

/// How a federation lets a replica go.
#[derive(Debug, Clone, Copy)]
pub struct Letting<'a> {
    pub federation_id: &'a str,
    /// How much its coordinator knew: what it sent with less knowledge comes too late.
    pub time: u64,
    pub delete: bool,
}

/// What a coordinator sends, and with how much knowledge.
#[derive(Clone, Copy)]
struct Deploy<'a> {
    federation_id: &'a str,
    operation: &'a str,
    time: u64,
}

/// More for one name of one owner than any federation needs: somebody plays.
const MOST_FENCES: usize = 256;

fn adopted(federation_id: &str) -> String {
    format!("adopted:{federation_id}")
}

fn annotation<'a>(definition: &'a Definition, key: &str) -> &'a str {
    definition.annotations.get(key).map_or("", String::as_str)
}

impl Member {
    /// What a coordinator of `federation_id` finds here.
    pub async fn look(&self, owner: &Principal, name: &ServiceName, federation_id: &str) -> Result<Found, Failure> {
        let Some(stored) = self.get(name).await? else { return Ok(Found::Nothing) };
        if !owner.is(&stored.service.owner) {
            return Ok(Found::SomebodyElses);
        }
        let definition = &stored.service.definition;
        match annotation(definition, FEDERATION_ID_ANNOTATION) {
            "" => Ok(Found::Plain(Box::new(definition.clone()))),
            id if id == federation_id => {
                let kept = self.journal.former(name, &adopted(federation_id)).await?;
                let origination = if kept.is_some() { Origination::Adopted } else { Origination::Created };
                Ok(Found::Replica { origination, definition: Box::new(definition.clone()) })
            }
            _ if planted(Bug::OthersTaken) => Ok(Found::Plain(Box::new(definition.clone()))),
            _ => Ok(Found::OtherFederation),
        }
    }

    /// Creates, takes over or updates the replica. Repeating an operation changes nothing; what was
    /// taken back or let go since is refused. `time` is what the coordinator knew.
    pub async fn deploy(
        &self,
        owner: &Principal,
        home: &str,
        mut definition: Definition,
        token: &Secret,
        time: u64,
    ) -> Result<(), Failure> {
        let name = definition.name.clone();
        let federation_id = annotation(&definition, FEDERATION_ID_ANNOTATION).to_owned();
        let operation = annotation(&definition, OPERATION_ANNOTATION).to_owned();
        let sent = Deploy { federation_id: &federation_id, operation: &operation, time };
        if self.is_too_late(&owner_of(owner), &name, sent).await? && !planted(Bug::LateDeployTaken) {
            return Err(Failure::TooLate(name));
        }
        let mut sensitive = Sensitive::take_from(&mut definition);
        // No coordinator of our kind sends one; it would be the job's to see here.
        take_refresh_token(&mut sensitive);
        let Some(stored) = self.get(&name).await? else {
            self.keep(&name, &operation, None).await?;
            let service = Service {
                definition,
                owner: owner_of(owner),
                owner_name: owner.user().map(|user| user.name.clone()).unwrap_or_default(),
                token: token.clone(),
                namespace: home.to_owned(),
                bucket_list: Vec::new(),
            };
            let created = self.services.create(service, sensitive).await;
            return created.map(drop).map_err(|error| Failure::of_service(error, &name));
        };
        if !owner.is(&stored.service.owner) {
            return Err(Failure::Exists(name));
        }
        match annotation(&stored.service.definition, FEDERATION_ID_ANNOTATION) {
            id if id == federation_id => {
                let same = annotation(&stored.service.definition, OPERATION_ANNOTATION) == operation;
                if same && !planted(Bug::FormerOverwritten) {
                    return Ok(());
                }
            }
            "" => self.keep(&name, &adopted(&federation_id), Some(&stored)).await?,
            _ if planted(Bug::OthersTaken) => {}
            _ => return Err(Failure::Exists(name)),
        }
        self.keep(&name, &operation, Some(&stored)).await?;
        let service = Service { definition, token: token.clone(), ..stored.service.clone() };
        let replaced = self.services.replace(service, sensitive, &stored.revision).await;
        replaced.map_err(|error| Failure::of_service(error, &name))?;
        // What was written over by a later operation is not taken back any more.
        let earlier = annotation(&stored.service.definition, OPERATION_ANNOTATION);
        if !earlier.is_empty() && earlier != operation {
            self.journal.forget_former(&name, earlier).await?;
        }
        Ok(())
    }

    /// Removes what the federation created (or without `delete` makes it a plain service), gives
    /// back what it adopted, and leaves alone what is not its own.
    pub async fn withdraw(
        &self,
        owner: &Principal,
        name: &ServiceName,
        Letting { federation_id, time, delete }: Letting<'_>,
    ) -> Result<(), Failure> {
        let against = Against::Federation { id: federation_id.to_owned(), before: time };
        self.fence(owner, name, against).await?;
        self.leave(owner, name, federation_id, delete).await?;
        self.forget_membership(name, federation_id).await
    }

    async fn fence(&self, owner: &Principal, name: &ServiceName, against: Against) -> Result<(), Failure> {
        let fence = Fence { service: name.clone(), owner: owner_of(owner), against, since: self.now };
        raise_fence(&*self.journal, fence).await
    }

    /// Whether what arrives was taken back or let go before it arrived.
    async fn is_too_late(
        &self,
        owner: &Owner,
        name: &ServiceName,
        Deploy { federation_id, operation, time }: Deploy<'_>,
    ) -> Result<bool, Failure> {
        let fences = self.journal.fences(name).await?.into_iter();
        let is_refused = fences.filter(|fence| fence.holds_for(owner)).any(|fence| match fence.against {
            Against::Operation(id) => id == operation,
            Against::Federation { id, before } => id == federation_id && time < before,
        });
        // Its owner has taken it out, and the coordinator does not know yet.
        let said_farewell = self.journal.federations().await?.iter().any(|record| {
            record.own.service_name == *name
                && record.federation_id == federation_id
                && record.role != Role::Coordinator
                && record.deleted.is_some()
        });
        Ok(is_refused || said_farewell)
    }

    async fn leave(
        &self,
        owner: &Principal,
        name: &ServiceName,
        federation_id: &str,
        delete: bool,
    ) -> Result<(), Failure> {
        let Some(stored) = self.get(name).await? else { return Ok(()) };
        let ours = owner.is(&stored.service.owner)
            && annotation(&stored.service.definition, FEDERATION_ID_ANNOTATION) == federation_id;
        if !ours {
            return Ok(());
        }
        if !stored.service.definition.is_worker() {
            // The coordinator's own service is never a member's.
            return Ok(());
        }
        let earlier = annotation(&stored.service.definition, OPERATION_ANNOTATION).to_owned();
        self.journal.forget_former(name, &earlier).await?;
        let kept = self.journal.former(name, &adopted(federation_id)).await?;
        let kept = kept.filter(|_| !planted(Bug::AdoptedDeleted));
        if let Some((service, sensitive)) = kept.and_then(|former| former.service) {
            let replaced = self.services.replace(service, sensitive, &stored.revision).await;
            replaced.map_err(|error| Failure::of_service(error, name))?;
            return Ok(self.journal.forget_former(name, &adopted(federation_id)).await?);
        }
        let ended = if delete {
            self.services.remove(name, Some(&stored.revision)).await
        } else {
            let sensitive = self.services.reveal(name).await.map_err(|error| Failure::of_service(error, name))?;
            let service = Service { definition: released(&stored.service.definition), ..stored.service.clone() };
            self.services.replace(service, sensitive, &stored.revision).await.map(drop)
        };
        ended.map_err(|error| Failure::of_service(error, name))
    }

    /// Puts back what stood here before the operation; nothing when it never arrived, or when
    /// somebody has changed the service since.
    pub async fn undo(&self, owner: &Principal, name: &ServiceName, operation: &str) -> Result<(), Failure> {
        // It may also be that it has not arrived yet.
        self.fence(owner, name, Against::Operation(operation.to_owned())).await?;
        let Some(former) = self.journal.former(name, operation).await? else { return Ok(()) };
        let stored = self.get(name).await?;
        let written_by_it = stored.as_ref().is_none_or(|stored| {
            owner.is(&stored.service.owner) && annotation(&stored.service.definition, OPERATION_ANNOTATION) == operation
        });
        if written_by_it {
            let federation_id = stored
                .as_ref()
                .map(|stored| annotation(&stored.service.definition, FEDERATION_ID_ANNOTATION).to_owned());
            self.restore(name, stored.as_deref(), former).await?;
            if let Some(federation_id) = federation_id {
                self.forget_adoption(name, &federation_id).await?;
                self.forget_membership(name, &federation_id).await?;
            }
        }
        Ok(self.journal.forget_former(name, operation).await?)
    }

    async fn restore(&self, name: &ServiceName, stored: Option<&Stored>, former: Former) -> Result<(), Failure> {
        let restored = match (stored, former.service) {
            // No operation removes anything: its owner has, after it was kept and before it was written.
            (None, _) => Ok(()),
            (Some(stored), None) => self.services.remove(name, Some(&stored.revision)).await,
            (Some(stored), Some((service, sensitive))) => {
                self.services.replace(service, sensitive, &stored.revision).await.map(drop)
            }
        };
        restored.map_err(|error| Failure::of_service(error, name))
    }

    /// What is plain again is no longer adopted.
    async fn forget_adoption(&self, name: &ServiceName, federation_id: &str) -> Result<(), Failure> {
        let stored = self.get(name).await?;
        let still = stored
            .is_some_and(|stored| annotation(&stored.service.definition, FEDERATION_ID_ANNOTATION) == federation_id);
        if !still {
            self.journal.forget_former(name, &adopted(federation_id)).await?;
        }
        Ok(())
    }

    /// Forgets what is kept of a service, but for what a rollback or the end of its federation
    /// would put back.
    pub(crate) async fn forget_needless(&self, name: &ServiceName) -> Result<(), Failure> {
        let stored = self.get(name).await?.filter(|stored| stored.service.definition.is_worker());
        let needed = stored.map(|stored| {
            let definition = &stored.service.definition;
            let federation_id = annotation(definition, FEDERATION_ID_ANNOTATION);
            [annotation(definition, OPERATION_ANNOTATION).to_owned(), adopted(federation_id)]
        });
        self.forget_but(name, needed.as_ref().map_or(&[], |needed| needed)).await
    }

    /// Forgets everything that is kept of a service.
    pub(crate) async fn forget_all(&self, name: &ServiceName) -> Result<(), Failure> {
        self.forget_but(name, &[]).await
    }

    async fn forget_but(&self, name: &ServiceName, needed: &[String]) -> Result<(), Failure> {
        for (of, label) in self.journal.formers().await? {
            if of == *name && !needed.contains(&label) {
                self.journal.forget_former(name, &label).await?;
            }
        }
        Ok(())
    }

    /// What is no longer a replica is in no federation.
    pub(crate) async fn forget_membership(&self, name: &ServiceName, federation_id: &str) -> Result<(), Failure> {
        let stored = self.get(name).await?;
        let still = stored
            .is_some_and(|stored| annotation(&stored.service.definition, FEDERATION_ID_ANNOTATION) == federation_id);
        let records = self.journal.federations().await?;
        let known = records.iter().any(|record| {
            record.federation_id == federation_id
                && record.own.service_name == *name
                && record.role != Role::Coordinator
        });
        if !still && known {
            self.journal.remove_federation(federation_id, name).await?;
        }
        Ok(())
    }

    pub(crate) async fn is_adopted(&self, name: &ServiceName, federation_id: &str) -> bool {
        self.journal.former(name, &adopted(federation_id)).await.is_ok_and(|former| former.is_some())
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, Failure> {
        self.services.get(name).await.map_err(|error| Failure::of_service(error, name))
    }

    /// Keeps what stands here before it is written over. What was kept under the same label when
    /// an earlier copy of the operation came, and did not get to write, holds only as long as
    /// nobody else has written since.
    async fn keep(&self, name: &ServiceName, label: &str, stored: Option<&Arc<Stored>>) -> Result<(), Failure> {
        let service = match stored {
            None => None,
            Some(stored) => Some((stored.service.clone(), self.secrets_of(name, stored).await?)),
        };
        let is_outdated = match &service {
            None => false,
            Some(_) => self.journal.former(name, label).await?.is_some_and(|kept| kept.service != service),
        };
        if is_outdated || planted(Bug::FormerOverwritten) {
            self.journal.forget_former(name, label).await?;
        }
        Ok(self.journal.keep_former(&Former { name: name.clone(), label: label.to_owned(), service }).await?)
    }

    /// The secrets that belong to what was read, and not to what somebody wrote since.
    async fn secrets_of(&self, name: &ServiceName, stored: &Stored) -> Result<Sensitive, Failure> {
        let sensitive = self.services.reveal(name).await.map_err(|error| Failure::of_service(error, name))?;
        match self.get(name).await? {
            Some(now) if now.revision == stored.revision => Ok(sensitive),
            _ => Err(Failure::of_service(StoreError::Conflict, name)),
        }
    }
}

/// From now on that is not written here any more. Nothing is written when it is known already.
pub(crate) async fn raise_fence(journal: &dyn Journal, fence: Fence) -> Result<(), Failure> {
    let standing = journal.fences(&fence.service).await?;
    let of_owner: Vec<_> = standing.iter().filter(|known| known.owner == fence.owner).collect();
    let known = of_owner.iter().any(|known| match (&known.against, &fence.against) {
        (Against::Federation { id, before }, Against::Federation { id: new, before: later }) => {
            id == new && before >= later
        }
        (known, new) => known == new,
    });
    if known {
        return Ok(());
    }
    if of_owner.len() >= MOST_FENCES {
        let why = format!("{} was taken back {MOST_FENCES} times within a day: try again tomorrow", fence.service);
        return Err(StoreError::Unavailable(why).into());
    }
    Ok(journal.put_fence(&fence).await?)
}

/// A replica as a plain service: everything that the federation put there is gone.
pub(crate) fn released(definition: &Definition) -> Definition {
    let mut plain = definition.clone();
    for key in [
        WORKER_ANNOTATION,
        ORIGIN_CLUSTER_ANNOTATION,
        ORIGIN_SERVICE_ANNOTATION,
        FEDERATION_ID_ANNOTATION,
        OPERATION_ANNOTATION,
    ] {
        plain.annotations.remove(key);
    }
    plain.federation = None;
    plain.clusters.clear();
    plain
}

fn owner_of(principal: &Principal) -> Owner {
    match principal {
        Principal::User(user) => Owner::User(user.subject.clone()),
        Principal::Admin | Principal::ServiceToken(_) => Owner::Admin,
    }
}
