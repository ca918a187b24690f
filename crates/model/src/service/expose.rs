//! Services that keep running and are reached over HTTP.

use crate::fault::{Faults, quoted};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expose {
    pub min_scale: u32,
    pub max_scale: u32,
    /// Blank when the service is not exposed.
    pub api_port: Vec<u16>,
    pub cpu_threshold: u32,
    pub rewrite_target: bool,
    /// As many as ports, or none; zero asks for any.
    pub node_port: Vec<u16>,
    pub default_command: bool,
    pub set_auth: bool,
    /// Blank, `basic` or `forward`.
    pub auth_type: String,
    pub health_path: String,
    /// Blank, `legacy` or `direct`.
    pub probe_mode: String,
}

impl Expose {
    pub fn is_exposed(&self) -> bool {
        self.api_port.first().is_some_and(|port| *port != 0)
    }

    pub fn check(&self) -> Faults {
        let mut faults = Faults::default();
        if !self.node_port.is_empty() && self.node_port.len() != self.api_port.len() {
            faults.push(
                "nodePort",
                format!("{} ports", self.node_port.len()),
                format!("as many as api_port has ({})", self.api_port.len()),
            );
        }
        if self.max_scale != 0 && self.max_scale < self.min_scale {
            faults.push("max_scale", self.max_scale.to_string(), format!("at least min_scale ({})", self.min_scale));
        }
        if self.cpu_threshold > 100 {
            faults.push("cpu_threshold", self.cpu_threshold.to_string(), "a percentage from 0 to 100");
        }
        for (path, value, allowed) in [
            ("auth_type", &self.auth_type, ["basic", "forward"]),
            ("probe_mode", &self.probe_mode, ["legacy", "direct"]),
        ] {
            if !value.is_empty() && !allowed.contains(&value.as_str()) {
                faults.push(path, quoted(value), allowed.join(" or "));
            }
        }
        faults
    }
}
