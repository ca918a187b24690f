use std::time::Duration;

/// How this manager is named and where its things are; the defaults are Go OSCAR's.
#[derive(Debug, Clone)]
pub struct Options {
    /// `OSCAR_NAME`: the name of the manager's own Deployment.
    pub name: String,
    /// `OSCAR_NAMESPACE`: where the manager runs.
    pub namespace: String,
    /// `OSCAR_SERVICES_NAMESPACE`: the administrator's services, and the prefix of the
    /// namespaces of users.
    pub services_namespace: String,
    /// `OSCAR_CONTROLLER_SERVICE_ACCOUNT`, in [`Options::namespace`].
    pub controller_service_account: String,
    /// `ADDITIONAL_CONFIG_PATH`: the name of the ConfigMap with the settings.
    pub additional_config: String,
    /// How long an unfinished change of another manager has to stand still before it is taken
    /// for abandoned and finished by this one. A change of ours gives up well before, so it
    /// has to be the same for all managers of a cluster.
    pub patience: Duration,
    /// How often nodes' usage is asked for.
    pub metrics_interval: Duration,
    /// How long the manager that repairs federations may be silent before another takes over.
    /// It has to be the same for all managers of a cluster.
    pub lease_duration: Duration,
    /// How long audit records may wait to be stored together.
    pub audit_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "oscar".to_owned(),
            namespace: "oscar".to_owned(),
            services_namespace: "oscar-svc".to_owned(),
            controller_service_account: "oscar-sa".to_owned(),
            additional_config: "config.yaml".to_owned(),
            patience: Duration::from_secs(15),
            metrics_interval: Duration::from_secs(15),
            lease_duration: Duration::from_secs(15),
            audit_interval: Duration::from_secs(3),
        }
    }
}

impl Options {
    /// Whether services live in that namespace.
    pub(crate) fn holds_services(&self, namespace: &str) -> bool {
        namespace.strip_prefix(&self.services_namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}
