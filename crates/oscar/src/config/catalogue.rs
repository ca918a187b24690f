//! Every setting, once: its key in the file, its flag, its variable, its default and meaning.
//! The table in the documentation of the configuration is printed from this one.

/// How the text of a setting is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Never shown.
    Secret,
    Flag,
    Count,
    /// More than zero.
    Seconds,
    /// Separated by commas.
    List,
    Url,
    Quantity,
}

pub struct Setting {
    pub key: &'static str,
    pub variable: &'static str,
    pub kind: Kind,
    /// Blank where the default depends on something else; the meaning says on what.
    pub default: &'static str,
    pub meaning: &'static str,
}

const fn setting(
    key: &'static str,
    variable: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { key, variable, kind, default, meaning }
}

/// The variables that Go OSCAR has under the same name.
pub const UPSTREAM: &[&str] = &[
    "ADDITIONAL_CONFIG_PATH",
    "JOB_LISTING_LIMIT",
    "MINIO_ACCESS_KEY",
    "MINIO_ENDPOINT",
    "MINIO_REGION",
    "MINIO_SECRET_KEY",
    "MINIO_TLS_VERIFY",
    "OIDC_ENABLE",
    "OIDC_GROUPS",
    "OIDC_ISSUERS",
    "OSCAR_CONTROLLER_SERVICE_ACCOUNT",
    "OSCAR_NAME",
    "OSCAR_NAMESPACE",
    "OSCAR_PASSWORD",
    "OSCAR_SERVICES_NAMESPACE",
    "OSCAR_SERVICE_PORT",
    "OSCAR_USERNAME",
    "READ_TIMEOUT",
    "TTL_JOB",
    "USERS_ADMIN",
    "WRITE_TIMEOUT",
];

use Kind::{Count, Flag, List, Quantity, Seconds, Secret, Text, Url};

