//! `oscar federation`: who is in the federation of a service, how everybody is, and changing that.

mod change;
mod member;
mod picture;
mod show;
mod token;
pub(super) mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use oscar_api::client::Client;
use serde_json::Value;

use super::Session;
use super::exit::Failure;
use super::screen::{self, Screen, Style, one_line};
use super::service::check_name;
use super::table::Table;
use super::target::Target;
use super::{apply, progress, target};

use view::View;

#[derive(Debug, Subcommand)]
pub enum FederationCommand {
    /// List the services that are in a federation.
    #[command(visible_alias = "ls")]
    List {
        /// Those whose coordinator was deleted and whose replicas are still being removed.
        #[arg(long)]
        deleted: bool,
    },
    /// Show the topology of a federation and how every member is.
    Show { service: String },
    /// Show what applying definition files would do at every member; change nothing.
    Plan {
        /// Definition files (FDL); `-` is the standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Add members and deploy to them.
    Add(change::AddArgs),
    /// Change what is said of a member.
    Update(change::UpdateArgs),
    /// Remove members; their services stay as plain ones unless `--delete` is given.
    #[command(visible_alias = "rm")]
    Remove(change::RemoveArgs),
    /// Hand no new jobs to members.
    Pause(Members),
    /// Hand jobs to members again.
    Resume(Members),
    /// Hand no new jobs to members, so that they can be removed when they have finished.
    Drain(Members),
    /// Look at every member now, and repair what is not as it should be.
    Sync { service: String },
    /// The refresh token that speaks for the owner at other clusters.
    #[command(subcommand)]
    Token(token::TokenCommand),
}

#[derive(Debug, Args)]
pub struct Members {
    service: String,
    #[arg(required = true, value_name = "CLUSTER/SERVICE")]
    members: Vec<String>,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// At most so many records.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(super) async fn run(session: &Session, command: FederationCommand) -> Result<(), Failure> {
    match command {
        FederationCommand::List { deleted } => list(session, deleted).await,
        FederationCommand::Show { service } => show_one(session, &service).await,
        FederationCommand::Plan { files } => apply::plan_only(session, files).await,
        FederationCommand::Add(args) => change::add(session, args).await,
        FederationCommand::Update(args) => change::update(session, args).await,
        FederationCommand::Remove(args) => change::remove(session, args).await,
        FederationCommand::Pause(members) => change::set_duty(session, &members, "paused").await,
        FederationCommand::Resume(members) => change::set_duty(session, &members, "active").await,
        FederationCommand::Drain(members) => change::set_duty(session, &members, "draining").await,
        FederationCommand::Sync { service } => change::sync(session, &service).await,
        FederationCommand::Token(command) => token::run(session, command).await,
    }
}

/// The manager of a service that was named, and how to ask it.
fn reach(session: &Session, service: &str) -> Result<(Target, Client), Failure> {
    check_name(service)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    Ok((target, client))
}

async fn list(session: &Session, deleted: bool) -> Result<(), Failure> {
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let mut rows = progress::during(&format!("asking {}", target.title()), client.federations()).await?;
    rows.retain(|row| row["deleted"].as_bool().unwrap_or_default() == deleted);
    if session.screen.json {
        screen::value(&Value::Array(rows));
        return Ok(());
    }
    if rows.is_empty() {
        let what = if deleted { "no federation is being removed" } else { "no service of yours is in a federation" };
        screen::note(&format!("{what} on {}", target.title()));
        return Ok(());
    }
    let mut table = Table::new(["SERVICE", "ROLE", "FEDERATION", "LEAVING", "MEMBERS", "UNDER WAY"]);
    for row in &rows {
        let text = |key: &str| one_line(row[key].as_str().unwrap_or_default());
        let names = |key: &str| {
            let names = row[key].as_array().map(Vec::as_slice).unwrap_or_default();
            names.iter().filter_map(Value::as_str).map(one_line).collect::<Vec<_>>().join(", ")
        };
        table.row([
            text("service"),
            text("role"),
            text("federation_id"),
            names("leaving"),
            names("members"),
            under_way(row),
        ]);
    }
    table.paint(0, |_| Some(Style::Cyan));
    table.paint(3, |_| Some(Style::Yellow));
    screen::line(&table.render(session.screen.paint, Screen::width(), 4));
    Ok(())
}

/// What has not ended of creating it.
fn under_way(row: &Value) -> String {
    match row["operation"]["phase"].as_str() {
        Some("taking-back") => "a create is being taken back".to_owned(),
        Some(_) => "a create".to_owned(),
        None => String::new(),
    }
}

async fn show_one(session: &Session, service: &str) -> Result<(), Failure> {
    let (target, client) = reach(session, service)?;
    let what = format!("asking {} for the federation of {service}", target.title());
    let value = progress::during(&what, client.federation(service)).await?;
    if session.screen.json {
        screen::value(&value);
    } else {
        let view = View::read(&value);
        let text = show::whole(&view, service, crate::time::now(), session.screen.paint, Screen::width());
        screen::write_out(&text);
    }
    Ok(())
}

/// `oscar audit`: what was done elsewhere in the caller's name, newest first.
pub(super) async fn audit(session: &Session, args: AuditArgs) -> Result<(), Failure> {
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let rows = progress::during(&format!("asking {}", target.title()), client.audit(args.limit)).await?;
    if session.screen.json {
        screen::value(&Value::Array(rows));
        return Ok(());
    }
    if rows.is_empty() {
        screen::note("nothing was done elsewhere in your name");
        return Ok(());
    }
    let mut table = Table::new(["WHEN (UTC)", "ACT", "SERVICE", "TARGET", "OWNER", "OUTCOME"]);
    for row in &rows {
        let text = |key: &str| one_line(row[key].as_str().unwrap_or_default());
        let when = show::moment(row["at"].as_u64().unwrap_or_default());
        table.row([when, text("act"), text("service"), text("target"), text("owner"), text("outcome")]);
    }
    table.paint(0, |_| Some(Style::Dim));
    table.paint(5, |outcome| Some(if outcome == "ok" { Style::Green } else { Style::Yellow }));
    // What went wrong is worth more than one line.
    screen::line(&table.render(session.screen.paint, None, 5));
    Ok(())
}
