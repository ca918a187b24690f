//! From one definition to those of its replicas.
//!
//! What leaves the cluster of the coordinator is decided here and nowhere else: a worker is
//! built field by field from the coordinator's definition, and what is not named stays home.

use std::collections::BTreeMap;

use crate::secret::Secret;
use crate::service::storage::{Provider, ProviderRef};
use crate::service::{
    Cluster, Definition, Environment, ORIGIN_CLUSTER_ANNOTATION, ORIGIN_SERVICE_ANNOTATION, WORKER_ANNOTATION,
};

use super::topology::{Graph, MemberId};
use super::{Federation, Member, Target, Topology};

/// Which federation a worker belongs to: a UUID made at creation.
pub const FEDERATION_ID_ANNOTATION: &str = "oscar.grycap/federation-id";
/// Which operation wrote it, so that a lost answer can be told from somebody else's service.
pub const OPERATION_ANNOTATION: &str = "oscar.grycap/federation-op";

/// The secret that never leaves the coordinator's manager.
pub const REFRESH_TOKEN: &str = "refresh_token";

/// The coordinator as its workers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The public address of the coordinator's manager.
    pub endpoint: String,
    pub federation_id: String,
    pub operation: String,
}

/// What a kind of peer may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A manager of our kind: keeps secrets apart and can be an inner node.
    Ours,
    /// Any other OSCAR.
    Foreign,
}

/// A replica to be deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub id: MemberId,
    pub definition: Definition,
}

/// Why a definition cannot be expanded for that audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// A foreign manager refuses a mesh worker without the refresh token.
    MeshNeedsRefreshToken,
    /// A foreign manager cannot hand jobs on in a tree.
    ForeignInnerNode,
}

/// The workers of a coordinator, one per `oscar` member. `environment.secrets` and the keys of
/// third-party providers are expected in `coordinator`; the refresh token is dropped here.
///
/// An annotated worker is never expanded again, and `none` deploys nothing.
pub fn expand(coordinator: &Definition, origin: &Origin) -> Vec<Worker> {
    let Some(federation) = &coordinator.federation else { return Vec::new() };
    if coordinator.is_worker() || federation.topology == Topology::None {
        return Vec::new();
    }
    let graph = Graph::of(MemberId::own(coordinator), federation);
    let (common, block) = in_common(coordinator, federation, origin);
    let worker = |id: &MemberId| Definition {
        name: id.service_name.clone(),
        cluster_id: id.cluster_id.clone(),
        federation: Some(Federation { members: members_of(federation, &graph, id), ..block.clone() }),
        clusters: clusters(coordinator, &graph, id, origin),
        ..common.clone()
    };
    graph.members().map(|id| Worker { id: id.clone(), definition: worker(id) }).collect()
}

/// What every worker has, without members and clusters: of those each has its own, and copying
/// all of them for each would cost the square of their number.
fn in_common(coordinator: &Definition, federation: &Federation, origin: &Origin) -> (Definition, Federation) {
    let block = Federation {
        members: Vec::new(),
        // A worker hands nothing on; the choice was the coordinator's.
        share_refresh_token: false,
        share_secrets: false,
        ..federation.clone()
    };
    let mut common = Definition {
        federation: None,
        clusters: BTreeMap::new(),
        environment: Environment {
            variables: coordinator.environment.variables.clone(),
            secrets: without_refresh_token(&coordinator.environment.secrets),
        },
        annotations: annotations(coordinator, origin),
        // Where a node is called so is not known elsewhere.
        interlink_node_name: String::new(),
        ..coordinator.clone()
    };
    hide_own_store_keys(&mut common);
    (common, block)
}

/// The members that a worker's own block lists: what it hands jobs to.
fn members_of(federation: &Federation, graph: &Graph, id: &MemberId) -> Vec<Member> {
    let listed = |target: &MemberId| {
        federation.members.iter().find(|member| MemberId::of(member).as_ref() == Some(target)).cloned()
    };
    let member = |target: &MemberId| {
        listed(target).unwrap_or_else(|| Member {
            target: Target::Oscar {
                cluster_id: target.cluster_id.clone(),
                service_name: target.service_name.clone(),
                parent: None,
            },
            priority: 0,
            ssl_verify: true,
            headers: BTreeMap::new(),
        })
    };
    match federation.topology {
        Topology::None | Topology::Star => Vec::new(),
        Topology::Mesh | Topology::Tree => graph
            .targets(id)
            .map(|target| {
                let mut member = member(target);
                if let Target::Oscar { parent, .. } = &mut member.target {
                    // A worker hands on to its own children only: below it they have no parent.
                    *parent = None;
                }
                member
            })
            .collect(),
    }
}

