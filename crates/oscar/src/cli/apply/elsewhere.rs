//! What a change means on other clusters: the plan of a federation, and what became of it.

use serde_json::{Value, json};

use crate::cli::federation::view::View;
use crate::cli::screen::{Paint, Style, one_line};

/// What is done, or in a dry run would be done, at each member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Elsewhere {
    topology: String,
    members: Vec<Planned>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    id: String,
    act: Act,
    /// Why, where the manager says so.
    reason: String,
    /// What became of it, once it was done.
    outcome: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Create,
    Adopt,
    Update,
    Delete,
    Release,
    Nothing,
    /// As soon as it can be done.
    Later,
}

impl Act {
    fn parse(word: &str) -> Self {
        match word {
            "create" => Self::Create,
            "adopt" => Self::Adopt,
            "delete" => Self::Delete,
            "release" => Self::Release,
            "none" => Self::Nothing,
            "later" => Self::Later,
            _ => Self::Update,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Adopt => "adopt",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Release => "release",
            Self::Nothing => "none",
            Self::Later => "later",
        }
    }

    fn plan(self) -> (&'static str, Style, &'static str) {
        match self {
            Self::Create => ("+", Style::Green, "create"),
            Self::Adopt => ("~", Style::Yellow, "adopt the service that is there"),
            Self::Update => ("~", Style::Yellow, "update"),
            Self::Delete => ("-", Style::Red, "delete"),
            Self::Release => ("-", Style::Red, "release"),
            Self::Nothing => (" ", Style::Dim, "nothing"),
            Self::Later => ("!", Style::Yellow, "as soon as it can be done"),
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Adopt => "adopted",
            Self::Update => "updated",
            Self::Delete => "deleted",
            Self::Release => "released",
            Self::Nothing => "unchanged",
            Self::Later => "pending",
        }
    }

    fn leaves(self) -> bool {
        matches!(self, Self::Delete | Self::Release)
    }
}

impl Elsewhere {
    /// From the answer of a dry run; none when it concerns this cluster alone.
    pub(in crate::cli) fn of_dry_run(result: &Value) -> Option<Self> {
        let told = result.get("federation").filter(|told| told.is_object())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members = told["members"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|member| {
            let id = format!("{}/{}", text(&member["cluster_id"]), text(&member["service_name"]));
            let act = Act::parse(member["action"].as_str().unwrap_or_default());
            Planned { id, act, reason: text(&member["reason"]), outcome: None }
        });
        Some(Self {
            topology: text(result["service"]["federation"].get("topology").unwrap_or(&result["topology"])),
            members: members.collect(),
            warnings: warnings(told),
        })
    }

    /// The plan, one line for each member.
    pub(in crate::cli) fn plan(&self, paint: Paint) -> String {
        if self.members.is_empty() {
            return String::new();
        }
        let widest = self.members.iter().map(|member| member.id.chars().count()).max().unwrap_or_default();
        let mut lines = format!("  federation ({}):\n", one_line(&self.topology));
        for Planned { id, act, reason, .. } in &self.members {
            let (mark, style, verb) = act.plan();
            let reason = if reason.is_empty() { String::new() } else { format!(": {}", one_line(reason)) };
            let line = format!("  {mark}   {:<widest$}  {verb}{reason}", one_line(id));
            lines.push_str(&paint.on(style, &line));
            lines.push('\n');
        }
        lines
    }

    /// It was done; `view` is the federation afterwards, if it could be had.
    pub(super) fn learn(&mut self, view: Option<&View>) {
        for member in &mut self.members {
            member.outcome = Some(outcome(&member.id, member.act, view));
        }
    }

    /// What became of each member.
    pub(super) fn outcome(&self) -> Vec<String> {
        let told = |member: &Planned| Some(format!("{}: {}", one_line(&member.id), member.outcome.as_ref()?));
        self.members.iter().filter_map(told).collect()
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let members = self.members.iter().map(|Planned { id, act, reason: _, outcome }| {
            let mut told = json!({"member": id, "action": act.word()});
            if let Some(outcome) = outcome {
                told["outcome"] = json!(outcome);
            }
            told
        });
        json!({"topology": self.topology, "members": members.collect::<Vec<_>>(), "warnings": self.warnings})
    }

    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    /// For the line that is shown while one waits.
    pub(super) fn names(&self) -> String {
        self.members.iter().map(|member| member.id.as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn outcome(id: &str, act: Act, view: Option<&View>) -> String {
    let Some(view) = view else { return act.past().to_owned() };
    if act.leaves() {
        let still = view.leaving.iter().any(|leaving| leaving == id);
        return if still { "is still to be removed there".to_owned() } else { act.past().to_owned() };
    }
    match view.nodes().iter().find(|node| node.id() == id) {
        Some(node) if node.state == "in-sync" => act.past().to_owned(),
        Some(node) => {
            let why = view.error_of(id).map(|error| format!(": {error}")).unwrap_or_default();
            one_line(&format!("{}{why}", node.state))
        }
        None => act.past().to_owned(),
    }
}

/// What the manager warns of in an answer about a federation.
pub(super) fn warnings(told: &Value) -> Vec<String> {
    let listed = told["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    listed.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned() -> Elsewhere {
        let member =
            |cluster: &str, action: &str| json!({"cluster_id": cluster, "service_name": "x", "action": action});
        Elsewhere::of_dry_run(&json!({
            "service": {"federation": {"topology": "star"}},
            "federation": {"members": [member("b", "create"), member("lab", "adopt"), member("d", "delete")],
                           "warnings": ["w"]},
        }))
        .expect("a federation")
    }

    #[test]
    fn a_plan_is_a_diff_of_members() {
        let expected = "  federation (star):\n  +   b/x    create\n  ~   lab/x  adopt the service that is there\n  \
                        -   d/x    delete\n";
        assert_eq!(planned().plan(Paint(false)), expected);
        assert!(planned().plan(Paint(true)).contains("\x1b[32m  +   b/x    create\x1b[0m"));
        assert_eq!(planned().warnings, ["w"]);
        assert!(Elsewhere::of_dry_run(&json!({"federation": null})).is_none());
    }

    #[test]
    fn an_outcome_is_the_deed_or_what_prevents_it() {
        let node = |cluster: &str, state: &str| json!({"cluster_id": cluster, "service_name": "x", "state": state});
        let view = View::read(&json!({
            "graph": {"nodes": [node("b", "in-sync"), node("lab", "unreachable")]},
            "conditions": [{"member": "lab/x", "error": "gone"}], "leaving": ["d/x"],
        }));
        let mut done = planned();
        assert_eq!(done.to_json()["members"][0], json!({"member": "b/x", "action": "create"}), "nothing is known yet");
        done.learn(Some(&view));
        let told = ["b/x: created", "lab/x: unreachable: gone", "d/x: is still to be removed there"];
        assert_eq!(done.outcome(), told);
        let member = json!({"member": "lab/x", "action": "adopt", "outcome": "unreachable: gone"});
        assert_eq!(done.to_json()["members"][1], member);
        done.learn(None);
        assert_eq!(done.outcome()[2], "d/x: deleted");
    }
}
