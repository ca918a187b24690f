//! One script of operations against both stores: what they answer is the same, line by line, but
//! for what [`DIFFERENCES`] names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use oscar_testkit::{Python, count, require};

use crate::differences::{DIFFERENCES, Difference};
use crate::servers::{Target, start_minio};
use crate::support::Served;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_answers_as_minio_does() {
    let python = require!(Python::find());
    let minio = require!(start_minio().await);
    let served = Served::start().await;
    let (ours, theirs) = futures::join!(
        transcript(python.clone(), Target::of_store(&served)),
        transcript(python, Target::of_minio(&minio)),
    );
    let findings = compare(&ours, &theirs, DIFFERENCES);
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    count("s3 answers compared", ours.len() as u64);
}

/// What a store said: by what was asked and which aspect of the answer it is.
type Transcript = BTreeMap<String, String>;

async fn transcript(python: Python, target: Target) -> Transcript {
    let run = tokio::task::spawn_blocking(move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/differential.py");
        python.run(&script, &target.environment())
    });
    let output = run.await.expect("the script was run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "the script failed: {}", text(&output.stderr));
    let lines = text(&output.stdout);
    lines.lines().filter_map(|line| line.split_once('\t')).map(|(at, said)| (at.to_owned(), said.to_owned())).collect()
}

/// Differences that nobody explained, and explanations of what is no difference.
fn compare(ours: &Transcript, theirs: &Transcript, known: &[Difference]) -> Vec<String> {
    let labels: BTreeSet<&str> = ours.keys().chain(theirs.keys()).map(String::as_str).collect();
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for label in labels.into_iter().filter(|label| ours.get(*label) != theirs.get(*label)) {
        let (answer, aspect) = label.rsplit_once('.').unwrap_or((label, ""));
        let explains = |place: &str| {
            let said = (summary(ours, place), summary(theirs, place));
            known.iter().flat_map(Difference::cases).find(|case| case.explains(place, (&said.0, &said.1)))
        };
        // An answer that is another one altogether is explained as a whole.
        if let Some(case) = explains(label).or_else(|| explains(answer)) {
            used.insert(case.at);
            continue;
        }
        let place = if matches!(aspect, "status" | "code") { answer } else { label };
        let (ours, theirs) = (summary(ours, place), summary(theirs, place));
        findings.push(format!("{place}\n    the store: {ours}\n    MinIO:     {theirs}"));
    }
    let stale = known.iter().flat_map(Difference::cases).filter(|case| !used.contains(case.at));
    findings.extend(stale.map(|case| format!("{}\n    is explained, but is no difference: {}", case.at, case.why)));
    findings.dedup();
    findings
}

/// One aspect of an answer; or of a whole answer its status and code.
fn summary(by: &Transcript, place: &str) -> String {
    if let Some(said) = by.get(place) {
        return said.clone();
    }
    let aspect = |name: &str| by.get(&format!("{place}.{name}")).map(|text| text.trim_matches('"'));
    match (aspect("status"), aspect("code")) {
        (None, _) => "nothing".to_owned(),
        (Some(status), None) => status.to_owned(),
        (Some(status), Some(code)) => format!("{status} {code}"),
    }
}

#[test]
fn what_is_not_explained_is_found() {
    let known =
        [Difference { why: "", cases: &[("a.*.get", "404 NoSuchKey", "200"), ("b.get.ETag", "\"1\"", "nothing")] }];
    let mk = |lines: &[(&str, &str)]| lines.iter().map(|(at, said)| ((*at).to_owned(), (*said).to_owned())).collect();
    let ours: Transcript = mk(&[("a.x.get.status", "404"), ("a.x.get.code", "\"NoSuchKey\""), ("b.get.ETag", "\"1\"")]);
    let theirs: Transcript = mk(&[("a.x.get.status", "200"), ("a.x.get.Body", "\"x\"")]);
    assert_eq!(compare(&ours, &theirs, &known), Vec::<String>::new());
    let more: Transcript = mk(&[("a.x.get.status", "206"), ("b.get.ETag", "\"1\"")]);
    let found = compare(&ours, &more, &known);
    assert_eq!(found.len(), 3, "another status, and two that are explained for nothing: {found:?}");
}
