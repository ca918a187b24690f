//! Creating, changing and removing services.

use std::sync::Arc;
use std::time::Duration;

use oscar_model::access::{Action as Wish, decide};
use oscar_model::fault::Faults;
use oscar_model::federation::expand::{FEDERATION_ID_ANNOTATION, OPERATION_ANNOTATION};
use oscar_model::federation::plan::Act;
use oscar_model::federation::record::Bearer;
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive, Service};

use crate::bugs::{Bug, planted};
use crate::failure::Failure;
use crate::federate::{MemberOutcome, released};
use crate::federation::access_by;
use crate::manager::Manager;
use crate::ports::StoreError;
use crate::ports::services::{Revision, Stored};
use crate::storage::{force_own_store, per_user};
use crate::validate::{choose_vo, own_store_provider, validate};

/// Which state a caller means to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Guard {
    /// Whatever is there now.
    #[default]
    Any,
    /// Only these revisions (`If-Match`).
    Only(Vec<String>),
}

impl Guard {
    fn allows(&self, revision: &Revision) -> bool {
        match self {
            Self::Any => true,
            Self::Only(revisions) => revisions.iter().any(|allowed| allowed == revision.as_str()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    Update,
    Delete,
    /// It is already as it was asked for.
    Nothing,
}

/// What was done, or in a dry run would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub action: Action,
    pub service: Service,
    /// The state that is stored now; absent after a dry run and a removal.
    pub revision: Option<Revision>,
    /// What it means elsewhere; absent for a service that is in no federation.
    pub federation: Option<Consequences>,
}

/// What a change means for the members of a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consequences {
    /// What is done, or in a dry run would be done, at which member.
    pub steps: Vec<(MemberId, Act)>,
    /// Members that do not have the change yet; they get it as soon as they can.
    pub troubles: Vec<MemberOutcome>,
    pub warnings: Vec<String>,
}

/// How a change is meant.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    pub guard: Guard,
    pub dry_run: bool,
    /// A replica may be changed or removed by hand: it leaves its federation first.
    pub detach: bool,
    /// Buckets that were made for a service stay when it is removed.
    pub keep_data: bool,
    /// The token of the call, when the caller is the owner: members are called with it.
    pub bearer: Option<Bearer>,
    /// Who asks, for the record.
    pub actor: String,
    /// A coordinator says that it is one.
    pub order: Option<Order>,
}

/// What a coordinator of our kind says of a deploy beside the definition: nobody who sends back a
/// definition that he has read is taken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub operation: String,
    /// How much it knew.
    pub time: u64,
}

impl Terms {
    pub fn plain(guard: &Guard, dry_run: bool) -> Self {
        Self { guard: guard.clone(), dry_run, ..Self::default() }
    }

    /// The same with who asks.
    pub(crate) fn by(self, principal: &Principal) -> Self {
        let actor = match principal {
            Principal::User(user) => user.subject.to_string(),
            Principal::Admin => Owner::Admin.to_string(),
            Principal::ServiceToken(service) => format!("token of {service}"),
        };
        Self { actor, ..self }
    }
}

/// What a definition replaces.
#[derive(Clone, Copy)]
pub(crate) enum Former<'a> {
    None,
    Of(&'a Definition),
}

/// How often a change of whatever is there was begun.
#[derive(Default)]
struct Tries(u32);

/// More than neighbours who change a service by hand can spoil.
const MOST_TRIES: u32 = 10;
/// The second repetition waits so long, each one after it twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// What a definition was sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Create,
    Change,
}

/// A service as an update leaves it.
struct Update {
    service: Service,
    sensitive: Sensitive,
    /// Whether that is what is stored already, secrets included.
    same: bool,
}

impl Manager {
    pub async fn create_service(
        &self,
        principal: &Principal,
        definition: Definition,
        token: &Secret,
        dry_run: bool,
    ) -> Result<Change, Failure> {
        Box::pin(self.create(principal, definition, token, Terms::plain(&Guard::Any, dry_run))).await
    }

