//! Who is calling, and who owns things.

use std::fmt;

/// The name that OSCAR gives to the owner of everything the administrator creates.
pub const ADMIN_OWNER: &str = "cluster_admin";

/// The permanent id of a user: the `sub` claim of the identity provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(String);

impl Subject {
    /// Subjects come from verified tokens; only the impossible ones are refused: blank,
    /// longer than OpenID allows, unprintable, or the administrator's reserved name.
    pub fn parse(text: &str) -> Option<Self> {
        let fits =
            !text.trim().is_empty() && text.len() <= 255 && text != ADMIN_OWNER && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What OSCAR uses in labels and object names: the part before `@` when that part is
    /// made of digits and lower-case letters, else the whole.
    pub fn formatted(&self) -> &str {
        match self.0.split_once('@') {
            Some((head, _))
                if !head.is_empty() && head.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()) =>
            {
                head
            }
            _ => &self.0,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Who a service belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Admin,
    User(Subject),
}

impl Owner {
    /// The stored form: `cluster_admin` or the subject. Blank was written by old managers
    /// for services of the administrator.
    pub fn parse(text: &str) -> Option<Self> {
        if text == ADMIN_OWNER || text.is_empty() { Some(Self::Admin) } else { Subject::parse(text).map(Self::User) }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Admin => ADMIN_OWNER,
            Self::User(subject) => subject.as_str(),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A person whose token was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub subject: Subject,
    /// The name to show; may be blank.
    pub name: String,
    /// Every group the issuer vouches for, not only the accepted ones.
    pub groups: Vec<String>,
    /// The issuer that vouches.
    pub issuer: String,
}

/// The authenticated caller of a use case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The one administrator account.
    Admin,
    User(User),
    /// Whoever holds the token of this service: its pods, and those its owner gave it to.
    ServiceToken(crate::name::ServiceName),
}

impl Principal {
    /// Somebody who is that owner and of whom nothing more is known.
    pub fn of_owner(owner: &Owner) -> Self {
        match owner {
            Owner::Admin => Self::Admin,
            Owner::User(subject) => Self::User(User {
                subject: subject.clone(),
                name: String::new(),
                groups: Vec::new(),
                issuer: String::new(),
            }),
        }
    }

    pub fn user(&self) -> Option<&User> {
        match self {
            Self::User(user) => Some(user),
            Self::Admin | Self::ServiceToken(_) => None,
        }
    }

    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Admin)
    }

    /// Whether this caller is the owner, or stands above every owner.
    pub fn acts_for(&self, owner: &Owner) -> bool {
        match self {
            Self::Admin => true,
            Self::User(user) => matches!(owner, Owner::User(subject) if *subject == user.subject),
            Self::ServiceToken(_) => false,
        }
    }

    /// Whether this is the owner himself: the administrator is not whomever he may act for.
    pub fn is(&self, owner: &Owner) -> bool {
        match self {
            Self::Admin => *owner == Owner::Admin,
            Self::User(_) | Self::ServiceToken(_) => self.acts_for(owner),
        }
    }

    /// For log lines: never a credential.
    pub fn label(&self) -> &str {
        match self {
            Self::Admin => ADMIN_OWNER,
            Self::User(user) => user.subject.as_str(),
            Self::ServiceToken(name) => name.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_call_himself_the_administrator() {
        assert_eq!(Subject::parse(ADMIN_OWNER), None);
        assert_eq!(Subject::parse(" "), None);
        assert_eq!(Subject::parse("a\nb"), None);
    }

    #[test]
    fn the_formatted_subject_is_what_stands_before_the_at_sign() {
        let formatted = |text: &str| Subject::parse(text).map(|s| s.formatted().to_owned());
        assert_eq!(formatted("62bb11b40398@egi.eu").as_deref(), Some("62bb11b40398"));
        assert_eq!(formatted("Alice@egi.eu").as_deref(), Some("Alice@egi.eu"));
        assert_eq!(formatted("alice").as_deref(), Some("alice"));
    }
}
