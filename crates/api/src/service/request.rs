//! A service as a client may send it, for the OpenAPI document alone: bodies are read from
//! the tree, where keys match in any case and every fault is collected.
//!
//! Nearly everything may be left away or `null`. What depends on several fields at once (a
//! provider that is named must be known, `max_scale` is not below `min_scale`) is not said
//! here; the definition is then refused with those fields.

#![expect(dead_code, reason = "these types describe bodies and are never built")]

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::request_parts::{
    clusters, delegation, labels, minio_providers, onedata_providers, or_null, ports, positive_quantity, quantity,
    rucio_providers, s3_providers, secret_names, subjects, texts_by_label_key, variables, webdav_providers, weights,
};

/// A service to create or to replace. Only `name`, `image` and `script` are required.
#[derive(ToSchema)]
#[schema(example = json!({
    "name": "cowsay",
    "image": "ghcr.io/grycap/cowsay",
    "script": "#!/bin/sh\ncowsay hello\n",
    "memory": "256Mi",
    "cpu": "0.2",
    "input": [{"storage_provider": "minio.default", "path": "cowsay/input"}],
    "output": [{"storage_provider": "minio.default", "path": "cowsay/output"}]
}))]
pub struct ServiceRequest {
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$")]
    name: String,
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,511}$")]
    image: String,
    #[schema(pattern = r"\S", max_length = 1_048_576)]
    script: String,
    #[schema(pattern = "^[A-Za-z0-9._-]{0,63}$")]
    cluster_id: Option<String>,
    /// A Kubernetes quantity above zero; blank or absent is `256Mi`.
    #[schema(schema_with = positive_quantity)]
    memory: Option<String>,
    /// A Kubernetes quantity above zero; blank or absent is `0.2`.
    #[schema(schema_with = positive_quantity)]
    cpu: Option<String>,
    #[schema(schema_with = quantity)]
    total_memory: Option<String>,
    #[schema(schema_with = quantity)]
    total_cpu: Option<String>,
    #[schema(schema_with = quantity)]
    ephemeral_storage_request: Option<String>,
    enable_gpu: Option<bool>,
    enable_sgx: Option<bool>,
    image_prefetch: Option<bool>,
    synchronous: Option<SynchronousRequest>,
    federation: Option<FederationRequest>,
    /// `NOTSET`, `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`; every other word is `INFO`.
    log_level: Option<String>,
    alpine: Option<bool>,
    /// True *skips* the download of the input.
    file_stage_in: Option<bool>,
    input: Option<Vec<StorageIoRequest>>,
    output: Option<Vec<StorageIoRequest>>,
    #[schema(schema_with = secret_names)]
    image_pull_secrets: Option<Vec<String>>,
    expose: Option<ExposeRequest>,
    environment: Option<EnvironmentRequest>,
    #[schema(schema_with = texts_by_label_key)]
    annotations: Option<BTreeMap<String, String>>,
    #[schema(max_length = 255)]
    vo: Option<String>,
    /// Labels that the cluster sets itself are ignored.
    #[schema(schema_with = labels)]
    labels: Option<BTreeMap<String, String>>,
    storage_providers: Option<StorageProvidersRequest>,
    /// Blank passwords keep what is stored; `ssl_verify` is true when absent.
    #[schema(schema_with = clusters)]
    clusters: Option<BTreeMap<String, String>>,
    interlink_node_name: Option<String>,
    /// Blank or absent is `private`.
    #[schema(pattern = "^(private|restricted|public)?$")]
    visibility: Option<String>,
    /// Subjects of users; blank ones are dropped.
    #[schema(schema_with = subjects)]
    allowed_users: Option<Vec<String>>,
    /// `USER` needs at least one of `allowed_users`.
    #[schema(pattern = "^([Ss][Ee][Rr][Vv][Ii][Cc][Ee]|[Uu][Ss][Ee][Rr])?$")]
    isolation_level: Option<String>,
    mount: Option<MountRequest>,
    volume: Option<VolumeRequest>,
    kserve: Option<KserveRequest>,
    /// Taken over only for a replica that a coordinator deploys.
    token: Option<String>,
}

