//! Federations that are coordinated at a cluster: can members reach it, are they as they should
//! be, and can it still speak for their owners?

use oscar_api::client::is_loopback;

use crate::cli::doctor::Finding;
use crate::cli::exit::Failure;
use crate::cli::federation::view::{Token, View};
use crate::cli::screen::one_line;
use crate::cli::target::Target;

use super::clusters::PATIENCE;

/// Of a manager of our kind: others do not tell.
pub(super) async fn check(target: &Target) -> Vec<Finding> {
    match look(target).await {
        Ok(findings) => findings,
        Err(failure) => {
            let told = failure.while_doing(format!("{}: its federations", target.label));
            vec![Finding::doubtful(told.message, "ask again: oscar federation list")]
        }
    }
}

async fn look(target: &Target) -> Result<Vec<Finding>, Failure> {
    let client = target.client(PATIENCE)?;
    let mut findings = Vec::new();
    for row in client.federations().await? {
        let Some(service) = row["service"].as_str().filter(|_| row["role"] == "coordinator") else { continue };
        let place = format!("{}: {}", target.label, one_line(service));
        if row["deleted"] == true {
            let left = row["leaving"].as_array().map_or(0, Vec::len);
            let hint = "they are tried again by themselves; `oscar federation list --deleted` shows them";
            findings.push(Finding::doubtful(format!("{place} is deleted, with {left} replicas still there"), hint));
            continue;
        }
        findings.extend(judge(&place, service, &View::read(&client.federation(service).await?)));
    }
    Ok(findings)
}

fn judge(place: &str, service: &str, view: &View) -> Vec<Finding> {
    let mut findings: Vec<_> = address(place, view).into_iter().collect();
    let workers: Vec<_> = view.nodes().iter().filter(|node| !node.is_coordinator()).collect();
    let off: Vec<_> = workers.iter().filter(|node| node.state != "in-sync").collect();
    if off.is_empty() && !workers.is_empty() {
        findings.push(Finding::fine(format!("{place}: all {} replicas are in sync", workers.len())));
    }
    for node in off {
        let why = view.error_of(&node.id()).map(|error| format!(": {error}")).unwrap_or_default();
        let text = one_line(&format!("{place}: {} is {}{why}", node.id(), node.state));
        findings.push(Finding::doubtful(text, format!("look again, and repair: oscar federation sync {service}")));
    }
    findings.extend(view.token.as_ref().and_then(|token| renewal(place, service, token)));
    findings
}

/// Members get the coordinator's address as it is; on another machine it must not mean that one.
fn address(place: &str, view: &View) -> Option<Finding> {
    let own = view.nodes().iter().find(|node| node.is_coordinator())?;
    let away = |endpoint: &str| !endpoint.is_empty() && !is_loopback(endpoint);
    let elsewhere = view.nodes().iter().find(|node| !node.is_coordinator() && away(&node.endpoint))?;
    is_loopback(&own.endpoint).then(|| {
        let text = format!("{place}: members elsewhere ({}) cannot call {}", elsewhere.id(), own.endpoint);
        let hint = "start its manager with the address that others reach it under: --public-url URL";
        Finding::doubtful(one_line(&text), hint)
    })
}

fn renewal(place: &str, service: &str, token: &Token) -> Option<Finding> {
    let hint = format!("give a new one: oscar federation token set {service}");
    let why = |text: &str| if text.is_empty() { String::new() } else { format!(": {}", one_line(text)) };
    match token.state.as_str() {
        "sign-in-again" => {
            let text = format!("{place}: the refresh token is not honoured any more{}", why(&token.reason));
            Some(Finding::doubtful(text, hint))
        }
        _ if !token.warning.is_empty() => {
            Some(Finding::doubtful(format!("{place}: the refresh token{}", why(&token.warning)), hint))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::doctor::Level;

    fn view(own: &str, theirs: &str, state: &str, token: &Value) -> View {
        View::read(&json!({
            "token": token,
            "graph": {"nodes": [
                {"cluster_id": "a", "service_name": "x", "role": "coordinator", "endpoint": own, "state": "in-sync"},
                {"cluster_id": "b", "service_name": "x", "role": "worker", "endpoint": theirs, "state": state}]},
            "conditions": [{"member": "b/x", "error": "gone"}],
        }))
    }

    fn levels(view: &View) -> Vec<Level> {
        judge("a: x", "x", view).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn an_address_that_only_this_machine_understands_is_doubted() {
        let (here, there) = ("http://127.0.0.1:8080", "https://b.example.org");
        assert_eq!(levels(&view(here, there, "in-sync", &json!(null))), [Level::Doubtful, Level::Fine]);
        assert_eq!(levels(&view(here, "http://127.0.0.1:8081", "in-sync", &json!(null))), [Level::Fine]);
        assert_eq!(levels(&view("https://a.example.org", there, "in-sync", &json!(null))), [Level::Fine]);
    }

    #[test]
    fn members_that_are_not_in_sync_are_doubted_with_the_reason() {
        let found = judge("a: x", "x", &view("https://a", "https://b", "unreachable", &json!(null)));
        assert_eq!(found[0].text, "a: x: b/x is unreachable: gone");
        assert_eq!(found[0].level, Level::Doubtful);
    }

    #[test]
    fn tokens_that_must_be_renewed_are_found() {
        let level = |token: Value| levels(&view("https://a", "https://b", "in-sync", &token)).get(1).copied();
        assert_eq!(level(json!({"state": "valid"})), None);
        assert_eq!(level(json!({"state": "sign-in-again", "reason": "revoked"})), Some(Level::Doubtful));
        assert_eq!(level(json!({"state": "valid", "warning": "old"})), Some(Level::Doubtful));
        assert_eq!(level(json!({"state": "not-verified"})), None, "an administrator has logins instead");
    }
}
