//! Which manager a command talks to, and how it proves who it is there.
//!
//! In this order: the cluster that a flag or `OSCAR_CLUSTER` names; `OSCAR_ENDPOINT` with its
//! credentials; the default of `clusters.toml`; a manager that runs on this machine.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use oscar_api::client::{Client, Credentials, Transport};
use oscar_model::secret::Secret;

use super::Session;
use super::clusters::file::{Cluster, Clusters};
use super::exit::{ADD_AGAIN, Exit, Failure};
use super::places::{ADMIN_USER, PASSWORD_FILE, Places, URL_FILE, variable};

/// How long an ordinary call may take; creating a service takes other managers several seconds.
pub(super) const ORDINARY: Duration = Duration::from_mins(1);

/// One manager, with what is needed to talk to it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// How the user knows it.
    pub(super) label: String,
    pub(super) url: String,
    pub(super) credentials: Credentials,
    pub(super) insecure: bool,
    /// PEM.
    pub(super) ca: Option<Vec<u8>>,
}

impl Target {
    pub(super) fn configured(name: &str, cluster: &Cluster) -> Result<Self, Failure> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| {
                Failure::io(format!("the certificate authority {} cannot be read", path.display()), &error)
                    .hint(format!("add the cluster again: oscar cluster add {name} {} --ca FILE", cluster.url))
            })
        };
        Ok(Self {
            label: name.to_owned(),
            url: cluster.url.clone(),
            credentials: cluster.credentials(),
            insecure: cluster.insecure,
            ca: cluster.ca.as_ref().map(read).transpose()?,
        })
    }

    pub(super) fn client(&self, timeout: Duration) -> Result<Client, Failure> {
        let transport = Transport { verify_tls: !self.insecure, ca_certificate: self.ca.clone(), timeout };
        Ok(Client::new(&self.url, self.credentials.clone(), &transport)?)
    }

    /// For messages: the name, and the address when the name is not enough.
    pub(super) fn title(&self) -> String {
        if self.label == self.url { self.url.clone() } else { format!("{} ({})", self.label, self.url) }
    }
}

/// The manager that a command without other orders talks to.
pub(super) fn current(session: &Session) -> Result<Target, Failure> {
    let named = session.cluster.clone().or_else(|| variable("OSCAR_CLUSTER"));
    if let Some(name) = named {
        return by_name(session, &name);
    }
    if let Some(target) = from_env() {
        return Ok(target);
    }
    let clusters = Clusters::load(&session.places.clusters_file())?;
    if let Some(name) = &clusters.default {
        return Target::configured(name, clusters.get(name)?);
    }
    if !clusters.clusters.is_empty() {
        return Err(Failure::new(Exit::Usage, "several clusters are configured, and none is the default")
            .hint("choose with `--cluster NAME`, or for good with `oscar cluster use NAME`"));
    }
    local(&session.places)?.ok_or_else(|| {
        // One that ended is no mistake in the command.
        let ran = session.places.data.join(URL_FILE).exists();
        if ran {
            not_running().hint("or use another one: oscar cluster add NAME URL")
        } else {
            Failure::new(Exit::Usage, "no cluster is configured, and no manager runs on this machine")
                .hint("add one: oscar cluster add NAME URL")
                .hint("or start one here: oscar serve")
        }
    })
}

/// What the manager of this machine is called, unless a cluster of that name was added.
const LOCAL: &str = "local";

pub(super) fn by_name(session: &Session, name: &str) -> Result<Target, Failure> {
    let clusters = Clusters::load(&session.places.clusters_file())?;
    if name == LOCAL && !clusters.clusters.contains_key(name) {
        return local(&session.places)?.ok_or_else(not_running);
    }
    Target::configured(name, clusters.get(name)?)
}

fn not_running() -> Failure {
    Failure::new(Exit::Unreachable, "the manager of this machine does not run").hint("start it: oscar serve")
}

