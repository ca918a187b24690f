//! `oscar serve` and `oscar config`: from arguments to a running manager.

mod announce;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use oscar_engine::federate::Tended;
use oscar_model::secret::Secret;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{self, URL_FILE};
use crate::config::{
    ConfigError, Derived, Effective, Password, Sources, World, default_data_folder, show_json, show_table, unused,
};
use crate::wiring::{self, Addresses, Ground, StartError, StoreAddresses};
use crate::{http, telemetry};

/// The settings that have a flag; every other one is set in the environment or the file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder of the local world
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one and prints it
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address under which others reach this manager
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Name of this cluster for people and peers
    #[arg(long, value_name = "ID")]
    cluster_id: Option<String>,
    /// Where services live: auto, local or kubernetes
    #[arg(long, value_name = "WORLD")]
    world: Option<String>,
    /// Another address for the object store to listen on; else it shares the manager's
    #[arg(long, value_name = "HOST:PORT")]
    s3_listen: Option<String>,
    /// Address under which others reach the object store
    #[arg(long, value_name = "URL")]
    s3_url: Option<String>,
    /// File of settings (YAML) [env: `OSCAR_CONFIG`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The settings among [`ServeArgs`].
pub const FLAGS: [&str; 7] = ["data", "listen", "public_url", "cluster_id", "world", "s3_listen", "s3_url"];

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings in force and where each came from; secrets are hidden
    Show(ServeArgs),
}

impl ServeArgs {
    /// The settings with their faults.
    fn gather(&self) -> (Effective, Vec<String>) {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let given = [
            text(&self.data),
            self.listen.clone(),
            self.public_url.clone(),
            self.cluster_id.clone(),
            self.world.clone(),
            self.s3_listen.clone(),
            self.s3_url.clone(),
        ];
        let flags: BTreeMap<_, _> =
            FLAGS.into_iter().zip(given).filter_map(|(key, value)| Some((key, value?))).collect();
        Effective::gather(&Sources::of_process(flags, self.config.clone()))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub fn run_config(command: &ConfigCommand, json: bool) -> ExitCode {
    let ConfigCommand::Show(args) = command;
    let (settings, faults) = args.gather();
    let derived = Derived::of(&settings, &variable);
    if json {
        cli::write_out(&format!("{:#}\n", show_json(&settings, &derived, &faults)));
    } else {
        cli::write_out(&show_table(&settings, &derived));
        if let unused @ [_, ..] = unused(&variable).as_slice() {
            cli::write_out(&format!("set without effect here: {}\n", unused.join(", ")));
        }
    }
    match (faults.is_empty(), json) {
        (true, _) => cli::end(),
        (false, true) => ExitCode::FAILURE,
        (false, false) => fail(&ConfigError(faults), "a manager does not start before these are corrected"),
    }
}

/// Runs a manager until it is told to stop.
pub async fn run(args: &ServeArgs) -> ExitCode {
    let (settings, faults) = args.gather();
    if !faults.is_empty() {
        let hint = "`oscar config show`, with the same flags, prints every setting and where it comes from";
        return fail(&ConfigError(faults), hint);
    }
    telemetry::start(settings.text("log"), settings.text("log_format"));
    // The one TLS provider of the process; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for name in unused(&variable) {
        tracing::warn!("{name} is set, but has no effect: this manager has no such part");
    }
    match start(&settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, "`oscar doctor` looks for what is wrong on this machine"),
    }
}

fn fail(error: &dyn std::fmt::Display, hint: &str) -> ExitCode {
    eprintln!("error: {error}\nhint: {hint}");
    ExitCode::FAILURE
}

