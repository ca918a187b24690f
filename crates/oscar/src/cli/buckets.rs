//! `oscar bucket`: buckets, and who may use them.

use std::collections::BTreeSet;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::screen::{self, Screen, Style, one_line};
use super::table::Table;
use super::{Session, progress, target};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Visibility {
    /// For its owner.
    Private,
    /// For those who are allowed, too.
    Restricted,
    /// For every user of the cluster.
    Public,
}

impl Visibility {
    fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Restricted => "restricted",
            Self::Public => "public",
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum BucketCommand {
    /// List the buckets that you can use.
    #[command(visible_alias = "ls")]
    List,
    /// Show whose a bucket is and who may use it.
    Show { name: String },
    /// Create a bucket.
    Create {
        name: String,
        #[arg(long, value_enum, default_value = "private")]
        visibility: Visibility,
        /// Who else may use it when it is restricted: the subject of a user.
        #[arg(long, value_name = "USER")]
        allow: Vec<String>,
    },
    /// Change who may use a bucket.
    Update {
        name: String,
        #[arg(long, value_enum)]
        visibility: Option<Visibility>,
        /// Let another user in: the subject of the user.
        #[arg(long, value_name = "USER")]
        allow: Vec<String>,
        /// Let a user in no longer.
        #[arg(long, value_name = "USER")]
        deny: Vec<String>,
    },
    /// Delete a bucket with everything in it.
    #[command(visible_alias = "rm")]
    Delete {
        name: String,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) async fn run(session: &Session, command: BucketCommand) -> Result<(), Failure> {
    match command {
        BucketCommand::List => list(session).await,
        BucketCommand::Show { name } => show(session, &name).await,
        BucketCommand::Create { name, visibility, allow } => create(session, &name, visibility, &allow).await,
        BucketCommand::Update { name, visibility, allow, deny } => {
            update(session, &name, visibility, &allow, &deny).await
        }
        BucketCommand::Delete { name, yes } => delete(session, &name, yes).await,
    }
}

/// Also what `oscar ls` without a bucket shows.
pub(super) async fn list(session: &Session) -> Result<(), Failure> {
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let buckets = progress::during(&format!("asking {}", target.title()), client.buckets()).await?;
    if session.screen.json {
        screen::value(&Value::Array(buckets));
        return Ok(());
    }
    if buckets.is_empty() {
        screen::note(&format!("there is no bucket that you can use on {}", target.title()));
        session.screen.hint("create one: oscar bucket create NAME");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "VISIBILITY", "OWNER", "SERVICE", "ALLOWED"]);
    for bucket in &buckets {
        let text = |value: &Value| one_line(value.as_str().unwrap_or_default());
        let service = text(&bucket["metadata"]["from_service"]);
        let allowed = users(bucket).into_iter().collect::<Vec<_>>().join(", ");
        table.row([
            text(&bucket["bucket_name"]),
            text(&bucket["visibility"]),
            text(&bucket["owner"]),
            service,
            one_line(&allowed),
        ]);
    }
    table.paint(0, |_| Some(Style::Cyan));
    screen::line(&table.render(session.screen.paint, Screen::width(), 4));
    Ok(())
}

async fn show(session: &Session, name: &str) -> Result<(), Failure> {
    let bucket = fetch(session, name).await?;
    if session.screen.json {
        screen::value(&bucket);
        return Ok(());
    }
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default());
    screen::line(&session.screen.paint.on(Style::Bold, name));
    let mut facts = vec![("visibility", text(&bucket["visibility"])), ("owner", text(&bucket["owner"]))];
    facts.push(("service", text(&bucket["metadata"]["from_service"])));
    facts.extend(users(&bucket).iter().map(|user| ("allowed", one_line(user))));
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        screen::line(&format!("  {name:<10} {value}"));
    }
    session.screen.hint(&format!("what is in it: oscar ls {name}"));
    Ok(())
}

async fn fetch(session: &Session, name: &str) -> Result<Value, Failure> {
    check(name)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    Ok(progress::during(&format!("asking {} for {name}", target.title()), client.bucket(name, None)).await?)
}

async fn create(session: &Session, name: &str, visibility: Visibility, allow: &[String]) -> Result<(), Failure> {
    check(name)?;
    let client = target::current(session)?.client(target::ORDINARY)?;
    let body = json!({"bucket_name": name, "visibility": visibility.as_str(), "allowed_users": allow});
    progress::during(&format!("creating {name}"), client.create_bucket(&body)).await?;
    done(session, name, "create", "created");
    Ok(())
}

async fn update(
    session: &Session,
    name: &str,
    visibility: Option<Visibility>,
    allow: &[String],
    deny: &[String],
) -> Result<(), Failure> {
    if visibility.is_none() && allow.is_empty() && deny.is_empty() {
        return Err(Failure::new(Exit::Usage, "nothing is to be changed")
            .hint("say `--visibility`, `--allow USER` or `--deny USER`"));
    }
    let now = fetch(session, name).await?;
    let visibility = visibility.map(Visibility::as_str).or_else(|| now["visibility"].as_str()).unwrap_or("private");
    let mut allowed = users(&now);
    allowed.extend(allow.iter().cloned());
    allowed.retain(|user| !deny.contains(user));
    if visibility != "restricted" && !allow.is_empty() {
        session.screen.warning(&format!("{name} is {visibility}: who is allowed counts when it is restricted"));
    }
    let client = target::current(session)?.client(target::ORDINARY)?;
    let body = json!({"bucket_name": name, "visibility": visibility, "allowed_users": allowed});
    progress::during(&format!("changing {name}"), client.update_bucket(&body)).await?;
    done(session, name, "update", "updated");
    Ok(())
}

async fn delete(session: &Session, name: &str, yes: bool) -> Result<(), Failure> {
    check(name)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    screen::confirm(&format!("delete the bucket {name} on {} with everything in it?", target.title()), yes)?;
    progress::during(&format!("deleting {name}"), client.delete_bucket(name)).await?;
    done(session, name, "delete", "deleted");
    Ok(())
}

fn done(session: &Session, name: &str, action: &str, told: &str) {
    if session.screen.json {
        screen::value(&json!({"bucket": name, "action": action, "done": true}));
    } else {
        screen::line(&format!("{told} {name}"));
    }
}

fn users(bucket: &Value) -> BTreeSet<String> {
    let users = bucket["allowed_users"].as_array().map(Vec::as_slice).unwrap_or_default();
    users.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A name becomes part of an address.
pub(super) fn check(name: &str) -> Result<(), Failure> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    if (3..=63).contains(&name.len()) && name.bytes().all(fits) && !name.contains("..") && !name.starts_with('.') {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{name}` cannot be the name of a bucket"))
        .hint("a bucket has 3 to 63 lower-case letters, digits, dots and dashes"))
}
