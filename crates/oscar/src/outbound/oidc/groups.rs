//! Where the groups of a person stand in the claims of an issuer.

use serde_json::{Map, Value};

/// How to find groups among claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupSource {
    /// By the issuer's authorization endpoint, see [`GroupRule::for_endpoint`].
    Auto,
    /// A claim such as `groups`, or a path into nested claims such as
    /// `realm_access.roles`. A claim whose own name contains dots comes first.
    Claim(String),
}

/// The rule that follows from a [`GroupSource`] once the issuer is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GroupRule {
    /// `entitlements`: the fifth field of each group URN of EGI, in lower case.
    Egi,
    Claim(String),
}

impl GroupRule {
    pub(super) fn decide(source: &GroupSource, authorization_endpoint: &str) -> Self {
        match source {
            GroupSource::Auto => Self::for_endpoint(authorization_endpoint),
            GroupSource::Claim(path) => Self::Claim(path.clone()),
        }
    }

    /// Known federations are told by the realm in their authorization endpoint.
    fn for_endpoint(authorization_endpoint: &str) -> Self {
        if authorization_endpoint.contains("/realms/egi") {
            Self::Egi
        } else if authorization_endpoint.contains("/realms/ai4eosc") {
            Self::Claim("realm_access.roles".to_owned())
        } else {
            Self::Claim("group_membership".to_owned())
        }
    }

    /// `None` when the claims do not speak of groups at all; that is not the same as
    /// saying that there are none.
    pub(super) fn read(&self, claims: &Map<String, Value>) -> Option<Vec<String>> {
        let groups = match self {
            Self::Egi => texts(claims.get("entitlements")?).iter().filter_map(egi_group).collect(),
            Self::Claim(path) => texts(find(claims, path)?),
        };
        Some(without_repetition(groups))
    }
}

fn find<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let found = claims.get(path).or_else(|| {
        let mut steps = path.split('.');
        let first = claims.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    });
    found.filter(|value| !value.is_null())
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// `urn:mace:egi.eu:group:<group>:…` in any case.
fn egi_group(entitlement: impl AsRef<str>) -> Option<String> {
    let lower = entitlement.as_ref().to_lowercase();
    let rest = lower.strip_prefix("urn:mace:egi.eu:group:")?;
    let group = rest.split(':').next()?;
    (!group.is_empty()).then(|| group.to_owned())
}

fn without_repetition(groups: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    groups.into_iter().filter(|group| seen.insert(group.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(rule: &GroupRule, claims: &Value) -> Option<Vec<String>> {
        rule.read(claims.as_object().expect("claims are an object"))
    }

    #[test]
    fn the_endpoint_decides_unless_a_claim_is_configured() {
        let auto = |endpoint| GroupRule::decide(&GroupSource::Auto, endpoint);
        assert_eq!(auto("https://aai.egi.eu/auth/realms/egi/auth"), GroupRule::Egi);
        assert_eq!(
            auto("https://login.example/realms/ai4eosc/auth"),
            GroupRule::Claim("realm_access.roles".to_owned())
        );
        assert_eq!(auto("https://login.example/authorize"), GroupRule::Claim("group_membership".to_owned()));
        let configured = GroupSource::Claim("groups".to_owned());
        assert_eq!(
            GroupRule::decide(&configured, "https://aai.egi.eu/auth/realms/egi/auth"),
            GroupRule::Claim("groups".to_owned())
        );
    }

    #[test]
    fn egi_groups_are_the_fifth_field_in_lower_case_once_each() {
        let claims = json!({"entitlements": [
            "urn:mace:egi.eu:group:VO.Example.org:role=member#aai.egi.eu",
            "urn:mace:egi.eu:group:vo.example.org:admins:role=owner#aai.egi.eu",
            "URN:mace:egi.eu:group:other.org:role=member#aai.egi.eu",
            "urn:mace:egi.eu:groups:forged.org:role=member",
            "urn:mace:egi.eu:group:",
            "urn:mace:egi.eu:group",
            "urn:mace:elsewhere:group:third.org:role=member",
            7,
        ]});
        let expected = vec!["vo.example.org".to_owned(), "other.org".to_owned()];
        assert_eq!(read(&GroupRule::Egi, &claims), Some(expected));
    }

    #[test]
    fn absent_is_not_the_same_as_empty() {
        let rule = GroupRule::Claim("realm_access.roles".to_owned());
        assert_eq!(read(&rule, &json!({})), None);
        assert_eq!(read(&rule, &json!({"realm_access": {}})), None);
        assert_eq!(read(&rule, &json!({"realm_access": {"roles": null}})), None);
        assert_eq!(read(&rule, &json!({"realm_access": {"roles": []}})), Some(vec![]));
        assert_eq!(read(&rule, &json!({"realm_access": {"roles": 5}})), Some(vec![]));
    }

    #[test]
    fn a_claim_may_be_nested_a_single_text_or_have_dots_in_its_name() {
        let nested = GroupRule::Claim("realm_access.roles".to_owned());
        let roles = json!({"realm_access": {"roles": ["a", "b", "a"]}});
        assert_eq!(read(&nested, &roles), Some(vec!["a".to_owned(), "b".to_owned()]));
        let single = GroupRule::Claim("groups".to_owned());
        assert_eq!(read(&single, &json!({"groups": "a"})), Some(vec!["a".to_owned()]));
        let dotted = GroupRule::Claim("https://example.org/groups".to_owned());
        let claims = json!({"https://example.org/groups": ["a"]});
        assert_eq!(read(&dotted, &claims), Some(vec!["a".to_owned()]));
    }
}
