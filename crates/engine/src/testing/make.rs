//! Factories of test values.

use std::collections::BTreeMap;

use oscar_model::federation::Federation;
use oscar_model::identity::{Owner, Subject, User};
use oscar_model::name::ServiceName;
use oscar_model::quantity::Quantity;
use oscar_model::secret::Secret;
use oscar_model::service::expose::Expose;
use oscar_model::service::{
    Cluster, Definition, Environment, Isolation, LogLevel, Sensitive, Service, Synchronous, Visibility,
};

pub fn mk_definition(name: &str) -> Definition {
    Definition {
        name: ServiceName::parse(name).expect("test names are valid"),
        cluster_id: String::new(),
        memory: Quantity::parse("256Mi").expect("valid"),
        cpu: Quantity::parse("0.2").expect("valid"),
        total_memory: None,
        total_cpu: None,
        ephemeral_storage_request: None,
        enable_gpu: false,
        enable_sgx: false,
        image_prefetch: false,
        synchronous: Synchronous::default(),
        federation: None::<Federation>,
        log_level: LogLevel::Info,
        image: "ghcr.io/grycap/cowsay".to_owned(),
        alpine: false,
        file_stage_in: false,
        input: vec![],
        output: vec![],
        script: "#!/bin/sh\necho hello\n".to_owned(),
        image_pull_secrets: vec![],
        expose: Expose::default(),
        environment: Environment::default(),
        annotations: BTreeMap::new(),
        vo: String::new(),
        labels: BTreeMap::new(),
        storage_providers: BTreeMap::new(),
        clusters: BTreeMap::new(),
        interlink_node_name: String::new(),
        visibility: Visibility::Private,
        allowed_users: vec![],
        isolation: Isolation::Unset,
        mount: None,
        volume: None,
        kserve: None,
    }
}

pub fn mk_service(name: &str, owner: &Owner) -> Service {
    Service {
        definition: mk_definition(name),
        owner: owner.clone(),
        owner_name: "A Name".to_owned(),
        token: Secret::new("ab".repeat(32)),
        namespace: "oscar-svc".to_owned(),
        bucket_list: vec![],
    }
}

/// A service with secrets, and their values.
pub fn mk_secretive(name: &str, owner: &Owner) -> (Service, Sensitive) {
    let mut service = mk_service(name, owner);
    let definition = &mut service.definition;
    definition.environment.secrets.insert("PASSWORD".to_owned(), Secret::new("planted-password"));
    definition.clusters.insert(
        "other".to_owned(),
        Cluster {
            endpoint: "https://other.example".to_owned(),
            auth_user: "oscar".to_owned(),
            auth_password: Secret::new("planted-cluster-password"),
            ssl_verify: true,
        },
    );
    let sensitive = Sensitive::take_from(definition);
    (service, sensitive)
}

pub fn mk_owner(subject: &str) -> Owner {
    Owner::User(mk_subject(subject))
}

pub fn mk_subject(subject: &str) -> Subject {
    Subject::parse(subject).expect("test subjects are valid")
}

pub fn mk_user(subject: &str) -> User {
    User { subject: mk_subject(subject), name: subject.to_owned(), groups: vec![], issuer: "https://issuer".to_owned() }
}
