//! `oscar apply`: read, compare, show, ask, change. In that order, and nothing is changed
//! before everything could be read and compared.

mod elsewhere;
mod plan;
mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use oscar_api::client::Client;
use serde_json::{Value, json};

use super::Session;
use super::clusters::file::Clusters;
use super::definition::body;
use super::exit::{Exit, Failure};
use super::federation::view::View;
use super::screen::{self, Style, one_line, printable};
use super::target::{self, Target};
use super::{probe, progress};

pub(super) use elsewhere::Elsewhere;
use plan::{Action, Change};
use read::{Reading, Wanted};

/// A manager that pulls the image first may take this long.
const PREFETCH: Duration = Duration::from_secs(400);

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Definition files (FDL); `-` is the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// One service with the manager it goes to.
struct Step {
    label: String,
    client: Client,
    name: String,
    body: Value,
    /// The state that was compared with, for `If-Match`.
    revision: Option<String>,
    change: Change,
    /// What it means on other clusters.
    elsewhere: Option<Elsewhere>,
}

/// What `apply --dry-run` shows.
pub(super) async fn plan_only(session: &Session, files: Vec<PathBuf>) -> Result<(), Failure> {
    run(session, ApplyArgs { files, dry_run: true, yes: false }).await
}

pub(super) async fn run(session: &Session, args: ApplyArgs) -> Result<(), Failure> {
    let reading = Reading::of(&args.files)?;
    reading.warnings.iter().for_each(|warning| session.screen.warning(warning));
    let groups = by_target(session, reading.wanted)?;
    let several = groups.len() > 1;
    let mut steps = Vec::new();
    for (target, wanted) in groups {
        steps.extend(Box::pin(plan_all(session, &target, wanted)).await?);
    }
    if !session.screen.json {
        for step in &steps {
            show(session, step, several);
        }
    }
    let changes = steps.iter().filter(|step| step.change.action != Action::Unchanged).count();
    if args.dry_run || changes == 0 {
        finish(session, &steps, &[], args.dry_run);
        return Ok(());
    }
    screen::confirm(&question(&steps), args.yes)?;
    let mut failures = Vec::new();
    for (index, step) in steps.iter_mut().enumerate() {
        if let Err(failure) = carry_out(session, step).await {
            let failure = failure.while_doing(format!("{} {}", step.change.action.verb(), step.name));
            if !session.screen.json {
                session.screen.failure(&failure);
            }
            failures.push((index, failure));
        }
    }
    finish(session, &steps, &failures, false);
    match failures.first() {
        None => Ok(()),
        Some((_, failure)) => Err(Failure::told(failure.exit)),
    }
}

/// Which service goes where. A flag is an order for all; else the file decides, as far as the
/// clusters that it names are known.
fn by_target(session: &Session, wanted: Vec<Wanted>) -> Result<Vec<(Target, Vec<Wanted>)>, Failure> {
    let clusters = Clusters::load(&session.places.clusters_file())?;
    let mut groups: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
    let mut foreign = Vec::new();
    for wanted in wanted {
        let known = session.cluster.is_none() && clusters.clusters.contains_key(&wanted.cluster);
        let key = if known { wanted.cluster.clone() } else { String::new() };
        if !known && !wanted.cluster.is_empty() {
            foreign.push(wanted.cluster.clone());
        }
        groups.entry(key).or_default().push(wanted);
    }
    let mut targets: Vec<(Target, Vec<Wanted>)> = Vec::new();
    for (name, wanted) in groups {
        let target =
            if name.is_empty() { target::current(session)? } else { Target::configured(&name, clusters.get(&name)?)? };
        if name.is_empty() {
            tell_foreign(session, &target, &mut foreign);
        }
        // The default and a name in the file can be one and the same cluster.
        match targets.iter_mut().find(|(known, _)| known.url == target.url) {
            Some((_, group)) => group.extend(wanted),
            None => targets.push((target, wanted)),
        }
    }
    targets.iter().try_for_each(|(target, group)| refuse_twice(target, group))?;
    Ok(targets)
}

