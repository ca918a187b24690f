//! Says which executors work on this machine and runs a script in each of them:
//! `cargo run -p oscar-exec --example isolation -- script.sh`.
//! `OSCAR_BWRAP` and `OSCAR_ENGINE` name programs that are not on the path, `OSCAR_IMAGE` an image.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use oscar_exec::{Kind, Limits, Network, Run, Settings, choose, probe};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = |name: &str| std::env::var_os(name).map(Into::into);
    let settings =
        Settings { bubblewrap: program("OSCAR_BWRAP"), engine: program("OSCAR_ENGINE"), ..Settings::default() };
    let found = probe(Kind::Auto, &settings).await;
    for way in &found.ways {
        match &way.result {
            Ok(description) => {
                println!("{}: works, with {}; {}", way.kind, description.with, description.limits);
                for weakness in &description.weaknesses {
                    println!("  but {weakness}");
                }
            }
            Err(why) => println!("{}: does not work: {why}", way.kind),
        }
    }
    println!("auto takes {}", found.chosen?.describe().kind);
    let Some(script) = std::env::args_os().nth(1) else { return Ok(()) };
    for kind in found.ways.iter().filter(|way| way.result.is_ok()).map(|way| way.kind) {
        let executor = choose(kind, &settings).await?;
        let folder = tempfile::tempdir()?;
        let run = Run {
            script: std::path::absolute(&script)?,
            input_dir: folder.path().join("input"),
            output_dir: folder.path().join("output"),
            env: BTreeMap::new(),
            image: std::env::var("OSCAR_IMAGE").unwrap_or_default(),
            limits: Limits { time: Some(Duration::from_mins(1)), ..Limits::default() },
            network: Network::Host,
            hidden: Vec::new(),
            gpu: false,
        };
        std::fs::create_dir(&run.input_dir)?;
        std::fs::create_dir(&run.output_dir)?;
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(8);
        println!("\n{kind}:");
        let printing = tokio::spawn(async move {
            while let Some(piece) = receiver.recv().await {
                print!("{}", String::from_utf8_lossy(&piece));
            }
        });
        let started = Instant::now();
        let ended = executor.run(&run, None, sender, std::future::pending()).await;
        printing.await?;
        match ended {
            Ok(ended) => println!("-> {ended} ({} ms)", started.elapsed().as_millis()),
            Err(error) => println!("-> {error}"),
        }
    }
    Ok(())
}
