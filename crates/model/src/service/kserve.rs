//! Model serving beside a service. Stored and validated; acted on only where KServe is.

use std::collections::BTreeMap;

use crate::fault::{Faults, quoted};
use crate::quantity::Quantity;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kserve {
    pub serving: Serving,
    pub storage_uri: String,
    /// `v1` or `v2`.
    pub api_version: String,
    pub min_scale: u32,
    pub max_scale: u32,
    pub cpu: Quantity,
    pub memory: Quantity,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub enable_gpu: bool,
    pub set_auth: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    Inference { model_format: String, runtime: String },
    Llm { runtime_image: String },
}

impl Kserve {
    pub fn check(&self) -> Faults {
        let mut faults = Faults::default();
        if self.storage_uri.is_empty() {
            faults.push("storage_uri", quoted(""), "the address of the model");
        }
        if !matches!(self.api_version.as_str(), "v1" | "v2") {
            faults.push("api_version", quoted(&self.api_version), "v1 or v2");
        }
        if let Serving::Inference { model_format, .. } = &self.serving
            && model_format.is_empty()
        {
            faults.push("inference.model_format", quoted(""), "the format of the model, such as `sklearn`");
        }
        faults
    }
}
