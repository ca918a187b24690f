//! A disk that a service keeps.

use crate::fault::{Faults, quoted};
use crate::name::is_dns_label;
use crate::quantity::{QUANTITY_RULE, Quantity};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Volume {
    /// A new disk; without a name it is called as its service.
    Create { name: Option<String>, size: Quantity, retain: Option<bool>, mount_path: String },
    /// A disk that is there already.
    Attach { name: String, mount_path: String },
}

/// A volume as it is written: which of the two it is depends on what is blank.
#[derive(Debug, Clone, Default)]
pub struct VolumeText {
    pub name: String,
    pub size: String,
    pub mount_path: String,
    pub lifecycle_policy: String,
}

impl Volume {
    pub fn parse(text: &VolumeText) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let VolumeText { name, size, mount_path, lifecycle_policy } = text;
        if !name.is_empty() && !is_dns_label(name) {
            faults.push("name", quoted(name), "a DNS label: lower-case letters, digits and inner `-`, at most 63");
        }
        let below = |folder: &str| mount_path == folder || mount_path.starts_with(&format!("{folder}/"));
        let odd = mount_path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."));
        if !mount_path.starts_with('/') || odd || below("/oscar/config") || below("/oscar/bin") {
            faults.push(
                "mount_path",
                quoted(mount_path),
                "an absolute path without `.`, `..` or empty parts, not at or below /oscar/config or /oscar/bin",
            );
        }
        let retain = match lifecycle_policy.as_str() {
            "" => None,
            "delete" => Some(false),
            "retain" => Some(true),
            other => {
                faults.push("lifecycle_policy", quoted(other), "delete or retain");
                None
            }
        };
        let quantity = Quantity::parse(size).filter(|q| !q.is_negative() && !q.is_zero());
        if size.is_empty() {
            if name.is_empty() {
                faults.push("name", quoted(""), "the name of an existing volume, or a `size` to create one");
            }
            if !lifecycle_policy.is_empty() {
                faults.push(
                    "lifecycle_policy",
                    quoted(lifecycle_policy),
                    "nothing when an existing volume is attached",
                );
            }
        } else if quantity.is_none() {
            faults.push("size", quoted(size), format!("more than zero: {QUANTITY_RULE}"));
        }
        let (name, mount_path) = (name.clone(), mount_path.clone());
        faults.into_result(match quantity {
            Some(size) => Self::Create { name: Some(name).filter(|n| !n.is_empty()), size, retain, mount_path },
            None => Self::Attach { name, mount_path },
        })
    }

    pub fn to_text(&self) -> VolumeText {
        match self.clone() {
            Self::Create { name, size, retain, mount_path } => VolumeText {
                name: name.unwrap_or_default(),
                size: size.to_string(),
                mount_path,
                lifecycle_policy: match retain {
                    None => String::new(),
                    Some(true) => "retain".to_owned(),
                    Some(false) => "delete".to_owned(),
                },
            },
            Self::Attach { name, mount_path } => VolumeText { name, mount_path, ..VolumeText::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(name: &str, size: &str, mount_path: &str, policy: &str) -> VolumeText {
        VolumeText {
            name: name.to_owned(),
            size: size.to_owned(),
            mount_path: mount_path.to_owned(),
            lifecycle_policy: policy.to_owned(),
        }
    }

    #[test]
    fn a_size_creates_and_a_name_alone_attaches() {
        assert!(matches!(Volume::parse(&mk("", "1Gi", "/data", "")), Ok(Volume::Create { .. })));
        assert!(matches!(Volume::parse(&mk("v", "", "/data", "")), Ok(Volume::Attach { .. })));
    }

    #[test]
    fn every_fault_of_a_volume_is_named() {
        let faults = Volume::parse(&mk("", "", "oscar", "keep")).expect_err("nothing in it is right");
        let paths: Vec<_> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["mount_path", "lifecycle_policy", "name", "lifecycle_policy"]);
        assert!(Volume::parse(&mk("v", "0", "/oscar/bin/x", "")).is_err());
        for path in ["/x/../oscar/bin", "//oscar//bin", "/", "/a/"] {
            assert!(Volume::parse(&mk("v", "1Gi", path, "")).is_err(), "{path}");
        }
    }
}
