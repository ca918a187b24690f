//! Creating a federation: every member or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use oscar_model::federation::expand::{FEDERATION_ID_ANNOTATION, Origin, Worker, expand};
use oscar_model::federation::membership::{Attributes, Membership};
use oscar_model::federation::plan::{Found, Step, plan};
use oscar_model::federation::topology::MemberId;
use oscar_model::federation::{Member, Target};
use oscar_model::identity::Principal;
use oscar_model::service::{Definition, Sensitive, Service};

use crate::failure::Failure;
use crate::ports::journal::{FederationRecord, Operation, Phase};
use crate::ports::peers::{Call, PeerError};
use crate::ports::services::Stored;

use super::{Federator, MemberOutcome, describe};

/// What is needed to create a federation: ids are given, so that a test can decide them.
pub struct Create {
    pub owner: Principal,
    /// The coordinator, complete but for the mark of its federation.
    pub service: Service,
    pub sensitive: Sensitive,
    /// The public address of this manager.
    pub public_url: String,
    /// Of this manager, for the stamps of the membership.
    pub instance_id: String,
    pub federation_id: String,
    pub operation_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateFailure {
    /// Nothing was touched anywhere.
    Obstacles(Vec<MemberOutcome>),
    /// Some members failed; what was done was taken back, except at those listed in `left`,
    /// where it is tried until it succeeds.
    RolledBack {
        failed: Vec<MemberOutcome>,
        left: Vec<MemberOutcome>,
    },
    Local(Failure),
}

impl From<Failure> for CreateFailure {
    fn from(failure: Failure) -> Self {
        Self::Local(failure)
    }
}

impl Federator {
    pub async fn create(&self, mut create: Create) -> Result<Arc<Stored>, CreateFailure> {
        let definition = &mut create.service.definition;
        definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), create.federation_id.clone());
        let origin = Origin {
            endpoint: create.public_url.clone(),
            federation_id: create.federation_id.clone(),
            operation: create.operation_id.clone(),
        };
        let workers = expand(&with_secrets(definition, &create.sensitive), &origin);
        let endpoints = endpoints(definition, &workers);
        let found = self.look_all(&endpoints, &create.owner, &create.federation_id).await;
        let planned = plan(&workers, &found);
        if !planned.is_clear() {
            let obstacles = planned.obstacles.keys().map(|member| MemberOutcome {
                member: member.clone(),
                trouble: found.get(member).map_or_else(|| "nobody looked there".to_owned(), describe),
            });
            return Err(CreateFailure::Obstacles(obstacles.collect()));
        }
        let operation = Operation {
            id: create.operation_id.clone(),
            federation_id: create.federation_id.clone(),
            coordinator: create.service.name().clone(),
            owner: create.owner.clone(),
            phase: Phase::Forward,
            steps: planned.steps,
            endpoints,
        };
        self.journal.put_operation(&operation).await.map_err(Failure::from)?;
        self.go_forward(operation, create).await
    }

    async fn go_forward(&self, operation: Operation, create: Create) -> Result<Arc<Stored>, CreateFailure> {
        let token = create.service.token.clone();
        let steps = operation.steps.iter().map(|step| async {
            let outcome = self.run(&operation, step, &token).await;
            outcome.err().map(|error| MemberOutcome { member: step.member.clone(), trouble: error.to_string() })
        });
        let failed: Vec<_> = join_all(steps).await.into_iter().flatten().collect();
        if !failed.is_empty() {
            let left = self.go_back(operation).await?;
            return Err(CreateFailure::RolledBack { failed, left });
        }
        let record = record(&create, &operation.endpoints);
        self.journal.put_federation(&record).await.map_err(Failure::from)?;
        let name = create.service.name().clone();
        match self.services.create(create.service, create.sensitive).await {
            Ok(stored) => {
                // The promise is kept from here on; a journal entry that stays is tidied later.
                let _ = self.journal.remove_operation(&operation.id).await;
                Ok(stored)
            }
            Err(error) => {
                self.go_back(operation).await?;
                Err(CreateFailure::Local(Failure::of_service(error, &name)))
            }
        }
    }

    async fn run(
        &self,
        operation: &Operation,
        step: &Step,
        token: &oscar_model::secret::Secret,
    ) -> Result<(), PeerError> {
        let call = call(operation, &step.member);
        match &step.definition {
            Some(definition) => self.peers.deploy(&call, definition, token).await,
            None => self.peers.withdraw(&call, &operation.federation_id, &operation.id).await,
        }
    }

    /// Takes everything back that the operation may have done. What cannot be now stays in the
    /// journal for [`Federator::recover`].
    async fn go_back(&self, mut operation: Operation) -> Result<Vec<MemberOutcome>, Failure> {
        operation.phase = Phase::Back;
        self.journal.put_operation(&operation).await?;
        let undone = operation.steps.iter().map(|step| async {
            let outcome = self.peers.undo(&call(&operation, &step.member), &operation.id).await;
            outcome.err().map(|error| MemberOutcome { member: step.member.clone(), trouble: error.to_string() })
        });
        let left: Vec<_> = join_all(undone).await.into_iter().flatten().collect();
        if left.is_empty() {
            self.journal.remove_federation(&operation.federation_id).await?;
            self.journal.remove_operation(&operation.id).await?;
        }
        Ok(left)
    }

    /// Ends what a crash or an unreachable member left open. An operation whose coordinator was
    /// stored had succeeded; every other one is taken back, because nobody was told that it had.
    pub async fn recover(&self) -> Result<usize, Failure> {
        let mut open = 0;
        for operation in self.journal.operations().await? {
            if operation.phase == Phase::Forward && self.coordinator_is_stored(&operation).await? {
                self.journal.remove_operation(&operation.id).await?;
            } else if !self.go_back(operation).await?.is_empty() {
                open += 1;
            }
        }
        Ok(open)
    }

    async fn coordinator_is_stored(&self, operation: &Operation) -> Result<bool, Failure> {
        let name = &operation.coordinator;
        let stored = self.services.get(name).await.map_err(|error| Failure::of_service(error, name))?;
        Ok(stored.is_some_and(|stored| {
            let id = stored.service.definition.annotations.get(FEDERATION_ID_ANNOTATION);
            id == Some(&operation.federation_id)
        }))
    }

    /// Looks at every member at once.
    pub(super) async fn look_all(
        &self,
        endpoints: &BTreeMap<MemberId, String>,
        owner: &Principal,
        federation_id: &str,
    ) -> BTreeMap<MemberId, Found> {
        let looks = endpoints.iter().map(|(member, endpoint)| async {
            let call = Call { member, endpoint, owner };
            (member.clone(), self.peers.look(&call, federation_id).await)
        });
        join_all(looks).await.into_iter().collect()
    }
}

