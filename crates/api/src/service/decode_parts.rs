//! The parts of a service that have a shape of their own.

use std::collections::BTreeMap;

use oscar_model::fault::quoted;
use oscar_model::federation::{
    Delegation, DelegationMode, Federation, LocalShare, Member, OnUnknown, Target, Topology,
};
use oscar_model::name::{SERVICE_NAME_RULE, ServiceName};
use oscar_model::quantity::Quantity;
use oscar_model::secret::Secret;
use oscar_model::service::expose::Expose;
use oscar_model::service::kserve::{Kserve, Serving};
use oscar_model::service::storage::{
    PROVIDER_RULE, Place, Provider, ProviderKind, ProviderRef, Rucio, StorageIo, StorageProviders,
};
use oscar_model::service::volume::{Volume, VolumeText};
use oscar_model::service::{Cluster, DEFAULT_CPU, DEFAULT_MEMORY};

use crate::tree::{Fields, Node, Value};

/// Inputs or outputs; `place` is given when the rules of that place apply. What cannot be read
/// keeps its place, so that later checks number the others as the user does.
pub(super) fn storage_list(fields: &Fields<'_>, key: &str, place: Option<Place>) -> Vec<StorageIo> {
    let items = fields.items(key).into_iter();
    items.map(|(node, path)| storage_io(&fields.reader().fields_of(node, &path), &path, place)).collect()
}

pub(super) fn mount(fields: &Fields<'_>, strict: bool) -> Option<StorageIo> {
    let blank = fields.text("storage_provider").is_empty() && fields.text("path").is_empty();
    if blank {
        // Clients send back the blank mount they were shown; what else is in it must still fit.
        let _ = (fields.texts("suffix"), fields.texts("prefix"), fields.text("options"));
        return None;
    }
    Some(storage_io(fields, &fields.path(""), strict.then_some(Place::Mount)))
}

fn storage_io(fields: &Fields<'_>, path: &str, place: Option<Place>) -> StorageIo {
    let provider_text = fields.text("storage_provider");
    let provider = ProviderRef::parse(&provider_text);
    if provider.is_none() {
        fields.fault("storage_provider", quoted(&provider_text), PROVIDER_RULE);
    }
    let io = StorageIo {
        provider_text,
        // Stands in where none could be read, so that the rest is checked too; it never leaves,
        // because a fault was recorded.
        provider: provider
            .unwrap_or(ProviderRef { kind: ProviderKind::Webdav, id: ProviderRef::DEFAULT_ID.to_owned() }),
        path: fields.text("path"),
        suffix: fields.texts("suffix"),
        prefix: fields.texts("prefix"),
        options: fields.text("options"),
    };
    if let Some(place) = place {
        fields.reader().absorb(path, io.check(place));
    }
    io
}

pub(super) fn expose(fields: &Fields<'_>, strict: bool) -> Expose {
    let expose = Expose {
        min_scale: fields.count("min_scale", 10_000),
        max_scale: fields.count("max_scale", 10_000),
        api_port: fields.ports("api_port"),
        cpu_threshold: fields.count("cpu_threshold", 1000),
        rewrite_target: fields.flag("rewrite_target"),
        node_port: fields.ports("nodePort"),
        default_command: fields.flag("default_command"),
        set_auth: fields.flag("set_auth"),
        auth_type: fields.text("auth_type"),
        health_path: fields.text("health_path"),
        probe_mode: fields.text("probe_mode"),
    };
    if strict {
        fields.reader().absorb(&fields.path(""), expose.check());
    }
    expose
}

pub(super) fn volume(fields: &Fields<'_>, given: bool, strict: bool) -> Option<Volume> {
    let text = VolumeText {
        name: fields.text("name"),
        size: fields.text("size"),
        mount_path: fields.text("mount_path"),
        lifecycle_policy: fields.text("lifecycle_policy"),
    };
    let blank = text.name.is_empty() && text.size.is_empty() && text.mount_path.is_empty();
    if !given || blank {
        return None;
    }
    let parsed = Volume::parse(&text);
    if let (true, Err(faults)) = (strict, &parsed) {
        fields.reader().absorb(&fields.path(""), faults.clone());
    }
    parsed.ok()
}

