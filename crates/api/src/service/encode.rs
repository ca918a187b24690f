//! From a service to its JSON.

use oscar_model::access::View;
use oscar_model::fault::without_userinfo;
use oscar_model::federation::{Delegation, Federation, LocalShare, Member, OnUnknown, Target};
use oscar_model::quantity::Quantity;
use oscar_model::service::expose::Expose;
use oscar_model::service::kserve::{Kserve, Serving};
use oscar_model::service::labels::all_labels;
use oscar_model::service::storage::{ProviderRef, StorageIo, StorageProviders};
use oscar_model::service::volume::{Volume, VolumeText};
use oscar_model::service::{Cluster, Definition, Service};

use super::bodies::{
    ClusterBody, DelegationBody, EnvironmentBody, ExposeBody, FederationBody, InferenceBody, KserveBody,
    LlmInferenceBody, ReplicaBody, ServiceBody, StorageIoBody, SynchronousBody, VolumeBody, VolumeStatusBody,
};
use super::encode_providers::providers;

/// What a reader with that view is shown.
pub fn encode(service: &Service, view: View) -> ServiceBody<'_> {
    let mut body = full(service);
    body.script = &service.definition.script;
    body.namespace = &service.namespace;
    body.volume_status = Some(volume_status(&service.definition));
    body.owner_name = "";
    hide_own_store(&mut body);
    if view == View::Guest {
        body.token = "";
        let redacted = service.definition.storage_providers.iter();
        let redacted: StorageProviders =
            redacted.map(|(id, provider)| (id.clone(), provider.clone().redacted())).collect();
        body.storage_providers = providers(&redacted);
        hide_own_store(&mut body);
        for cluster in body.clusters.values_mut() {
            cluster.auth_user.clear();
        }
        if let Some(federation) = &mut body.federation {
            // Headers and queries may carry a key of the owner's.
            for member in &mut federation.members {
                hide_credentials(member);
            }
        }
        if let Some(kserve) = &mut body.kserve {
            // Model servers get their keys this way.
            kserve.env.values_mut().for_each(String::clear);
            cut_query(&mut kserve.storage_uri);
            kserve.storage_uri = without_userinfo(&kserve.storage_uri);
        }
    }
    body
}

/// What of a member may let somebody in.
pub fn hide_credentials(member: &mut ReplicaBody) {
    member.headers = None;
    cut_query(&mut member.url);
}

/// Queries carry keys and signatures.
fn cut_query(url: &mut String) {
    if let Some(at) = url.find(['?', '#']) {
        url.truncate(at);
    }
}

/// The keys of the cluster's own store are shown to nobody. Older managers stored them in
/// every definition.
fn hide_own_store(body: &mut ServiceBody<'_>) {
    if let Some(own) = body.storage_providers.minio.get_mut(ProviderRef::DEFAULT_ID) {
        "hidden".clone_into(&mut own.access_key);
        "hidden".clone_into(&mut own.secret_key);
    }
}

/// Everything that is stored of a service beside its script and its secrets.
pub(crate) fn full<'a>(service: &'a Service) -> ServiceBody<'a> {
    let Service { definition, owner, owner_name, token, namespace: _, bucket_list } = service;
    let Definition {
        name,
        cluster_id,
        memory,
        cpu,
        total_memory,
        total_cpu,
        ephemeral_storage_request,
        enable_gpu,
        enable_sgx,
        image_prefetch,
        synchronous,
        federation,
        log_level,
        image,
        alpine,
        file_stage_in,
        input,
        output,
        script: _,
        image_pull_secrets,
        expose,
        environment,
        annotations,
        vo,
        labels: _,
        storage_providers,
        clusters,
        interlink_node_name,
        visibility,
        allowed_users,
        isolation,
        mount,
        volume,
        kserve,
    } = definition;
    let optional = |quantity: &'a Option<Quantity>| quantity.as_ref().map_or("", Quantity::as_str);
    ServiceBody {
        name: name.as_str(),
        cluster_id,
        memory: memory.as_str(),
        cpu: cpu.as_str(),
        total_memory: optional(total_memory),
        total_cpu: optional(total_cpu),
        ephemeral_storage_request: optional(ephemeral_storage_request),
        enable_gpu: *enable_gpu,
        enable_sgx: *enable_sgx,
        image_prefetch: *image_prefetch,
        synchronous: SynchronousBody { min_scale: synchronous.min_scale, max_scale: synchronous.max_scale },
        federation: federation.as_ref().map(federation_body),
        log_level: log_level.as_str(),
        image,
        alpine: *alpine,
        token: token.expose(),
        file_stage_in: *file_stage_in,
        input: input.iter().map(storage_io).collect(),
        output: output.iter().map(storage_io).collect(),
        script: "",
        image_pull_secrets,
        expose: expose_body(expose),
        environment: EnvironmentBody {
            variables: &environment.variables,
            secrets: environment.secrets.keys().map(|key| (key.as_str(), "")).collect(),
        },
        annotations,
        vo,
        labels: all_labels(service),
        storage_providers: providers(storage_providers),
        clusters: clusters.iter().map(|(id, cluster)| (id.clone(), cluster_body(cluster))).collect(),
        owner: owner.as_str(),
        namespace: "",
        interlink_node_name,
        visibility: visibility.as_str(),
        allowed_users,
        isolation_level: isolation.as_str(),
        bucket_list,
        mount: mount.as_ref().map(storage_io).unwrap_or_default(),
        volume: volume.as_ref().map(volume_body),
        volume_status: None,
        deployment: None,
        kserve: kserve.as_ref().map(kserve_body),
        owner_name,
    }
}

