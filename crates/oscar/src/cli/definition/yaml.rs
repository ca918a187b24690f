//! YAML for people: block style, text in quotes only where it would be taken for something else.
//!
//! The same text is shown, compared line by line, and edited; so it must be read back as the
//! value that it was made from.

use serde_json::Value;

/// What a reader looks for first, and what is long last; everything else by the alphabet between.
const FIRST: [&str; 8] = ["name", "cluster_id", "image", "cpu", "memory", "visibility", "allowed_users", "log_level"];
const LAST: [&str; 1] = ["script"];

/// The text with a line end, or none for an empty map.
pub(in crate::cli) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if fields.is_empty() => {}
        Value::Object(_) | Value::Array(_) => block(&mut out, value, 0),
        scalar => {
            inline(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| (if depth == 0 { rank(key) } else { 0 }, *key));
            for (index, (key, value)) in fields.into_iter().enumerate() {
                if index > 0 || depth == 0 || !out.ends_with("- ") {
                    indent(out, depth);
                }
                out.push_str(&scalar(key));
                out.push(':');
                child(out, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(out, depth);
                out.push('-');
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        out.push(' ');
                        block(out, item, depth + 1);
                    }
                    Value::Array(nested) if !nested.is_empty() => {
                        out.push('\n');
                        block(out, item, depth + 1);
                    }
                    other => {
                        out.push(' ');
                        inline(out, other, depth);
                        out.push('\n');
                    }
                }
            }
        }
        _ => {}
    }
}

fn child(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(out, value, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(out, value, depth);
        }
        other => {
            out.push(' ');
            inline(out, other, depth);
            out.push('\n');
        }
    }
}

fn inline(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(text) => match literal(text) {
            Some(style) => literal_block(out, text, style, depth + 1),
            None => out.push_str(&scalar(text)),
        },
        other => out.push_str(&other.to_string()),
    }
}

fn indent(out: &mut String, depth: usize) {
    // At the start of a list item the dash has taken the place.
    out.push_str(&"  ".repeat(depth));
}

fn rank(key: &str) -> usize {
    let middle = FIRST.len();
    let first = FIRST.iter().position(|known| *known == key);
    first.unwrap_or_else(|| LAST.iter().position(|known| *known == key).map_or(middle, |at| middle + 1 + at))
}

/// How the lines of a text can be written as they are; none when it must be quoted.
fn literal(text: &str) -> Option<&'static str> {
    let first = text.split('\n').find(|line| !line.is_empty())?;
    let plain = |c: char| c == '\n' || c == '\t' || !needs_escape(c);
    let blank = |line: &str| !line.is_empty() && line.chars().all(|c| matches!(c, ' ' | '\t'));
    let fits = text.contains('\n')
        && text.chars().all(plain)
        && !first.starts_with([' ', '\t'])
        && !text.split('\n').any(blank);
    let body = text.trim_end_matches('\n');
    let style = match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    fits.then_some(style)
}

fn literal_block(out: &mut String, text: &str, style: &str, depth: usize) {
    out.push_str(style);
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
    }
}

fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether every reader, also an old one, takes the bare text for text.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let inner = |c: char| c.is_ascii_alphanumeric() || "_-./@+=(), :".contains(c);
    let begins = first.is_ascii_alphabetic() || matches!(first, '/' | '_' | '(') || is_quantity(text);
    let word = text.to_ascii_lowercase();
    let means_else = matches!(word.as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n");
    begins
        && text.chars().all(inner)
        && !text.ends_with([':', ' '])
        && !text.contains(": ")
        && !means_else
        && text.parse::<f64>().is_err()
}

/// Numbers with a unit such as `256Mi` are text for everybody; `1e3`, `0x1f` and dates are not.
fn is_quantity(text: &str) -> bool {
    let unit = |c: char| c.is_ascii_alphabetic() && !"abcdefxo".contains(c.to_ascii_lowercase());
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') && text.contains(unit)
}

fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => out.extend([r"\u".to_owned(), format!("{:04x}", u32::from(c))]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use oscar_api::tree::parse_yaml;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::cli::definition::node::to_json;

    #[test]
    fn a_definition_is_readable() {
        let value = json!({
            "script": "#!/bin/sh\necho hi\n", "name": "plants", "cpu": "0.5", "memory": "256Mi",
            "input": [{"storage_provider": "minio", "path": "plants/in"}],
            "environment": {"variables": {"ON": "true", "URL": "http://x:1/a b"}},
            "allowed_users": [], "enable_gpu": true,
        });
        let expected = "name: plants\ncpu: \"0.5\"\nmemory: 256Mi\nallowed_users: []\nenable_gpu: true\n\
                        environment:\n  variables:\n    \"ON\": \"true\"\n    URL: http://x:1/a b\n\
                        input:\n- path: plants/in\n  storage_provider: minio\nscript: |\n  #!/bin/sh\n  echo hi\n";
        assert_eq!(to_yaml(&value), expected);
    }

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z0-9 :#\\-\\n\\t\"'|>{}\\[\\],&*!%@`\\\\~]{0,12}",
            "(yes|No|null|~|1e3|0x1F|1_000|12:30|2024-01-01|\\.inf|---|\\.\\.\\.|- a|a: b|a #b)",
            "( {0,2}[a-z]{0,3}\\n){0,4}[a-z ]{0,3}",
            "\\PC{0,6}",
            any::<String>(),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            texts().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(texts(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in values()) {
            let text = to_yaml(&json!({"name": value}));
            let node = parse_yaml(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(to_json(&node), json!({"name": value}), "{}", text);
        }
    }
}
