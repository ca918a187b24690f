//! From a tree to a definition: every default, every check that needs nothing but the text.

use std::collections::BTreeMap;

use oscar_model::fault::{Faults, quoted};
use oscar_model::federation::check::is_http_url;
use oscar_model::image::{IMAGE_RULE, is_image};
use oscar_model::name::{
    CLUSTER_ID_RULE, SERVICE_NAME_RULE, ServiceName, is_cluster_id, is_dns_label, is_label_key, is_label_value,
    is_variable_name,
};
use oscar_model::quantity::Quantity;
use oscar_model::secret::Secret;
use oscar_model::service::labels::is_reserved;
use oscar_model::service::storage::{BUCKET_RULE, Place, is_bucket_name};
use oscar_model::service::{
    DEFAULT_CPU, DEFAULT_MEMORY, Definition, Environment, Isolation, LogLevel, Synchronous, Visibility,
};

use super::decode_parts;
use crate::tree::{Fields, Node, Reader};

/// The largest script, image list and so on are bounded by the body; these by what they become.
const MOST_SCRIPT: usize = 1 << 20;

/// How strict to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// JSON of a client: types are strict, every rule applies.
    Json,
    /// YAML of a person: numbers may stand for text, every rule applies.
    Yaml,
    /// Something stored, maybe by another manager: only what cannot be understood is a fault.
    Stored,
}

/// A definition, with what a client may say only in certain cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub definition: Definition,
    /// A service token; taken over only for replicas that a coordinator deploys.
    pub token: Secret,
}

/// Reads a service. `path` is where it stands in its document; faults carry it.
pub fn decode(node: &Node, path: &str, mode: Mode) -> Result<Draft, Faults> {
    let (draft, faults) = read(node, path, mode);
    faults.into_result(draft)
}

/// As [`decode`], but with what could be read beside the faults, so that more can be checked
/// before anybody is told.
pub fn read(node: &Node, path: &str, mode: Mode) -> (Draft, Faults) {
    let reader = Reader::new(node, mode != Mode::Json);
    let fields = reader.fields(path);
    let strict = mode != Mode::Stored;
    let name = ServiceName::parse(&fields.text("name"));
    if name.is_none() && !reader.has_fault_at(&fields.path("name")) {
        fields.fault("name", quoted(&fields.text("name")), SERVICE_NAME_RULE);
    }
    let definition = Definition {
        // The placeholder never leaves: a fault was recorded.
        name: name.or_else(|| ServiceName::parse("unnamed")).expect("a constant name is valid"),
        cluster_id: fields.text("cluster_id"),
        memory: quantity_or(&fields, "memory", DEFAULT_MEMORY, strict),
        cpu: quantity_or(&fields, "cpu", DEFAULT_CPU, strict),
        total_memory: fields.quantity("total_memory"),
        total_cpu: fields.quantity("total_cpu"),
        ephemeral_storage_request: fields.quantity("ephemeral_storage_request"),
        enable_gpu: fields.flag("enable_gpu"),
        enable_sgx: fields.flag("enable_sgx"),
        image_prefetch: fields.flag("image_prefetch"),
        synchronous: synchronous(&fields.fields("synchronous")),
        federation: None,
        log_level: LogLevel::parse(&fields.text("log_level")),
        image: fields.text("image"),
        alpine: fields.flag("alpine"),
        file_stage_in: fields.flag("file_stage_in"),
        input: decode_parts::storage_list(&fields, "input", strict.then_some(Place::Input)),
        output: decode_parts::storage_list(&fields, "output", strict.then_some(Place::Output)),
        script: fields.text("script").replace("\r\n", "\n").replace('\r', "\n"),
        image_pull_secrets: fields.texts("image_pull_secrets"),
        expose: decode_parts::expose(&fields.fields("expose"), strict),
        environment: environment(&fields),
        annotations: fields.text_map("annotations"),
        vo: fields.text("vo"),
        labels: labels(&fields),
        storage_providers: decode_parts::providers(&fields),
        clusters: decode_parts::clusters(&fields),
        interlink_node_name: fields.text("interlink_node_name"),
        visibility: visibility(&fields, strict),
        allowed_users: allowed_users(&fields, strict),
        isolation: isolation(&fields, strict),
        mount: decode_parts::mount(&fields.fields("mount"), strict),
        volume: decode_parts::volume(&fields.fields("volume"), fields.get("volume").is_some(), strict),
        kserve: None,
    };
    let mut definition = definition;
    definition.federation =
        fields.get("federation").map(|_| decode_parts::federation(&fields.fields("federation"), &definition.name));
    definition.kserve = fields.get("kserve").and_then(|_| decode_parts::kserve(&fields.fields("kserve"), strict));
    if strict {
        check_texts(&fields, &definition);
        check_environment(&fields, &definition.environment);
        check_clusters(&fields, &definition);
        definition.normalise_paths();
        check_buckets(&fields, &definition);
    }
    let token = Secret::new(fields.text("token"));
    let mut faults = reader.into_faults();
    for fault in &mut faults.0 {
        let below = fault.path.strip_prefix(path).unwrap_or(&fault.path);
        fault.line = node.line_of(below);
    }
    (Draft { definition, token }, faults)
}

