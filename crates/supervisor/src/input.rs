//! The input of a job: fetched from a store, or written out from the event itself.

use std::path::{Path, PathBuf};

use oscar_model::service::storage::{ProviderKind, ProviderRef};

use crate::config::FunctionConfig;
use crate::event::{Event, ObjectEvent, ObjectStore, Source};
use crate::journal::{Journal, Notes};
use crate::names::{below, local_name};
use crate::providers::{Providers, Store, Unusable};
use crate::report::{Complaint, Fetched};

/// The id of the provider that dCache's events speak of.
const DCACHE: &str = "dcache";

/// Where an input is.
struct Place {
    provider: ProviderRef,
    bucket: String,
    key: String,
}

impl Place {
    fn shown(&self) -> String {
        let path = below(&self.bucket, &self.key);
        format!("`{path}` of {}", self.provider)
    }
}

/// Puts the input of an event into the folder.
pub(crate) async fn stage_in(
    event: &Event,
    config: &FunctionConfig,
    providers: &Providers<'_>,
    folder: &Path,
    journal: &mut Journal<'_>,
) -> Result<Fetched, Complaint> {
    let place = match &event.source {
        Source::Payload(payload) => {
            let file = folder.join(format!("event-file-{}", uuid::Uuid::new_v4()));
            return write_payload(payload.bytes(), file).await;
        }
        Source::Object(object) => {
            let named = event.delegated.as_deref().unwrap_or_default();
            place_of(object, named, providers, journal).await?
        }
        Source::Dcache { name } => dcache_place(name, config)?,
        Source::Onedata { .. } => return Err(refused("Onedata").into()),
        Source::Rucio { .. } => return Err(refused("Rucio").into()),
    };
    let store = providers.open(&place.provider).map_err(|unusable| {
        let why = match unusable {
            Unusable::NoKeys => "this job was given no credentials for it".to_owned(),
            Unusable::Because(why) => why,
        };
        format!("The input {} cannot be fetched: {why}.", place.shown())
    })?;
    journal.info(&format!("Fetching the input {}.", place.shown())).await;
    let file = folder.join(local_name(&place.key));
    let notes = Notes::default();
    let request = || match &store {
        Store::S3(store) => store.get(&place.bucket, &place.key),
        Store::Webdav(store) => store.get(&place.key),
    };
    let what = format!("Fetching {}", place.shown());
    let most = match &store {
        Store::S3(store) => store.attempts(),
        Store::Webdav(_) => providers.transport().limits.attempts,
    };
    let fetched = providers.transport().download(most, &notes, &what, request, &file).await;
    journal.take_notes(&notes).await;
    let bytes = fetched.map_err(|trouble| {
        trouble.complain(|cause| format!("The input {} could not be fetched: {cause}.", place.shown()))
    })?;
    Ok(Fetched { provider: place.provider.to_string(), bucket: place.bucket, key: place.key, file, bytes })
}

async fn write_payload(bytes: &[u8], file: PathBuf) -> Result<Fetched, Complaint> {
    let written = tokio::fs::write(&file, bytes).await;
    written.map_err(|error| {
        Complaint::of_io(&error, |cause| format!("The payload of the call cannot be written: {cause}."))
    })?;
    let bytes = bytes.len() as u64;
    Ok(Fetched { provider: String::new(), bucket: String::new(), key: String::new(), file, bytes })
}

async fn place_of(
    object: &ObjectEvent,
    named: &str,
    providers: &Providers<'_>,
    journal: &mut Journal<'_>,
) -> Result<Place, String> {
    let kind = match object.store {
        ObjectStore::Minio => ProviderKind::Minio,
        ObjectStore::S3 => ProviderKind::S3,
    };
    let (provider, remark) = providers.of_event(kind, named)?;
    if let Some(remark) = remark {
        journal.warning(&remark).await;
    }
    Ok(Place { provider, bucket: object.bucket.clone(), key: object.key.clone() })
}

fn dcache_place(name: &str, config: &FunctionConfig) -> Result<Place, String> {
    let provider = ProviderRef { kind: ProviderKind::Webdav, id: DCACHE.to_owned() };
    let input = config.input.iter().find(|input| input.provider == provider);
    let input =
        input.ok_or("The event is dCache's, but the service has no input with the storage provider webdav.dcache.")?;
    Ok(Place { provider, bucket: String::new(), key: below(&input.path, name.trim_start_matches('/')) })
}

fn refused(kind: &str) -> String {
    format!("The input is in {kind}, which this supervisor cannot read: it speaks MinIO, S3 and WebDAV only.")
}