async fn start(settings: &Effective) -> Result<(), StartError> {
    // Before anything can be stopped half-way, the signals are ours.
    let stop = stop_signal()?;
    let derived = Derived::of(settings, &variable);
    let listener = listen(&derived.listen).await?;
    let address = listener.local_addr().map_err(|cause| io_error("asking for the port", cause))?;
    let ground = tokio::select! {
        ground = Ground::prepare(settings, &derived) => ground?,
        () = stopped(&stop) => return Ok(()),
    };
    let password = derived.password(settings);
    let secret = admin_password(settings, &password)?;
    let addresses = Addresses {
        public: public_url(settings, address),
        here: format!("http://{}", reachable(address)),
        bound: address,
    };
    let objects = objects(settings, &addresses).await?;
    let work = ground.work(settings, &derived, objects.addresses).await?;
    let app = wiring::app(settings, &derived, &ground, secret, &addresses, work.as_ref()).await?;
    if let Some(work) = &work {
        let changed = app.manager.tick_own_store().await;
        let (changed, troubles) = changed.map_err(|failure| StartError::Objects(failure.to_string()))?;
        for trouble in troubles {
            tracing::warn!("a definition cannot be given the new address of the object store: {trouble}");
        }
        if changed > 0 {
            tracing::info!(services = changed, "definitions name the object store at its new address");
        }
        work.begin(&app.facts.instance_id).await?;
    }
    announce(settings, &derived, &password, &addresses, &app.facts.instance_id)?;
    ground.spawn_ticks();
    let store = work.as_ref().and_then(|work| work.objects.service());
    if let (Some(listener), Some(store)) = (objects.listener, &store) {
        tokio::spawn(http::serve(listener, http::store_only(store.clone()), stopped_owned(&stop)));
    }
    let service = http::with_store(http::service(&app), store);
    let interval = Duration::from_secs(settings.count("reconcile_interval"));
    let served = tokio::select! {
        served = http::serve(listener, service, stopped(&stop)) => served,
        () = keep_federations(&app, &ground, interval) => Ok(()),
    };
    if let Some(work) = &work {
        work.close().await;
    }
    ground.close().await;
    if derived.world == World::Local {
        // Clients of this machine should not call a manager that is gone.
        let _ = std::fs::remove_file(derived.data.join(URL_FILE));
    }
    served.map_err(|cause| io_error("serving", cause))
}

/// Looks after federations until the process ends: at the start, at every tick, and whenever
/// something was changed.
async fn keep_federations(app: &http::App, ground: &Ground, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = app.manager.federator().nudged() => {}
        }
        if !ground.is_in_charge() {
            continue;
        }
        match app.manager.tick_federations().await {
            Ok(Tended { open: 0, .. }) => {}
            Ok(Tended { open, failures }) => {
                tracing::debug!(open, "members are not as they should be yet");
                for (service, failure) in failures {
                    tracing::warn!(%service, "a federation cannot be looked after: {failure}");
                }
            }
            Err(failure) => tracing::warn!("federations cannot be looked after: {failure}"),
        }
    }
}

fn io_error(what: &str, cause: std::io::Error) -> StartError {
    StartError::File { what: what.to_owned(), cause }
}

type Stop = tokio::sync::watch::Receiver<bool>;

/// Becomes true at the first SIGTERM or SIGINT; a second one ends the process at once.
fn stop_signal() -> Result<Stop, StartError> {
    let handler = |kind| signal(kind).map_err(|cause| io_error("listening for signals", cause));
    let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
    let (sender, receiver) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            if again {
                std::process::exit(130);
            }
            tracing::info!("stopping; once more ends at once");
            let _ = sender.send(true);
        }
    });
    Ok(receiver)
}

async fn stopped(stop: &Stop) {
    let mut stop = stop.clone();
    // The sender lives as long as the process.
    let _ = stop.wait_for(|stopped| *stopped).await;
}

fn stopped_owned(stop: &Stop) -> impl Future<Output = ()> + Send + 'static {
    let stop = stop.clone();
    async move { stopped(&stop).await }
}

/// Where the object store is served: with everything else, or on a listener of its own.
struct Objects {
    addresses: StoreAddresses,
    listener: Option<TcpListener>,
}

