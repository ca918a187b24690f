use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use oscar_model::secret::Secret;

use super::*;

/// The variables that a manager would see.
fn variable(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn gather(variables: &'static [(&'static str, &'static str)], file: Option<PathBuf>) -> (Effective, Vec<String>) {
    Effective::gather(&Sources { flags: BTreeMap::new(), variable: &variable(variables), file })
}

fn mk_file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("oscar.yaml");
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_key_without_a_value_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "password:\nwrite_timeout:\nservice_port: ''\nusername: '  '\noidc_issuers:\nworld: ~\noidc_enable:\n";
    let (settings, faults) = gather(&[], Some(mk_file(folder.path(), text)));
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!((settings.count("write_timeout"), settings.count("service_port")), (300, 8080));
    assert_eq!((settings.text("username"), settings.text("world")), ("oscar", "auto"));
    for key in ["password", "write_timeout", "service_port", "username", "oidc_issuers"] {
        assert_eq!(*settings.origin(key), Origin::Default, "{key}");
    }
}

#[test]
fn the_disk_of_jobs_may_be_without_a_limit() {
    let (settings, faults) = gather(&[("OSCAR_JOB_DISK", "0")], None);
    assert_eq!(faults, Vec::<String>::new());
    assert!(settings.quantity("job_disk").is_some_and(|most| most.is_zero()));
    assert_eq!(gather(&[("OSCAR_MEMORY", "0")], None).1.len(), 1, "nothing would ever fit into that");
}

#[test]
fn a_password_of_blanks_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (settings, faults) in
        [gather(&[], Some(mk_file(folder.path(), "password: '   '\n"))), gather(&[("OSCAR_PASSWORD", " \t")], None)]
    {
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("- password (") && faults[0].contains("more than blanks"), "{faults:?}");
        assert_ne!(*settings.origin("password"), Origin::Default, "nothing is made in its place");
    }
    assert!(gather(&[("OSCAR_PASSWORD", "")], None).1.is_empty(), "an empty variable is not set");
}

#[test]
fn issuers_that_could_never_vouch_are_told_with_the_settings() {
    let faults = |given: &'static [(&'static str, &'static str)]| gather(given, None).1;
    for (given, told) in [
        (&[("OIDC_ISSUERS", "http://example.org")], "plain http is accepted from this host only"),
        (&[("OIDC_ISSUERS", "example.org")], "it is no address"),
        (&[("OIDC_ISSUERS", "https://u:hunter2@example.org")], "it contains credentials"),
        (&[("OIDC_ISSUERS", "https://a.example,https://a.example/")], "is listed twice"),
    ] {
        let faults = faults(given);
        assert!(faults.len() == 1 && faults[0].starts_with("- oidc_issuers: "), "{faults:?}");
        assert!(faults[0].contains(told) && !faults[0].contains("hunter2"), "{faults:?}");
    }
    assert_eq!(faults(&[("OIDC_ISSUERS", "https://a.example,http://127.0.0.1:1")]), Vec::<String>::new());
}

#[test]
fn the_people_of_an_issuer_can_be_marked() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |suffix: &str| format!("oidc_issuers:\n- {{url: 'https://one', subject_suffix: '{suffix}'}}\n");
    let (settings, faults) = gather(&[], Some(mk_file(folder.path(), &text("@science"))));
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(settings.issuers()[0].subject_suffix.as_deref(), Some("@science"));
    let table = show_table(&settings, &Derived::of(&settings, &|_| None));
    assert!(table.contains("subjects end with @science\n"), "{table}");
    for bad in ["a b", "ä", &"x".repeat(33)] {
        let (_, faults) = gather(&[], Some(mk_file(folder.path(), &text(bad))));
        assert!(faults.len() == 1 && faults[0].contains("oidc_issuers[0].subject_suffix"), "{faults:?}");
    }
}

#[test]
fn an_issuer_has_its_own_audience_and_claim_or_those_of_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "oidc_enable: true\noidc_audience: all\noidc_issuers:\n- https://one\n\
                - {url: 'https://two', audience: own, group_claim: realm_access.roles}\n";
    let issuer = |url: &str, audience: &str, claim: Option<&str>| Issuer {
        url: url.to_owned(),
        audience: Some(audience.to_owned()),
        group_claim: claim.map(str::to_owned),
        client: None,
        refresh_scope: None,
        subject_suffix: None,
    };
    let (settings, faults) = gather(&[], Some(mk_file(folder.path(), text)));
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(
        settings.issuers(),
        [issuer("https://one", "all", None), issuer("https://two", "own", Some("realm_access.roles"))]
    );
    assert_eq!(settings.list("oidc_issuers"), ["https://one", "https://two"]);
    let table = show_table(&settings, &Derived::of(&settings, &|_| None));
    assert!(table.contains("issuer https://one: audience all, groups from claim by the issuer\n"), "{table}");
    assert!(table.contains("issuer https://two: audience own, groups from claim realm_access.roles\n"), "{table}");

    let variables: &[(&str, &str)] = &[("OIDC_ISSUERS", "https://three, https://four"), ("OIDC_GROUP_CLAIM", "g")];
    let (settings, _) = gather(variables, Some(mk_file(folder.path(), text)));
    assert_eq!(
        settings.issuers(),
        [issuer("https://three", "all", Some("g")), issuer("https://four", "all", Some("g"))],
        "a variable comes before the whole list of the file"
    );
}

