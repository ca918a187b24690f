//! The adapter against managers that are well, that are not, and that are none.

mod foreign;
mod misconduct;
mod ours;
mod raw;
mod reach;
mod stand_in;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use oscar_engine::ports::clock::Entropy;
use oscar_model::federation::record::{Contact, Login};
use oscar_model::federation::topology::MemberId;
use oscar_model::identity::Subject;
use oscar_model::name::ServiceName;

use super::*;
use crate::outbound::address::AddressPolicy;

const FEDERATION: &str = "8f14e45f-ceea-467f-9f6d-0a1b2c3d4e5f";
const OPERATION: &str = "op-1";

/// Long enough that only what never ends reaches it.
const PATIENT: Duration = Duration::from_mins(1);
/// For what never ends.
const SHORT: Duration = Duration::from_millis(300);

struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A manager that listens on loopback, as all servers of these tests do.
fn mk_options() -> PeersOptions {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let policy = AddressPolicy::parse([], true).expect("a policy");
    let mut options = PeersOptions::new(policy, Arc::new(NoEntropy));
    options.connect_timeout = PATIENT;
    options.deadline = PATIENT;
    options.foreign_deadline = PATIENT;
    options
}

fn mk_peers() -> HttpPeers {
    HttpPeers::new(mk_options()).expect("options that work")
}

/// Peers that give up soon.
fn mk_hasty() -> HttpPeers {
    HttpPeers::new(PeersOptions { deadline: SHORT, foreign_deadline: SHORT, ..mk_options() })
        .expect("options that work")
}

/// Whom to call, with everything that a [`Call`] borrows.
struct Callee {
    member: MemberId,
    contact: Contact,
    owner: Owner,
    credential: Credential,
}

impl Callee {
    fn new(endpoint: &str, audience: Audience) -> Self {
        Self {
            member: mk_member("oscar-b", "plants"),
            contact: Contact { endpoint: endpoint.to_owned(), verify: true, audience },
            owner: Owner::User(Subject::parse("alice").expect("a subject")),
            credential: Credential::Bearer("alice-token".into()),
        }
    }

    fn with(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    fn call(&self) -> Call<'_> {
        let Self { member, contact, owner, credential } = self;
        Call { member, contact, owner, credential, time: 7 }
    }
}

fn mk_member(cluster: &str, service: &str) -> MemberId {
    MemberId { cluster_id: cluster.to_owned(), service_name: ServiceName::parse(service).expect("a name") }
}

fn mk_login() -> Credential {
    Credential::Basic(Login { user: "oscar".to_owned(), password: "account-word".into() })
}

fn mk_definition() -> Definition {
    let mut definition = Definition::new(ServiceName::parse("plants").expect("a name"), "ghcr.io/x/plants", "echo 1");
    definition.environment.secrets.insert("KEY".to_owned(), "env-secret".into());
    definition.annotations.insert("note".to_owned(), "the user's".to_owned());
    definition
}

/// The same as a replica that `operation` wrote.
fn mk_replica(operation: &str) -> Definition {
    let mut definition = mk_definition();
    definition.cluster_id = "oscar-b".to_owned();
    for (key, value) in [
        ("oscar.grycap/federation-worker", "true"),
        ("oscar.grycap/origin-cluster", "oscar-a"),
        ("oscar.grycap/origin-service", "plants"),
        ("oscar.grycap/federation-id", FEDERATION),
        ("oscar.grycap/federation-op", operation),
    ] {
        definition.annotations.insert(key.to_owned(), value.to_owned());
    }
    let block =
        r#"{"name": "plants", "federation": {"topology": "star", "delegation": "random", "weights": {"oscar-b": 2}}}"#;
    let node = oscar_api::tree::parse_json(block.as_bytes()).expect("a document");
    let read = oscar_api::service::decode(&node, "", oscar_api::service::Mode::Stored).expect("a block");
    definition.federation = read.definition.federation;
    definition
}

fn mk_step(act: Act, definition: Option<Definition>, former: Option<Definition>) -> Step {
    let undo = if act == Act::Create { Undo::DeleteCreated } else { Undo::RestoreFormer };
    let member = mk_member("oscar-b", "plants");
    Step { member, act, undo, definition: definition.map(Box::new), former: former.map(Box::new) }
}

fn mk_token() -> Secret {
    Secret::new("5a".repeat(32))
}

/// What the owner is told when it cannot be told what is there.
fn unreachable_because(sighting: &Sighting) -> &str {
    match &sighting.found {
        Found::Unreachable(sentence) => sentence,
        other => panic!("something was found: {other:?}"),
    }
}
