//! Labels that the cluster puts on a service, and that no client may set.

use std::collections::BTreeMap;

use crate::identity::Owner;

use super::{Isolation, Service};

const USER_SERVICE: &str = "oscar.grycap/user-service";

const RESERVED: [&str; 10] = [
    USER_SERVICE,
    "oscar_service",
    "applicationId",
    "queue",
    "owner_name",
    "vo",
    "uid",
    "kueue.x-k8s.io/queue-name",
    "oscar_rescheduler",
    "networking.knative.dev/visibility",
];

/// Whether a label belongs to the cluster: what a client writes there is ignored.
pub fn is_reserved(key: &str) -> bool {
    RESERVED.contains(&key) || key.starts_with("oscar.grycap/")
}

/// The user's labels together with those of the cluster.
pub fn all_labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.definition.labels.clone();
    let mut add = |key: &str, value: String| labels.insert(key.to_owned(), value);
    add(USER_SERVICE, "true".to_owned());
    add("oscar_service", service.name().to_string());
    add("applicationId", service.name().to_string());
    add("queue", format!("root.oscar-queue.{}", service.name()));
    add("owner_name", owner_name_label(service));
    if !service.definition.vo.is_empty() {
        add("vo", vo_label(&service.definition.vo));
    }
    if service.definition.isolation == Isolation::User
        && let Owner::User(subject) = &service.owner
    {
        add("uid", as_label(&subject.formatted().chars().take(10).collect::<String>()));
    }
    labels
}

fn owner_name_label(service: &Service) -> String {
    match service.owner {
        Owner::Admin => "oscar".to_owned(),
        Owner::User(_) => as_label(&without_accents(&service.owner_name)),
    }
}

fn vo_label(vo: &str) -> String {
    let plain = vo.replacen('/', "", 1).replace('/', "--").replace(' ', "__").replace(':', "___");
    as_label(&plain)
}

/// Blanks become `_`; what a label cannot hold goes away.
fn as_label(text: &str) -> String {
    let kept: String = text
        .chars()
        .map(|c| if c.is_whitespace() { '_' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .take(63)
        .collect();
    kept.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// The letters of European names without their accents; other letters stay as they are.
fn without_accents(text: &str) -> String {
    const FOLDED: [(&str, char); 14] = [
        ("ÀÁÂÃÄÅ", 'A'),
        ("àáâãäå", 'a'),
        ("ÈÉÊË", 'E'),
        ("èéêëě", 'e'),
        ("ÌÍÎÏ", 'I'),
        ("ìíîï", 'i'),
        ("ÒÓÔÕÖØ", 'O'),
        ("òóôõöø", 'o'),
        ("ÙÚÛÜ", 'U'),
        ("ùúûüů", 'u'),
        ("Çčć", 'c'),
        ("ç", 'c'),
        ("Ññň", 'n'),
        ("šśŠ", 's'),
    ];
    let fold = |c: char| FOLDED.iter().find(|(accented, _)| accented.contains(c)).map_or(c, |(_, plain)| *plain);
    text.chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_labels_are_known() {
        assert!(is_reserved("oscar_service"));
        assert!(is_reserved("oscar.grycap/anything"));
        assert!(!is_reserved("jupyter_notebook"));
    }

    #[test]
    fn label_values_hold_what_kubernetes_allows() {
        assert_eq!(vo_label("/vo.egi.eu/sub group"), "vo.egi.eu--sub__group");
        assert_eq!(as_label(&without_accents("José Müller")), "Jose_Muller");
        assert_eq!(as_label("李"), "");
    }
}
