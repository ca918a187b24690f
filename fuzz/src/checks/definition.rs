//! What has to hold for a definition that was accepted, however it was written.

use oscar_api::service::{Mode, decode, encode};
use oscar_api::tree::parse_json;
use oscar_api::{json, record};
use oscar_model::access::View;
use oscar_model::fault::Faults;
use oscar_model::identity::Owner;
use oscar_model::secret::Secret;
use oscar_model::service::{Definition, Sensitive, Service};

/// Looked for in what guests see.
const TOKEN: &str = "70c37f0000f0bedc0ffee0ddba11f005ba11ad0fca5cade5dec0de5caff01d70";

/// What is shown and what is stored both come back as the same definition.
pub(super) fn survives(definition: Definition) {
    let mut service = Service {
        definition,
        owner: Owner::parse("somebody@example.org").expect("a subject"),
        owner_name: "Some Body".to_owned(),
        token: Secret::new(TOKEN),
        namespace: "oscar-svc-somebody".to_owned(),
        bucket_list: vec!["one".to_owned()],
    };
    // Values of secrets are stored apart and shown to nobody.
    let _values = Sensitive::take_from(&mut service.definition);
    shown_comes_back(&service);
    stored_comes_back(&service);
    // A fuzzer that watches comparisons learns the token and writes it into the definition itself.
    let shown = json::to_vec(&encode(&Service { token: Secret::default(), ..service.clone() }, View::Owner));
    let guest = json::to_vec(&encode(&service, View::Guest));
    let leaks = contains(&guest, TOKEN.as_bytes()) && !contains(&shown, TOKEN.as_bytes());
    assert!(!leaks, "a guest sees the token");
}

fn shown_comes_back(service: &Service) {
    let shown = json::to_vec(&encode(service, View::Owner));
    let text = || String::from_utf8_lossy(&shown).into_owned();
    let node = parse_json(&shown).unwrap_or_else(|malformed| panic!("{malformed}: {}", text()));
    let again = decode(&node, "", Mode::Json).unwrap_or_else(|faults| panic!("{faults}: {}", text()));
    let again = Service { definition: again.definition, ..service.clone() };
    assert_eq!(again, *service, "{}", text());
    // Quantities are equal when their values are; users also want their spelling back.
    assert_eq!(String::from_utf8_lossy(&json::to_vec(&encode(&again, View::Owner))), text());
}

/// Also used for what another manager stored.
pub(super) fn stored_comes_back(service: &Service) {
    for text in [record::to_json(service), record::to_yaml(service)] {
        let again = record::from_text(&text, &service.definition.script, &service.namespace)
            .unwrap_or_else(|cause| panic!("{cause}\n{text}"));
        assert_eq!(again, *service, "{text}");
        assert_eq!(record::to_json(&again), record::to_json(service));
    }
}

/// A refusal says where, what and what instead; and for a text with lines, which line.
pub(super) fn is_told(faults: &Faults, lines: Option<usize>) {
    assert!(!faults.is_empty(), "refused without a fault");
    assert!(faults.0.len() <= Faults::MOST);
    for fault in &faults.0 {
        assert!(!fault.found.is_empty() && !fault.allowed.is_empty(), "{fault:?}");
        assert!(!fault.found.contains(char::is_control), "{fault:?}");
        if let Some(lines) = lines {
            let line = fault.line.unwrap_or_else(|| panic!("no line: {fault:?}"));
            assert!((1..=lines + 1).contains(&line), "{fault:?} of {lines} lines");
        }
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