fn quantity_or(fields: &Fields<'_>, key: &str, default: &str, strict: bool) -> Quantity {
    let quantity = fields.quantity(key);
    if let Some(zero) = quantity.as_ref().filter(|quantity| strict && quantity.is_zero()) {
        fields.fault(key, quoted(zero.as_str()), "more than zero");
    }
    quantity.or_else(|| Quantity::parse(default)).expect("the defaults are quantities")
}

fn synchronous(fields: &Fields<'_>) -> Synchronous {
    let scale =
        Synchronous { min_scale: fields.count("min_scale", 10_000), max_scale: fields.count("max_scale", 10_000) };
    if scale.max_scale != 0 && scale.max_scale < scale.min_scale {
        fields.fault(
            "max_scale",
            scale.max_scale.to_string(),
            format!("0 or at least min_scale ({})", scale.min_scale),
        );
    }
    scale
}

/// Secrets may also stand beside `environment`, as early documents of federation have it.
fn environment(service: &Fields<'_>) -> Environment {
    let fields = service.fields("environment");
    let secrets = service.text_map("secrets").into_iter().chain(fields.text_map("secrets"));
    let secrets = secrets.map(|(name, value)| (name, Secret::new(value))).collect();
    Environment { variables: fields.text_map("variables"), secrets }
}

fn labels(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut labels = fields.text_map("labels");
    labels.retain(|key, _| !is_reserved(key));
    labels
}

fn visibility(fields: &Fields<'_>, strict: bool) -> Visibility {
    if strict {
        fields.word("visibility", "private, restricted or public", Visibility::parse)
    } else {
        // What another manager stored with a typing error is shown to nobody but its owner.
        Visibility::parse(&fields.text("visibility")).unwrap_or_default()
    }
}

fn isolation(fields: &Fields<'_>, strict: bool) -> Isolation {
    if strict {
        fields.word("isolation_level", "SERVICE or USER", Isolation::parse)
    } else {
        Isolation::parse(&fields.text("isolation_level")).unwrap_or_default()
    }
}

/// Blank entries mean nobody; the others are numbered as the user does.
fn allowed_users(fields: &Fields<'_>, strict: bool) -> Vec<String> {
    let texts = fields.texts("allowed_users");
    for (index, user) in texts.iter().map(|user| user.trim()).enumerate().filter(|_| strict) {
        if user.len() > 255 || user.contains(char::is_control) {
            fields.fault(&format!("allowed_users[{index}]"), quoted(user), "the subject of a user");
        }
    }
    let trimmed = texts.into_iter().map(|user| user.trim().to_owned());
    trimmed.filter(|user| !user.is_empty()).collect()
}

/// A path without a bucket gets the one of its service, whose name may be too short for that.
fn check_buckets(fields: &Fields<'_>, definition: &Definition) {
    for (key, list) in [("input", &definition.input), ("output", &definition.output)] {
        for (index, io) in list.iter().enumerate() {
            let path = format!("{key}[{index}].path");
            let fits = io.bucket().is_none_or(is_bucket_name);
            if !fits && !fields.reader().has_fault_at(&fields.path(&path)) {
                fields.fault(&path, quoted(&io.path), format!("to begin with the name of a bucket: {BUCKET_RULE}"));
            }
        }
    }
}

