//! Factories of test values.

use oscar_model::identity::{Owner, Subject, User};
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;
use oscar_model::service::{Cluster, Definition, Sensitive, Service};

pub fn mk_definition(name: &str) -> Definition {
    let name = ServiceName::parse(name).expect("test names are valid");
    Definition::new(name, "ghcr.io/grycap/cowsay", "#!/bin/sh\necho hello\n")
}

pub fn mk_service(name: &str, owner: &Owner) -> Service {
    Service {
        definition: mk_definition(name),
        owner: owner.clone(),
        // The administrator has no name of his own, and none is stored for him.
        owner_name: if *owner == Owner::Admin { String::new() } else { "A Name".to_owned() },
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