    pub async fn update_service(
        &self,
        principal: &Principal,
        definition: Definition,
        guard: &Guard,
        dry_run: bool,
    ) -> Result<Change, Failure> {
        Box::pin(self.update(principal, definition, &Secret::default(), Terms::plain(guard, dry_run))).await
    }

    pub async fn remove_service(
        &self,
        principal: &Principal,
        name: &ServiceName,
        guard: &Guard,
        dry_run: bool,
    ) -> Result<Option<Change>, Failure> {
        self.remove(principal, name, Terms::plain(guard, dry_run)).await
    }

    /// `token` is the client's: taken over only for a replica that a coordinator deploys, so
    /// that one token is valid on every cluster of a federation.
    pub async fn create(
        &self,
        principal: &Principal,
        mut definition: Definition,
        token: &Secret,
        terms: Terms,
    ) -> Result<Change, Failure> {
        if matches!(principal, Principal::ServiceToken(_)) {
            return Err(Failure::NotAdministrator);
        }
        if let Some(order) = ordered(&definition, &terms) {
            let terms = Terms { order: Some(order), ..terms };
            return Box::pin(self.deploy_replica(principal, definition, token, &terms, true)).await;
        }
        if is_replica(&definition) {
            // Somebody makes anew what he has read. No federation of our kind knows of it.
            definition.annotations.remove(FEDERATION_ID_ANNOTATION);
            definition.annotations.remove(OPERATION_ANNOTATION);
        }
        let name = definition.name.clone();
        // A federation takes a while to create; a second one of the name must not begin meanwhile.
        let _change = self.changes.take(&name).await;
        match self.ports.services.get(&name).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(StoreError::Broken(_)) => return Err(Failure::Exists(name)),
            Err(error) => return Err(Failure::of_service(error, &name)),
        }
        let (owner, owner_name) = owner_of(principal);
        per_user::add_owner(&mut definition, &owner);
        self.complete(principal, &mut definition, Former::None).await?;
        let given = definition.is_worker() && is_token(token.expose());
        let token = if given { token.clone() } else { self.new_token() };
        let federates = self.mark_coordinator(&mut definition);
        let mut sensitive = Sensitive::take_from(&mut definition);
        let namespace = self.home_of(&owner, &owner_name, terms.dry_run).await?;
        let bucket_list = self.user_buckets(&definition);
        let service = Service { definition, owner, owner_name, token, namespace, bucket_list };
        if federates {
            return Box::pin(self.create_federation(service, sensitive, None, terms.by(principal))).await;
        }
        if terms.dry_run {
            return Ok(Change { action: Action::Create, service, revision: None, federation: None });
        }
        self.seal_refresh_token(&service, &mut sensitive, &terms.by(principal)).await?;
        let stored = self.ports.services.create(service, sensitive).await;
        let stored = stored.map_err(|error| Failure::of_service(error, &name))?;
        Ok(done(Action::Create, &stored))
    }

    /// Replaces a definition. Owner, token, namespace and what the client left blank stay.
    pub async fn update(
        &self,
        principal: &Principal,
        mut definition: Definition,
        token: &Secret,
        terms: Terms,
    ) -> Result<Change, Failure> {
        let name = definition.name.clone();
        if is_replica(&definition) && !matches!(principal, Principal::ServiceToken(_)) {
            if let Some(order) = ordered(&definition, &terms) {
                let terms = Terms { order: Some(order), ..terms };
                return Box::pin(self.deploy_replica(principal, definition, token, &terms, false)).await;
            }
            if !terms.detach {
                return self.put_by_hand(principal, &definition, &terms).await;
            }
            // Whoever takes a replica for himself may send what he has read of it.
            definition = released(&definition);
        }
        // One at a time for each name, so that nobody who named no revision loses to a neighbour.
        let _change = self.changes.take(&name).await;
        let mut tries = Tries::default();
        loop {
            self.next_try(&mut tries, &name).await?;
            let stored = self.changeable(principal, &name, &terms.guard).await?;
            let warning = self.release_replica(&stored, &terms, false).await?;
            let mut definition = definition.clone();
            let federates = self.mark_coordinator(&mut definition);
            keep_mark(&mut definition, &stored.service.definition);
            let Update { service, mut sensitive, same } = self.updated(principal, definition, &stored).await?;
            if federates || self.is_coordinator(&name).await? {
                let update = self.update_federation(&stored, service, sensitive, same, terms.clone().by(principal));
                match Box::pin(update).await {
                    Err(Failure::RevisionMismatch(_)) if terms.guard == Guard::Any => continue,
                    other => return other,
                }
            }
            if terms.dry_run {
                let action = if same { Action::Nothing } else { Action::Update };
                return Ok(Change { action, service, revision: None, federation: None });
            }
            self.seal_refresh_token(&service, &mut sensitive, &terms.clone().by(principal)).await?;
            let _turn = self.turns.take(&name).await;
            match self.ports.services.replace(service, sensitive, &stored.revision).await {
                Ok(changed) => {
                    self.forget_replica(&stored).await?;
                    return Ok(Change { federation: warned(warning), ..done(Action::Update, &changed) });
                }
                // Another manager was quicker; the caller named no revision, so the last one wins.
                Err(StoreError::Conflict) if terms.guard == Guard::Any => {}
                Err(error) => return Err(Failure::of_service(error, &name)),
            }
        }
    }

    pub async fn remove(
        &self,
        principal: &Principal,
        name: &ServiceName,
        terms: Terms,
    ) -> Result<Option<Change>, Failure> {
        let terms = terms.by(principal);
        let _change = self.changes.take(name).await;
        let mut left = None;
        let mut tries = Tries::default();
        loop {
            self.next_try(&mut tries, name).await?;
            let stored = match self.changeable(principal, name, &terms.guard).await {
                Ok(stored) => stored,
                // It has left its federation, and its coordinator was the first to remove it.
                Err(Failure::NotFound(_)) if left.is_some() => return Ok(left),
                // Only the administrator can tell that a broken definition is not somebody's.
                Err(Failure::Unreadable { .. })
                    if principal.is_admin() && terms.guard == Guard::Any && !terms.dry_run =>
                {
                    // It may have had members: they go with it.
                    return self.federator.delete(name, None, access_by(&terms)).await.map(|()| None);
                }
                Err(failure) => return Err(failure),
            };
            let warning = self.release_replica(&stored, &terms, true).await?;
            let federation = self.consequences_of_removal(name).await?.or(warned(warning));
            let change = Change { action: Action::Delete, service: stored.service.clone(), revision: None, federation };
            if terms.dry_run {
                return Ok(Some(change));
            }
            if terms.keep_data {
                self.keep_buckets(&stored.service).await?;
            }
            // Exactly what was judged is removed: the name may be somebody else's by now.
            let _turn = self.turns.take(name).await;
            match self.remove_stored(&stored, &terms).await {
                Ok(()) => {
                    self.forget_replica(&stored).await?;
                    return Ok(Some(change));
                }
                Err(Failure::NotFound(_)) if is_replica(&stored.service.definition) => return Ok(Some(change)),
                Err(Failure::RevisionMismatch(_)) if terms.guard == Guard::Any => {
                    left = Some(change).filter(|_| is_replica(&stored.service.definition));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits before a change is tried again because somebody else was quicker, longer each time,
    /// and gives up when it is always so.
    async fn next_try(&self, tries: &mut Tries, name: &ServiceName) -> Result<(), Failure> {
        let Tries(made) = tries;
        let pause = match *made {
            0 | 1 => Duration::ZERO,
            most if most == MOST_TRIES => {
                let why = format!("others keep changing the service {name}; nothing was changed by you: try again");
                return Err(StoreError::Unavailable(why).into());
            }
            more => FIRST_PAUSE * 2u32.pow(more - 2),
        };
        *made += 1;
        if !pause.is_zero() {
            self.ports.clock.pause(pause).await;
        }
        Ok(())
    }

    /// Where the owner's things live; for a dry run, where they would.
    pub(crate) async fn home_of(&self, owner: &Owner, name: &str, dry_run: bool) -> Result<String, Failure> {
        let home = if dry_run { self.onboarding.look(owner).await } else { self.onboarding.home(owner, name).await };
        Ok(home?.namespace)
    }

    /// The stored service if the caller may change it and means this state of it.
    pub(crate) async fn changeable(
        &self,
        principal: &Principal,
        name: &ServiceName,
        guard: &Guard,
    ) -> Result<Arc<Stored>, Failure> {
        let stored = self.stored_for(principal, name).await?;
        if !decide(principal, Wish::Change, &stored.service) {
            return Err(not_yours(principal, &stored));
        }
        if !guard.allows(&stored.revision) {
            return Err(Failure::RevisionMismatch(name.clone()));
        }
        Ok(stored)
    }

    async fn updated(
        &self,
        principal: &Principal,
        mut definition: Definition,
        stored: &Stored,
    ) -> Result<Update, Failure> {
        let former = &stored.service;
        keep_provider_secrets(&mut definition, &former.definition);
        if definition.vo.is_empty() {
            definition.vo.clone_from(&former.definition.vo);
        }
        if definition.volume != former.definition.volume {
            let mut faults = Faults::default();
            faults.push(
                "volume",
                "another volume",
                "the same: volume updates are not supported after service creation",
            );
            return Err(Failure::Invalid(faults));
        }
        per_user::add_owner(&mut definition, &former.owner);
        self.complete(principal, &mut definition, Former::Of(&former.definition)).await?;
        let kept = self.ports.services.reveal(former.name()).await;
        let kept = kept.map_err(|error| Failure::of_service(error, former.name()))?;
        let sensitive = Sensitive::take_from(&mut definition).keeping(&kept, &definition.clusters);
        let bucket_list = self.user_buckets(&definition);
        let service = Service { definition, bucket_list, ..former.clone() };
        let same = service == *former && sensitive == kept;
        Ok(Update { service, sensitive, same })
    }

    /// Where nothing makes them, none are named.
    fn user_buckets(&self, definition: &Definition) -> Vec<String> {
        if self.jobs.is_some() { per_user::names(definition) } else { Vec::new() }
    }

    /// Every fault of a definition by the rules of this cluster, without storing anything. Whoever
    /// may not change what stands under the name is told that and nothing else: the rules look at
    /// what its owner has.
    pub async fn check_definition(
        &self,
        principal: &Principal,
        definition: &Definition,
        purpose: Purpose,
    ) -> Result<Faults, Failure> {
        let name = &definition.name;
        let stored = self.ports.services.get(name).await.ok().flatten();
        if let Some(stored) = stored.as_ref().filter(|stored| !decide(principal, Wish::Change, &stored.service)) {
            return match purpose {
                Purpose::Change => Err(not_yours(principal, stored)),
                // It depends on who sends it how that is refused, which is not known here.
                Purpose::Create if is_replica(definition) => Ok(Faults::default()),
                Purpose::Create => Err(Failure::Exists(name.clone())),
            };
        }
        let former = stored.as_ref().map_or(Former::None, |stored| Former::Of(&stored.service.definition));
        Ok(self.judge(principal, definition, former).await?.0)
    }

    /// The faults of a definition, and the group that it belongs to.
    async fn judge(
        &self,
        principal: &Principal,
        definition: &Definition,
        former: Former<'_>,
    ) -> Result<(Faults, String), Failure> {
        let repositories = self.image_repositories().await?;
        let keeps = matches!(former, Former::Of(_));
        let mut faults = validate(definition, &self.policy, &repositories, keeps);
        let stored = self.ports.services.get(&definition.name).await.ok().flatten();
        let owner = stored.map_or_else(|| owner_of(principal).0, |stored| stored.service.owner.clone());
        faults.absorb("", self.judge_buckets(definition, &owner).await?);
        let vo = match former {
            // What was chosen once stays, also when the administrator makes the change.
            Former::Of(former) if former.vo == definition.vo => definition.vo.clone(),
            Former::Of(_) | Former::None => {
                choose_vo(&definition.vo, principal, &self.policy.groups).unwrap_or_else(|more| {
                    faults.absorb("", more);
                    String::new()
                })
            }
        };
        Ok((faults, vo))
    }

    /// Everything that the cluster adds to a definition, and every check of its own.
    pub(crate) async fn complete(
        &self,
        principal: &Principal,
        definition: &mut Definition,
        former: Former<'_>,
    ) -> Result<(), Failure> {
        let (faults, vo) = self.judge(principal, definition, former).await?;
        if !faults.is_empty() {
            return Err(Failure::Invalid(faults));
        }
        definition.vo = vo;
        force_own_store(definition, own_store_provider(&self.policy));
        Ok(())
    }
}

/// What is said to whoever may not change a service.
pub(crate) fn not_yours(principal: &Principal, stored: &Stored) -> Failure {
    let name = stored.service.name().clone();
    let visible = decide(principal, Wish::See, &stored.service);
    if visible { Failure::NotOwner(name) } else { Failure::NotVisible(name) }
}

/// Whether a coordinator of our kind wrote it: such writes are whole and can be repeated.
fn is_replica(definition: &Definition) -> bool {
    definition.is_worker() && definition.annotations.contains_key(FEDERATION_ID_ANNOTATION)
}

/// What a coordinator of our kind says of what it sends; nothing when it is somebody else: the
/// marks alone stand in every replica that is read.
fn ordered(definition: &Definition, terms: &Terms) -> Option<Order> {
    let operation = definition.annotations.get(OPERATION_ANNOTATION).filter(|_| is_replica(definition))?;
    if planted(Bug::MarksBelieved) {
        return Some(Order { operation: operation.clone(), time: u64::MAX });
    }
    terms.order.clone().filter(|order| order.operation == *operation)
}

fn warned(warning: Option<String>) -> Option<Consequences> {
    warning.map(|warning| Consequences { warnings: vec![warning], ..Consequences::default() })
}

/// Who owns what this caller creates, and the name to show.
pub(crate) fn owner_of(principal: &Principal) -> (Owner, String) {
    match principal {
        Principal::User(user) => (Owner::User(user.subject.clone()), user.name.clone()),
        Principal::Admin | Principal::ServiceToken(_) => (Owner::Admin, String::new()),
    }
}

/// The mark of its federation is the manager's to write: leaving it out changes nothing.
fn keep_mark(definition: &mut Definition, former: &Definition) {
    if definition.is_worker() || former.is_worker() {
        return;
    }
    if let Some(id) = former.annotations.get(FEDERATION_ID_ANNOTATION) {
        definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), id.clone());
    }
}

/// Readers who sent back what they were shown must not lose what was blank in it.
fn keep_provider_secrets(definition: &mut Definition, former: &Definition) {
    for (reference, provider) in &mut definition.storage_providers {
        if let Some(known) = former.storage_providers.get(reference)
            && provider.secret().is_blank()
        {
            *provider.secret_mut() = known.secret().clone();
        }
    }
}

pub(crate) fn is_token(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

pub(crate) fn done(action: Action, stored: &Stored) -> Change {
    Change { action, service: stored.service.clone(), revision: Some(stored.revision.clone()), federation: None }
}
