//! Who may do what with a service.

use crate::identity::{Owner, Principal};
use crate::service::{Service, Visibility};

/// What somebody wants to do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// See its definition (redacted for those who do not own it).
    See,
    /// Start a job or a synchronous run.
    Invoke,
    /// Change or remove it.
    Change,
}

/// How much of a service a reader is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Everything but the values of secrets.
    Owner,
    /// Without the token and the credentials of others.
    Guest,
}

/// Whether `principal` may do `action`.
pub fn decide(principal: &Principal, action: Action, service: &Service) -> bool {
    if principal.acts_for(&service.owner) {
        return true;
    }
    match (principal, action) {
        (Principal::ServiceToken(name), Action::Invoke | Action::See) => name == service.name(),
        (Principal::User(user), Action::See | Action::Invoke) => match service.definition.visibility {
            Visibility::Public => true,
            Visibility::Private => false,
            Visibility::Restricted => {
                service.definition.allowed_users.iter().any(|allowed| allowed == user.subject.as_str())
            }
        },
        (Principal::Admin | Principal::User(_) | Principal::ServiceToken(_), _) => false,
    }
}

/// What `principal` is shown of a service that it may see.
pub fn view(principal: &Principal, owner: &Owner) -> View {
    if principal.acts_for(owner) { View::Owner } else { View::Guest }
}
