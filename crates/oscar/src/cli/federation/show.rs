//! A federation for people: the picture of its topology with the state of every member.

use std::time::{Duration, UNIX_EPOCH};

use crate::cli::screen::{Paint, Style, one_line, printable};
use crate::cli::table::Table;
use crate::time::rfc3339_seconds;

use super::picture::{Who, draw};
use super::view::{Token, View};

/// Everything that is known, with a line end at the end.
pub(super) fn whole(view: &View, own: &str, now: u64, paint: Paint, width: Option<usize>) -> String {
    let mut text = head(view, own, paint);
    text.push_str(&members(view, own, now, paint, width));
    text.push_str(&troubles(view, paint));
    text.push_str(&operations(view, now, paint));
    if view.graph.is_some() {
        text.push('\n');
        text.push_str(&token_line(view.token.as_ref(), paint));
    }
    text
}

fn head(view: &View, own: &str, paint: Paint) -> String {
    let topology = one_line(&view.topology);
    let size = match (&view.graph, view.nodes().iter().filter(|node| !node.is_coordinator()).count()) {
        (None, _) => "in no federation; jobs may go to what is below it".to_owned(),
        (Some(_), 1) => format!("{topology} with one replica"),
        (Some(_), count) => format!("{topology} with {count} replicas"),
    };
    let group = Some(one_line(&view.group_id)).filter(|group| !group.is_empty() && group != own);
    let group = group.map(|group| format!(", group {group}")).unwrap_or_default();
    let id = view.graph.as_ref().map(|graph| paint.on(Style::Dim, &one_line(&graph.federation_id)) + "\n");
    let title = paint.on(Style::Bold, own);
    format!("{title}  {size}{group}, delegation {}\n{}\n", one_line(view.delegation()), id.unwrap_or_default())
}

/// The picture, and beside each name how it is.
pub(super) fn members(view: &View, own: &str, now: u64, paint: Paint, width: Option<usize>) -> String {
    let mut table = Table::new(["MEMBER", "STATE", "DUTY", "PRIORITY", "SEEN", "ENDPOINT"]);
    for line in draw(view, own) {
        let name = printable(&line.text).replace('\n', " ");
        table.row(match line.who {
            Who::Own => [name, "here".to_owned(), String::new(), String::new(), String::new(), String::new()],
            Who::Target(target) => {
                let (state, priority) = ("not watched".to_owned(), target.priority.to_string());
                [name, state, String::new(), priority, String::new(), String::new()]
            }
            Who::Node(node) if node.is_coordinator() => {
                let state = "coordinator".to_owned();
                [name, state, String::new(), String::new(), String::new(), one_line(&node.endpoint)]
            }
            Who::Node(node) => [
                name,
                one_line(&node.state),
                one_line(&node.duty),
                node.priority.to_string(),
                view.seen(&node.id()).map_or_else(|| "never".to_owned(), |seen| ago(now.saturating_sub(seen))),
                one_line(&node.endpoint),
            ],
        });
    }
    table.paint(1, style_of_state);
    table.paint(2, |duty| (duty != "active").then_some(Style::Yellow));
    format!("{}\n", table.render(paint, width, 5))
}

/// What went wrong at whom, and who is still to be removed.
fn troubles(view: &View, paint: Paint) -> String {
    let errors = view.nodes().iter().filter_map(|node| {
        let error = one_line(view.error_of(&node.id())?);
        Some(format!("{} {}: {error}\n", paint.on(Style::Red, "✗"), one_line(&node.id())))
    });
    let leaving = view
        .leaving
        .iter()
        .map(|member| format!("{} {}: is still to be removed there\n", paint.on(Style::Yellow, "!"), one_line(member)));
    let all: String = errors.chain(leaving).collect();
    if all.is_empty() { all } else { format!("\n{all}") }
}

/// Creates that have not ended.
fn operations(view: &View, now: u64, paint: Paint) -> String {
    let lines = view.operations.iter().map(|operation| {
        let what = if operation.phase == "taking-back" { "is being taken back at" } else { "is under way at" };
        let members: Vec<_> = operation.members.iter().map(|member| one_line(member)).collect();
        let (mark, since) = (paint.on(Style::Yellow, "!"), ago(now.saturating_sub(operation.begun)));
        format!("{mark} a create, begun {since}, {what} {}\n", members.join(", "))
    });
    let all: String = lines.collect();
    if all.is_empty() { all } else { format!("\n{all}") }
}