fn without_refresh_token(secrets: &BTreeMap<String, Secret>) -> BTreeMap<String, Secret> {
    secrets
        .iter()
        .filter(|(name, _)| *name != REFRESH_TOKEN)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn annotations(coordinator: &Definition, origin: &Origin) -> BTreeMap<String, String> {
    let mut annotations = coordinator.annotations.clone();
    for (key, value) in [
        (WORKER_ANNOTATION, "true"),
        (ORIGIN_CLUSTER_ANNOTATION, coordinator.cluster_id.as_str()),
        (ORIGIN_SERVICE_ANNOTATION, coordinator.name.as_str()),
        (FEDERATION_ID_ANNOTATION, origin.federation_id.as_str()),
        (OPERATION_ANNOTATION, origin.operation.as_str()),
    ] {
        annotations.insert(key.to_owned(), value.to_owned());
    }
    annotations
}

/// The endpoints that a worker needs: its origin's and those it hands jobs to. No credentials.
fn clusters(coordinator: &Definition, graph: &Graph, id: &MemberId, origin: &Origin) -> BTreeMap<String, Cluster> {
    let mut clusters = BTreeMap::new();
    for target in graph.targets(id).filter(|target| **target != graph.coordinator) {
        if let Some(cluster) = coordinator.clusters.get(&target.cluster_id) {
            clusters.insert(target.cluster_id.clone(), bare(cluster));
        }
    }
    clusters.insert(
        coordinator.cluster_id.clone(),
        Cluster {
            endpoint: origin.endpoint.clone(),
            auth_user: String::new(),
            auth_password: Secret::default(),
            ssl_verify: true,
        },
    );
    clusters
}

fn bare(cluster: &Cluster) -> Cluster {
    Cluster { auth_user: String::new(), auth_password: Secret::default(), ..cluster.clone() }
}

/// The origin's store is named, so that outputs find it; its keys never leave.
fn hide_own_store_keys(definition: &mut Definition) {
    for (reference, provider) in &mut definition.storage_providers {
        if ProviderRef::is_own_store(reference)
            && let Provider::Minio { access_key, secret_key, .. } = provider
        {
            access_key.clear();
            *secret_key = Secret::default();
        }
    }
}

/// The same worker as another kind of manager may be told it. `coordinator` is what it was
/// expanded from.
pub fn fit(
    worker: &Worker,
    audience: Audience,
    coordinator: &Definition,
    refresh_token: &Secret,
) -> Result<Worker, Unfit> {
    if audience == Audience::Ours {
        return Ok(worker.clone());
    }
    let chosen = |choice: fn(&Federation) -> bool| coordinator.federation.as_ref().is_some_and(choice);
    let shares = chosen(|federation| federation.share_refresh_token);
    let tells_secrets = chosen(|federation| federation.share_secrets);
    let mut fitted = worker.clone();
    let Some(federation) = &mut fitted.definition.federation else { return Ok(fitted) };
    match federation.topology {
        Topology::Tree if !federation.members.is_empty() => return Err(Unfit::ForeignInnerNode),
        // Upstream knows no tree; a leaf of one is the same as one of a star.
        Topology::Tree => federation.topology = Topology::Star,
        Topology::Mesh if !shares => return Err(Unfit::MeshNeedsRefreshToken),
        Topology::None | Topology::Star | Topology::Mesh => {}
    }
    let mesh = federation.topology == Topology::Mesh;
    if !tells_secrets {
        hide_secrets(&mut fitted.definition);
    }
    if mesh {
        fitted.definition.environment.secrets.insert(REFRESH_TOKEN.to_owned(), refresh_token.clone());
        // Where it lives itself: it tells the others when somebody adds a member there.
        if let Some(cluster) = coordinator.clusters.get(&worker.id.cluster_id) {
            fitted.definition.clusters.insert(worker.id.cluster_id.clone(), bare(cluster));
        }
    }
    Ok(fitted)
}

/// Their names are told, so that whoever looks there knows what is missing.
fn hide_secrets(definition: &mut Definition) {
    for value in definition.environment.secrets.values_mut() {
        *value = Secret::default();
    }
    for (reference, provider) in &mut definition.storage_providers {
        if !reference.is_own_store() {
            *provider = provider.clone().redacted();
        }
    }
}
