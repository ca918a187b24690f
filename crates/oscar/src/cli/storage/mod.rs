//! `oscar put`, `get`, `ls`, `rm`: objects, over S3 with the caller's own keys.

mod body;
mod download;
mod failure;
mod list;
mod parts;
mod place;
mod store;
mod upload;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::{Session, buckets, progress, screen};
use place::Place;
use store::Store;

#[derive(Debug, Args)]
pub struct PutArgs {
    /// What to upload.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// BUCKET/KEY for one file; BUCKET or BUCKET/FOLDER/ keeps the names.
    #[arg(value_name = "PLACE")]
    place: String,
    /// Folders too, with everything below them.
    #[arg(long, short)]
    recursive: bool,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// BUCKET/KEY
    #[arg(value_name = "PLACE")]
    place: String,
    /// The file or folder to write to; `-` is the standard output. Else the object's own name, here.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct LsArgs {
    /// BUCKET or BUCKET/PREFIX; without it, the buckets.
    #[arg(value_name = "PLACE")]
    place: Option<String>,
    /// Everything below, and not only the folders.
    #[arg(long, short)]
    recursive: bool,
}

#[derive(Debug, Args)]
pub struct RmArgs {
    /// BUCKET/KEY of each object.
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<String>,
}

/// What is left out of an upload is told so often, then counted.
const MOST_TOLD: usize = 10;

pub(super) async fn put(session: &Session, args: PutArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.place)?;
    let plan = upload::plan(&args.files, &place, args.recursive)?;
    for (path, why) in plan.left_out.iter().take(MOST_TOLD) {
        session.screen.warning(&format!("{} is left out: {why}", screen::printable(&path.display().to_string())));
    }
    if plan.left_out.len() > MOST_TOLD {
        session.screen.warning(&format!("{} more are left out", plan.left_out.len() - MOST_TOLD));
    }
    let store = Store::of(session).await?;
    let mut rows = Vec::new();
    for (file, key) in plan.wanted {
        let bytes = upload::run(&store, &file, &place.bucket, &key).await?;
        if session.screen.json {
            rows.push(json!({"file": file.display().to_string(), "bucket": place.bucket, "key": key, "bytes": bytes}));
        } else {
            screen::line(&format!("{}/{}", place.bucket, screen::printable(&key)));
        }
    }
    if session.screen.json {
        screen::value(&Value::Array(rows));
    }
    Ok(())
}

pub(super) async fn get(session: &Session, args: GetArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.place)?;
    let key = place.object()?;
    if args.file.as_ref().is_some_and(|file| file.as_os_str() == "-") {
        let store = Store::of(session).await?;
        return download::to_output(&store, &place.bucket, key).await;
    }
    let file = download::destination(key, args.file)?;
    let store = Store::of(session).await?;
    let bytes = download::run(&store, &place.bucket, key, &file).await?;
    if session.screen.json {
        screen::value(&json!({"bucket": place.bucket, "key": key, "file": file.display().to_string(), "bytes": bytes}));
    } else {
        screen::line(&screen::printable(&file.display().to_string()));
    }
    Ok(())
}

pub(super) async fn ls(session: &Session, args: LsArgs) -> Result<(), Failure> {
    let Some(place) = args.place else { return buckets::list(session).await };
    let place = Place::parse(&place)?;
    let store = Store::of(session).await?;
    let found = list::run(&store, &place, args.recursive);
    let found = progress::during(&format!("listing {}", place.bucket), found).await?;
    if session.screen.json {
        screen::value(&found.to_json());
    } else if found.is_empty() {
        screen::note(&format!("nothing is below {}/{}", place.bucket, screen::printable(&place.key)));
    } else {
        screen::line(&found.table().render(session.screen.paint, None, 2));
    }
    Ok(())
}

pub(super) async fn rm(session: &Session, args: RmArgs) -> Result<(), Failure> {
    let places: Vec<_> = args.places.iter().map(|place| Place::parse(place)).collect::<Result<_, _>>()?;
    places.iter().try_for_each(|place| place.object().map(drop))?;
    let store = Store::of(session).await?;
    let (mut first, mut rows) = (None::<Exit>, Vec::new());
    for Place { bucket, key } in &places {
        let outcome = progress::during(&format!("deleting {bucket}/{key}"), store.delete(bucket, key)).await;
        let mut row = json!({"bucket": bucket, "key": key, "action": "delete", "done": outcome.is_ok()});
        match outcome {
            Ok(()) if session.screen.json => {}
            Ok(()) => screen::line(&format!("deleted {bucket}/{}", screen::printable(key))),
            Err(failure) => {
                first.get_or_insert(failure.exit);
                if session.screen.json {
                    row["failure"] = failure.to_json();
                } else {
                    session.screen.failure(&failure);
                }
            }
        }
        rows.push(row);
    }
    if session.screen.json {
        screen::value(&Value::Array(rows));
    }
    first.map_or(Ok(()), |exit| Err(Failure::told(exit)))
}
