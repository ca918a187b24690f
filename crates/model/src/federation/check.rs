//! What can be wrong with a federation block before anybody is asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::{Faults, join, quoted};
use crate::name::is_cluster_id;
use crate::service::Definition;

use super::topology::{MemberId, find_parent};
use super::{Delegation, DelegationMode, Federation, Member, Target, Topology};

/// The most members of one federation.
pub const MOST_MEMBERS: usize = 64;

/// The criteria that `topsis` weighs.
pub const CRITERIA: [&str; 6] = ["latency", "nodes", "free_memory", "free_cpu", "mean_run_time", "pending"];

/// Headers that a member may not set: they carry somebody's authority or change the target.
const REFUSED_HEADERS: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "metadata-flavor",
    "x-aws-ec2-metadata-token",
];

/// Checks the block of `definition`; `registry` says which cluster ids the operator knows, and
/// `keeps` whether a blank secret means one that is stored. The paths of the faults are
/// relative to the definition.
pub fn check(definition: &Definition, registry: &dyn Fn(&str) -> bool, keeps: bool) -> Faults {
    let mut faults = Faults::default();
    let Some(federation) = &definition.federation else {
        return faults;
    };
    if federation.members.len() > MOST_MEMBERS {
        faults.push(
            "federation.members",
            format!("{} members", federation.members.len()),
            format!("at most {MOST_MEMBERS}"),
        );
        return faults;
    }
    let mut seen = BTreeSet::new();
    for (index, member) in federation.members.iter().enumerate() {
        let path = format!("federation.members[{index}]");
        check_member(member, &path, &mut faults);
        if !seen.insert(identity(member)) {
            faults.push(&path, identity(member), "each cluster_id and service_name once");
        }
        if let Target::Oscar { cluster_id, service_name, .. } = &member.target {
            if *cluster_id == definition.cluster_id && *service_name == definition.name {
                faults.push(&path, identity(member), "a replica, not the service itself");
            }
            if is_cluster_id(cluster_id) && !definition.clusters.contains_key(cluster_id) && !registry(cluster_id) {
                faults.push(
                    join(&path, "cluster_id"),
                    quoted(cluster_id),
                    "a cluster that `clusters` of the definition or the operator's registry knows",
                );
            }
        }
    }
    check_parents(federation, &mut faults);
    check_weights(federation, &mut faults);
    let token = definition.environment.secrets.get("refresh_token");
    let has_token = token.is_some_and(|token| keeps || !token.is_blank());
    if !federation.members.is_empty() && federation.topology != Topology::None && !has_token && !definition.is_worker()
    {
        faults.push(
            "environment.secrets.refresh_token",
            "nothing",
            "an OIDC refresh token of the owner: jobs are delegated under the owner's identity",
        );
    }
    faults
}

fn identity(member: &Member) -> String {
    match &member.target {
        Target::Oscar { cluster_id, service_name, .. } => format!("{cluster_id}/{service_name}"),
        Target::Endpoint { url } => url.clone(),
    }
}

fn check_member(member: &Member, path: &str, faults: &mut Faults) {
    match &member.target {
        Target::Oscar { cluster_id, .. } if !is_cluster_id(cluster_id) => {
            faults.push(join(path, "cluster_id"), quoted(cluster_id), "1 to 63 letters, digits, `-`, `_` and `.`");
        }
        Target::Endpoint { url } if !is_http_url(url) => {
            faults.push(join(path, "url"), quoted(url), "an http or https address");
        }
        Target::Oscar { .. } | Target::Endpoint { .. } => {}
    }
    for (name, value) in &member.headers {
        let header = join(path, &format!("headers.{name}"));
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            faults.push(header, quoted(name), "the name of an HTTP header");
        } else if REFUSED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            faults.push(header, quoted(name), "no header that carries credentials or addresses");
        } else if value.bytes().any(|b| b.is_ascii_control()) {
            // The value may be a credential: it is not quoted.
            faults.push(header, "control characters", "a printable value");
        }
    }
}

/// A member's parent must exist, and following parents must end at the coordinator.
fn check_parents(federation: &Federation, faults: &mut Faults) {
    let members: BTreeSet<_> = federation.members.iter().filter_map(MemberId::of).collect();
    let parents: BTreeMap<_, _> = federation
        .members
        .iter()
        .filter_map(|member| match &member.target {
            Target::Oscar { parent, .. } => Some((MemberId::of(member)?, parent.clone())),
            Target::Endpoint { .. } => None,
        })
        .collect();
    for (index, member) in federation.members.iter().enumerate() {
        let Target::Oscar { parent: Some(parent), .. } = &member.target else { continue };
        let path = format!("federation.members[{index}].parent");
        if federation.topology != Topology::Tree {
            faults.push(path, quoted(parent), "nothing unless the topology is tree");
            continue;
        }
        let mut steps = 0;
        let mut at = Some(parent.clone());
        while let Some(reference) = at {
            let Some(node) = find_parent(&reference, &members) else {
                let allowed = "`<cluster_id>` or `<cluster_id>/<service_name>` of one other member";
                faults.push(&path, quoted(&reference), allowed);
                break;
            };
            steps += 1;
            if MemberId::of(member).as_ref() == Some(&node) || steps > members.len() {
                faults.push(&path, quoted(parent), "a parent that is not below its own child");
                break;
            }
            at = parents.get(&node).cloned().flatten();
        }
    }
}

fn check_weights(federation: &Federation, faults: &mut Faults) {
    let Delegation { mode, weights } = &federation.delegation;
    if weights.is_empty() {
        return;
    }
    let path = "federation.delegation.weights";
    match mode.unwrap_or(DelegationMode::Static) {
        DelegationMode::Random => {
            for id in weights.keys().filter(|id| !is_cluster_id(id)) {
                faults.push(join(path, id), quoted(id), "the id of a cluster");
            }
            if weights.values().all(|weight| *weight == 0) {
                faults.push(path, "only zeros", "a weight above zero for at least one cluster");
            }
        }
        DelegationMode::Topsis => {
            for name in weights.keys().filter(|name| !CRITERIA.contains(&name.as_str())) {
                faults.push(join(path, name), quoted(name), format!("one of {}", CRITERIA.join(", ")));
            }
        }
        mode => faults.push(path, "weights", format!("none with {}", mode.as_str())),
    }
}

/// A plain look at a URL: scheme, host, no credentials. What it resolves to is judged when connected.
pub fn is_http_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && text.bytes().all(|b| b.is_ascii_graphic()) && text.len() <= 2048
    })
}
