use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use oscar_api::client::{Credentials, is_loopback};
use oscar_model::name::is_cluster_id;
use reqwest::Url;

use super::file::{Cluster, Clusters};
use crate::cli::Session;
use crate::cli::exit::{Exit, Failure};
use crate::cli::places::ADMIN_USER;
use crate::cli::probe::{self, Answer};
use crate::cli::screen::{ask, is_interactive};
use crate::cli::target::Target;
use crate::cli::{progress, screen};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct AddArgs {
    /// The name to give it; definition files may name it too.
    name: String,
    /// Its address, such as `https://oscar.example.org`.
    url: String,
    /// The user of a password. Without a password option it is asked for, unseen.
    #[arg(long, short)]
    user: Option<String>,
    /// Read the password from the standard input.
    #[arg(long, conflicts_with = "token_stdin")]
    password_stdin: bool,
    /// Read an access token (`OpenID Connect`) from the standard input.
    #[arg(long, conflicts_with = "user")]
    token_stdin: bool,
    /// Trust this certificate authority beside the usual ones (PEM).
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Accept any certificate. Whoever is between you and the manager can then read everything.
    #[arg(long)]
    insecure: bool,
    /// Store it without asking the manager whether it is one, and whether it knows the credentials.
    #[arg(long)]
    no_check: bool,
}

pub(super) async fn run(session: &Session, args: AddArgs) -> Result<(), Failure> {
    let path = session.places.clusters_file();
    let mut clusters = Clusters::load(&path)?;
    if !is_cluster_id(&args.name) {
        return Err(Failure::new(Exit::Usage, format!("`{}` cannot be the name of a cluster", args.name))
            .hint("a name has at most 63 letters, digits, `-`, `_` and `.`"));
    }
    let url = parse_url(&args.url)?;
    if url.starts_with("http:") && !is_loopback(&url) {
        session.screen.warning("the address is not https: the credentials travel readable for everybody on the way");
    }
    let ca = args.ca.as_ref().map(readable_ca).transpose()?;
    let mut cluster = Cluster { url, ca, insecure: args.insecure, ..Cluster::default() };
    read_credentials(&args, &mut cluster)?;
    if !args.no_check {
        check(session, &args.name, &cluster).await?;
    }
    let replaced = clusters.clusters.insert(args.name.clone(), cluster).is_some();
    if clusters.default.is_none() {
        clusters.default = Some(args.name.clone());
    }
    clusters.save(&path)?;
    let what = if replaced { "replaced" } else { "added" };
    let default = if clusters.default.as_deref() == Some(&args.name) { "; it is the default" } else { "" };
    screen::note(&format!("`{}` is {what}{default}", args.name));
    Ok(())
}

/// The address as it is stored: a scheme, a host, maybe a path, and nothing secret.
fn parse_url(text: &str) -> Result<String, Failure> {
    let wrong = |why: &str| {
        Failure::new(Exit::Usage, format!("the address {why}")).hint("give it as `https://oscar.example.org`")
    };
    let url = Url::parse(text).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is not one of http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not contain credentials").hint("use `--user`, and type the password when asked"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or fragment"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Its path from everywhere; the client is started in another folder next time.
fn readable_ca(path: &PathBuf) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::io(format!("the certificate authority {} cannot be read", path.display()), &error);
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        return Err(Failure::new(Exit::Usage, format!("{} is no certificate in PEM form", path.display())));
    }
    std::fs::canonicalize(path).map_err(failed)
}

fn read_credentials(args: &AddArgs, cluster: &mut Cluster) -> Result<(), Failure> {
    if args.token_stdin {
        cluster.token = Some(secret_from_stdin("token")?);
        return Ok(());
    }
    if args.password_stdin {
        cluster.user = Some(args.user.clone().unwrap_or_else(|| ADMIN_USER.to_owned()));
        cluster.password = Some(secret_from_stdin("password")?);
        return Ok(());
    }
    if !is_interactive() {
        if args.user.is_none() {
            return Ok(());
        }
        return Err(Failure::new(Exit::Usage, "there is no terminal to ask for the password on")
            .hint("give it by a pipe: … | oscar cluster add NAME URL --user USER --password-stdin"));
    }
    let failed = |error: io::Error| Failure::io("the answer could not be read", &error);
    let user = match &args.user {
        Some(user) => user.clone(),
        None => ask(&format!("User [{ADMIN_USER}]: ")).map_err(failed)?,
    };
    cluster.user = Some(if user.is_empty() { ADMIN_USER.to_owned() } else { user });
    cluster.password = Some(rpassword::prompt_password("Password: ").map_err(failed)?);
    Ok(())
}

fn secret_from_stdin(what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(1 << 16)
        .read_to_string(&mut text)
        .map_err(|error| Failure::io(format!("the {what} could not be read"), &error))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("the standard input had no {what}")));
    }
    Ok(secret.to_owned())
}

/// Says whom one is about to trust. A manager that is down today can still be added; what is
/// known to be wrong is not.
async fn check(session: &Session, name: &str, cluster: &Cluster) -> Result<(), Failure> {
    let target = Target::configured(name, cluster)?;
    let what = format!("asking {} who it is", target.url);
    let hello = progress::during(&what, probe::hello(&target, Duration::from_secs(10))).await;
    let screen = session.screen;
    let silent = |failure: &Failure| {
        screen.warning(&failure.message);
        failure.hints.iter().for_each(|hint| screen.hint(hint));
    };
    let hello = match hello {
        Ok(hello) => hello,
        Err(failure) => {
            silent(&failure);
            return Ok(());
        }
    };
    match &hello.answer {
        Answer::Welcome(info) => {
            screen::note(&format!("{}: {}", cluster.url, screen::printable(&info.sentence())));
            Ok(())
        }
        // Something before it answers for a manager that is not there now.
        Answer::Other(500..600) => {
            hello.welcome(&target).err().iter().for_each(silent);
            Ok(())
        }
        answer => Err(not_added(name, cluster, answer)),
    }
}

fn not_added(name: &str, cluster: &Cluster, answer: &Answer) -> Failure {
    let anyway = "nothing was stored; `--no-check` stores it as it is";
    match answer {
        Answer::Other(status) => {
            let what = format!("something answers {status} at {} that is not an OSCAR manager", cluster.url);
            let failure = Failure::new(Exit::Unreachable, what);
            let leads = (300..400).contains(status);
            let failure = if leads {
                failure.hint("the address leads elsewhere: give the one that it leads to")
            } else {
                failure
            };
            failure.hint(anyway)
        }
        Answer::Welcome(_) | Answer::NotAuthenticated => {
            let given = !matches!(cluster.credentials(), Credentials::None);
            let what = if given { "refuses these credentials" } else { "asks for credentials, and none were given" };
            Failure::new(Exit::NotPermitted, format!("the manager at {} answers, but it {what}", cluster.url))
                .hint(format!("give the right ones: oscar cluster add {name} {} --user USER", cluster.url))
                .hint(anyway)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain() {
        assert_eq!(parse_url("https://o.example/oscar/").as_deref(), Ok("https://o.example/oscar"));
        for wrong in ["o.example", "ftp://o", "https://u:p@o", "https://o/?a=b", "file:///x"] {
            assert_eq!(parse_url(wrong).expect_err(wrong).exit, Exit::Usage);
        }
        let failure = parse_url("https://u:hunter2@o").expect_err("credentials");
        assert!(!format!("{failure:?}").contains("hunter2"));
    }
}