pub(super) fn kserve(fields: &Fields<'_>, strict: bool) -> Option<Kserve> {
    let kind = fields.text("type");
    let (inference, llm) = (fields.fields("inference"), fields.fields("llm_inference"));
    let forbid = |key: &str| {
        if fields.get(key).is_some() {
            fields.fault(key, "a map", format!("nothing when type is {kind}"));
        }
    };
    let serving = match kind.as_str() {
        "inference" => {
            forbid("llm_inference");
            Serving::Inference { model_format: inference.text("model_format"), runtime: inference.text("runtime") }
        }
        "llm_inference" => {
            forbid("inference");
            Serving::Llm { runtime_image: llm.text("runtime_image") }
        }
        other => {
            fields.fault("type", quoted(other), "inference or llm_inference");
            return None;
        }
    };
    let or = |key: &str, default: &str| fields.quantity(key).or_else(|| Quantity::parse(default));
    let api_version = fields.text("api_version");
    let kserve = Kserve {
        serving,
        storage_uri: fields.text("storage_uri"),
        api_version: if api_version.is_empty() { "v1".to_owned() } else { api_version },
        min_scale: fields.count("min_scale", 10_000),
        max_scale: if fields.get("max_scale").is_some() { fields.count("max_scale", 10_000) } else { 1 },
        cpu: or("cpu", DEFAULT_CPU)?,
        memory: or("memory", DEFAULT_MEMORY)?,
        args: fields.texts("args"),
        env: fields.text_map("env"),
        enable_gpu: fields.flag("enable_gpu"),
        set_auth: fields.flag_or("set_auth", true),
    };
    if strict {
        fields.reader().absorb(&fields.path(""), kserve.check());
    }
    Some(kserve)
}

/// Clusters of a definition, or of the operator's configuration.
pub fn clusters(fields: &Fields<'_>) -> BTreeMap<String, Cluster> {
    let read = |(id, node, path): (&str, &Node, String)| {
        let fields = fields.reader().fields_of(node, &path);
        let cluster = Cluster {
            endpoint: fields.text("endpoint").trim_end_matches('/').to_owned(),
            auth_user: fields.text("auth_user"),
            auth_password: Secret::new(fields.text("auth_password")),
            ssl_verify: fields.flag_or("ssl_verify", true),
        };
        (id.to_owned(), cluster)
    };
    fields.entries("clusters").into_iter().map(read).collect()
}

/// Providers of a definition, or of the operator's configuration.
pub fn providers(fields: &Fields<'_>) -> StorageProviders {
    let fields = fields.fields("storage_providers");
    let mut providers = StorageProviders::new();
    for kind in ProviderKind::ALL {
        for (id, node, path) in fields.entries(kind.as_str()) {
            let reference = format!("{}.{id}", kind.as_str());
            let Some(reference) = ProviderRef::parse(&reference) else {
                fields.reader().fault(&path, quoted(id), "an id of at most 63 printable characters");
                continue;
            };
            providers.insert(reference, provider(kind, &fields.reader().fields_of(node, &path)));
        }
    }
    providers
}

fn provider(kind: ProviderKind, fields: &Fields<'_>) -> Provider {
    let secret = |key: &str| Secret::new(fields.text(key));
    match kind {
        ProviderKind::Minio => Provider::Minio {
            endpoint: fields.text("endpoint"),
            verify: fields.flag_or("verify", true),
            access_key: fields.text("access_key"),
            secret_key: secret("secret_key"),
            region: fields.text("region"),
        },
        ProviderKind::S3 => Provider::S3 {
            access_key: fields.text("access_key"),
            secret_key: secret("secret_key"),
            region: fields.text("region"),
        },
        ProviderKind::Onedata => Provider::Onedata {
            oneprovider_host: fields.text("oneprovider_host"),
            token: secret("token"),
            space: fields.text("space"),
        },
        ProviderKind::Webdav => Provider::Webdav {
            hostname: fields.text("hostname"),
            login: fields.text("login"),
            password: secret("password"),
        },
        ProviderKind::Rucio => Provider::Rucio(Rucio {
            host: fields.text("host"),
            account: fields.text("account"),
            rse: fields.text("rse"),
            refresh_token: secret("refresh_token"),
            auth_host: fields.text("auth_host"),
            oidc_audience: fields.text("oidc_audience"),
            token_endpoint: fields.text("token_endpoint"),
        }),
    }
}

