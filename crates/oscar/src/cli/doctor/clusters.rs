use std::time::Duration;

use futures::future::join_all;
use oscar_api::client::{Credentials, Services, is_loopback};
use serde_json::Value;

use crate::cli::clusters::file::Clusters;
use crate::cli::doctor::{Finding, federation};
use crate::cli::exit::Failure;
use crate::cli::places::Places;
use crate::cli::probe::{self, Answer, Hello, Info};
use crate::cli::screen::one_line;
use crate::cli::target::{self, Target};

pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Tokens are refused by clocks that differ by minutes, and logs mislead from less.
const NOTABLE_SKEW: u64 = 30;
const HARMFUL_SKEW: u64 = 300;

/// Every manager that a command could talk to, or the one that was named.
pub(super) async fn check(places: &Places, only: Option<&Target>) -> Vec<Finding> {
    if let Some(target) = only {
        return look(target).await;
    }
    let (targets, mut findings) = targets(places);
    if targets.is_empty() && findings.is_empty() {
        return vec![Finding::doubtful(
            "no cluster is configured",
            "add one with `oscar cluster add NAME URL`, or start one here with `oscar serve`",
        )];
    }
    findings.extend(join_all(targets.iter().map(look)).await.into_iter().flatten());
    findings
}

fn targets(places: &Places) -> (Vec<Target>, Vec<Finding>) {
    let (mut targets, mut findings) = (Vec::new(), Vec::new());
    // What is wrong with the file itself is another check's finding.
    for (name, cluster) in Clusters::load(&places.clusters_file()).unwrap_or_default().clusters {
        match Target::configured(&name, &cluster) {
            Ok(target) => targets.push(target),
            Err(failure) => findings.push(failure.while_doing(name).into()),
        }
    }
    targets.extend(target::from_env());
    // A manager of this machine that is not running is no fault: another check tells of it.
    targets.extend(target::local(places).ok().flatten());
    (targets, findings)
}

async fn look(target: &Target) -> Vec<Finding> {
    let mut findings = transport(target);
    match probe::hello(target, PATIENCE).await {
        Ok(hello) => {
            findings.extend(judge(target, &hello));
            if hello.ours && matches!(hello.answer, Answer::Welcome(_)) {
                findings.extend(federation::check(target).await);
            }
            if let Answer::Welcome(info) = &hello.answer {
                findings.extend(definitions(target, info).await);
            }
        }
        Err(failure) => findings.push(named(target, failure)),
    }
    findings
}

/// What is notable about the services there. A list that cannot be read is another command's
/// trouble.
async fn definitions(target: &Target, info: &Info) -> Vec<Finding> {
    let Ok(client) = target.client(PATIENCE) else { return Vec::new() };
    let Ok(Services { list, unreadable }) = client.services().await else { return Vec::new() };
    unreadables(target, &unreadable).into_iter().chain(images(target, info, &list)).collect()
}

/// Definitions that are stored and cannot be read.
fn unreadables(target: &Target, names: &[String]) -> Option<Finding> {
    let text = format!("{}: the manager cannot read what it has stored of: {}", target.label, names.join(", "));
    let hint = "`oscar service get NAME` says why; write it anew, or remove it: oscar service delete NAME";
    (!names.is_empty()).then(|| Finding::broken(one_line(&text), hint))
}

/// Services whose image nobody uses.
fn images(target: &Target, info: &Info, services: &[Value]) -> Option<Finding> {
    let text = |service: &Value, key: &str| service[key].as_str().unwrap_or_default().to_owned();
    let ignored = services.iter().filter(|service| info.ignores_image(&text(service, "image")));
    let names: Vec<_> = ignored.map(|service| text(service, "name")).collect();
    let (first, count) = (names.first()?, names.len());
    let which =
        if count == 1 { format!("{first} names one") } else { format!("{first} and {} more name one", count - 1) };
    let text = format!("{}: scripts are run by {}, which uses no images: {which}", target.label, info.executor);
    Some(Finding::doubtful(
        one_line(&text),
        "give the manager `executor: container` and podman, or write `image: none`",
    ))
}

