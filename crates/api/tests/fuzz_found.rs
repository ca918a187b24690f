//! What fuzzing found, each at the lowest level that shows it. The inputs are also kept as
//! seeds of the fuzz targets.

use oscar_api::service::{Mode, decode};
use oscar_api::tree::parse_json;
use oscar_api::{fdl, record};

fn paths_at_fault(text: &str) -> Vec<String> {
    let node = parse_json(text.as_bytes()).expect("JSON");
    let faults = decode(&node, "", Mode::Json).expect_err("it is not valid");
    faults.0.into_iter().map(|fault| fault.path).collect()
}

/// A folder alone goes to the bucket named like the service, and buckets have longer names.
#[test]
fn a_service_name_too_short_for_a_bucket_is_no_bucket() {
    let service = r#"{"name":"ab","image":"b","script":"echo","input":[{"storage_provider":"minio","path":"in"}]}"#;
    assert_eq!(paths_at_fault(service), ["input[0].path"]);
    assert!(decode(&parse_json(service.replace("ab", "abc").as_bytes()).expect("JSON"), "", Mode::Json).is_ok());
}

#[test]
fn a_blank_mount_is_read_like_any_other() {
    let service = r#"{"name":"a","image":"b","script":"echo","mount":{"storage_provider":"","path":"","suffix":[{}]}}"#;
    assert_eq!(paths_at_fault(service), ["mount.suffix[0]"]);
}

#[test]
fn the_key_of_an_entry_has_to_be_a_cluster_id() {
    let text = "functions:\n  oscar:\n  - my cluster:\n      name: one\n      image: a/b\n      script: echo\n";
    let entries = fdl::entries(text).expect("its structure is right");
    let faults = fdl::decode_entry(&entries[0]).expect_err("a blank is in it");
    assert_eq!((faults.0[0].path.as_str(), faults.0[0].line), ("functions.oscar[0].my cluster", Some(4)));
}

/// His label says `oscar` for other managers; read back, it must not become his name.
#[test]
fn the_administrator_has_no_name() {
    let service = record::from_text(r#"{"name":"a","owner":"cluster_admin"}"#, "echo", "oscar-svc").expect("valid");
    let again = record::from_text(&record::to_yaml(&service), "echo", "oscar-svc").expect("valid");
    assert_eq!((service.owner_name.as_str(), &again), ("", &service));
}