/// In the order that `oscar config show` prints.
pub const CATALOGUE: &[Setting] = &[
    setting(
        "world",
        "OSCAR_WORLD",
        Text,
        "auto",
        "where services live: local, kubernetes, or auto (Kubernetes inside a pod)",
    ),
    setting("data", "OSCAR_DATA", Text, "", "folder of the local world; default $XDG_DATA_HOME/oscar"),
    setting(
        "listen",
        "OSCAR_LISTEN",
        Text,
        "",
        "address to listen on; default 127.0.0.1 (0.0.0.0 on Kubernetes) and service_port",
    ),
    setting("service_port", "OSCAR_SERVICE_PORT", Count, "8080", "port to listen on when listen is not given"),
    setting(
        "public_url",
        "OSCAR_PUBLIC_URL",
        Url,
        "",
        "address under which others reach this manager; default the listener",
    ),
    setting("cluster_id", "OSCAR_CLUSTER_ID", Text, "oscar", "name of this cluster for people and peers"),
    setting("username", "OSCAR_USERNAME", Text, "oscar", "name of the administrator"),
    setting(
        "password",
        "OSCAR_PASSWORD",
        Secret,
        "",
        "password of the administrator; made and kept in the data folder when not given",
    ),
    setting(
        "cors",
        "OSCAR_CORS",
        Text,
        "auto",
        "answer browsers of other origins: on, off, or auto (on in the local world)",
    ),
    setting("read_timeout", "READ_TIMEOUT", Seconds, "300", "seconds for a request to arrive"),
    setting("write_timeout", "WRITE_TIMEOUT", Seconds, "300", "seconds for an answer to be made"),
    setting("oidc_enable", "OIDC_ENABLE", Flag, "false", "accept bearer tokens of users"),
    setting("oidc_issuers", "OIDC_ISSUERS", List, "", "addresses of the accepted identity providers"),
    setting(
        "oidc_groups",
        "OIDC_GROUPS",
        List,
        "",
        "groups that may use this cluster; none accepts every authenticated user",
    ),
    setting(
        "oidc_group_claim",
        "OIDC_GROUP_CLAIM",
        Text,
        "",
        "claim that holds the groups; default by the issuer, as OSCAR does",
    ),
    setting("oidc_audience", "OIDC_AUDIENCE", Text, "", "audience that tokens must name; default none"),
    setting(
        "oidc_client_id",
        "OIDC_CLIENT_ID",
        Text,
        "",
        "client that refresh tokens are used with when they name none themselves",
    ),
    setting("oidc_client_secret", "OIDC_CLIENT_SECRET", Secret, "", "and its secret; a public client has none"),
    setting(
        "oidc_refresh_scope",
        "OIDC_REFRESH_SCOPE",
        Text,
        "",
        "scope to ask for when a token is refreshed; default that of the sign-in",
    ),
    setting("oidc_leeway", "OIDC_LEEWAY", Count, "30", "seconds that clocks may differ"),
    setting("oidc_ca", "OIDC_CA", Text, "", "file of a certificate authority that issuers are signed by"),
    setting(
        "peer_networks",
        "OSCAR_PEER_NETWORKS",
        List,
        "",
        "networks (CIDR) and host names of other managers that may be called besides public addresses",
    ),
    setting("peer_ca", "OSCAR_PEER_CA", Text, "", "file of a certificate authority that other managers are signed by"),
    setting("peer_timeout", "OSCAR_PEER_TIMEOUT", Seconds, "10", "seconds for one call to another manager"),
    setting(
        "reconcile_interval",
        "OSCAR_RECONCILE_INTERVAL",
        Seconds,
        "30",
        "seconds between two looks at the members of federations",
    ),
    setting(
        "refresh_token_age",
        "OSCAR_REFRESH_TOKEN_AGE",
        Seconds,
        "2592000",
        "seconds after which a refresh token is said to be old",
    ),
    setting(
        "secret_key_file",
        "OSCAR_SECRET_KEY_FILE",
        Text,
        "",
        "file with the key (64 hexadecimal characters) that credentials are sealed with in the local world; default one \
         is made in the data folder",
    ),
    setting("users_admin", "USERS_ADMIN", List, "", "subjects who see the state of the whole cluster"),
    setting(
        "minio_endpoint",
        "MINIO_ENDPOINT",
        Url,
        "",
        "address of the object store; default none locally, https://minio-service.minio:9000 on Kubernetes",
    ),
    setting("minio_access_key", "MINIO_ACCESS_KEY", Text, "", "administrator's key of the object store"),
    setting("minio_secret_key", "MINIO_SECRET_KEY", Secret, "", "and its secret"),
    setting("minio_region", "MINIO_REGION", Text, "us-east-1", "region of the object store"),
    setting("minio_tls_verify", "MINIO_TLS_VERIFY", Flag, "true", "check the certificate of the object store"),
    setting(
        "minio_webhook",
        "OSCAR_MINIO_WEBHOOK",
        Text,
        "OSCAR",
        "name that an external MinIO's configuration gives to the webhook that tells this manager of uploads",
    ),
    setting(
        "minio_webhook_token",
        "OSCAR_MINIO_WEBHOOK_TOKEN",
        Secret,
        "",
        "what that webhook has to show; default one is made in the data folder",
    ),
    setting("cpu", "OSCAR_CPU", Quantity, "", "cores that jobs may use in the local world; default this machine's"),
    setting(
        "memory",
        "OSCAR_MEMORY",
        Quantity,
        "",
        "memory that jobs may use in the local world; default this machine's",
    ),
    setting("gpus", "OSCAR_GPUS", Count, "0", "GPUs that jobs may use in the local world"),
    setting("job_listing_limit", "JOB_LISTING_LIMIT", Count, "70", "jobs or objects of one page, 1 to 1000"),
    setting("job_keep_for", "TTL_JOB", Seconds, "2592000", "seconds that a job is remembered after its end"),
    setting(
        "job_keep_most",
        "OSCAR_JOB_KEEP_MOST",
        Count,
        "10000",
        "jobs that have ended that are remembered of each service",
    ),
    setting("job_time_limit", "OSCAR_JOB_TIME_LIMIT", Seconds, "86400", "seconds that one attempt of a job may take"),
    setting("run_time_limit", "OSCAR_RUN_TIME_LIMIT", Seconds, "300", "seconds that a synchronous run may take"),
    setting("run_queue", "OSCAR_RUN_QUEUE", Count, "64", "synchronous runs that may wait for room"),
    setting(
        "executor",
        "OSCAR_EXECUTOR",
        Text,
        "auto",
        "what jobs run in, in the local world: bubblewrap, container, process (no isolation), or auto (the first that \
         works here)",
    ),
    setting(
        "job_disk",
        "OSCAR_JOB_DISK",
        Quantity,
        "10Gi",
        "what the outputs of one run may take on the disk in the local world, as in Kubernetes; 0 for no limit",
    ),
    setting(
        "job_network",
        "OSCAR_JOB_NETWORK",
        Text,
        "host",
        "network that jobs see in the local world: host, or none for nothing but the object store",
    ),
    setting(
        "s3_listen",
        "OSCAR_S3_LISTEN",
        Text,
        "",
        "address for the object store of the local world alone; default none: it answers on the manager's own",
    ),
    setting(
        "s3_url",
        "OSCAR_S3_URL",
        Url,
        "",
        "address under which others reach that object store; default s3_listen, or public_url without it",
    ),
    setting("name", "OSCAR_NAME", Text, "oscar", "name of the manager's Deployment and Service on Kubernetes"),
    setting("namespace", "OSCAR_NAMESPACE", Text, "oscar", "namespace of the manager on Kubernetes"),
    setting(
        "services_namespace",
        "OSCAR_SERVICES_NAMESPACE",
        Text,
        "oscar-svc",
        "namespace of the administrator's services, and prefix of those of users",
    ),
    setting(
        "controller_service_account",
        "OSCAR_CONTROLLER_SERVICE_ACCOUNT",
        Text,
        "oscar-sa",
        "ServiceAccount of the manager on Kubernetes",
    ),
    setting(
        "additional_config",
        "ADDITIONAL_CONFIG_PATH",
        Text,
        "config.yaml",
        "ConfigMap that holds the allowed image repositories",
    ),
    setting("log", "OSCAR_LOG", Text, "info", "what is logged: error, warn, info, debug, trace, or by module"),
    setting("log_format", "OSCAR_LOG_FORMAT", Text, "text", "text for people, json for machines"),
];
