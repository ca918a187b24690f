//! What goes out comes back in: bodies, records and definition files agree.

use oscar_api::service::{Mode, decode, encode};
use oscar_api::tree::parse_json;
use oscar_api::{json, record};
use oscar_model::access::View;
use oscar_model::identity::{Owner, Subject};
use oscar_model::secret::Secret;
use oscar_model::service::{Sensitive, Service};

/// Every field that a client can set, in the spellings that clients use.
const EVERYTHING: &str = include_str!("everything.json");

fn mk_service() -> Service {
    let node = parse_json(EVERYTHING.as_bytes()).expect("valid JSON");
    let draft = decode(&node, "", Mode::Json).unwrap_or_else(|faults| panic!("{faults}"));
    Service {
        definition: draft.definition,
        owner: Owner::User(Subject::parse("62bb11b40398@egi.eu").expect("valid")),
        owner_name: "José Müller".to_owned(),
        token: Secret::new("0123456789abcdef".repeat(4)),
        namespace: "oscar-svc-62bb11b4".to_owned(),
        bucket_list: vec!["plants-abc".to_owned()],
    }
}

#[test]
fn a_stored_service_is_read_back_the_same() {
    let mut service = mk_service();
    let _values = Sensitive::take_from(&mut service.definition);
    for text in [record::to_json(&service), record::to_yaml(&service)] {
        let again = record::from_text(&text, &service.definition.script, &service.namespace)
            .unwrap_or_else(|cause| panic!("{cause}\n{text}"));
        assert_eq!(again, service, "{text}");
    }
}

#[test]
fn a_record_holds_no_secret_and_no_script() {
    let service = mk_service();
    for text in [record::to_json(&service), record::to_yaml(&service)] {
        for planted in ["planted-env-secret", "planted-cluster-password", "echo planted-script"] {
            assert!(!text.contains(planted), "{planted} in {text}");
        }
    }
}

#[test]
fn the_yaml_record_is_block_style_with_text_quoted_where_needed() {
    let text = record::to_yaml(&mk_service());
    assert!(text.starts_with("name: plants\n"), "{text}");
    assert!(text.contains("\ncpu: \"0.5\"\n") || text.contains("\ncpu: '0.5'\n"), "{text}");
    assert!(text.contains("bucket_list:\n"), "{text}");
}

#[test]
fn what_an_owner_is_shown_can_be_sent_back() {
    let service = mk_service();
    let shown = json::to_vec(&encode(&service, View::Owner));
    let node = parse_json(&shown).expect("valid JSON");
    let mut again = decode(&node, "", Mode::Json).unwrap_or_else(|faults| panic!("{faults}")).definition;
    // Secrets are blank in what is shown, and blank means "keep".
    let mut expected = service.definition.clone();
    let _values = Sensitive::take_from(&mut expected);
    let _blanks = Sensitive::take_from(&mut again);
    assert_eq!(again, expected);
}

#[test]
fn guests_see_no_credentials() {
    let service = mk_service();
    let shown = String::from_utf8(json::to_vec(&encode(&service, View::Guest))).expect("UTF-8");
    for planted in ["0123456789abcdef", "planted", "member-header-key"] {
        assert!(
            !shown.contains(planted) || planted == "planted" && shown.contains("planted-script"),
            "{planted} in {shown}"
        );
    }
    assert!(shown.contains(r#""token":"""#));
    assert!(!shown.contains("planted-kserve") && shown.contains(r#""storage_uri":"s3://models/m""#), "{shown}");
    assert!(shown.contains(r#""env":{"K":""}"#), "that there is one is no secret: {shown}");
    let owner = String::from_utf8(json::to_vec(&encode(&service, View::Owner))).expect("UTF-8");
    assert!(owner.contains("planted-s3-secret") && !owner.contains("planted-cluster-password"));
    assert!(!owner.contains("planted-env-secret"));
    assert!(owner.contains("planted-kserve-query") && owner.contains("planted-kserve-env"));
}

#[test]
fn keys_come_in_the_documented_order() {
    let shown = String::from_utf8(json::to_vec(&encode(&mk_service(), View::Owner))).expect("UTF-8");
    let order = [
        "name",
        "cluster_id",
        "memory",
        "cpu",
        "total_memory",
        "total_cpu",
        "ephemeral_storage_request",
        "enable_gpu",
        "enable_sgx",
        "image_prefetch",
        "synchronous",
        "federation",
        "log_level",
        "image",
        "alpine",
        "token",
        "file_stage_in",
        "input",
        "output",
        "script",
        "image_pull_secrets",
        "expose",
        "environment",
        "annotations",
        "vo",
        "labels",
        "storage_providers",
        "clusters",
        "owner",
        "namespace",
        "interlink_node_name",
        "visibility",
        "allowed_users",
        "isolation_level",
        "bucket_list",
        "mount",
        "volume",
        "volume_status",
        "kserve",
    ];
    let value: serde_json::Value = serde_json::from_str(&shown).expect("valid JSON");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(order.len()), "{shown}");
    let mut at = 0;
    for key in order {
        let found = shown[at..].find(&format!("\"{key}\":"));
        at += found.unwrap_or_else(|| panic!("{key} is missing or out of order after {}", &shown[at..]));
    }
    assert!(!shown.contains(": ") || shown.contains("note"), "compact");
}

#[test]
fn what_old_clients_send_is_understood() {
    let read = |text: &str| decode(&parse_json(text.as_bytes()).expect("JSON"), "", Mode::Json);
    let base = r#""name":"a","image":"b","script":"echo""#;
    let scalar = read(&format!(
        r#"{{{base},"expose":{{"api_port":5000,"nodePort":0}},"replicas":[],"rescheduler_threshold":"","image_rules":[]}}"#
    ));
    assert_eq!(
        scalar.map(|draft| (draft.definition.expose.api_port, draft.definition.expose.node_port)),
        Ok((vec![5000], vec![]))
    );
    let upper = read(&format!(
        r#"{{{base},"Environment":{{"Variables":{{"A":"b"}}}},"INPUT":null,"labels":null,"federation":null}}"#
    ));
    assert_eq!(upper.map(|draft| draft.definition.environment.variables["A"].clone()), Ok("b".to_owned()));
    let ignored = read(&format!(
        r#"{{{base},"owner":"x","namespace":"kube-system","labels":{{"oscar_service":"y","mine":"z"}},"log_level":"verbose"}}"#
    ));
    let labels = ignored.expect("valid").definition.labels;
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["mine"]);
    assert!(read(&format!(r#"{{{base},"cpu":1}}"#)).is_err(), "types are strict in JSON");
    assert!(read(&format!(r#"{{{base},"visibility":"Public"}}"#)).is_err(), "a typing error never opens a service");
}
