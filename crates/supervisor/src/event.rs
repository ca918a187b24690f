//! What an event is: recognised from its bytes alone, in the order of OSCAR's supervisors.
//!
//! Pure, total, and without loss: what is nobody's storage event becomes a payload, whatever
//! its size and its bytes. Texts are passed on as they were written, never printed anew.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

/// Events inside events (a gateway's body, a delegated job) deeper than this stay payloads.
const MOST_WRAPPERS: usize = 8;

/// Encoders differ in what they leave in the last bits; padding is required, as upstream does.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub source: Source,
    /// The event without what it was wrapped in: what `EVENT` and `EVENT_FILE` hold.
    pub content: Vec<u8>,
    /// A delegated event: the provider that its sender named, verbatim; may be blank.
    pub delegated: Option<String>,
    /// Query parameters of a gateway, by the names that scripts see.
    pub variables: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An object that was written to MinIO or S3.
    Object(ObjectEvent),
    /// A file that was written to dCache, below the path of the input `webdav.dcache`.
    Dcache {
        name: String,
    },
    Onedata {
        key: String,
    },
    Rucio {
        scope: String,
        name: String,
    },
    /// No storage: the payload itself is the input.
    Payload(Payload),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent {
    pub store: ObjectStore,
    pub bucket: String,
    pub key: String,
    pub time: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectStore {
    Minio,
    S3,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON, as it was written.
    Json(Vec<u8>),
    /// What valid base64 stood for.
    Decoded(Vec<u8>),
    /// Neither: kept as it came.
    Raw(Vec<u8>),
}

impl Payload {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(bytes) | Self::Decoded(bytes) | Self::Raw(bytes) => bytes,
        }
    }
}

impl Source {
    /// OSCAR's word for it, for the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Object(ObjectEvent { store: ObjectStore::Minio, .. }) => "MINIO",
            Self::Object(ObjectEvent { store: ObjectStore::S3, .. }) => "S3",
            Self::Dcache { .. } => "DCACHE",
            Self::Onedata { .. } => "ONEDATA",
            Self::Rucio { .. } => "RUCIO",
            Self::Payload(_) => "UNKNOWN",
        }
    }

    pub fn is_payload(&self) -> bool {
        matches!(self, Self::Payload(_))
    }
}

/// Says what the bytes of an event are. Every input has an answer.
pub fn recognise(bytes: &[u8]) -> Event {
    let mut event = Event {
        source: Source::Payload(Payload::Raw(Vec::new())),
        content: bytes.to_vec(),
        delegated: None,
        variables: BTreeMap::new(),
    };
    for _ in 0..MOST_WRAPPERS {
        match Layer::read(&event.content) {
            Layer::Source(source) => {
                event.source = source;
                return event;
            }
            Layer::Gateway { variables, body } => {
                event.variables.extend(variables);
                event.content = body;
            }
            Layer::Delegated { provider, event: inner } => {
                event.delegated = Some(provider);
                event.content = inner;
            }
        }
    }
    event.source = Source::Payload(payload(&event.content));
    event
}

type Object<'a> = BTreeMap<String, &'a RawValue>;

/// One step: the event itself, or what it is wrapped in.
enum Layer {
    Source(Source),
    Gateway { variables: BTreeMap<String, String>, body: Vec<u8> },
    Delegated { provider: String, event: Vec<u8> },
}

impl Layer {
    fn read(bytes: &[u8]) -> Self {
        let Ok(object) = serde_json::from_slice::<Object<'_>>(bytes) else {
            return Self::Source(Source::Payload(payload(bytes)));
        };
        if object.contains_key("httpMethod") {
            let variables = object.get("queryStringParameters").map(|raw| gateway_variables(raw)).unwrap_or_default();
            return Self::Gateway { variables, body: object.get("body").map(|raw| unquoted(raw)).unwrap_or_default() };
        }
        if object.contains_key("subscription")
            && let Some(name) = member(&object, "event").and_then(|event| text(&event, "name"))
        {
            return Self::Source(Source::Dcache { name });
        }
        if object.contains_key("event_type")
            && let Some(payload) = member(&object, "payload")
            && let (Some(scope), Some(name)) = (text(&payload, "scope"), text(&payload, "name"))
        {
            return Self::Source(Source::Rucio { scope, name });
        }
        if let Some(event) = object.get("event") {
            let provider = text(&object, "storage_provider").unwrap_or_default();
            return Self::Delegated { provider, event: unquoted(event) };
        }
        let stored = record(&object).unwrap_or_else(|| Source::Payload(Payload::Json(bytes.to_vec())));
        Self::Source(stored)
    }
}

/// The storage event of `Records[0]`, when it is whole.
fn record(object: &Object<'_>) -> Option<Source> {
    let records: Vec<&RawValue> = serde_json::from_str(object.get("Records")?.get()).ok()?;
    let record: Object<'_> = serde_json::from_str(records.first()?.get()).ok()?;
    let store = match text(&record, "eventSource")?.as_str() {
        "minio:s3" => ObjectStore::Minio,
        "aws:s3" => ObjectStore::S3,
        "OneTrigger" => {
            let key = text(object, "Key").or_else(|| text(&record, "objectKey"))?;
            return Some(Source::Onedata { key });
        }
        "rucio" => {
            let name = text(&record, "name").or_else(|| text(object, "Key"))?;
            return Some(Source::Rucio { scope: text(&record, "scope").unwrap_or_default(), name });
        }
        _ => return None,
    };
    let s3 = member(&record, "s3")?;
    let bucket = text(&member(&s3, "bucket")?, "name")?;
    let key = decode_key(&text(&member(&s3, "object")?, "key")?);
    let time = text(&record, "eventTime").unwrap_or_default();
    (!bucket.is_empty() && !key.is_empty()).then_some(Source::Object(ObjectEvent { store, bucket, key, time }))
}

/// The key of a notification is escaped as in a query: `+` is a blank.
pub fn decode_key(escaped: &str) -> String {
    let blanks = escaped.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8_lossy().into_owned()
}

/// JSON is kept, base64 is decoded, and everything else stays what it is.
fn payload(bytes: &[u8]) -> Payload {
    if serde_json::from_slice::<&RawValue>(bytes).is_ok() {
        return Payload::Json(bytes.to_vec());
    }
    let dense: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    match BASE64.decode(&dense) {
        Ok(decoded) if !dense.is_empty() => Payload::Decoded(decoded),
        _ => Payload::Raw(bytes.to_vec()),
    }
}

/// Only names that a shell can use become variables.
fn gateway_variables(raw: &RawValue) -> BTreeMap<String, String> {
    let parameters: Object<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let parameters = parameters.into_iter().filter(|(name, _)| is_name(name));
    parameters
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(&unquoted(value)).replace('\0', "");
            (format!("CONT_VAR_{name}"), value)
        })
        .collect()
}

/// The text of a JSON string; of any other value how it is written; nothing for null.
fn unquoted(raw: &RawValue) -> Vec<u8> {
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text.into_bytes(),
        Err(_) if raw.get() == "null" => Vec::new(),
        Err(_) => raw.get().as_bytes().to_vec(),
    }
}

fn member<'a>(object: &Object<'a>, key: &str) -> Option<Object<'a>> {
    serde_json::from_str(object.get(key)?.get()).ok()
}

fn text(object: &Object<'_>, key: &str) -> Option<String> {
    serde_json::from_str(object.get(key)?.get()).ok()
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
