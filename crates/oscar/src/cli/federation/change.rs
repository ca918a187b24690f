//! Changing who is in a federation. What is wanted is stored at once by the manager; a member that
//! cannot be reached now gets it later, so that a warning is no failure.

use std::io::{self, Read as _};

use clap::Args;
use oscar_api::client::{Client, ClientError, MembersChange};
use serde_json::{Map, Value, json};

use crate::cli::Session;
use crate::cli::apply::Elsewhere;
use crate::cli::exit::{Exit, Failure};
use crate::cli::progress;
use crate::cli::screen::{self, Screen, is_interactive, one_line};

use super::member::{MemberName, listed};
use super::view::View;
use super::{Members, reach, show};

#[derive(Debug, Args)]
pub struct AddArgs {
    service: String,
    #[arg(required = true, value_name = "CLUSTER/SERVICE")]
    members: Vec<String>,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    place: Place,
    /// Only show what would be done at each member.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    service: String,
    #[arg(value_name = "CLUSTER/SERVICE")]
    member: String,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    place: Place,
    /// Only show what would be done at each member.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    service: String,
    #[arg(required = true, value_name = "CLUSTER/SERVICE")]
    members: Vec<String>,
    /// Delete their services too, where this federation created them.
    #[arg(long)]
    delete: bool,
    /// Hang members below a removed one on its parent.
    #[arg(long)]
    reparent: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Only show what would be done at each member.
    #[arg(long)]
    dry_run: bool,
}

/// What is said of a member.
#[derive(Debug, Default, Args)]
pub(super) struct Attributes {
    /// Those with the lowest number are tried first.
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// In a tree, the member above it: CLUSTER or CLUSTER/SERVICE.
    #[arg(long, value_name = "MEMBER")]
    parent: Option<String>,
}

/// Where the cluster of a member is.
#[derive(Debug, Default, Args)]
pub(super) struct Place {
    /// The address of its manager, when the definition and the operator do not know the cluster.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Accept any certificate there.
    #[arg(long, requires = "endpoint")]
    insecure: bool,
    /// Sign in there as this user, with a password that you are asked for.
    #[arg(long, requires = "endpoint")]
    user: Option<String>,
    /// Read that password from the standard input.
    #[arg(long, requires = "user")]
    password_stdin: bool,
}

impl Attributes {
    fn is_empty(&self) -> bool {
        self.priority.is_none() && self.parent.is_none()
    }

    fn put_into(&self, member: &mut Value) {
        if let Some(priority) = self.priority {
            member["priority"] = priority.into();
        }
        if let Some(parent) = &self.parent {
            member["parent"] = parent.as_str().into();
        }
    }
}

impl Place {
    /// `clusters` of the request; one address is that of one cluster.
    fn clusters(&self, members: &[MemberName]) -> Result<Option<Value>, Failure> {
        let Some(endpoint) = &self.endpoint else { return Ok(None) };
        let cluster = members.first().map(|member| member.cluster.as_str()).unwrap_or_default();
        if members.iter().any(|member| member.cluster != cluster) {
            return Err(Failure::new(Exit::Usage, "one endpoint cannot be that of several clusters")
                .hint("add the members of each cluster with a command of their own"));
        }
        let mut place = json!({"endpoint": endpoint, "ssl_verify": !self.insecure});
        if let Some(user) = &self.user {
            place["auth_user"] = user.as_str().into();
            place["auth_password"] = self.password(cluster)?.into();
        }
        Ok(Some(Value::Object(Map::from_iter([(cluster.to_owned(), place)]))))
    }

    fn password(&self, cluster: &str) -> Result<String, Failure> {
        let read = if self.password_stdin {
            let mut text = String::new();
            io::stdin().lock().take(1 << 16).read_to_string(&mut text).map(|_| text)
        } else if is_interactive() {
            rpassword::prompt_password(format!("Password for {cluster}: "))
        } else {
            return Err(Failure::new(Exit::Usage, "there is no terminal to ask for the password on")
                .hint("give it by a pipe and `--password-stdin`"));
        };
        let text = read.map_err(|error| Failure::io("the password could not be read", &error))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

pub(super) async fn add(session: &Session, args: AddArgs) -> Result<(), Failure> {
    let members = MemberName::parse_all(&args.members)?;
    let (_, client) = reach(session, &args.service)?;
    let bodies = members.iter().map(|member| {
        let mut body = member.body();
        args.attributes.put_into(&mut body);
        body
    });
    let mut body = json!({"members": bodies.collect::<Vec<_>>()});
    if let Some(clusters) = args.place.clusters(&members)? {
        body["clusters"] = clusters;
    }
    let change = Change { verb: "adding", past: "added", which: MembersChange::Add, body, dry_run: args.dry_run };
    carry_out(session, &client, &args.service, &members, change).await
}

pub(super) async fn update(session: &Session, args: UpdateArgs) -> Result<(), Failure> {
    let member = MemberName::parse(&args.member)?;
    if args.attributes.is_empty() && args.place.endpoint.is_none() {
        return Err(Failure::new(Exit::Usage, "nothing was said that could change")
            .hint("give `--priority N`, `--parent MEMBER` or `--endpoint URL`"));
    }
    let (target, client) = reach(session, &args.service)?;
    let clusters = args.place.clusters(std::slice::from_ref(&member))?;
    // What is not said stays, so that the whole of it must be known.
    let what = format!("asking {} for the federation of {}", target.title(), args.service);
    let view = progress::during(&what, client.federation(&args.service)).await?;
    let is_it = |known: &&Value| known["cluster_id"] == member.cluster && known["service_name"] == member.service;
    let known = view["members"].as_array().and_then(|members| members.iter().find(is_it));
    let mut becomes = known.cloned().ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("{} does not list the member {member}", args.service))
            .hint(format!("`oscar federation show {}` shows who is in it", args.service))
    })?;
    args.attributes.put_into(&mut becomes);
    let mut body = json!({"members": [member.body()], "update": [becomes]});
    if let Some(clusters) = clusters {
        body["clusters"] = clusters;
    }
    let (which, dry_run) = (MembersChange::Update, args.dry_run);
    let change = Change { verb: "updating", past: "updated", which, body, dry_run };
    carry_out(session, &client, &args.service, &[member], change).await
}

