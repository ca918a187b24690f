//! The command line as a client of any OSCAR manager, ours or another.
//!
//! Everything here goes through the public API. What a person reads goes to the standard
//! output, or as JSON with `--json`; warnings, questions and progress go to the standard error.
//! No command prints a credential unless `--show-secrets` asks for it.

mod apply;
mod buckets;
mod clusters;
mod definition;
mod diff;
pub mod doctor;
mod exit;
mod federation;
mod input;
mod jobs;
mod places;
mod probe;
mod progress;
mod run;
mod screen;
mod service;
mod status;
mod storage;
mod stranger;
mod table;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use clap_complete::Shell;
pub use exit::{Exit, Failure};
pub use places::{ADMIN_USER, PASSWORD_FILE, URL_FILE};
pub use screen::{end, write_out};

use places::Places;
use screen::Screen;

/// What every command of the client understands.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// The configured cluster to talk to [env: `OSCAR_CLUSTER`]
    // The variable is read by hand: it is a default, where the flag is an order (see `apply`).
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Print without colours, as does the variable `NO_COLOR`.
    #[arg(long, global = true)]
    pub no_color: bool,
}

#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Create or change services so that they are as files describe them.
    Apply(apply::ApplyArgs),
    /// Look at services, edit and delete them.
    #[command(subcommand, visible_alias = "services")]
    Service(service::ServiceCommand),
    /// Run a service and wait for its answer.
    Run(run::RunArgs),
    /// Start jobs, look at them and at what they say, and end them.
    #[command(subcommand, visible_alias = "jobs")]
    Job(jobs::JobCommand),
    /// The buckets of the object store, and who may use them.
    #[command(subcommand, visible_alias = "buckets")]
    Bucket(buckets::BucketCommand),
    /// Upload files to the object store.
    Put(storage::PutArgs),
    /// Download an object.
    Get(storage::GetArgs),
    /// List buckets, or the objects of one.
    Ls(storage::LsArgs),
    /// Delete objects.
    Rm(storage::RmArgs),
    /// Services that are replicated on several clusters.
    #[command(subcommand, visible_alias = "federations")]
    Federation(federation::FederationCommand),
    /// Show what was done on other clusters in your name.
    Audit(federation::AuditArgs),
    /// Show the nodes of the cluster, their load, and what runs.
    Status,
    /// The managers that this command line knows.
    #[command(subcommand, visible_alias = "clusters")]
    Cluster(clusters::ClusterCommand),
    /// Look for what is wrong with this machine, its settings and its clusters.
    Doctor,
}

/// Runs one command to its end. What went wrong has been told when this returns.
pub async fn run(command: ClientCommand, global: &Global) -> ExitCode {
    let screen = Screen::new(global);
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let session = Session { screen, places: Places::from_env(), cluster: global.cluster.clone() };
    let outcome = match command {
        ClientCommand::Apply(args) => apply::run(&session, args).await,
        ClientCommand::Service(command) => service::run(&session, command).await,
        ClientCommand::Run(args) => run::run(&session, args).await,
        ClientCommand::Job(command) => jobs::run(&session, command).await,
        ClientCommand::Bucket(command) => buckets::run(&session, command).await,
        ClientCommand::Put(args) => storage::put(&session, args).await,
        ClientCommand::Get(args) => storage::get(&session, args).await,
        ClientCommand::Ls(args) => storage::ls(&session, args).await,
        ClientCommand::Rm(args) => storage::rm(&session, args).await,
        ClientCommand::Federation(command) => federation::run(&session, command).await,
        ClientCommand::Audit(args) => federation::audit(&session, args).await,
        ClientCommand::Status => status::run(&session).await,
        ClientCommand::Cluster(command) => clusters::run(&session, command).await,
        ClientCommand::Doctor => doctor::run(&session).await,
    };
    match outcome.and_then(|()| screen::unwritten()) {
        Ok(()) => Exit::Done.into(),
        Err(mut failure) => {
            target::say_which_credentials(&session, &mut failure);
            session.screen.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Whether there are clusters of which one is asked before the manager of this machine.
pub fn knows_clusters() -> bool {
    let clusters = clusters::file::Clusters::load(&Places::from_env().clusters_file());
    clusters.is_ok_and(|clusters| !clusters.clusters.is_empty())
}

/// Prints the completion script of a shell for the whole command line.
pub fn completions(shell: Shell, mut command: clap::Command) {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    screen::write_out(&String::from_utf8_lossy(&script));
}

/// What a command works with.
struct Session {
    screen: Screen,
    places: Places,
    /// The cluster that was ordered by a flag.
    cluster: Option<String>,
}