fn tell_foreign(session: &Session, target: &Target, foreign: &mut Vec<String>) {
    foreign.sort();
    foreign.dedup();
    foreign.retain(|name| *name != target.label);
    for name in foreign {
        let why = if session.cluster.is_some() { "by `--cluster`" } else { "it is no configured cluster" };
        let name = printable(name);
        screen::note(&format!("services of `{name}` go to {}: {why}; `cluster_id` stays", target.title()));
    }
}

fn refuse_twice(target: &Target, group: &[Wanted]) -> Result<(), Failure> {
    for (index, wanted) in group.iter().enumerate() {
        let name = &wanted.draft.definition.name;
        if let Some(first) = group[..index].iter().find(|other| other.draft.definition.name == *name) {
            let message =
                format!("`{name}` is defined twice for {}: in {} and {}", target.title(), first.file, wanted.file);
            return Err(Failure::new(Exit::Invalid, message));
        }
    }
    Ok(())
}

async fn plan_all(session: &Session, target: &Target, group: Vec<Wanted>) -> Result<Vec<Step>, Failure> {
    let slow = group.iter().any(|wanted| wanted.draft.definition.image_prefetch);
    let client = target.client(if slow { PREFETCH } else { target::ORDINARY })?;
    let what = format!("comparing with {}", target.title());
    let work = async {
        let hello = probe::hello(target, target::ORDINARY).await?;
        let info = hello.welcome(target)?;
        let one_port = !hello.ours && info.takes_one_port();
        let mut steps = Vec::new();
        for wanted in group {
            let definition = &wanted.draft.definition;
            if info.ignores_image(&definition.image) {
                session.screen.warning(&format!(
                    "{}: the image {} is not used: scripts are run by {}, with the programs of the manager's machine",
                    definition.name,
                    one_line(&definition.image),
                    one_line(&info.executor)
                ));
            }
            steps.push(plan_one(session, target, &client, wanted, hello.ours, one_port).await?);
        }
        Ok(steps)
    };
    progress::during(&what, Box::pin(work)).await
}

async fn plan_one(
    session: &Session,
    target: &Target,
    client: &Client,
    wanted: Wanted,
    ours: bool,
    one_port: bool,
) -> Result<Step, Failure> {
    let name = wanted.draft.definition.name.to_string();
    let failed = |error| Failure::from(error).while_doing(format!("comparing {name}"));
    let mut body = body::request(&wanted.draft);
    body::add_unknown(&mut body, &wanted.unknown);
    let existing = client.service(&name).await.map_err(failed)?;
    let (value, revision) = existing.map_or((None, None), |tagged| (Some(tagged.value), tagged.revision));
    // Another kind of manager would ignore that it is a dry run and create the service.
    let (change, elsewhere) = if ours {
        let result = client.dry_run(&body, value.is_some()).await.map_err(failed)?;
        (Change::from_dry_run(value.as_ref(), &body, &result), Elsewhere::of_dry_run(&result))
    } else {
        (Change::computed(value.as_ref(), &body), None)
    };
    if !ours && value.is_some() {
        for secret in body::blank_secrets(&body) {
            session
                .screen
                .warning(&format!("{name}: this manager forgets the secret `{secret}`, whose value is not given"));
        }
    }
    if one_port {
        body::with_single_ports(&mut body);
    }
    Ok(Step { label: target.label.clone(), client: client.clone(), name, body, revision, change, elsewhere })
}

fn show(session: &Session, step: &Step, several: bool) {
    let paint = session.screen.paint;
    let style = match step.change.action {
        Action::Create => Style::Green,
        Action::Update => Style::Yellow,
        Action::Unchanged => Style::Dim,
    };
    let place = if several { format!(" on {}", step.label) } else { String::new() };
    screen::line(&format!("{} {}{place}", paint.on(style, step.change.action.verb()), step.name));
    screen::write_out(&step.change.lines(paint));
    if let Some(elsewhere) = step.planned() {
        screen::write_out(&elsewhere.plan(paint));
        elsewhere.warnings.iter().for_each(|warning| session.screen.warning(&one_line(warning)));
    }
}

fn question(steps: &[Step]) -> String {
    let replicas: usize = steps.iter().filter_map(Step::planned).map(Elsewhere::count).sum();
    let count = |action: Action| steps.iter().filter(|step| step.change.action == action).count();
    let mut labels: Vec<_> = steps.iter().map(|step| step.label.as_str()).collect();
    labels.dedup();
    let parts = [(count(Action::Create), "create"), (count(Action::Update), "update")];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, verb)| format!("{verb} {n}")).collect();
    let replicas = match replicas {
        0 => String::new(),
        1 => ", and change one replica elsewhere".to_owned(),
        more => format!(", and change {more} replicas elsewhere"),
    };
    format!("{} on {}{replicas}?", parts.join(" and "), labels.join(", "))
}

