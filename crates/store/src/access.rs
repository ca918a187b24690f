//! Who may do what over S3. Pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oscar_engine::ports::buckets::{Grant, STAGING_BUCKET, Verb};
use oscar_model::identity::{Owner, Subject};
use oscar_model::service::Visibility;

/// The holder of a key, for one request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The access key as events name it.
    pub(crate) principal: String,
    pub(crate) kind: Kind,
    /// False once the key was revoked.
    alive: Arc<AtomicBool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The manager itself, and the addresses that it signed.
    Manager,
    /// The administrator.
    Root,
    User(Subject),
    Scoped(Arc<[Grant]>),
}

/// What a request is about to do in a bucket. Text is the key, or the prefix of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act<'a> {
    Read(&'a str),
    Write(&'a str),
    Delete(&'a str),
    List(&'a str),
    /// Whether it is there, and where.
    Look,
    RemoveBucket,
}

/// What deciding needs to know of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) name: String,
    pub(crate) owner: Owner,
    pub(crate) visibility: Visibility,
    pub(crate) allowed_users: Vec<Subject>,
}

impl Caller {
    pub(crate) fn new(principal: impl Into<String>, kind: Kind, alive: Arc<AtomicBool>) -> Self {
        Self { principal: principal.into(), kind, alive }
    }

    /// Somebody whose key cannot be revoked.
    pub(crate) fn permanent(principal: impl Into<String>, kind: Kind) -> Self {
        Self::new(principal, kind, Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}

impl Kind {
    pub(crate) fn may(&self, door: &Door, act: Act<'_>) -> bool {
        match self {
            Self::Manager => true,
            Self::Root => door.name != STAGING_BUCKET,
            Self::User(subject) => door.name != STAGING_BUCKET && user_may(subject, door, act),
            Self::Scoped(grants) => scope_allows(grants, &door.name, act),
        }
    }

    /// For buckets that are not there: whether saying so tells the caller nothing new.
    pub(crate) fn may_miss(&self, bucket: &str, act: Act<'_>) -> bool {
        match self {
            Self::Manager | Self::Root | Self::User(_) => true,
            Self::Scoped(grants) => scope_allows(grants, bucket, act),
        }
    }

    /// Whose bucket a new one is; nobody's when the key may not make any.
    pub(crate) fn as_owner(&self) -> Option<Owner> {
        match self {
            Self::Manager | Self::Root => Some(Owner::Admin),
            Self::User(subject) => Some(Owner::User(subject.clone())),
            Self::Scoped(_) => None,
        }
    }
}

fn user_may(subject: &Subject, door: &Door, act: Act<'_>) -> bool {
    if door.owner == Owner::User(subject.clone()) {
        return true;
    }
    let is_guest = match door.visibility {
        Visibility::Private => false,
        Visibility::Restricted => door.allowed_users.contains(subject),
        Visibility::Public => true,
    };
    is_guest && act != Act::RemoveBucket
}

fn scope_allows(grants: &[Grant], bucket: &str, act: Act<'_>) -> bool {
    let (text, verb) = match act {
        Act::Read(key) => (key, Verb::Read),
        Act::Write(key) => (key, Verb::Write),
        Act::Delete(key) => (key, Verb::Delete),
        Act::List(prefix) => (prefix, Verb::List),
        Act::Look => return grants.iter().any(|grant| grant.bucket == bucket),
        Act::RemoveBucket => return false,
    };
    let covers = |prefix: &str| match prefix {
        "" => true,
        folder if folder.ends_with('/') => text.starts_with(folder),
        object => text == object,
    };
    grants.iter().any(|grant| grant.bucket == bucket && covers(&grant.prefix) && grant.verbs.contains(&verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_subject(name: &str) -> Subject {
        Subject::parse(name).expect("a subject")
    }

    fn mk_door(visibility: Visibility, allowed: &[&str]) -> Door {
        Door {
            name: "data".to_owned(),
            owner: Owner::User(mk_subject("ada")),
            visibility,
            allowed_users: allowed.iter().map(|name| mk_subject(name)).collect(),
        }
    }

    const OBJECTS: [Act<'static>; 5] = [Act::Read("k"), Act::Write("k"), Act::Delete("k"), Act::List(""), Act::Look];

    #[test]
    fn owners_may_everything_and_others_what_the_visibility_says() {
        let (ada, bob) = (Kind::User(mk_subject("ada")), Kind::User(mk_subject("bob")));
        let private = mk_door(Visibility::Private, &["bob"]);
        let restricted = mk_door(Visibility::Restricted, &["bob"]);
        let public = mk_door(Visibility::Public, &[]);
        for act in OBJECTS {
            assert!(ada.may(&private, act), "{act:?}");
            assert!(!bob.may(&private, act), "{act:?}: a list of users means nothing in a private bucket");
            assert!(bob.may(&restricted, act) && bob.may(&public, act), "{act:?}");
            assert!(!Kind::User(mk_subject("eve")).may(&restricted, act), "{act:?}");
        }
        assert!(ada.may(&public, Act::RemoveBucket));
        assert!(!bob.may(&public, Act::RemoveBucket) && !bob.may(&restricted, Act::RemoveBucket));
    }

    #[test]
    fn staging_is_for_the_manager_and_scoped_keys_only() {
        let staging = Door {
            name: STAGING_BUCKET.to_owned(),
            visibility: Visibility::Public,
            ..mk_door(Visibility::Public, &[])
        };
        assert!(Kind::Manager.may(&staging, Act::Read("k")));
        for act in OBJECTS {
            assert!(!Kind::Root.may(&staging, act) && !Kind::User(mk_subject("ada")).may(&staging, act));
        }
        let grant = Grant { bucket: STAGING_BUCKET.to_owned(), prefix: "job/".to_owned(), verbs: vec![Verb::Write] };
        let scoped = Kind::Scoped([grant].into());
        assert!(scoped.may(&staging, Act::Write("job/out")));
        assert!(!scoped.may(&staging, Act::Write("jo")) && !scoped.may(&staging, Act::Read("job/out")));
    }

    #[test]
    fn a_scope_is_bucket_prefix_and_verb() {
        let grant = |prefix: &str, verbs: &[Verb]| Grant {
            bucket: "data".to_owned(),
            prefix: prefix.to_owned(),
            verbs: verbs.to_vec(),
        };
        let door = mk_door(Visibility::Public, &[]);
        let scoped = Kind::Scoped([grant("in/", &[Verb::Read, Verb::List]), grant("out/", &[Verb::Write])].into());
        assert!(scoped.may(&door, Act::Read("in/a")) && scoped.may(&door, Act::List("in/")));
        assert!(scoped.may(&door, Act::Write("out/a")) && scoped.may(&door, Act::Look));
        for act in [
            Act::Write("in/a"),
            Act::Read("out/a"),
            Act::List(""),
            Act::List("in"),
            Act::Delete("in/a"),
            Act::RemoveBucket,
        ] {
            assert!(!scoped.may(&door, act), "{act:?}");
        }
        let elsewhere = Door { name: "other".to_owned(), ..door };
        assert!(OBJECTS.into_iter().all(|act| !scoped.may(&elsewhere, act)), "not even in a public bucket");
    }
}