fn named(target: &Target, failure: Failure) -> Finding {
    failure.while_doing(&target.label).into()
}

/// What can be said of the connection before it is made.
fn transport(target: &Target) -> Vec<Finding> {
    let label = &target.label;
    if target.insecure {
        let hint = "give its authority instead: oscar cluster add NAME URL --ca FILE";
        return vec![Finding::doubtful(format!("{label}: any certificate is accepted"), hint)];
    }
    if target.url.starts_with("http:") && !is_loopback(&target.url) && !matches!(target.credentials, Credentials::None)
    {
        let hint = "use https: whoever is on the way can read the credentials";
        return vec![Finding::doubtful(format!("{label}: credentials are sent without TLS"), hint)];
    }
    Vec::new()
}

fn judge(target: &Target, hello: &Hello) -> Vec<Finding> {
    let label = &target.label;
    let mut findings = Vec::new();
    match &hello.answer {
        Answer::Welcome(info) => {
            let tls = if target.url.starts_with("https:") && !target.insecure { ", TLS verified" } else { "" };
            let kind = if hello.ours { "" } else { ", another kind of manager" };
            findings.push(Finding::fine(format!("{label}: {} at {}{tls}{kind}", info.sentence(), target.url)));
            findings.push(Finding::fine(format!("{label}: the credentials are accepted")));
        }
        Answer::NotAuthenticated | Answer::Other(_) => {
            findings.extend(hello.welcome(target).err().map(|failure| named(target, failure)));
        }
    }
    findings.extend(hello.ahead.map(|ahead| skew(label, ahead)));
    findings
}

fn skew(label: &str, ahead: i64) -> Finding {
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let text = format!("{label}: its clock is {} s {side} this machine's", ahead.unsigned_abs());
    let hint = "let both follow a time server";
    match ahead.unsigned_abs() {
        0..=NOTABLE_SKEW => Finding::fine(format!("{label}: the clocks agree")),
        distance if distance <= HARMFUL_SKEW => Finding::doubtful(text, hint),
        _ => Finding::broken(text, hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    fn target(url: &str) -> Target {
        let credentials = Credentials::Basic { user: "oscar".to_owned(), password: "hunter2".into() };
        Target { label: "main".to_owned(), url: url.to_owned(), credentials, insecure: false, ca: None }
    }

    #[test]
    fn clocks_that_differ_are_found_in_both_directions() {
        assert_eq!(skew("a", 3).level, Level::Fine);
        assert_eq!(skew("a", -60).level, Level::Doubtful);
        assert_eq!(skew("a", 3600).level, Level::Broken);
        assert!(skew("a", -60).text.contains("60 s behind"));
    }

    #[test]
    fn definitions_that_cannot_be_read_are_broken() {
        assert_eq!(unreadables(&target("https://o"), &[]), None);
        let found = unreadables(&target("https://o"), &["a".to_owned(), "b".to_owned()]).expect("found");
        assert_eq!(found.level, Level::Broken);
        assert!(found.text.ends_with("stored of: a, b"), "{found:?}");
    }

    #[test]
    fn credentials_in_the_clear_are_doubted() {
        assert_eq!(transport(&target("http://o.example"))[0].level, Level::Doubtful);
        assert!(transport(&target("http://127.0.0.1:1")).is_empty());
        assert!(transport(&target("https://o.example")).is_empty());
    }

    #[test]
    fn refused_credentials_are_broken_and_not_shown() {
        let hello = Hello { answer: Answer::NotAuthenticated, ours: true, ahead: None };
        let findings = judge(&target("https://o"), &hello);
        assert_eq!(findings[0].level, Level::Broken);
        assert!(!format!("{findings:?}").contains("hunter2"));
        let hello = Hello { answer: Answer::Welcome(Info::default()), ours: true, ahead: Some(0) };
        assert!(judge(&target("https://o"), &hello).iter().all(|finding| finding.level == Level::Fine));
    }
}