async fn carry_out(session: &Session, step: &mut Step) -> Result<(), Failure> {
    let at = step.planned().map(|elsewhere| format!(" here and at {}", elsewhere.names())).unwrap_or_default();
    let what = format!("{} {}{at}", step.change.action.verb(), step.name);
    let warnings = match step.change.action {
        Action::Unchanged => return Ok(()),
        Action::Create => {
            let told = progress::during(&what, step.client.create_service(&step.body)).await?;
            told.as_ref().map(elsewhere::warnings).unwrap_or_default()
        }
        Action::Update => {
            let look = async || Some(View::read(&step.client.federation(&step.name).await.ok()?).states());
            let work = step.client.update_service(&step.body, step.revision.as_deref());
            let told = progress::watching(&what, work, look).await?;
            Some(told).filter(|told| !told.trim().is_empty()).into_iter().collect()
        }
    };
    // The service itself is done; how its replicas are is asked for once more.
    if step.planned().is_some() {
        let view = step.client.federation(&step.name).await.ok().as_ref().map(View::read);
        if let Some(elsewhere) = &mut step.elsewhere {
            elsewhere.learn(view.as_ref());
            elsewhere.warnings.extend(warnings.iter().cloned());
        }
    }
    if !session.screen.json {
        screen::note(&format!("{} {}", step.change.action.past(), step.name));
        for line in step.planned().map(Elsewhere::outcome).unwrap_or_default() {
            screen::note(&format!("  {line}"));
        }
        for warning in warnings {
            session.screen.warning(&one_line(&warning));
        }
    }
    Ok(())
}

impl Step {
    /// What is done elsewhere, if anything is done at all.
    fn planned(&self) -> Option<&Elsewhere> {
        self.elsewhere.as_ref().filter(|_| self.change.action != Action::Unchanged)
    }
}

fn finish(session: &Session, steps: &[Step], failures: &[(usize, Failure)], dry_run: bool) {
    let failure = |index: usize| failures.iter().find(|(at, _)| *at == index).map(|(_, failure)| failure);
    let failed = |index: usize| failure(index).is_some();
    if session.screen.json {
        let results = steps.iter().enumerate().map(|(index, step)| {
            let mut result = json!({
                "name": step.name, "cluster": step.label, "action": step.change.action.verb(),
                "done": !dry_run && !failed(index),
            });
            if let Some(elsewhere) = step.planned() {
                result["federation"] = elsewhere.to_json();
            }
            if let Some(failure) = failure(index) {
                result["failure"] = failure.to_json();
            }
            result
        });
        screen::value(&results.collect());
        return;
    }
    screen::line(&summary(steps.iter().enumerate().map(|(i, step)| (step.change.action, failed(i))), dry_run));
}

/// `2 created, 1 updated, 3 unchanged`.
fn summary(outcomes: impl Iterator<Item = (Action, bool)>, dry_run: bool) -> String {
    let outcomes: Vec<_> = outcomes.collect();
    let count = |wanted: Action| outcomes.iter().filter(|(action, failed)| *action == wanted && !failed).count();
    let mut parts = Vec::new();
    for action in [Action::Create, Action::Update, Action::Unchanged] {
        let number = count(action);
        if number > 0 || action == Action::Unchanged && outcomes.is_empty() {
            let planned = dry_run && action != Action::Unchanged;
            let words =
                if planned { format!("{number} to {}", action.verb()) } else { format!("{number} {}", action.past()) };
            parts.push(words);
        }
    }
    let failed = outcomes.iter().filter(|(_, failed)| *failed).count();
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_happened() {
        let all =
            [(Action::Create, false), (Action::Create, false), (Action::Update, true), (Action::Unchanged, false)];
        assert_eq!(summary(all.into_iter(), false), "2 created, 1 unchanged, 1 failed");
        assert_eq!(summary([(Action::Update, false)].into_iter(), true), "1 to update");
    }
}
