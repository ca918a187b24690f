//! The process of one attempt of a job: small, quick to start, and on its own.

use std::path::Path;
use std::process::ExitCode;

/// Does the attempt in `folder`. What is wrong with the supervisor itself goes to standard error.
pub fn supervise(folder: &Path) -> ExitCode {
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread: it waits for a script and for a network, and there is one such process per job.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(oscar_local::attempt::supervise(folder)),
        Err(error) => Err(format!("no runtime can be started: {error}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("error: {sentence}");
            ExitCode::FAILURE
        }
    }
}
