//! Whose runs a caller may have statistics of. Pure.

use oscar_model::identity::{Owner, Principal};
use oscar_model::name::ServiceName;

use crate::ports::usage::Share;

/// What the caller may see of the services that are visible to him, or of one of them;
/// nothing is no limit.
pub fn shares(
    principal: &Principal,
    visible: &[(&ServiceName, &Owner)],
    only: Option<&ServiceName>,
) -> Option<Vec<Share>> {
    if principal.is_admin() {
        return only.map(|only| vec![Share { service: only.clone(), owner: None, user: None }]);
    }
    let wanted = visible.iter().filter(|(service, _)| only.is_none_or(|only| *service == only));
    let share = |(service, owner): &(&ServiceName, &Owner)| Share {
        service: (*service).clone(),
        owner: Some((*owner).clone()),
        user: (!principal.acts_for(owner)).then(|| principal.label().to_owned()),
    };
    Some(wanted.map(share).collect())
}

#[cfg(test)]
mod tests {
    use oscar_model::identity::Subject;

    use super::*;

    #[test]
    fn a_caller_is_shown_his_services_and_his_runs_of_others() {
        let [alice, bob] = ["alice", "bob"].map(|who| Owner::User(Subject::parse(who).expect("a subject")));
        let name = |text: &str| ServiceName::parse(text).expect("a name");
        let visible = [(&name("hers"), &alice), (&name("his"), &bob)];
        let hers = Share { service: name("hers"), owner: Some(alice.clone()), user: None };
        let guest = Share { service: name("his"), owner: Some(bob.clone()), user: Some("alice".to_owned()) };
        let principal = Principal::of_owner(&alice);
        assert_eq!(shares(&principal, &visible, None), Some(vec![hers.clone(), guest]));
        assert_eq!(shares(&principal, &visible, Some(&name("hers"))), Some(vec![hers]));
        assert_eq!(shares(&principal, &visible, Some(&name("hidden"))), Some(vec![]));
        assert_eq!(shares(&Principal::Admin, &visible, None), None, "everything");
        let gone = Share { service: name("gone"), owner: None, user: None };
        assert_eq!(shares(&Principal::Admin, &visible, Some(&name("gone"))), Some(vec![gone]));
    }
}