/// A definition file with one service, or a bare service; as YAML, where numbers may stand
/// for text.
pub struct DefinitionFile;

impl PartialSchema for DefinitionFile {
    fn schema() -> RefOr<Schema> {
        let object = || ObjectBuilder::new().schema_type(Type::Object);
        let functions = object()
            .required("oscar")
            .property("oscar", ArrayBuilder::new().items(object()).min_items(Some(1)).max_items(Some(1)));
        let file = object()
            .description(Some("Entries are keyed by a cluster id, or stand inline."))
            .required("functions")
            .property("functions", functions)
            .property("storage_providers", ObjectBuilder::new().schema_type(or_null(Type::Object)))
            .property("clusters", ObjectBuilder::new().schema_type(or_null(Type::Object)));
        let bare = ["name", "image", "script"].iter().fold(object(), |bare, name| bare.required(*name));
        let example = json!({"functions": {"oscar": [{"my-cluster": {
            "name": "cowsay-yaml", "image": "ghcr.io/grycap/cowsay", "script": "cowsay hello"}}]}});
        RefOr::T(AnyOfBuilder::new().item(file).item(bare).examples([example]).build().into())
    }
}

impl ToSchema for DefinitionFile {}

#[derive(ToSchema)]
struct SynchronousRequest {
    #[schema(minimum = 0, maximum = 10_000)]
    min_scale: Option<u32>,
    /// 0 is unlimited.
    #[schema(minimum = 0, maximum = 10_000)]
    max_scale: Option<u32>,
}

#[derive(ToSchema)]
struct FederationRequest {
    /// Blank is the name of the service.
    group_id: Option<String>,
    #[schema(pattern = "^(none|star|tree|mesh)?$")]
    topology: Option<String>,
    /// A word, or `{mode, weights}`.
    #[schema(schema_with = delegation)]
    delegation: Option<String>,
    #[schema(schema_with = weights)]
    weights: Option<BTreeMap<String, f64>>,
    /// Seconds.
    #[schema(minimum = 0, maximum = 2_592_000)]
    rescheduler_threshold: Option<u32>,
    members: Option<Vec<MemberRequest>>,
    #[schema(pattern = "^(first|equal|never)?$")]
    local: Option<String>,
    #[schema(pattern = "^(wait|run-again)?$")]
    on_unknown: Option<String>,
    share_refresh_token: Option<bool>,
    share_secrets: Option<bool>,
}

#[derive(ToSchema)]
struct MemberRequest {
    #[schema(pattern = "^([Oo][Ss][Cc][Aa][Rr]|[Ee][Nn][Dd][Pp][Oo][Ii][Nn][Tt])?$")]
    r#type: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9._-]{0,63}$")]
    cluster_id: Option<String>,
    /// Required unless it is an endpoint.
    #[schema(pattern = "^([a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?)?$")]
    service_name: Option<String>,
    url: Option<String>,
    ssl_verify: Option<bool>,
    #[schema(minimum = 0, maximum = 1_000_000)]
    priority: Option<u32>,
    headers: Option<BTreeMap<String, Option<String>>>,
    parent: Option<String>,
}

#[derive(ToSchema)]
struct StorageIoRequest {
    /// `<type>` or `<type>.<id>`, with the type in any case; without an id it is `default`.
    #[schema(
        pattern = r"^([Mm][Ii][Nn][Ii][Oo]|[Ss]3|[Oo][Nn][Ee][Dd][Aa][Tt][Aa]|[Ww][Ee][Bb][Dd][Aa][Vv]|[Rr][Uu][Cc][Ii][Oo])(\.[!-~]{1,63})?$",
        example = "minio.default"
    )]
    storage_provider: String,
    /// A folder, or a bucket and a folder.
    #[schema(pattern = r"[^\s/]", example = "cowsay/input")]
    path: String,
    suffix: Option<Vec<Option<String>>>,
    prefix: Option<Vec<Option<String>>>,
    #[schema(pattern = "^[A-Za-z0-9_.:=,/ -]*$")]
    options: Option<String>,
}