fn call<'a>(operation: &'a Operation, member: &'a MemberId) -> Call<'a> {
    let endpoint = operation.endpoints.get(member).map_or("", String::as_str);
    Call { member, endpoint, owner: &operation.owner }
}

/// Secrets are kept apart from a definition; what crosses is decided by expansion.
pub(super) fn with_secrets(definition: &Definition, sensitive: &Sensitive) -> Definition {
    let mut whole = definition.clone();
    whole.environment.secrets.clone_from(&sensitive.environment);
    whole
}

fn endpoints(definition: &Definition, workers: &[Worker]) -> BTreeMap<MemberId, String> {
    let endpoint = |id: &MemberId| definition.clusters.get(&id.cluster_id).map(|cluster| cluster.endpoint.clone());
    workers.iter().map(|worker| (worker.id.clone(), endpoint(&worker.id).unwrap_or_default())).collect()
}

fn record(create: &Create, endpoints: &BTreeMap<MemberId, String>) -> FederationRecord {
    let mut membership = Membership::default();
    let members = create.service.definition.federation.iter().flat_map(|federation| &federation.members);
    for member in members {
        if let Some(id) = MemberId::of(member) {
            let endpoint = endpoints.get(&id).cloned().unwrap_or_default();
            membership.add(id, attributes(member), endpoint, &create.instance_id);
        }
    }
    FederationRecord {
        federation_id: create.federation_id.clone(),
        coordinator: create.service.name().clone(),
        owner: create.owner.clone(),
        membership,
        leaving: BTreeMap::new(),
        deleted: false,
    }
}

pub(super) fn attributes(member: &Member) -> Attributes {
    let parent = match &member.target {
        Target::Oscar { parent, .. } => parent.clone(),
        Target::Endpoint { .. } => None,
    };
    Attributes { priority: member.priority, ssl_verify: member.ssl_verify, headers: member.headers.clone(), parent }
}