fn storage_io(io: &StorageIo) -> StorageIoBody<'_> {
    let StorageIo { provider_text, provider: _, path, suffix, prefix, options } = io;
    StorageIoBody { storage_provider: provider_text, path, suffix, prefix, options }
}

fn expose_body(expose: &Expose) -> ExposeBody {
    let Expose {
        min_scale,
        max_scale,
        api_port,
        cpu_threshold,
        rewrite_target,
        node_port,
        default_command,
        set_auth,
        auth_type,
        health_path,
        probe_mode,
    } = expose.clone();
    ExposeBody {
        min_scale,
        max_scale,
        api_port,
        cpu_threshold,
        rewrite_target,
        node_port,
        default_command,
        set_auth,
        auth_type,
        health_path,
        probe_mode,
    }
}

fn cluster_body(cluster: &Cluster) -> ClusterBody {
    let Cluster { endpoint, auth_user, auth_password: _, ssl_verify } = cluster.clone();
    ClusterBody { endpoint, auth_user, auth_password: String::new(), ssl_verify }
}

fn volume_body(volume: &Volume) -> VolumeBody {
    let VolumeText { name, size, mount_path, lifecycle_policy } = volume.to_text();
    VolumeBody { name, size, mount_path, lifecycle_policy }
}

fn volume_status(definition: &Definition) -> VolumeStatusBody {
    let name = match &definition.volume {
        None => String::new(),
        Some(Volume::Attach { name, .. } | Volume::Create { name: Some(name), .. }) => name.clone(),
        Some(Volume::Create { name: None, .. }) => definition.name.to_string(),
    };
    VolumeStatusBody { enabled: definition.volume.is_some(), name }
}

fn kserve_body(kserve: &Kserve) -> KserveBody {
    let Kserve {
        serving,
        storage_uri,
        api_version,
        min_scale,
        max_scale,
        cpu,
        memory,
        args,
        env,
        enable_gpu,
        set_auth,
    } = kserve.clone();
    let (kind, inference, llm_inference) = match serving {
        Serving::Inference { model_format, runtime } => {
            ("inference", Some(InferenceBody { model_format, runtime }), None)
        }
        Serving::Llm { runtime_image } => ("llm_inference", None, Some(LlmInferenceBody { runtime_image })),
    };
    KserveBody {
        r#type: kind.to_owned(),
        inference,
        llm_inference,
        storage_uri,
        api_version,
        min_scale,
        max_scale,
        cpu: cpu.to_string(),
        memory: memory.to_string(),
        args,
        env,
        enable_gpu,
        set_auth,
    }
}

pub(crate) fn federation_body(federation: &Federation) -> FederationBody {
    let Federation {
        group_id,
        topology,
        delegation,
        rescheduler_threshold,
        members,
        local,
        on_unknown,
        share_refresh_token,
        share_secrets,
    } = federation;
    FederationBody {
        group_id: group_id.clone(),
        topology: topology.as_str().to_owned(),
        delegation: delegation_body(delegation),
        rescheduler_threshold: *rescheduler_threshold,
        members: members.iter().map(replica_body).collect(),
        local: if *local == LocalShare::First { String::new() } else { local.as_str().to_owned() },
        on_unknown: if *on_unknown == OnUnknown::Wait { String::new() } else { on_unknown.as_str().to_owned() },
        share_refresh_token: *share_refresh_token,
        share_secrets: *share_secrets,
    }
}

pub(crate) fn delegation_body(delegation: &Delegation) -> Option<DelegationBody> {
    let mode = delegation.mode.map(|mode| mode.as_str().to_owned());
    if delegation.weights.is_empty() {
        return mode.map(DelegationBody::Word);
    }
    let weights = delegation.weights.iter().map(|(name, weight)| (name.clone(), f64::from(*weight) / 1000.0)).collect();
    Some(DelegationBody::Weighted { mode: mode.unwrap_or_default(), weights })
}

pub(crate) fn replica_body(member: &Member) -> ReplicaBody {
    let Member { target, priority, ssl_verify, headers } = member.clone();
    let (kind, cluster_id, service_name, url, parent) = match target {
        Target::Oscar { cluster_id, service_name, parent } => {
            ("oscar", cluster_id, service_name.to_string(), String::new(), parent.unwrap_or_default())
        }
        Target::Endpoint { url } => ("endpoint", String::new(), String::new(), url, String::new()),
    };
    ReplicaBody {
        r#type: kind.to_owned(),
        cluster_id,
        service_name,
        url,
        ssl_verify,
        priority,
        headers: Some(headers).filter(|headers| !headers.is_empty()),
        parent,
    }
}