pub(super) async fn remove(session: &Session, args: RemoveArgs) -> Result<(), Failure> {
    let members = MemberName::parse_all(&args.members)?;
    let (target, client) = reach(session, &args.service)?;
    let fate = if args.delete {
        "what this federation created there is deleted"
    } else {
        "what this federation created there stays as a plain service"
    };
    let question = format!(
        "remove {} from the federation of {} on {}? {fate}, what was there before is given back",
        listed(&members),
        args.service,
        target.title()
    );
    screen::confirm(&question, args.yes || args.dry_run)?;
    let bodies: Vec<_> = members.iter().map(MemberName::body).collect();
    let body = json!({"members": bodies, "delete": args.delete, "reparent": args.reparent});
    let (which, dry_run) = (MembersChange::Remove, args.dry_run);
    let change = Change { verb: "removing", past: "removed", which, body, dry_run };
    carry_out(session, &client, &args.service, &members, change).await
}

pub(super) async fn set_duty(session: &Session, args: &Members, duty: &str) -> Result<(), Failure> {
    let members = MemberName::parse_all(&args.members)?;
    let (_, client) = reach(session, &args.service)?;
    let (verb, past) = match duty {
        "paused" => ("pausing", "paused"),
        "draining" => ("draining", "draining"),
        _ => ("resuming", "resumed"),
    };
    require_members(&client, &args.service, &members).await?;
    let bodies: Vec<_> = members.iter().map(MemberName::body).collect();
    let body = json!({"members": bodies, "duty": duty});
    let change = Change { verb, past, which: MembersChange::Update, body, dry_run: false };
    carry_out(session, &client, &args.service, &members, change).await
}

/// A manager leaves alone what it does not know; a person who mistyped a name should hear of it.
async fn require_members(client: &Client, service: &str, members: &[MemberName]) -> Result<(), Failure> {
    let view = View::read(&client.federation(service).await?);
    let stranger = members.iter().find(|member| view.nodes().iter().all(|node| node.id() != member.to_string()));
    match stranger {
        None => Ok(()),
        Some(stranger) => {
            Err(Failure::new(Exit::NotFound, format!("{stranger} is not in the federation of {service}"))
                .hint(format!("`oscar federation show {service}` shows who is in it")))
        }
    }
}

pub(super) async fn sync(session: &Session, service: &str) -> Result<(), Failure> {
    let (_, client) = reach(session, service)?;
    let what = format!("looking at every member of {service}");
    let value = watched(&what, &client, service, client.reconcile(service)).await?;
    tell(session, service, &value, None);
    Ok(())
}

struct Change {
    verb: &'static str,
    past: &'static str,
    which: MembersChange,
    body: Value,
    dry_run: bool,
}

async fn carry_out(
    session: &Session,
    client: &Client,
    service: &str,
    members: &[MemberName],
    change: Change,
) -> Result<(), Failure> {
    let hinted = |error: ClientError| {
        let failure = Failure::from(error);
        let unknown = failure.details.iter().any(|detail| detail.contains("cluster_id"));
        if unknown && change.which == MembersChange::Add {
            return failure.hint("say where the cluster is: `--endpoint URL`");
        }
        failure
    };
    if change.dry_run {
        let what = format!("asking what {} {} would do", change.verb, listed(members));
        let work = client.foresee_members(change.which, service, &change.body);
        let value = progress::during(&what, work).await.map_err(hinted)?;
        foretell(session, &value);
        return Ok(());
    }
    let what = format!("{} {}", change.verb, listed(members));
    let work = client.change_members(change.which, service, &change.body);
    let value = watched(&what, client, service, work).await.map_err(hinted)?;
    tell(session, service, &value, Some(&format!("{} {}", change.past, listed(members))));
    Ok(())
}

/// Waits for `work`, and shows meanwhile how every member is.
async fn watched<T>(
    what: &str,
    client: &Client,
    service: &str,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let look = async || Some(View::read(&client.federation(service).await.ok()?).states());
    progress::watching(what, work, look).await
}

/// What would be done at each member.
fn foretell(session: &Session, value: &Value) {
    if session.screen.json {
        return screen::value(value);
    }
    match Elsewhere::of_dry_run(value) {
        Some(elsewhere) => screen::write_out(&elsewhere.plan(session.screen.paint)),
        None => session.screen.warning("this manager does not say what it would do, only that it could be done"),
    }
}

/// How it is now. What did not reach a member yet is a warning: it is stored, and gets there.
fn tell(session: &Session, service: &str, value: &Value, done: Option<&str>) {
    if session.screen.json {
        return screen::value(value);
    }
    let view = View::read(value);
    if let Some(done) = done {
        screen::note(done);
    }
    screen::write_out(&show::members(&view, service, crate::time::now(), session.screen.paint, Screen::width()));
    for warning in &view.warnings {
        session.screen.warning(&one_line(warning));
    }
    if !view.warnings.is_empty() {
        session
            .screen
            .hint("what is wanted is stored, and is tried again until it is so; `oscar federation sync` tries now");
    }
    if view.topology == "none" {
        session.screen.warning("the topology is `none`: jobs may go there, but nothing is deployed");
    }
}