async fn objects(settings: &Effective, addresses: &Addresses) -> Result<Objects, StartError> {
    let given = |url: Option<String>| url.map(|url| url.trim_end_matches('/').to_owned());
    let url = given(settings.given("s3_url"));
    let Some(text) = settings.given("s3_listen") else {
        let public = url.unwrap_or_else(|| addresses.public.clone());
        return Ok(Objects { addresses: StoreAddresses { public, here: addresses.here.clone() }, listener: None });
    };
    let listener = listen(&text).await?;
    let bound = listener.local_addr().map_err(|cause| io_error("asking for the port", cause))?;
    let public = url.unwrap_or_else(|| format!("http://{bound}"));
    let here = format!("http://{}", reachable(bound));
    Ok(Objects { addresses: StoreAddresses { public, here }, listener: Some(listener) })
}

async fn listen(text: &str) -> Result<TcpListener, StartError> {
    let what = || format!("listening on {text} (another address: --listen 127.0.0.1:0 takes a free port)");
    let fail = |cause| StartError::File { what: what(), cause };
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(fail)?.collect();
    TcpListener::bind(addresses.as_slice()).await.map_err(fail)
}

/// The password of the administrator: given, kept from an earlier start, or made now.
fn admin_password(settings: &Effective, password: &Password) -> Result<Secret, StartError> {
    let fail = |path: &Path, cause| io_error(&format!("keeping the password in {}", path.display()), cause);
    match password {
        Password::Given => Ok(settings.secret("password")),
        Password::Missing => {
            Err(io_error("OSCAR_PASSWORD is not set", std::io::Error::other("it is required on Kubernetes")))
        }
        Password::Kept(path) => {
            let text = read_private(path).map_err(|cause| fail(path, cause))?;
            Ok(Secret::new(text.trim()))
        }
        Password::ToBeMade(path) => {
            let made = uuid::Uuid::new_v4().simple().to_string();
            write_private(path, &made).map_err(|cause| fail(path, cause))?;
            Ok(Secret::new(made))
        }
    }
}

/// A secret that others could read is used all the same, because somebody relies on it; but its
/// rights are narrowed, and the operator is told.
pub(crate) fn read_private(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let text = std::fs::read_to_string(path)?;
    if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        tracing::warn!(?path, "a secret was readable by others; its rights were narrowed");
    }
    Ok(text)
}

/// Written beside and renamed, so that a crash leaves no half of it.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

/// Whoever adds a path begins it with a slash.
fn public_url(settings: &Effective, bound: SocketAddr) -> String {
    let given = settings.given("public_url").map(|url| url.trim_end_matches('/').to_owned());
    given.unwrap_or_else(|| format!("http://{bound}"))
}

/// An address to connect to: a listener on all addresses listens on this one, too.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let loopback = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        other => other,
    };
    SocketAddr::new(loopback, bound.port())
}

/// One line on standard output for programs; the lines to paste for people on standard error.
fn announce(
    settings: &Effective,
    derived: &Derived,
    password: &Password,
    Addresses { public, here, bound }: &Addresses,
    instance: &str,
) -> Result<(), StartError> {
    let cluster = settings.text("cluster_id");
    if derived.world == World::Local {
        let path = derived.data.join(URL_FILE);
        // The way around through a proxy may need what this machine does not have.
        write_private(&path, here).map_err(|cause| io_error(&format!("writing {}", path.display()), cause))?;
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let data = whole(&derived.data);
        let password = match password {
            Password::Kept(path) | Password::ToBeMade(path) => Password::Kept(whole(path)),
            other => other.clone(),
        };
        let newcomer = announce::Newcomer {
            data: &data,
            is_default_folder: data == default_data_folder(&variable),
            knows_clusters: cli::knows_clusters(),
            username: settings.text("username"),
            password: &password,
            url: here,
        };
        eprintln!("OSCAR manager of cluster \"{cluster}\"; everything it keeps is in {}", data.display());
        newcomer.lines().iter().for_each(|line| eprintln!("{line}"));
    }
    let mut out = std::io::stdout();
    let line = format!("ready {public} cluster={cluster} instance={instance} listening={bound}");
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(|cause| io_error("writing to standard output", cause))
}
