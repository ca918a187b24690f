//! A tree as text, in one of the many spellings it has.

use std::fmt::Write as _;

use oscar_api::tree::{Node, Value};

use crate::Random;

pub(super) fn json(random: &mut Random, node: &Node) -> String {
    let mut out = String::new();
    flow(random, node, true, &mut out);
    out
}

pub(super) fn yaml(random: &mut Random, node: &Node) -> String {
    let mut out = String::new();
    if random.once_in(16) {
        out.push_str("# a comment\n---\n");
    }
    block(random, node, 0, &mut out);
    out.push('\n');
    out
}

/// On one line: JSON, or the flow style of YAML.
fn flow(random: &mut Random, node: &Node, is_json: bool, out: &mut String) {
    match &node.value {
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                flow(random, item, is_json, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                double_quoted(key, out);
                out.push_str(": ");
                flow(random, value, is_json, out);
            }
            out.push('}');
        }
        Value::Bool(value, _) if is_json => out.push_str(if *value { "true" } else { "false" }),
        Value::Text(text) if is_json => double_quoted(text, out),
        _ => scalar(random, node, out),
    }
}

fn block(random: &mut Random, node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match &node.value {
        Value::List(items) if !items.is_empty() && !random.once_in(12) => {
            for item in items {
                let _ = write!(out, "\n{indent}- ");
                block(random, item, depth + 1, out);
            }
        }
        Value::Map(entries) if !entries.is_empty() && !random.once_in(12) => {
            for (key, value) in entries {
                let _ = write!(out, "\n{indent}");
                text(random, key, depth, false, out);
                out.push_str(": ");
                if random.once_in(64) {
                    out.push_str(random.pick(&["&a ", "!!str ", "!x "]));
                }
                block(random, value, depth + 1, out);
            }
        }
        Value::List(_) | Value::Map(_) => flow(random, node, false, out),
        Value::Text(value) => text(random, value, depth, true, out),
        _ => scalar(random, node, out),
    }
}

fn scalar(random: &mut Random, node: &Node, out: &mut String) {
    match &node.value {
        Value::Null => out.push_str(random.pick(&["null", "~", "null"])),
        Value::Bool(_, text) | Value::Number(text) => out.push_str(text),
        Value::Text(value) => text(random, value, 0, false, out),
        Value::List(_) | Value::Map(_) => {}
    }
}

/// In any style, also where it then means something else: that is what people write.
fn text(random: &mut Random, value: &str, depth: usize, may_be_block: bool, out: &mut String) {
    let is_word =
        !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    match random.below(8) {
        0 => {
            let _ = write!(out, "'{}'", value.replace('\'', "''"));
        }
        1 if may_be_block && !value.is_empty() => {
            out.push_str(random.pick(&["|", "|-", "|+", ">", ">-"]));
            for line in value.split('\n') {
                let _ = write!(out, "\n{}{line}", "  ".repeat(depth));
            }
        }
        2 if random.once_in(8) => out.push_str(value),
        3..=5 if is_word => out.push_str(value),
        _ => double_quoted(value, out),
    }
}

fn double_quoted(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}
