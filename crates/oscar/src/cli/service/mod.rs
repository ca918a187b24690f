//! `oscar service`: look, edit, delete.

mod edit;

use clap::Subcommand;
use oscar_api::client::{Services, Tagged};
use serde_json::{Value, json};

use super::Session;
use super::definition::{view, yaml};
use super::exit::{Exit, Failure};
use super::screen::{self, Screen, Style, one_line, printable};
use super::table::Table;
use super::{probe, progress, target};

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// List the services that you can see.
    #[command(visible_alias = "ls")]
    List,
    /// Show one service.
    Get {
        name: String,
        /// Show its token and the credentials that it holds, too.
        #[arg(long)]
        show_secrets: bool,
    },
    /// Edit the definition of a service in `$VISUAL` or `$EDITOR`.
    Edit { name: String },
    /// Delete services.
    ///
    /// The buckets that were made for a service are deleted with everything in them, unless `--keep-data` says
    /// otherwise.
    #[command(visible_alias = "rm")]
    Delete {
        #[arg(required = true)]
        names: Vec<String>,
        /// Take replicas out of their federation first; their coordinator is told.
        #[arg(long)]
        detach: bool,
        /// Leave the buckets that were made for them, with everything in them.
        #[arg(long)]
        keep_data: bool,
        /// Do not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) async fn run(session: &Session, command: ServiceCommand) -> Result<(), Failure> {
    match command {
        ServiceCommand::List => list(session).await,
        ServiceCommand::Get { name, show_secrets } => get(session, &name, show_secrets).await,
        ServiceCommand::Edit { name } => edit::run(session, &name).await,
        ServiceCommand::Delete { names, detach, keep_data, yes } => {
            delete(session, &names, Terms { detach, keep_data, yes }).await
        }
    }
}

async fn list(session: &Session) -> Result<(), Failure> {
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let Services { list: mut services, unreadable } =
        progress::during(&format!("asking {}", target.title()), client.services()).await?;
    if !unreadable.is_empty() {
        let names = one_line(&unreadable.join(", "));
        session.screen.warning(&format!("the manager cannot read what it has stored of: {names}"));
        session
            .screen
            .hint("`oscar service get NAME` says why; write it anew, or remove it: oscar service delete NAME");
    }
    services.sort_by_cached_key(|service| text(service, "name"));
    if session.screen.json {
        screen::value(&services.into_iter().map(view::blanked).collect());
        return Ok(());
    }
    if services.is_empty() {
        screen::note(&format!("there is no service that you can see on {}", target.title()));
        session.screen.hint("create one: oscar apply FILE");
        return Ok(());
    }
    screen::line(&table(&services).render(session.screen.paint, Screen::width(), 1));
    Ok(())
}

fn table(services: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "IMAGE", "CPU", "MEMORY", "VISIBILITY", "OWNER"]);
    for service in services {
        table.row(["name", "image", "cpu", "memory", "visibility", "owner"].map(|key| text(service, key)));
    }
    table.paint(0, |_| Some(Style::Cyan));
    table
}

/// A field of a stranger's answer, safe to print on one line.
fn text(service: &Value, key: &str) -> String {
    let text = service.get(key).and_then(Value::as_str).unwrap_or_default();
    printable(text).replace('\n', " ")
}

async fn get(session: &Session, name: &str, show_secrets: bool) -> Result<(), Failure> {
    let (_, Tagged { value, .. }) = fetch(session, name).await?;
    if session.screen.json {
        screen::value(&if show_secrets { value } else { view::blanked(value) });
    } else {
        screen::write_out(&yaml::to_yaml(&view::readable(value, show_secrets)));
    }
    Ok(())
}

/// A service that must be there, with the manager that has it.
async fn fetch(session: &Session, name: &str) -> Result<(target::Target, Tagged), Failure> {
    check_name(name)?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    let what = format!("asking {} for {name}", target.title());
    let found = progress::during(&what, client.service(name)).await?;
    let found = found.ok_or_else(|| absent(name, &target))?;
    Ok((target, found))
}

fn absent(name: &str, target: &target::Target) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no service `{name}` on {}", target.title()))
        .hint("`oscar service list` shows the services that you can see")
}

/// A name becomes part of an address: nothing in it may mean something there.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !name.is_empty() && name.len() <= 63 && name.bytes().all(fits) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{name}` cannot be the name of a service")))
}

/// How services are deleted.
struct Terms {
    detach: bool,
    keep_data: bool,
    yes: bool,
}

async fn delete(session: &Session, names: &[String], terms: Terms) -> Result<(), Failure> {
    names.iter().try_for_each(|name| check_name(name))?;
    let target = target::current(session)?;
    let client = target.client(target::ORDINARY)?;
    // Another kind of manager would not understand, and delete the data.
    if terms.keep_data && !probe::hello(&target, target::ORDINARY).await?.ours {
        return Err(Failure::new(Exit::Usage, format!("{} cannot delete a service and keep its data", target.title()))
            .hint("download what you need first: oscar ls -r BUCKET, oscar get BUCKET/KEY"));
    }
    let data = if terms.keep_data { "their buckets stay" } else { "with the buckets that were made for them" };
    let question = format!("delete {} on {}? ({data})", names.join(", "), target.title());
    screen::confirm(&question, terms.yes)?;
    let (mut first, mut results) = (None, Vec::new());
    for name in names {
        let deleting = client.delete_service(name, terms.detach, terms.keep_data);
        let outcome = progress::during(&format!("deleting {name}"), deleting).await;
        let mut result = json!({"name": name, "action": "delete", "done": outcome.is_ok()});
        match outcome.map_err(Failure::from) {
            Ok(told) => {
                let told = one_line(&told);
                if session.screen.json {
                    if !told.is_empty() {
                        result["warning"] = json!(told);
                    }
                } else {
                    screen::line(&format!("deleted {name}"));
                    if !told.is_empty() {
                        session.screen.warning(&told);
                    }
                }
            }
            Err(failure) => {
                let failure = if failure.exit == Exit::NotFound { absent(name, &target) } else { failure };
                let failure = failure.while_doing(format!("delete {name}"));
                first.get_or_insert(failure.exit);
                if session.screen.json {
                    result["failure"] = failure.to_json();
                } else {
                    session.screen.failure(&failure);
                }
            }
        }
        results.push(result);
    }
    if session.screen.json {
        screen::value(&Value::Array(results));
    }
    first.map_or(Ok(()), |exit| Err(Failure::told(exit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screen::Paint;

    #[test]
    fn a_list_shows_no_token_and_obeys_no_name() {
        let services = [json!({
            "name": "a\u{1b}[2J\nb", "image": "x", "cpu": "1", "memory": "1Gi", "token": "SECRET",
            "owner": "me", "visibility": "private",
        })];
        let text = table(&services).render(Paint(false), None, 1);
        assert!(!text.contains("SECRET") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        for wrong in ["../config", "a/b", "a?x", "", ".", "..", "a b", "a%2fb"] {
            assert_eq!(check_name(wrong).expect_err(wrong).exit, Exit::Usage);
        }
        assert!(check_name("plants-2.x_y").is_ok());
    }
}
