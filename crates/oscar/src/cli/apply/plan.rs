//! What an apply would do to one service, and the lines that show it.

use serde_json::Value;

use crate::cli::definition::{view, yaml};
use crate::cli::diff;
use crate::cli::screen::{Paint, Style, printable};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    Update,
    Unchanged,
}

impl Action {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Unchanged => "unchanged",
        }
    }

    pub(super) fn past(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Update => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Before and after, both as their owner would say it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) action: Action,
    before: Value,
    after: Value,
    /// Where a credential that is there is given again; both values look the same when shown.
    replaced: Vec<String>,
}

impl Change {
    /// From the dry run of a manager of our kind, which was sent `wanted`.
    pub(super) fn from_dry_run(existing: Option<&Value>, wanted: &Value, result: &Value) -> Self {
        let before = existing.map_or(Value::Null, view::definition);
        let after = view::definition(&result["service"]);
        let action = match result["action"].as_str() {
            Some("create") => Action::Create,
            Some("none") => Action::Unchanged,
            _ => Action::Update,
        };
        Self { action, before, after, replaced: replaced(existing, wanted) }
    }

    /// Worked out here, for managers that know no dry run and would create the service.
    pub(super) fn computed(existing: Option<&Value>, wanted: &Value) -> Self {
        let Some(existing) = existing else {
            let (before, after) = (Value::Null, view::definition(wanted));
            return Self { action: Action::Create, before, after, replaced: Vec::new() };
        };
        let before = view::normal(existing);
        let mut after = wanted.clone();
        settle(&mut after, &before, existing);
        let (before, after) = (view::definition(&before), view::definition(&after));
        let action = if before == after { Action::Unchanged } else { Action::Update };
        Self { action, before, after, replaced: replaced(Some(existing), wanted) }
    }

    /// The lines that differ, without credentials.
    pub(super) fn lines(&self, paint: Paint) -> String {
        if self.action == Action::Unchanged {
            return String::new();
        }
        let text =
            |value: &Value| if value.is_null() { String::new() } else { yaml::to_yaml(&view::hidden(value.clone())) };
        let mut lines = diff::render(&text(&self.before), &text(&self.after), paint);
        if lines.is_empty() {
            lines.push_str("    only values that are not shown, such as secrets\n");
        }
        for path in &self.replaced {
            let line = format!("  ~ {}: the value that is stored is replaced (not shown)", printable(path));
            lines.push_str(&paint.on(Style::Yellow, &line));
            lines.push('\n');
        }
        lines
    }
}

/// The credentials that would be replaced. Whether one that the manager does not tell is the
/// same as before, nobody can know; a blank one keeps what is stored.
fn replaced(existing: Option<&Value>, wanted: &Value) -> Vec<String> {
    let before = existing.map(view::secrets).unwrap_or_default();
    let given = view::secrets(wanted).into_iter().filter(|(_, value)| !value.is_empty());
    given.filter(|(path, value)| before.get(path).is_some_and(|known| known != value)).map(|(path, _)| path).collect()
}

/// Takes over what the manager itself put into the definition, so that it is no difference.
fn settle(wanted: &mut Value, before: &Value, existing: &Value) {
    if wanted["vo"] == "" {
        wanted["vo"] = before["vo"].clone();
    }
    let host = &before["environment"]["variables"]["KSERVE_HOST"];
    if !host.is_null() && !wanted["kserve"].is_null() && wanted["environment"]["variables"]["KSERVE_HOST"].is_null() {
        wanted["environment"]["variables"]["KSERVE_HOST"] = host.clone();
    }
    settle_ports(wanted, before);
    settle_users(wanted, before, existing);
    let name = &before["volume"]["name"];
    if !name.is_null() && !wanted["volume"].is_null() && wanted["volume"]["name"].is_null() {
        wanted["volume"]["name"] = name.clone();
    }
    let store = "/storage_providers/minio/default";
    if before.pointer(store).is_some_and(|store| store["secret_key"] == "hidden") && wanted.pointer(store).is_some() {
        wanted["storage_providers"]["minio"]["default"] = before.pointer(store).cloned().unwrap_or_default();
    }
}

/// A port of zero asks the cluster for one, which then stands in its place.
fn settle_ports(wanted: &mut Value, before: &Value) {
    let Some(Value::Array(ports)) = wanted.pointer_mut("/expose/nodePort") else { return };
    for (index, port) in ports.iter_mut().enumerate() {
        if *port == 0
            && let Some(given) = before["expose"]["nodePort"].get(index)
        {
            *port = given.clone();
        }
    }
}

/// The owner may have been added to those who are allowed.
fn settle_users(wanted: &mut Value, before: &Value, existing: &Value) {
    let Value::Array(users) = &before["allowed_users"] else { return };
    let without: Vec<_> = users.iter().filter(|user| **user != existing["owner"]).cloned().collect();
    if wanted["allowed_users"].as_array() == Some(&without) {
        wanted["allowed_users"] = Value::Array(users.clone());
    }
}

