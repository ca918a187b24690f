//! Events that start jobs, in the form that MinIO gives them.

use std::collections::BTreeMap;

use oscar_model::job::ObjectRef;
use serde::Serialize;
use serde_json::Value;

use crate::json;

const EVENT_NAME: &str = "s3:ObjectCreated:Put";

/// As deep as the supervisor looks.
const MOST_WRAPPERS: usize = 8;

/// The object that an event is about, if it is one of a store: as it stands, or inside what a
/// gateway (`{"httpMethod":…,"body":…}`) or other managers (`{"event":…}`) wrapped around it, as
/// an object or as text. Whoever runs the job reads the event in the same order.
pub fn input_of(event: &[u8]) -> Option<ObjectRef> {
    let mut event: Value = serde_json::from_slice(event).ok()?;
    for _ in 0..MOST_WRAPPERS {
        let object = event.as_object_mut()?;
        let inner = if object.contains_key("httpMethod") {
            object.remove("body")?
        } else {
            object.remove("event").unwrap_or_default()
        };
        event = match inner {
            Value::Null => return named_by(&event),
            Value::String(text) => serde_json::from_str(&text).ok()?,
            other => other,
        };
    }
    None
}

fn named_by(event: &Value) -> Option<ObjectRef> {
    let record = event.get("Records")?.get(0)?;
    // What comes from elsewhere names a bucket of elsewhere; without a source it is a file like any
    // other.
    if record.get("eventSource")?.as_str()? != "minio:s3" {
        return None;
    }
    let store = record.get("s3")?;
    let bucket = store.get("bucket")?.get("name")?.as_str()?;
    let key = query_unescaped(store.get("object")?.get("key")?.as_str()?)?;
    (!bucket.is_empty() && !key.is_empty()).then(|| ObjectRef { bucket: bucket.to_owned(), key })
}

/// An upload, as far as its event tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Uploaded<'a> {
    pub bucket: &'a str,
    pub key: &'a str,
    pub bytes: u64,
    pub etag: &'a str,
    /// Which write of the object.
    pub version: &'a str,
    /// Blank when the uploader gave none.
    pub content_type: &'a str,
    /// Names without `x-amz-meta-`.
    pub user_metadata: &'a BTreeMap<String, String>,
    /// The access key of the uploader.
    pub principal: &'a str,
    pub source_ip: &'a str,
    /// `2026-06-12T09:05:29.123Z`
    pub time: &'a str,
    pub region: &'a str,
    /// The permanent id of the store, and its address.
    pub deployment: &'a str,
    pub endpoint: &'a str,
}

/// The body with which MinIO would call a service for that upload.
pub fn minio_event(uploaded: &Uploaded<'_>) -> Vec<u8> {
    let identity = || Identity { principal_id: uploaded.principal };
    let content_type = Some(uploaded.content_type).filter(|kind| !kind.is_empty());
    let kind = content_type.map(|kind| ("content-type".to_owned(), kind));
    let metadata = uploaded.user_metadata.iter().map(|(name, value)| (header_name(name), value.as_str()));
    json::to_vec(&Body {
        event_name: EVENT_NAME,
        key: format!("{}/{}", uploaded.bucket, uploaded.key),
        records: [Record {
            event_version: "2.0",
            event_source: "minio:s3",
            aws_region: uploaded.region,
            event_time: uploaded.time,
            event_name: EVENT_NAME,
            user_identity: identity(),
            request_parameters: RequestParameters {
                principal_id: uploaded.principal,
                region: uploaded.region,
                source_ip_address: uploaded.source_ip,
            },
            response_elements: ResponseElements {
                request_id: uploaded.version,
                id_2: "",
                deployment_id: uploaded.deployment,
                origin_endpoint: uploaded.endpoint,
            },
            s3: Store {
                schema_version: "1.0",
                configuration_id: "Config",
                bucket: Bucket {
                    name: uploaded.bucket,
                    owner_identity: identity(),
                    arn: format!("arn:aws:s3:::{}", uploaded.bucket),
                },
                object: Object {
                    key: query_escaped(uploaded.key),
                    size: uploaded.bytes,
                    etag: uploaded.etag,
                    content_type,
                    user_metadata: kind.into_iter().chain(metadata).collect(),
                    sequencer: uploaded.version,
                },
            },
            source: Source { host: uploaded.source_ip, port: "", user_agent: "" },
        }],
    })
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Body<'a> {
    event_name: &'a str,
    key: String,
    records: [Record<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    event_version: &'a str,
    event_source: &'a str,
    aws_region: &'a str,
    event_time: &'a str,
    event_name: &'a str,
    user_identity: Identity<'a>,
    request_parameters: RequestParameters<'a>,
    response_elements: ResponseElements<'a>,
    s3: Store<'a>,
    source: Source<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    principal_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestParameters<'a> {
    principal_id: &'a str,
    region: &'a str,
    #[serde(rename = "sourceIPAddress")]
    source_ip_address: &'a str,
}

#[derive(Serialize)]
struct ResponseElements<'a> {
    #[serde(rename = "x-amz-request-id")]
    request_id: &'a str,
    #[serde(rename = "x-amz-id-2")]
    id_2: &'a str,
    #[serde(rename = "x-minio-deployment-id")]
    deployment_id: &'a str,
    #[serde(rename = "x-minio-origin-endpoint")]
    origin_endpoint: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Store<'a> {
    #[serde(rename = "s3SchemaVersion")]
    schema_version: &'a str,
    configuration_id: &'a str,
    bucket: Bucket<'a>,
    object: Object<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bucket<'a> {
    name: &'a str,
    owner_identity: Identity<'a>,
    arn: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    key: String,
    size: u64,
    #[serde(rename = "eTag")]
    etag: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    user_metadata: BTreeMap<String, &'a str>,
    sequencer: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Source<'a> {
    host: &'a str,
    port: &'a str,
    user_agent: &'a str,
}