/// Credentials that variables gave are not mended by adding a cluster again.
pub(super) fn say_which_credentials(session: &Session, failure: &mut Failure) {
    let named = session.cluster.is_some() || variable("OSCAR_CLUSTER").is_some();
    let in_use = match (variable("OSCAR_TOKEN"), variable("OSCAR_PASSWORD")) {
        (Some(_), _) => "OSCAR_TOKEN",
        (None, Some(_)) => "OSCAR_USERNAME and OSCAR_PASSWORD",
        (None, None) if variable("OSCAR_ENDPOINT").is_some() => "OSCAR_TOKEN, or OSCAR_USERNAME and OSCAR_PASSWORD",
        (None, None) => return,
    };
    // Only these two targets listen to them.
    let listens = variable("OSCAR_ENDPOINT").is_some()
        || Clusters::load(&session.places.clusters_file()).is_ok_and(|clusters| clusters.clusters.is_empty());
    if !named && listens {
        for hint in failure.hints.iter_mut().filter(|hint| *hint == ADD_AGAIN) {
            *hint = format!("the manager does not know what the variables say: look at {in_use}");
        }
    }
}

/// A manager that is named by variables, as in a pipeline.
pub(super) fn from_env() -> Option<Target> {
    let url = variable("OSCAR_ENDPOINT")?.trim_end_matches('/').to_owned();
    let credentials = credentials_from_env().unwrap_or(Credentials::None);
    Some(Target { label: url.clone(), url, credentials, insecure: false, ca: None })
}

fn credentials_from_env() -> Option<Credentials> {
    if let Some(token) = variable("OSCAR_TOKEN") {
        return Some(Credentials::Bearer(Secret::new(token)));
    }
    let password = Secret::new(variable("OSCAR_PASSWORD")?);
    Some(Credentials::Basic { user: variable("OSCAR_USERNAME").unwrap_or_else(|| ADMIN_USER.to_owned()), password })
}

/// The manager that runs on this machine; none when it left no address.
///
/// One that was killed left its address too, and somebody else may listen there by now: the
/// password of the administrator goes only to the manager that holds the data folder.
pub(super) fn local(places: &Places) -> Result<Option<Target>, Failure> {
    let read = |name: &str| match fs::read_to_string(places.data.join(name)) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(format!("{} cannot be read", places.data.join(name).display()), &error)
            .hint("does the manager of this machine belong to another user?")),
    };
    let Some(url) = read(URL_FILE)? else { return Ok(None) };
    if !places.is_manager_running() || !places.is_url_of_running() {
        return Ok(None);
    }
    // One that was started with a password of its own has left none, or an old one.
    let credentials = match (credentials_from_env(), read(PASSWORD_FILE)?) {
        (Some(credentials), _) => credentials,
        (None, Some(password)) => Credentials::Basic { user: ADMIN_USER.to_owned(), password: Secret::new(password) },
        (None, None) => Credentials::None,
    };
    Ok(Some(Target { label: LOCAL.to_owned(), url, credentials, insecure: false, ca: None }))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;
    use crate::cli::places::LOCK_FILE;

    fn mk_places(folder: &tempfile::TempDir) -> Places {
        Places { config: folder.path().join("config"), data: folder.path().to_owned() }
    }

    /// As a manager does: the folder first, then the address.
    fn mk_manager(places: &Places) -> File {
        let lock = File::create(places.data.join(LOCK_FILE)).expect("made");
        lock.lock().expect("locked");
        fs::write(places.data.join(PASSWORD_FILE), "hunter2\n").expect("written");
        fs::write(places.data.join(URL_FILE), "http://127.0.0.1:8080\n").expect("written");
        lock
    }

    #[test]
    fn a_manager_of_this_machine_is_found_by_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = mk_places(&folder);
        assert!(local(&places).expect("readable").is_none());
        let _lock = mk_manager(&places);
        let target = local(&places).expect("readable").expect("found");
        assert_eq!(target.url, "http://127.0.0.1:8080");
        let Credentials::Basic { user, password } = &target.credentials else { panic!("a password was left") };
        assert_eq!((user.as_str(), password.expose()), (ADMIN_USER, "hunter2"));
        assert!(!format!("{target:?}").contains("hunter2"));
    }

    #[test]
    fn the_address_of_a_manager_that_is_gone_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = mk_places(&folder);
        drop(mk_manager(&places));
        assert!(local(&places).expect("readable").is_none(), "it was killed");

        let lock = File::create(places.data.join(LOCK_FILE)).expect("made");
        lock.lock().expect("locked");
        let later = SystemTime::now() + Duration::from_secs(5);
        lock.set_modified(later).expect("touched");
        assert!(local(&places).expect("readable").is_none(), "the next one has not said yet where it listens");
    }
}
