//! Members as they are named on the command line, and in the body of a request.

use serde_json::{Value, json};

use crate::cli::exit::{Exit, Failure};
use crate::cli::service::check_name;

/// `CLUSTER/SERVICE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberName {
    pub(super) cluster: String,
    pub(super) service: String,
}

impl MemberName {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::new(Exit::Usage, format!("`{text}` names no member"))
                .hint("give the cluster and the service there: CLUSTER/SERVICE")
        };
        let (cluster, service) = text.split_once('/').ok_or_else(wrong)?;
        if cluster.is_empty() || service.contains('/') {
            return Err(wrong());
        }
        check_name(service).map_err(|_| wrong())?;
        Ok(Self { cluster: cluster.to_owned(), service: service.to_owned() })
    }

    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>, Failure> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    pub(super) fn body(&self) -> Value {
        json!({"type": "oscar", "cluster_id": self.cluster, "service_name": self.service})
    }
}

impl std::fmt::Display for MemberName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.cluster, self.service)
    }
}

/// For sentences: `b/x, c/x`.
pub(super) fn listed(members: &[MemberName]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_a_cluster_and_a_service() {
        let member = MemberName::parse("b/plants").expect("a member");
        assert_eq!((member.cluster.as_str(), member.service.as_str()), ("b", "plants"));
        for wrong in ["plants", "/plants", "b/", "b/p/q", "b/p q", ""] {
            assert_eq!(MemberName::parse(wrong).expect_err(wrong).exit, Exit::Usage);
        }
    }
}
