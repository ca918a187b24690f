//! The project's own tools: `cargo xtask test`, `tidy`, `generate`, `simulate`, `long`.
//!
//! Few dependencies on purpose: this is built before anything else is tested.

mod command;
mod files;
mod simulate;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test                 every test, with a summary of suites, counters and skips
cargo xtask test quick           the same without the parts that take long to start
cargo xtask test --write-floors  every test, then tests-floor.toml from the numbers seen
cargo xtask long                 what is marked as long, properties with new cases, stories (hours)
cargo xtask simulate [--seeds N] [--from S]  stories of federations from N seeds (100000), with optimisation
cargo xtask tidy                 what the compiler cannot check: layers, links, generated files
cargo xtask generate             write the generated files that tidy compares";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match words.as_slice() {
        ["test", options @ ..] => match test::Options::parse(options) {
            Ok(options) => test::run(&options),
            Err(unknown) => return misused(&unknown),
        },
        ["simulate", options @ ..] => match simulate::Options::parse(options) {
            Ok(options) => simulate::run(&options),
            Err(unknown) => return misused(&unknown),
        },
        ["long"] => test::run_long(),
        ["tidy"] => tidy::run(),
        ["generate"] => tidy::generate(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            true
        }
        [unknown, ..] => return misused(unknown),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn misused(word: &str) -> ExitCode {
    eprintln!("xtask does not know `{word}`\n\n{USAGE}");
    ExitCode::from(2)
}
