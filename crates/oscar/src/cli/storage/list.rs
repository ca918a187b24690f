//! What is in a bucket.

use rusty_s3::S3Action as _;
use rusty_s3::actions::ListObjectsV2;
use serde_json::{Value, json};

use super::failure::text_of;
use super::place::Place;
use super::store::{SIGNATURE, Store};
use crate::cli::exit::{Exit, Failure};
use crate::cli::screen::{Style, one_line, printable};
use crate::cli::status::bytes;
use crate::cli::table::Table;

#[derive(Debug, Default)]
pub(super) struct Found {
    folders: Vec<String>,
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    key: String,
    size: u64,
    modified: String,
    etag: String,
}

pub(super) async fn run(store: &Store, place: &Place, recursive: bool) -> Result<Found, Failure> {
    let bucket = store.bucket(&place.bucket)?;
    let shown = format!("{}/{}", place.bucket, place.key);
    let (mut found, mut after) = (Found::default(), None::<String>);
    loop {
        let make = || {
            let mut action = ListObjectsV2::new(&bucket, Some(&store.keys));
            action.with_prefix(place.key.as_str());
            if !recursive {
                action.with_delimiter("/");
            }
            if let Some(after) = &after {
                action.with_continuation_token(after.as_str());
            }
            Ok(store.http.get(action.sign(SIGNATURE)))
        };
        let strange =
            || Failure::new(Exit::Failed, format!("{shown}: the object store gave an answer that is not S3's"));
        let text = text_of(store.retry(&shown, make).await?).await.map_err(|_| strange())?;
        let page = ListObjectsV2::parse_response(&text).map_err(|_| strange())?;
        found.folders.extend(page.common_prefixes.into_iter().map(|folder| folder.prefix));
        found.objects.extend(page.contents.into_iter().map(|object| Object {
            key: object.key,
            size: object.size.unwrap_or(0),
            modified: object.last_modified.unwrap_or_default(),
            etag: object.etag.unwrap_or_default().trim_matches('"').to_owned(),
        }));
        match page.next_continuation_token {
            // The same page again would never end.
            Some(next) if after.as_ref() != Some(&next) => after = Some(next),
            _ => return Ok(found),
        }
    }
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.objects.is_empty()
    }

    pub(super) fn to_json(&self) -> Value {
        let object = |object: &Object| json!({"key": object.key, "bytes": object.size, "modified": object.modified, "etag": object.etag});
        json!({"folders": self.folders, "objects": self.objects.iter().map(object).collect::<Vec<_>>()})
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(["SIZE", "MODIFIED", "NAME"]);
        // A name is shown as it is, blanks and all: it is copied into the next command.
        let name = |key: &str| printable(key).replace('\n', "\\n");
        for folder in &self.folders {
            table.row([String::new(), String::new(), name(folder)]);
        }
        for object in &self.objects {
            table.row([bytes(object.size), one_line(&object.modified), name(&object.key)]);
        }
        table.paint(2, |name| name.ends_with('/').then_some(Style::Cyan));
        table
    }
}
