//! What the store's webhook sends, and how the store has to be configured to send it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::inbox::{Arrived, Record};

/// Changes of tags and locks are told as creations, too; they create nothing.
const CREATIONS: [&str; 4] = ["Put", "Post", "Copy", "CompleteMultipartUpload"];
const META: &str = "x-amz-meta-";

#[derive(Debug, Deserialize)]
struct Log {
    #[serde(rename = "Records", default)]
    records: Vec<Told>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    #[serde(default)]
    event_name: String,
    #[serde(default)]
    event_time: String,
    #[serde(default)]
    request_parameters: BTreeMap<String, String>,
    s3: Place,
}

#[derive(Debug, Deserialize)]
struct Place {
    bucket: Named,
    object: Object,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    key: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    e_tag: String,
    #[serde(default)]
    content_type: String,
    #[serde(default)]
    user_metadata: BTreeMap<String, String>,
    #[serde(default)]
    version_id: String,
    #[serde(default)]
    sequencer: String,
}

/// The objects that a message tells of; nothing when it is none of the store's.
pub(crate) fn parse(body: &[u8]) -> Option<Vec<Arrived>> {
    let log: Log = serde_json::from_slice(body).ok()?;
    log.records.into_iter().filter(is_creation).map(arrived).collect()
}

fn is_creation(told: &Told) -> bool {
    let kind = told.event_name.trim_start_matches("s3:").strip_prefix("ObjectCreated:");
    kind.is_some_and(|kind| CREATIONS.contains(&kind))
}

fn arrived(told: Told) -> Option<Arrived> {
    let Object { key, size, e_tag, content_type, user_metadata, version_id, sequencer } = told.s3.object;
    let key = key.replace('+', " ");
    let key = percent_encoding::percent_decode_str(&key).decode_utf8().ok()?.into_owned();
    let nanos = u64::from_str_radix(&sequencer, 16).ok().and_then(|nanos| i64::try_from(nanos / 1_000_000).ok());
    let said = || told.event_time.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let millis = nanos.or_else(said)?;
    let metadata = user_metadata.into_iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        Some((name.strip_prefix(META)?.to_owned(), value))
    });
    let of_request = |name: &str| told.request_parameters.get(name).cloned().unwrap_or_default();
    Some(Arrived {
        bucket: told.s3.bucket.name,
        key,
        millis,
        sequencer: Some(if sequencer.is_empty() { format!("{millis}-{e_tag}") } else { sequencer }),
        version_id: Some(version_id).filter(|version| !matches!(version.as_str(), "" | "null")),
        mark: None,
        record: Record {
            bytes: size,
            etag: e_tag.trim_matches('"').to_owned(),
            content_type,
            metadata: metadata.collect(),
            principal: of_request("principalId"),
            source_ip: of_request("sourceIPAddress"),
            millis,
        },
    })
}

/// How the store is configured to tell this manager of uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookState {
    /// There is none of that name.
    Missing,
    /// It tells somebody else.
    Elsewhere {
        endpoint: String,
    },
    /// What cannot be delivered at once is lost: there is no folder to keep it in.
    NoQueue,
    Fine {
        endpoint: String,
    },
}

/// From the lines of the store's configuration `notify_webhook`. What the environment of the
/// store says stands there as comments, and wins.
pub(crate) fn state_of(configuration: &str, name: &str, path: &str) -> WebhookState {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for line in configuration.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("# MINIO_NOTIFY_WEBHOOK_") {
            let Some((variable, value)) = rest.split_once('=') else { continue };
            let Some(setting) = variable.strip_suffix(&format!("_{name}")) else { continue };
            found.insert(setting.to_ascii_lowercase(), value.trim().to_owned());
        } else if let Some(rest) = line.strip_prefix(&format!("notify_webhook:{name} ")) {
            for (setting, value) in settings_in(rest) {
                found.entry(setting).or_insert(value);
            }
        }
    }
    let said = |setting: &str| found.get(setting).map(String::as_str).unwrap_or_default();
    let is_on = matches!(said("enable"), "on" | "true" | "yes") || (said("enable").is_empty() && !found.is_empty());
    let endpoint = said("endpoint").to_owned();
    if !is_on || endpoint.is_empty() {
        WebhookState::Missing
    } else if !endpoint.trim_end_matches('/').ends_with(path) {
        WebhookState::Elsewhere { endpoint }
    } else if said("queue_dir").is_empty() {
        WebhookState::NoQueue
    } else {
        WebhookState::Fine { endpoint }
    }
}

/// `a=b c="d e"`.
fn settings_in(text: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        settings.push((name.trim().to_owned(), value.to_owned()));
        rest = left.trim_start();
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = r#"{"EventName":"s3:ObjectCreated:Put","Key":"data/in/a b.txt","Records":[{
        "eventName":"s3:ObjectCreated:Put","eventTime":"2026-02-12T09:05:29.123Z",
        "requestParameters":{"principalId":"ada","sourceIPAddress":"10.0.0.1"},
        "s3":{"bucket":{"name":"data"},"object":{"key":"in%2Fa+b.txt","size":3,"eTag":"e",
        "contentType":"text/plain","userMetadata":{"content-type":"text/plain","X-Amz-Meta-Oscar-Job":"j"},
        "sequencer":"1893B2C4D5E6F708"}}}]}"#;

    #[test]
    fn an_upload_is_read_with_its_name_decoded() {
        let told = parse(TOLD.as_bytes()).expect("the store's");
        let [one] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((one.bucket.as_str(), one.key.as_str()), ("data", "in/a b.txt"));
        assert_eq!(one.record.metadata, BTreeMap::from([("oscar-job".to_owned(), "j".to_owned())]));
        assert_eq!(one.millis, 0x1893_B2C4_D5E6_F708 / 1_000_000);
        assert_eq!((one.record.principal.as_str(), one.record.source_ip.as_str()), ("ada", "10.0.0.1"));
    }

    #[test]
    fn changes_that_create_nothing_are_left_out_and_nonsense_is_none() {
        let tagged = TOLD.replace("ObjectCreated:Put\",\"eventTime", "ObjectCreated:PutTagging\",\"eventTime");
        assert!(parse(tagged.as_bytes()).expect("the store's").is_empty());
        assert!(parse(b"{\"Records\":[{}]}").is_none() && parse(b"no").is_none());
        assert!(parse(b"{}").expect("says nothing").is_empty());
    }

    #[test]
    fn the_state_is_read_from_environment_and_configuration() {
        let path = "/system/events/minio";
        let line = |queue: &str| {
            format!(
                "notify_webhook enable=off endpoint=\nnotify_webhook:OSCAR enable=on endpoint=\"http://m:1{path}\" {queue}\n"
            )
        };
        let fine = WebhookState::Fine { endpoint: format!("http://m:1{path}") };
        assert_eq!(state_of(&line("queue_dir=/q"), "OSCAR", path), fine);
        assert_eq!(state_of(&line("queue_dir="), "OSCAR", path), WebhookState::NoQueue);
        assert_eq!(state_of(&line(""), "OTHER", path), WebhookState::Missing);
        let environment = format!(
            "# MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR=on\n# MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR=http://m:1{path}\n\
             # MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR=/q\nnotify_webhook:OSCAR enable=off endpoint= queue_dir=\n"
        );
        assert_eq!(state_of(&environment, "OSCAR", path), fine);
        let elsewhere = environment.replace(path, "/job/x");
        assert_eq!(
            state_of(&elsewhere, "OSCAR", path),
            WebhookState::Elsewhere { endpoint: "http://m:1/job/x".to_owned() }
        );
    }
}
