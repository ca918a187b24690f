//! From the tree of a file to JSON, for what is passed on without being understood.

use oscar_api::tree::{Node, Value as Tree};
use serde_json::{Map, Number, Value};

pub(in crate::cli) fn to_json(node: &Node) -> Value {
    match &node.value {
        Tree::Null => Value::Null,
        Tree::Bool(value, _) => Value::Bool(*value),
        Tree::Number(text) => number(text),
        Tree::Text(text) => Value::String(text.clone()),
        Tree::List(items) => Value::Array(items.iter().map(to_json).collect()),
        Tree::Map(fields) => {
            Value::Object(fields.iter().map(|(key, node)| (key.clone(), to_json(node))).collect::<Map<_, _>>())
        }
    }
}

/// A spelling that JSON does not have stays what was written.
fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    let number = whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use oscar_api::tree::parse_yaml;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_value_has_its_counterpart() {
        let node =
            parse_yaml("a: 1\nb: -2.5\nc: yes\nd: True\ne: ~\nf: [1, x]\ng: {h: 18446744073709551615}\ni: 1e999\n");
        let json = to_json(&node.expect("valid"));
        let expected = json!({
            "a": 1, "b": -2.5, "c": "yes", "d": true, "e": null, "f": [1, "x"],
            "g": {"h": u64::MAX}, "i": "1e999",
        });
        assert_eq!(json, expected);
    }
}
