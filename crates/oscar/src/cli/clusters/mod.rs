//! `oscar cluster`: the managers that this command line knows.

mod add;
pub(super) mod file;

use clap::Subcommand;
use serde_json::json;

use super::Session;
use super::exit::Failure;
use super::screen::{self, Screen, Style, printable};
use super::table::Table;

use file::Clusters;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Add a manager, or replace one. The first becomes the default.
    Add(add::AddArgs),
    /// Make a cluster the default.
    Use { name: String },
    /// List the configured clusters.
    #[command(visible_alias = "ls")]
    List,
    /// Forget a cluster and its credentials.
    #[command(visible_alias = "rm")]
    Remove { name: String },
}

pub(super) async fn run(session: &Session, command: ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Add(args) => add::run(session, args).await,
        ClusterCommand::Use { name } => choose(session, name),
        ClusterCommand::List => list(session),
        ClusterCommand::Remove { name } => remove(session, &name),
    }
}

fn choose(session: &Session, name: String) -> Result<(), Failure> {
    let path = session.places.clusters_file();
    let mut clusters = Clusters::load(&path)?;
    clusters.get(&name)?;
    screen::note(&format!("`{name}` is the default now"));
    clusters.default = Some(name);
    clusters.save(&path)
}

fn remove(session: &Session, name: &str) -> Result<(), Failure> {
    let path = session.places.clusters_file();
    let mut clusters = Clusters::load(&path)?;
    clusters.get(name)?;
    clusters.clusters.remove(name);
    if clusters.default.as_deref() == Some(name) {
        // The last one left is meant without being named; of several, nobody knows which.
        clusters.default = clusters.clusters.keys().next().filter(|_| clusters.clusters.len() == 1).cloned();
    }
    clusters.save(&path)?;
    screen::note(&format!("`{name}` is forgotten"));
    if clusters.default.is_none() && !clusters.clusters.is_empty() {
        session.screen.hint("there is no default now: choose one with `oscar cluster use NAME`");
    }
    Ok(())
}

fn list(session: &Session) -> Result<(), Failure> {
    let clusters = Clusters::load(&session.places.clusters_file())?;
    let is_default = |name: &str| clusters.default.as_deref() == Some(name);
    if session.screen.json {
        let rows = clusters.clusters.iter().map(|(name, cluster)| {
            json!({
                "name": name, "url": cluster.url, "user": cluster.user, "default": is_default(name),
                "ca": cluster.ca, "insecure": cluster.insecure,
            })
        });
        screen::value(&rows.collect());
        return Ok(());
    }
    if clusters.clusters.is_empty() {
        screen::note("no cluster is configured");
        session.screen.hint("add one: oscar cluster add NAME URL");
        return Ok(());
    }
    let mut table = Table::new(["", "NAME", "URL", "USER", "TLS"]);
    for (name, cluster) in &clusters.clusters {
        let tls = match (cluster.insecure, &cluster.ca) {
            (true, _) => "not verified",
            (false, Some(_)) => "own authority",
            (false, None) if cluster.url.starts_with("https:") => "verified",
            (false, None) => "none",
        };
        let mark = if is_default(name) { "*" } else { "" };
        let url = printable(&cluster.url);
        table.row([mark, name, &url, &printable(&cluster.identity()), tls].map(str::to_owned));
    }
    table.paint(0, |_| Some(Style::Green));
    screen::line(&table.render(session.screen.paint, Screen::width(), 2));
    Ok(())
}
