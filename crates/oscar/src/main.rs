//! The one program: server, command line, and what jobs need.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use oscar::cli::{self, ClientCommand, Global, Shell};
use oscar::demo::{self, DemoArgs};
use oscar::serve::{self, ConfigCommand, ServeArgs};

/// Serverless file processing, federated across clusters.
#[derive(Parser)]
#[command(name = "oscar", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a manager; without any setting, on this machine alone.
    Serve(ServeArgs),
    #[command(flatten)]
    Client(ClientCommand),
    /// Show a federation of three clusters on this machine, step by step.
    Demo(DemoArgs),
    /// Look at the settings of a manager.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completion script of a shell.
    Completions { shell: Shell },
    /// Print the OpenAPI document.
    #[command(hide = true)]
    Openapi,
    /// Print every route of the API.
    #[command(hide = true)]
    Routes,
    /// Do one attempt of a job: the manager starts it so. Its name is like no other, because clap
    /// offers hidden ones too to whoever mistyped.
    #[command(name = "of-an-attempt", hide = true)]
    Supervise { folder: PathBuf },
    /// Print every setting as a table for the documentation.
    #[command(hide = true)]
    Settings,
}

/// Commands that talk to no manager: which one is none of their business.
const WITHOUT_CLUSTER: [&str; 4] = ["serve", "demo", "config", "completions"];

/// The whole command line, without `--cluster` in the help of those that have no use for it.
fn command_line() -> clap::Command {
    let hidden = || Arg::new("cluster").long("cluster").value_name("NAME").hide(true);
    let refused = || hidden().value_parser(|_: &str| Err::<String, _>("this command talks to no cluster"));
    WITHOUT_CLUSTER
        .into_iter()
        .fold(Arguments::command(), |command, name| command.mut_subcommand(name, |command| command.arg(refused())))
}

fn main() -> ExitCode {
    let Arguments { global, command } = parse();
    match command {
        Command::Serve(args) => block_on(serve::run(&args)),
        Command::Client(command) => block_on(cli::run(command, &global)),
        Command::Demo(args) => block_on(demo::run(&args, global.json)),
        Command::Config(command) => serve::run_config(&command, global.json),
        Command::Completions { shell } => {
            cli::completions(shell, command_line());
            cli::end()
        }
        Command::Supervise { folder } => oscar::supervise(&folder),
        Command::Openapi => {
            cli::write_out(&oscar::http::openapi_json());
            cli::end()
        }
        Command::Settings => {
            cli::write_out(&oscar::config::settings_table(&serve::FLAGS));
            cli::end()
        }
        Command::Routes => {
            let line = |route: &oscar::http::Route| format!("{} {}\n", route.method.to_ascii_uppercase(), route.path);
            cli::write_out(&oscar::http::ROUTES.iter().map(line).collect::<String>());
            cli::end()
        }
    }
}

fn parse() -> Arguments {
    let mut command = command_line();
    let matches = command.get_matches_mut();
    // Before the name of the command it is read as everybody's.
    let name = matches.subcommand_name().unwrap_or_default();
    if WITHOUT_CLUSTER.contains(&name) && matches.get_one::<String>("cluster").is_some() {
        let sentence = format!("`--cluster` means nothing to `oscar {name}`, which talks to no cluster");
        command.error(ErrorKind::ArgumentConflict, sentence).exit();
    }
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// With threads for everything that goes on at once; what does not need them starts none.
fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            eprintln!("error: no threads can be started: {error}");
            ExitCode::FAILURE
        }
    }
}