#[test]
fn an_issuer_has_its_own_client_or_that_of_all_and_secrets_are_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "oidc_client_id: all\noidc_client_secret: hunter2\noidc_refresh_scope: openid\noidc_issuers:\n\
                - https://one\n- {url: 'https://two', client_id: own, refresh_scope: openid email}\n\
                - {url: 'https://three', client_id: own, client_secret: hunter3}\n";
    let (settings, faults) = gather(&[], Some(mk_file(folder.path(), text)));
    assert_eq!(faults, Vec::<String>::new());
    let found: Vec<_> = settings.issuers().into_iter().map(|issuer| (issuer.client, issuer.refresh_scope)).collect();
    let client = |id: &str, secret: Option<&str>| Some(Client { id: id.to_owned(), secret: secret.map(Secret::from) });
    let scope = |text: &str| Some(text.to_owned());
    assert_eq!(
        found,
        [
            (client("all", Some("hunter2")), scope("openid")),
            (client("own", None), scope("openid email")),
            (client("own", Some("hunter3")), scope("openid")),
        ],
        "the secret of all is that of their client alone"
    );
    let derived = Derived::of(&settings, &|_| None);
    for shown in [show_table(&settings, &derived), show_json(&settings, &derived, &[]).to_string()] {
        assert!(shown.contains("all") && !shown.contains("hunter"), "{shown}");
    }
}

#[test]
fn a_secret_without_a_client_is_a_fault_that_does_not_quote_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "oidc_issuers:\n- {url: 'https://x', client_secret: hunter2}\n";
    let in_file = gather(&[], Some(mk_file(folder.path(), text))).1;
    let in_variable = gather(&[("OIDC_CLIENT_SECRET", "hunter2")], None).1;
    for faults in [in_file, in_variable] {
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("client_id: found nothing") && !faults[0].contains("hunter"), "{faults:?}");
    }
}

#[test]
fn faults_of_an_issuer_name_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "oidc_issuers:\n- {audience: a}\n- {url: 'https://x', claim: groups}\n- 7\n";
    let (_, faults) = gather(&[], Some(mk_file(folder.path(), text)));
    assert_eq!(faults.len(), 3, "{faults:?}");
    let told = faults.join("\n");
    for part in [
        "line 2: oidc_issuers[0].url: found nothing",
        "line 3: oidc_issuers[1].claim: found an unknown key",
        "line 4: oidc_issuers[2]: found a number",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[test]
fn what_depends_on_something_else_is_shown_as_it_is_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let value = |settings: &Effective, derived: &Derived, key: &str| {
        let shown = show_json(settings, derived, &[]);
        let rows = shown["settings"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["setting"] == key).expect("a row")["value"].as_str().expect("text").to_owned()
    };
    let home = folder.path().display().to_string();
    let (settings, _) = gather(&[("OSCAR_SERVICE_PORT", "9000")], None);
    let derived = Derived::of(&settings, &|name| (name == "HOME").then(|| home.clone()));
    assert_eq!(value(&settings, &derived, "world"), "local");
    assert_eq!(value(&settings, &derived, "listen"), "127.0.0.1:9000");
    assert_eq!(value(&settings, &derived, "public_url"), "http://127.0.0.1:9000");
    assert_eq!(value(&settings, &derived, "cors"), "on");
    assert_eq!(value(&settings, &derived, "data"), format!("{home}/.local/share/oscar"));
    let file = format!("{home}/.local/share/oscar/admin-password");
    assert_eq!(value(&settings, &derived, "password"), format!("(will be made and kept in {file})"));
    fs::create_dir_all(&derived.data).expect("made");
    fs::write(&file, "hunter2").expect("written");
    assert_eq!(value(&settings, &derived, "password"), format!("(kept in {file})"));

    let derived = Derived::of(&settings, &|name| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned()));
    assert_eq!(value(&settings, &derived, "world"), "kubernetes");
    assert_eq!(value(&settings, &derived, "listen"), "0.0.0.0:9000");
    assert_eq!(value(&settings, &derived, "minio_endpoint"), "https://minio-service.minio:9000");
    assert!(value(&settings, &derived, "password").starts_with("(missing"));

    let (settings, _) = gather(&[("OSCAR_LISTEN", "127.0.0.1:0"), ("OSCAR_PASSWORD", "hunter2")], None);
    let derived = Derived::of(&settings, &|_| None);
    assert_eq!(value(&settings, &derived, "public_url"), "(http:// and the port that is taken)");
    assert_eq!(value(&settings, &derived, "password"), "(hidden)");
}

#[test]
fn settings_with_faults_are_shown_with_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "colour: red\ngpus: many\nname: \"a\\eb\"\nminio_secret_key: hunter2\n";
    let (settings, faults) = gather(&[], Some(mk_file(folder.path(), text)));
    assert_eq!(faults.len(), 3, "{faults:?}");
    let derived = Derived::of(&settings, &|_| None);
    let table = show_table(&settings, &derived);
    assert_eq!(table.lines().count(), CATALOGUE.len() + 1, "every key");
    assert!(table.contains("many") && !table.contains('\u{1b}') && !table.contains("hunter2"), "{table}");
    assert_eq!(show_json(&settings, &derived, &faults)["faults"].as_array().map(Vec::len), Some(3));
}