/// Blank provider and path are no mount.
#[derive(ToSchema)]
struct MountRequest {
    storage_provider: Option<String>,
    path: Option<String>,
    suffix: Option<Vec<Option<String>>>,
    prefix: Option<Vec<Option<String>>>,
    options: Option<String>,
}

#[derive(ToSchema)]
struct ExposeRequest {
    #[schema(minimum = 0, maximum = 10_000)]
    min_scale: Option<u32>,
    #[schema(minimum = 0, maximum = 10_000)]
    max_scale: Option<u32>,
    #[schema(schema_with = ports)]
    api_port: Option<Vec<u16>>,
    #[schema(minimum = 0, maximum = 100)]
    cpu_threshold: Option<u32>,
    rewrite_target: Option<bool>,
    #[schema(rename = "nodePort", schema_with = ports)]
    node_port: Option<Vec<u16>>,
    default_command: Option<bool>,
    set_auth: Option<bool>,
    #[schema(pattern = "^(basic|forward)?$")]
    auth_type: Option<String>,
    health_path: Option<String>,
    #[schema(pattern = "^(legacy|direct)?$")]
    probe_mode: Option<String>,
}

#[derive(ToSchema)]
struct EnvironmentRequest {
    #[schema(schema_with = variables)]
    variables: Option<BTreeMap<String, String>>,
    /// On a change, a blank value keeps what is stored.
    #[schema(schema_with = variables)]
    secrets: Option<BTreeMap<String, String>>,
}

/// By kind and id. Blank keys keep what is stored.
#[derive(ToSchema)]
struct StorageProvidersRequest {
    /// `verify` is true when absent.
    #[schema(schema_with = minio_providers)]
    minio: Option<BTreeMap<String, String>>,
    #[schema(schema_with = s3_providers)]
    s3: Option<BTreeMap<String, String>>,
    #[schema(schema_with = onedata_providers)]
    onedata: Option<BTreeMap<String, String>>,
    #[schema(schema_with = webdav_providers)]
    webdav: Option<BTreeMap<String, String>>,
    #[schema(schema_with = rucio_providers)]
    rucio: Option<BTreeMap<String, String>>,
}

/// A size creates a volume; a name alone attaches one.
#[derive(ToSchema)]
struct VolumeRequest {
    name: Option<String>,
    size: Option<String>,
    mount_path: Option<String>,
    lifecycle_policy: Option<String>,
}

#[derive(ToSchema)]
struct KserveRequest {
    #[schema(pattern = "^(inference|llm_inference)$")]
    r#type: String,
    inference: Option<InferenceRequest>,
    llm_inference: Option<LlmInferenceRequest>,
    #[schema(min_length = 1)]
    storage_uri: String,
    #[schema(pattern = "^(v1|v2)?$")]
    api_version: Option<String>,
    #[schema(minimum = 0, maximum = 10_000)]
    min_scale: Option<u32>,
    #[schema(minimum = 0, maximum = 10_000)]
    max_scale: Option<u32>,
    #[schema(schema_with = quantity)]
    cpu: Option<String>,
    #[schema(schema_with = quantity)]
    memory: Option<String>,
    args: Option<Vec<Option<String>>>,
    env: Option<BTreeMap<String, Option<String>>>,
    enable_gpu: Option<bool>,
    /// True when absent.
    set_auth: Option<bool>,
}

#[derive(ToSchema)]
struct InferenceRequest {
    #[schema(min_length = 1)]
    model_format: String,
    runtime: Option<String>,
}

#[derive(ToSchema)]
struct LlmInferenceRequest {
    runtime_image: Option<String>,
}