/// One line about the refresh token.
fn token_line(token: Option<&Token>, paint: Paint) -> String {
    let Some(token) = token else {
        return "token: none; members are called with the owner's logins, or when the owner calls\n".to_owned();
    };
    let state = paint.on(style_of_token(&token.state), &one_line(&token.state));
    let why = [&token.reason, &token.warning].into_iter().filter(|text| !text.is_empty());
    let why: String = why.map(|text| format!("; {}", one_line(text))).collect();
    format!("token: {state}, {} old{why}\n", span(token.age))
}

/// Everything about the refresh token.
pub(super) fn token(token: Option<&Token>, paint: Paint) -> String {
    let Some(token) = token else { return "there is no refresh token\n".to_owned() };
    let used = token.used.map_or_else(|| "never".to_owned(), ago);
    let mut rows = vec![
        ("state", paint.on(style_of_token(&token.state), &one_line(&token.state))),
        ("reason", one_line(&token.reason)),
        ("issuer", one_line(&token.issuer)),
        ("client", one_line(&token.client)),
        ("age", span(token.age)),
        ("used", used),
        ("services", token.services.to_string()),
        ("warning", one_line(&token.warning)),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    rows.iter().map(|(key, value)| format!("{:<10}{value}\n", format!("{key}:"))).collect()
}

fn style_of_state(state: &str) -> Option<Style> {
    match state {
        "in-sync" => Some(Style::Green),
        "pending" | "drifted" => Some(Style::Yellow),
        "unreachable" | "refused" | "blocked" => Some(Style::Red),
        "coordinator" => Some(Style::Cyan),
        _ => None,
    }
}

fn style_of_token(state: &str) -> Style {
    match state {
        "valid" => Style::Green,
        "not-verified" => Style::Yellow,
        _ => Style::Red,
    }
}

/// `2026-06-12 09:05:29`, in UTC.
pub(super) fn moment(seconds: u64) -> String {
    let text = rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    text.trim_end_matches('Z').replace('T', " ")
}

pub(super) fn ago(seconds: u64) -> String {
    if seconds < 2 { "now".to_owned() } else { format!("{} ago", span(seconds)) }
}

/// In the largest unit that says enough.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view() -> View {
        let node = |cluster: &str, role: &str, state: &str, targets: &[&str]| {
            json!({"cluster_id": cluster, "service_name": "x", "role": role, "endpoint": format!("https://{cluster}"),
                   "priority": 0, "duty": "active", "state": state, "targets": targets})
        };
        View::read(&json!({
            "topology": "star", "group_id": "x", "delegation": "random", "members": null,
            "token": {"state": "sign-in-again", "reason": "revoked\u{1b}[2J", "age": 300_000},
            "graph": {"federation_id": "6f1c", "coordinator": "a/x", "nodes": [
                node("a", "coordinator", "in-sync", &["b/x", "c/x"]),
                node("b", "worker", "in-sync", &[]), node("c", "worker", "unreachable", &[])]},
            "conditions": [{"member": "b/x", "error": "", "last_seen": 95},
                           {"member": "c/x", "error": "refused\nby all", "last_seen": null}],
            "leaving": ["d/x"],
        }))
    }

    #[test]
    fn the_picture_tells_how_everybody_is() {
        let expected = "x  star with 2 replicas, delegation random\n6f1c\n\n\
            MEMBER   STATE        DUTY    PRIORITY  SEEN     ENDPOINT\n\
            a/x      coordinator                             https://a\n\
            ├── b/x  in-sync      active  0         5 s ago  https://b\n\
            └── c/x  unreachable  active  0         never    https://c\n\n\
            ✗ c/x: refused by all\n! d/x: is still to be removed there\n\n\
            token: sign-in-again, 3 days old; revoked\\u{1b}[2J\n";
        assert_eq!(whole(&view(), "x", 100, Paint(false), None), expected);
    }

    #[test]
    fn colours_say_the_same_again() {
        let text = whole(&view(), "x", 100, Paint(true), None);
        assert!(text.contains("\x1b[31munreachable\x1b[0m") && text.contains("\x1b[32min-sync\x1b[0m"), "{text}");
        assert!(!text.contains("\x1b[2J"), "{text}");
    }

    #[test]
    fn spans_are_told_in_words() {
        assert_eq!((ago(0).as_str(), ago(65).as_str(), ago(200).as_str()), ("now", "65 s ago", "3 min ago"));
        assert_eq!((span(7300).as_str(), span(400_000).as_str()), ("2 h", "4 days"));
        assert_eq!(moment(0), "1970-01-01 00:00:00");
    }
}