/// `X-Amz-Meta-Color`: each part begins with a capital, as Go writes headers.
fn header_name(name: &str) -> String {
    let mut out = "X-Amz-Meta".to_owned();
    for part in name.split('-') {
        let mut letters = part.chars();
        out.push('-');
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.extend(letters.map(|letter| letter.to_ascii_lowercase()));
    }
    out
}

/// As Go's `url.QueryEscape`.
fn query_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The reverse. A percent sign that begins no escape stands for itself, as some senders have it;
/// what is no text afterwards is no key.
fn query_unescaped(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = (byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let code = escape.and_then(|digits| std::str::from_utf8(digits).ok()).filter(|digits| !digits.starts_with('+'));
        if let Some(code) = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(code);
            at += 3;
        } else {
            out.push(if byte == b'+' { b' ' } else { byte });
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk_event(bucket: &str, key: &str, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        minio_event(&Uploaded {
            bucket,
            key,
            bytes: 7,
            etag: "e",
            version: "v1",
            content_type: "image/jpeg",
            user_metadata: metadata,
            principal: "alice",
            source_ip: "10.0.0.1",
            time: "2026-06-12T09:05:29.123Z",
            region: "us-east-1",
            deployment: "d",
            endpoint: "http://store",
        })
    }

    #[test]
    fn an_upload_is_told_as_minio_tells_it() {
        let metadata = BTreeMap::from([("my-colour".to_owned(), "red".to_owned())]);
        let printed = String::from_utf8(mk_event("bucket", "input/a b.jpg", &metadata)).expect("text");
        let expected = concat!(
            r#"{"EventName":"s3:ObjectCreated:Put","Key":"bucket/input/a b.jpg","Records":[{"eventVersion":"2.0","#,
            r#""eventSource":"minio:s3","awsRegion":"us-east-1","eventTime":"2026-06-12T09:05:29.123Z","#,
            r#""eventName":"s3:ObjectCreated:Put","userIdentity":{"principalId":"alice"},"requestParameters":"#,
            r#"{"principalId":"alice","region":"us-east-1","sourceIPAddress":"10.0.0.1"},"responseElements":"#,
            r#"{"x-amz-request-id":"v1","x-amz-id-2":"","x-minio-deployment-id":"d","x-minio-origin-endpoint":"#,
            r#""http://store"},"s3":{"s3SchemaVersion":"1.0","configurationId":"Config","bucket":{"name":"bucket","#,
            r#""ownerIdentity":{"principalId":"alice"},"arn":"arn:aws:s3:::bucket"},"object":{"key":"input%2Fa+b.jpg","#,
            r#""size":7,"eTag":"e","contentType":"image/jpeg","userMetadata":{"X-Amz-Meta-My-Colour":"red","#,
            r#""content-type":"image/jpeg"},"sequencer":"v1"}},"source":{"host":"10.0.0.1","port":"","userAgent":""}}]}"#,
        );
        assert_eq!(printed, expected);
    }

    #[test]
    fn the_object_of_an_event_is_found_also_inside_a_wrapper() {
        let plain = mk_event("bucket", "input/a b+ü.jpg", &BTreeMap::new());
        let expected = ObjectRef { bucket: "bucket".to_owned(), key: "input/a b+ü.jpg".to_owned() };
        assert_eq!(input_of(&plain), Some(expected.clone()));
        let text = String::from_utf8(plain).expect("text");
        let as_text = serde_json::json!({"storage_provider": "minio.default", "event": text}).to_string();
        assert_eq!(input_of(as_text.as_bytes()), Some(expected.clone()));
        let as_object = format!(r#"{{"event":{text}}}"#);
        assert_eq!(input_of(as_object.as_bytes()), Some(expected.clone()));
        let twice = serde_json::json!({"event": as_text}).to_string();
        assert_eq!(input_of(twice.as_bytes()), Some(expected.clone()));
        let by_gateway = serde_json::json!({"httpMethod": "POST", "body": twice}).to_string();
        assert_eq!(input_of(by_gateway.as_bytes()), Some(expected));
        let endless = (0..20).fold(text, |inner, _| format!(r#"{{"event":{inner}}}"#));
        assert_eq!(input_of(endless.as_bytes()), None);
    }

    #[test]
    fn other_events_name_no_object() {
        let others: [&[u8]; 8] = [
            b"",
            b"plain text",
            b"\xff\xfe",
            b"[]",
            br#"{"Records":[]}"#,
            br#"{"Records":[{"s3":{"bucket":{"name":7},"object":{"key":"k"}}}]}"#,
            br#"{"Records":[{"s3":{"bucket":{"name":"b"},"object":{"key":"%ff"}}}]}"#,
            br#"{"event":"no JSON"}"#,
        ];
        for event in others {
            assert_eq!(input_of(event), None, "{}", String::from_utf8_lossy(event));
        }
    }

    proptest! {
        #[test]
        fn a_key_comes_back_as_it_was(key in "\\PC{1,40}") {
            let found = input_of(&mk_event("bucket", &key, &BTreeMap::new()));
            prop_assert_eq!(found, Some(ObjectRef { bucket: "bucket".to_owned(), key }));
        }

        #[test]
        fn nothing_that_is_sent_makes_it_fail(event in any::<Vec<u8>>(), key in ".{0,20}") {
            let _ = input_of(&event);
            let _ = query_unescaped(&key);
        }
    }
}
