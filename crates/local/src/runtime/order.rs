//! What the manager tells the supervisor of an attempt, and what it is told. Both are files in
//! the attempt's folder; the order holds credentials and is readable for the manager's user only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oscar_api::record;
use oscar_engine::ports::runtime::{Ended, Exit, Order, Outputs};
use oscar_exec::Network;
use oscar_model::job::Output;
use serde::{Deserialize, Serialize};

use crate::attempt::Setup;

#[derive(Serialize, Deserialize)]
pub struct AttemptOrder {
    pub job: String,
    pub attempt: u32,
    /// The stored record of the service, as supervisors read it.
    pub config: String,
    pub image: String,
    pub cores: i64,
    pub bytes: i64,
    pub gpu: bool,
    /// The environment of the script.
    pub environment: BTreeMap<String, String>,
    pub store: Option<StoreKeys>,
    /// Where outputs for the cluster's own store are staged; in their place when absent.
    pub staging: Option<Staging>,
    pub time_limit_ms: Option<u64>,
    pub synchronous: bool,
    pub log: PathBuf,
    /// How scripts are run here.
    pub setup: Setup,
}

#[derive(Serialize, Deserialize)]
pub struct StoreKeys {
    pub endpoint: String,
    /// Where a manager writes down the address at each start.
    pub endpoint_file: PathBuf,
    pub access_key: String,
    pub secret_key: String,
}

#[derive(Serialize, Deserialize)]
pub struct Staging {
    pub bucket: String,
    pub prefix: String,
}

/// With `none` the scripts of a service reach nothing.
const NETWORK_ANNOTATION: &str = "oscar.grycap/network";

impl AttemptOrder {
    pub(super) fn of(order: &Order, log: PathBuf, endpoint_file: PathBuf, mut setup: Setup) -> Self {
        let definition = &order.service.definition;
        // A service may want less than the operator allows, and never more.
        if definition.annotations.get(NETWORK_ANNOTATION).is_some_and(|wanted| wanted == "none") {
            setup.network = Network::None;
        }
        Self {
            job: order.run.job.to_string(),
            attempt: order.run.attempt,
            config: record::to_json(&order.service),
            image: definition.image.clone(),
            cores: definition.cpu.millis(),
            bytes: definition.memory.units(),
            gpu: definition.enable_gpu,
            environment: environment(order),
            store: order.store.keys.as_ref().map(|keys| StoreKeys {
                endpoint: order.store.endpoint.clone(),
                endpoint_file,
                access_key: keys.access_key.clone(),
                secret_key: keys.secret_key.expose().to_owned(),
            }),
            staging: match &order.outputs {
                Outputs::Direct => None,
                Outputs::Staged { bucket, prefix } => {
                    Some(Staging { bucket: bucket.clone(), prefix: prefix.trim_end_matches('/').to_owned() })
                }
            },
            time_limit_ms: order.time_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            synchronous: order.synchronous,
            log,
            setup,
        }
    }
}

/// As in OSCAR's containers: the user's variables, then what OSCAR promises, then secrets.
fn environment(order: &Order) -> BTreeMap<String, String> {
    let service = &order.service;
    let definition = &service.definition;
    let base_path = match definition.expose.api_port.first() {
        Some(port) if *port != 0 => format!("/system/services/{}/exposed", definition.name),
        _ => String::new(),
    };
    let promised = [
        ("OSCAR_SERVICE_NAME", definition.name.to_string()),
        ("OSCAR_SERVICE_TOKEN", service.token.expose().to_owned()),
        ("OSCAR_SERVICE_BASE_PATH", base_path),
        ("RESOURCE_ID", "local".to_owned()),
    ];
    let mut environment = definition.environment.variables.clone();
    environment.extend(promised.into_iter().map(|(name, value)| (name.to_owned(), value)));
    environment.extend(order.secrets.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    environment
}

/// How the attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    pub exit: ResultExit,
    pub outputs: Vec<ResultOutput>,
    /// Milliseconds since 1970, when the script began.
    pub began: Option<u64>,
    pub ended: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultExit {
    Success,
    Code(i32),
    TimedOut,
    Cancelled,
    NoRoom(String),
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOutput {
    pub provider: String,
    pub bucket: String,
    pub key: String,
    pub bytes: u64,
    pub staged: Option<String>,
}

impl From<AttemptResult> for Ended {
    fn from(result: AttemptResult) -> Self {
        let AttemptResult { exit, outputs, began, ended } = result;
        let exit = match exit {
            ResultExit::Success => Exit::Success,
            ResultExit::Code(code) => Exit::Code(code),
            ResultExit::TimedOut => Exit::TimedOut,
            ResultExit::Cancelled => Exit::Cancelled,
            ResultExit::NoRoom(sentence) => Exit::NoRoom(sentence),
            ResultExit::Failed(sentence) => Exit::Failed(sentence),
        };
        let outputs = outputs
            .into_iter()
            .map(|ResultOutput { provider, bucket, key, bytes, staged }| Output {
                provider,
                bucket,
                key,
                bytes,
                staged,
            })
            .collect();
        Self { exit, outputs, began, ended }
    }
}
