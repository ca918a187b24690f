use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{MOST_NODES, Malformed, Node, Value};

/// Reads the first JSON value; what follows it is ignored, as OSCAR does.
pub fn parse_json(bytes: &[u8]) -> Result<Node, Malformed> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Malformed::Empty);
    }
    let left = Cell::new(MOST_NODES);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match (Builder { left: &left }).deserialize(&mut reader) {
        Ok(node) => Ok(node),
        Err(_) if left.get() == 0 => Err(Malformed::TooLarge),
        Err(error) if error.to_string().starts_with("recursion limit") => Err(Malformed::TooLarge),
        Err(error) => Err(Malformed::NotJson(error.to_string())),
    }
}

/// Builds nodes until the budget is used up.
#[derive(Clone, Copy)]
struct Builder<'a> {
    left: &'a Cell<usize>,
}

impl Builder<'_> {
    fn node<E: Error>(self, value: Value) -> Result<Node, E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| E::custom("too many values"))?;
        self.left.set(left);
        Ok(Node { value, line: None })
    }
}

impl<'de> DeserializeSeed<'de> for Builder<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Builder<'_> {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.node(Value::Bool(value, value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        self.node(Value::Number(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        self.node(Value::Number(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        self.node(Value::Number(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.node(Value::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Node, E> {
        self.node(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        self.node(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.push((key, entries.next_value_seed(self)?));
        }
        self.node(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_first_value_is_ignored() {
        assert_eq!(parse_json(b"{} trailing").map(|node| node.kind()), Ok("a map"));
        assert_eq!(parse_json(b" \n"), Err(Malformed::Empty));
        assert!(matches!(parse_json(b"{"), Err(Malformed::NotJson(_))));
    }

    #[test]
    fn depth_and_size_have_limits() {
        assert_eq!(parse_json("[".repeat(10_000).as_bytes()), Err(Malformed::TooLarge));
        let wide = format!("[{}0]", "0,".repeat(MOST_NODES + 1));
        assert_eq!(parse_json(wide.as_bytes()), Err(Malformed::TooLarge));
    }
}