#[cfg(test)]
mod tests {
    use oscar_api::fdl::{decode_entry, single};
    use serde_json::json;

    use super::*;
    use crate::cli::definition::body::request;

    fn wanted(more: &str) -> Value {
        let text = format!("name: plants\nimage: a/b\nscript: echo hi\nexpose: {{api_port: 80, nodePort: 0}}\n{more}");
        request(&decode_entry(&single(&text).expect("valid")).expect("valid"))
    }

    /// As a manager in Go would answer.
    fn stored() -> Value {
        let mut stored = wanted("");
        stored["owner"] = json!("me");
        stored["token"] = json!("SECRET");
        stored["vo"] = json!("group");
        stored["labels"] = json!({"oscar_service": "plants", "vo": "group"});
        stored["allowed_users"] = json!(["me"]);
        stored["expose"]["nodePort"] = json!([]);
        stored["storage_providers"] = json!({"minio": {"default": {
            "endpoint": "x", "verify": true, "access_key": "hidden", "secret_key": "hidden", "region": "r"}}});
        stored
    }

    #[test]
    fn what_the_manager_added_is_no_change() {
        let change = Change::computed(Some(&stored()), &wanted(""));
        assert_eq!(change.action, Action::Unchanged, "{}", change.lines(Paint(false)));
        assert_eq!(change.lines(Paint(false)), "");
    }

    #[test]
    fn a_change_shows_the_lines_that_differ() {
        let change = Change::computed(Some(&stored()), &wanted("cpu: 2\n"));
        assert_eq!(change.action, Action::Update);
        let lines = change.lines(Paint(false));
        assert!(lines.contains("  - cpu: \"0.2\"\n  + cpu: \"2\"\n"), "{lines}");
    }

    #[test]
    fn secrets_are_compared_and_never_shown() {
        let change = Change::computed(Some(&stored()), &wanted("environment: {secrets: {KEY: hunter2}}\n"));
        let lines = change.lines(Paint(false));
        assert!(lines.contains("+     KEY: (hidden)") && !lines.contains("hunter2"), "{lines}");

        let mut stored = stored();
        stored["environment"]["secrets"] = json!({"KEY": ""});
        let again = Change::computed(Some(&stored), &wanted("environment: {secrets: {KEY: hunter2}}\n"));
        assert_eq!(again.action, Action::Update, "nobody can know whether the value is the same");
        assert!(again.lines(Paint(false)).contains("only values that are not shown"));
    }

    #[test]
    fn a_secret_that_changes_beside_something_else_is_told() {
        let mut before = stored();
        before["environment"]["secrets"] = json!({"KEY": "", "KEPT": ""});
        before["storage_providers"]["s3"]["mine"] = json!({"access_key": "A", "secret_key": "SAME", "region": "r"});
        let more = "cpu: 2\nenvironment: {secrets: {KEY: hunter2, KEPT: '', NEW: hunter3}}\n\
                    storage_providers: {s3: {mine: {access_key: A, secret_key: SAME, region: r}}}\n";
        let mut after = before.clone();
        after["cpu"] = json!("2");
        after["environment"]["secrets"]["NEW"] = json!("");
        let result = json!({"dry_run": true, "action": "update", "service": after});
        let wanted = wanted(more);
        for change in [Change::from_dry_run(Some(&before), &wanted, &result), Change::computed(Some(&before), &wanted)]
        {
            let lines = change.lines(Paint(false));
            assert!(lines.contains("+ cpu: \"2\"") && lines.contains("+     NEW: (hidden)"), "{lines}");
            let told: Vec<_> = lines.lines().filter(|line| line.starts_with("  ~ ")).collect();
            assert_eq!(
                told,
                ["  ~ environment.secrets.KEY: the value that is stored is replaced (not shown)"],
                "{lines}"
            );
            assert!(!lines.contains("hunter") && !lines.contains("SAME"), "{lines}");
        }
    }

    #[test]
    fn a_dry_run_says_itself_what_it_would_do() {
        let mut after = stored();
        after["cpu"] = json!("2");
        let result = json!({"dry_run": true, "action": "update", "service": after});
        let change = Change::from_dry_run(Some(&stored()), &wanted("cpu: 2\n"), &result);
        assert_eq!(change.action, Action::Update);
        let lines = change.lines(Paint(false));
        assert!(lines.contains("+ cpu: \"2\"") && !lines.contains("SECRET"), "{lines}");
        let none = json!({"action": "none", "service": stored()});
        assert_eq!(Change::from_dry_run(Some(&stored()), &wanted(""), &none).action, Action::Unchanged);
    }
}
