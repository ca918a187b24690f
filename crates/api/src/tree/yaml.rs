use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle};

use super::{MOST_DEPTH, MOST_NODES, Malformed, Node, Value};

/// Reads the first document. Aliases are copied, within the limit on values, so that a small
/// file cannot grow without bound.
pub fn parse_yaml(text: &str) -> Result<Node, Malformed> {
    let mut builder = Builder { open: Vec::new(), anchors: HashMap::new(), left: MOST_NODES, done: None };
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| Malformed::NotYaml { line: error.marker().line(), cause: error.info() })?;
        let line = span.start.line();
        match event {
            Event::StreamEnd | Event::DocumentEnd => break,
            Event::Alias(id) => {
                let node = builder.anchors.get(&id).cloned();
                let node = node.ok_or_else(|| not_yaml(line, "an alias of something that is not complete"))?;
                builder.spend(count(&node))?;
                builder.close(node, line)?;
            }
            Event::UnresolvedAlias(name) => return Err(not_yaml(line, &format!("the alias `{name}` names nothing"))),
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str");
                let value = if is_text { Value::Text(text.into_owned()) } else { plain(&text) };
                builder.spend(1)?;
                builder.finish(Node { value, line: Some(line) }, anchor, line)?;
            }
            Event::SequenceStart(_, anchor, _) => builder.start(Value::List(Vec::new()), anchor, line)?,
            Event::MappingStart(_, anchor, _) => builder.start(Value::Map(Vec::new()), anchor, line)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = builder.open.pop() {
                    builder.finish(open.node, open.anchor, line)?;
                }
            }
            _ => {}
        }
    }
    builder.done.ok_or(Malformed::Empty)
}

fn not_yaml(line: usize, cause: &str) -> Malformed {
    Malformed::NotYaml { line, cause: cause.to_owned() }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|(_, node)| count(node)).sum(),
        Value::Null | Value::Bool(..) | Value::Number(_) | Value::Text(_) => 0,
    }
}

/// A list or map whose end has not come yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<String>,
}

struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    left: usize,
    done: Option<Node>,
}

impl Builder {
    fn spend(&mut self, nodes: usize) -> Result<(), Malformed> {
        self.left = self.left.checked_sub(nodes).ok_or(Malformed::TooLarge)?;
        Ok(())
    }

    fn start(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Malformed> {
        if self.open.len() >= MOST_DEPTH {
            return Err(Malformed::TooLarge);
        }
        self.spend(1)?;
        self.open.push(Open { node: Node { value, line: Some(line) }, anchor, key: None });
        Ok(())
    }

    fn finish(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), Malformed> {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.close(node, line)
    }

    /// Puts a complete node where it belongs.
    fn close(&mut self, node: Node, line: usize) -> Result<(), Malformed> {
        let Some(parent) = self.open.last_mut() else {
            self.done.get_or_insert(node);
            return Ok(());
        };
        match (&mut parent.node.value, parent.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(entries), Some(key)) => {
                if entries.iter().any(|(known, _)| *known == key) {
                    return Err(not_yaml(line, &format!("the key `{key}` is given twice")));
                }
                // The line of the key is where a reader looks, also when its value is a block below.
                entries.push((key, node));
            }
            (Value::Map(_), None) => {
                parent.key = Some(match node.value {
                    Value::Text(text) | Value::Number(text) | Value::Bool(_, text) => text,
                    Value::Null => "null".to_owned(),
                    Value::List(_) | Value::Map(_) => return Err(not_yaml(line, "a key must be a word")),
                });
            }
            (Value::Null | Value::Bool(..) | Value::Number(_) | Value::Text(_), _) => {}
        }
        Ok(())
    }
}

/// The core schema of YAML 1.2.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true, text.to_owned()),
        "false" | "False" | "FALSE" => Value::Bool(false, text.to_owned()),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts = unsigned.strip_prefix('.').unwrap_or(unsigned).starts_with(|c: char| c.is_ascii_digit());
    starts && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_lines() {
        let node = parse_yaml("a: 1\nb:\n- x\n- y: no\n").expect("valid");
        assert_eq!(node.line_of("b[1].y"), Some(4));
        assert_eq!(node.line_of("b[7].y"), Some(3), "the nearest parent when it is absent");
        assert_eq!(node.get("A").map(|node| node.value.clone()), Some(Value::Number("1".to_owned())));
    }

    #[test]
    fn a_small_file_cannot_grow_without_bound() {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (this, last) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
            let items = vec![format!("*{last}"); 10].join(",");
            bomb.push_str(&format!("{this}: &{this} [{items}]\n"));
        }
        assert_eq!(parse_yaml(&bomb), Err(Malformed::TooLarge));
        assert!(parse_yaml(&"[".repeat(1000)).is_err());
    }

    #[test]
    fn mistakes_name_their_line() {
        assert!(matches!(parse_yaml("a: 1\na: 2\n"), Err(Malformed::NotYaml { line: 2, .. })));
        assert!(matches!(parse_yaml("a: [1\nb: 2"), Err(Malformed::NotYaml { .. })));
        assert_eq!(parse_yaml("# nothing\n"), Err(Malformed::Empty));
    }
}