/// The dashboard sends an entry that is blank throughout; that one means nothing.
fn check_clusters(fields: &Fields<'_>, definition: &Definition) {
    for (id, cluster) in &definition.clusters {
        let path = format!("clusters.{id}");
        if !is_cluster_id(id) {
            fields.fault(&path, quoted(id), CLUSTER_ID_RULE);
        }
        if !cluster.endpoint.is_empty() && !is_http_url(&cluster.endpoint) {
            fields.fault(&format!("{path}.endpoint"), quoted(&cluster.endpoint), "an http or https address");
        }
    }
}

/// Rules on texts that are values rather than structure.
fn check_texts(fields: &Fields<'_>, definition: &Definition) {
    let reader = fields.reader();
    let check = |key: &str, fits: bool, found: &str, allowed: &str| {
        if !fits && !reader.has_fault_at(&fields.path(key)) {
            fields.fault(key, quoted(found), allowed);
        }
    };
    check("image", is_image(&definition.image), &definition.image, IMAGE_RULE);
    check(
        "cluster_id",
        definition.cluster_id.is_empty() || is_cluster_id(&definition.cluster_id),
        &definition.cluster_id,
        CLUSTER_ID_RULE,
    );
    if !definition.script.is_empty() && definition.script.len() > MOST_SCRIPT {
        fields.fault("script", format!("{} bytes", definition.script.len()), "at most 1 MiB");
    }
    check("script", !definition.script.trim().is_empty(), &definition.script, "the text of a script");
    check(
        "vo",
        definition.vo.len() <= 255 && !definition.vo.contains(char::is_control),
        &definition.vo,
        "at most 255 printable characters",
    );
    for (index, name) in definition.image_pull_secrets.iter().enumerate() {
        let fits = name.len() <= 253 && name.split('.').all(is_dns_label);
        check(&format!("image_pull_secrets[{index}]"), fits, name, "the name of a Kubernetes Secret");
    }
    for (name, value) in &definition.labels {
        check(&format!("labels.{name}"), is_label_key(name), name, "a Kubernetes label key");
        check(
            &format!("labels.{name}"),
            is_label_value(value),
            value,
            "a Kubernetes label value: at most 63 letters, digits, `-`, `_` and `.`",
        );
    }
    for name in definition.annotations.keys() {
        check(&format!("annotations.{name}"), is_label_key(name), name, "a Kubernetes annotation key");
    }
}

/// Linux starts no program with a longer `NAME=value`, its ending included.
const MOST_VARIABLE: usize = 128 << 10;

/// Nor one with much more than this altogether.
const MOST_ENVIRONMENT: usize = 1 << 20;

/// What no process could be given. Values may be secrets: none is quoted.
fn check_environment(fields: &Fields<'_>, environment: &Environment) {
    let variables = environment.variables.iter().map(|(name, value)| ("variables", name, value.as_str()));
    let secrets = environment.secrets.iter().map(|(name, value)| ("secrets", name, value.expose()));
    let mut altogether = 0;
    for (part, name, value) in variables.chain(secrets) {
        let path = format!("environment.{part}.{name}");
        if fields.reader().has_fault_at(&fields.path(&path)) {
            continue;
        }
        altogether += name.len() + value.len() + 2;
        let most = MOST_VARIABLE.saturating_sub(name.len() + 2);
        if !is_variable_name(name) {
            let rule = "a name of letters, digits, `_`, `-` and `.`, not beginning with a digit";
            fields.fault(&path, quoted(name), rule);
        } else if value.contains('\0') {
            fields.fault(&path, "a NUL character", "text without one: no process can be given it");
        } else if value.len() > most {
            let rule = format!("at most {most}: no process can be given more");
            fields.fault(&path, format!("{} bytes", value.len()), rule);
        }
    }
    if altogether > MOST_ENVIRONMENT {
        fields.fault("environment", format!("{altogether} bytes"), "at most 1 MiB of variables and secrets");
    }
}
