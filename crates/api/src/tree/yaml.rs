use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle};

use super::{MOST_DEPTH, MOST_NODES, Malformed, Node, Value};

/// More bytes than this, copies by alias counted, are refused.
const MOST_BYTES: usize = 16 << 20;

/// Reads one document. Aliases are copied and what has an anchor is kept, within limits on
/// values and bytes, so that a small file cannot grow without bound.
pub fn parse_yaml(text: &str) -> Result<Node, Malformed> {
    let mut builder = Builder {
        open: Vec::new(),
        anchors: HashMap::new(),
        left: Cost { nodes: MOST_NODES, bytes: MOST_BYTES },
        done: None,
    };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| Malformed::NotYaml { line: error.marker().line(), cause: error.info() })?;
        let line = span.start.line();
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(not_yaml(line, "a second document begins here; a file holds one"));
                }
            }
            Event::Alias(id) => {
                let node = builder.anchors.get(&id).cloned();
                let node = node.ok_or_else(|| not_yaml(line, "an alias of something that is not complete"))?;
                builder.spend(cost(&node))?;
                builder.close(node, line)?;
            }
            Event::UnresolvedAlias(name) => return Err(not_yaml(line, &format!("the alias `{name}` names nothing"))),
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str");
                // In quotes it is a word like any other.
                if !is_text && text == "<<" && builder.is_at_a_key() {
                    return Err(not_yaml(line, "merge keys (`<<`) are not supported; write the fields out"));
                }
                let value = if is_text { Value::Text(text.into_owned()) } else { plain(&text) };
                let node = Node { value, line: Some(line) };
                builder.spend(cost(&node))?;
                builder.finish(node, anchor, line)?;
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

/// What a node costs to keep.
#[derive(Clone, Copy)]
struct Cost {
    nodes: usize,
    bytes: usize,
}

fn cost(node: &Node) -> Cost {
    let sum = |costs: &mut dyn Iterator<Item = Cost>, own: usize| {
        costs.fold(Cost { nodes: 1, bytes: own }, |sum, cost| Cost {
            nodes: sum.nodes + cost.nodes,
            bytes: sum.bytes + cost.bytes,
        })
    };
    match &node.value {
        Value::List(items) => sum(&mut items.iter().map(cost), 0),
        Value::Map(entries) => {
            let keys = entries.iter().map(|(key, _)| key.len()).sum();
            sum(&mut entries.iter().map(|(_, node)| cost(node)), keys)
        }
        Value::Number(text) | Value::Text(text) | Value::Bool(_, text) => Cost { nodes: 1, bytes: text.len() },
        Value::Null => Cost { nodes: 1, bytes: 0 },
    }
}

/// A list or map whose end has not come yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<String>,
    /// The keys so far, of a map.
    keys: HashSet<String>,
}

struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    left: Cost,
    done: Option<Node>,
}

impl Builder {
    fn spend(&mut self, cost: Cost) -> Result<(), Malformed> {
        self.left.nodes = self.left.nodes.checked_sub(cost.nodes).ok_or(Malformed::TooLarge)?;
        self.left.bytes = self.left.bytes.checked_sub(cost.bytes).ok_or(Malformed::TooLarge)?;
        Ok(())
    }

    /// Whether what comes next is the key of an entry.
    fn is_at_a_key(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.node.value, Value::Map(_)) && open.key.is_none())
    }

    fn start(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), Malformed> {
        if self.open.len() >= MOST_DEPTH {
            return Err(Malformed::TooLarge);
        }
        self.spend(Cost { nodes: 1, bytes: 0 })?;
        self.open.push(Open { node: Node { value, line: Some(line) }, anchor, key: None, keys: HashSet::new() });
        Ok(())
    }

    fn finish(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), Malformed> {
        if anchor > 0 {
            self.spend(cost(&node))?;
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
                if !parent.keys.insert(key.clone()) {
                    return Err(not_yaml(line, &format!("the key `{key}` is given twice")));
                }
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
    fn copies_cost_their_bytes_and_so_do_anchors() {
        let long = "x".repeat(200_000);
        let copies = format!("a: &a \"{long}\"\nb: [{}]\n", vec!["*a"; 3000].join(","));
        assert_eq!(parse_yaml(&copies), Err(Malformed::TooLarge));
        let mut nested = "x".repeat(300_000);
        for index in 0..60 {
            nested = format!("&a{index} [{nested}]");
        }
        assert_eq!(parse_yaml(&nested), Err(Malformed::TooLarge));
    }

    #[test]
    fn a_map_of_many_keys_is_read_in_one_pass() {
        let many: String = (0..60_000).map(|index| format!("k{index}: 1\n")).collect();
        assert!(parse_yaml(&many).is_ok());
    }

    #[test]
    fn what_would_be_ignored_is_refused_with_its_line() {
        assert!(matches!(parse_yaml("a: 1\n---\nb: 2\n"), Err(Malformed::NotYaml { line: 2, .. })));
        assert!(parse_yaml("---\na: 1\n...\n").is_ok());
        assert!(matches!(parse_yaml("x: &x {b: 1}\na:\n  <<: *x\n"), Err(Malformed::NotYaml { line: 3, .. })));
        assert!(parse_yaml("a:\n  \"<<\": [<<, '<<']\n").is_ok());
    }

    #[test]
    fn mistakes_name_their_line() {
        assert!(matches!(parse_yaml("a: 1\na: 2\n"), Err(Malformed::NotYaml { line: 2, .. })));
        assert!(matches!(parse_yaml("a: [1\nb: 2"), Err(Malformed::NotYaml { .. })));
        assert_eq!(parse_yaml("# nothing\n"), Err(Malformed::Empty));
    }
}