pub(super) fn federation(fields: &Fields<'_>, name: &ServiceName) -> Federation {
    let group_id = fields.text("group_id");
    // Later documents say `members`, earlier ones `replicas`.
    let key = if fields.get("members").is_some() { "members" } else { "replicas" };
    Federation {
        group_id: if group_id.is_empty() { name.to_string() } else { group_id },
        topology: fields.word("topology", Topology::RULE, Topology::parse),
        delegation: delegation(fields),
        rescheduler_threshold: fields.count("rescheduler_threshold", 30 * 24 * 3600),
        members: members(fields, key),
        local: fields.word("local", LocalShare::RULE, LocalShare::parse),
        on_unknown: fields.word("on_unknown", OnUnknown::RULE, OnUnknown::parse),
        share_refresh_token: fields.flag("share_refresh_token"),
        share_secrets: fields.flag("share_secrets"),
    }
}

/// A word, or `{mode, weights}`; weights may also stand beside the word.
fn delegation(fields: &Fields<'_>) -> Delegation {
    let nested = matches!(fields.get("delegation").map(|node| &node.value), Some(Value::Map(_)));
    let inner = fields.fields(if nested { "delegation" } else { "" });
    let (words, key) = if nested { (&inner, "mode") } else { (fields, "delegation") };
    let mode = words.word(key, DelegationMode::RULE, |text| DelegationMode::parse(text).map(Some));
    let weights =
        if nested && inner.get("weights").is_some() { inner.entries("weights") } else { fields.entries("weights") };
    let mut read = BTreeMap::new();
    for (name, node, path) in weights {
        match weight(node) {
            Some(weight) => {
                read.insert(name.to_owned(), weight);
            }
            None => fields.reader().fault(&path, node.kind(), "a number from 0 to 1000000 with at most three decimals"),
        }
    }
    Delegation { mode, weights: read }
}

/// A weight in thousandths.
fn weight(node: &Node) -> Option<u32> {
    let Value::Number(text) = &node.value else { return None };
    let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_negative())?;
    let thousandths = quantity.millis();
    let exact = Quantity::from_millis(thousandths) == quantity;
    u32::try_from(thousandths).ok().filter(|weight| exact && *weight <= 1_000_000_000)
}

/// What cannot be read keeps its place, as in a list of inputs.
pub(crate) fn members(fields: &Fields<'_>, key: &str) -> Vec<Member> {
    let items = fields.items(key).into_iter().enumerate();
    items.map(|(index, (node, path))| member(&fields.reader().fields_of(node, &path), index)).collect()
}

/// Where something cannot be read, a fault is recorded and something with no fault of its own
/// stands in; it never leaves.
fn member(fields: &Fields<'_>, index: usize) -> Member {
    let kind = fields.text("type").to_ascii_lowercase();
    let target = match kind.as_str() {
        "endpoint" => Target::Endpoint { url: fields.text("url") },
        "oscar" | "" => {
            let text = fields.text("service_name");
            let service_name = ServiceName::parse(&text);
            if service_name.is_none() {
                fields.fault("service_name", quoted(&text), SERVICE_NAME_RULE);
            }
            let service_name = service_name.or_else(|| ServiceName::parse(&format!("unnamed-{index}")));
            let service_name = service_name.expect("the stand-in is a valid name");
            let parent = Some(fields.text("parent")).filter(|parent| !parent.is_empty());
            Target::Oscar { cluster_id: fields.text("cluster_id"), service_name, parent }
        }
        other => {
            fields.fault("type", quoted(other), "oscar or endpoint");
            Target::Endpoint { url: format!("https://unreadable-{index}.invalid") }
        }
    };
    Member {
        target,
        priority: fields.count("priority", 1_000_000),
        ssl_verify: fields.flag_or("ssl_verify", true),
        headers: fields.text_map("headers"),
    }
}
