//! A document as it was written: JSON or YAML, with the lines of YAML.
//!
//! Definitions are read from this tree rather than by a derived deserialiser, because OSCAR
//! matches keys in any case and takes `null` for everything, and because a user should see
//! every mistake at once and not only the first.

mod json;
mod reader;
mod yaml;

pub use json::parse_json;
pub use reader::{Fields, Reader};
pub use yaml::parse_yaml;

/// Deeper nesting is refused: no definition needs it, and every level costs stack.
pub(crate) const MOST_DEPTH: usize = 64;

/// More values than this in one document are refused.
pub(crate) const MOST_NODES: usize = 200_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub value: Value,
    /// Counted from one; known for YAML only.
    pub line: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    /// With its spelling, because YAML users write `DEBUG: True` where text is meant.
    Bool(bool, String),
    /// As it was spelled.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the document.
    Map(Vec<(String, Node)>),
}

/// Why a text is no document at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it is empty")]
    Empty,
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("it is not YAML: line {line}: {cause}")]
    NotYaml { line: usize, cause: String },
    #[error("it is nested too deeply, or has too many values")]
    TooLarge,
}

impl Node {
    /// What kind of value it is, for an error message. The value itself is not quoted: it may be a secret.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(..) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value of a key, in any case; the last one when it is given twice, as in Go.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// The line of what stands at a path such as `input[1].path`, or of the nearest parent.
    pub fn line_of(&self, path: &str) -> Option<usize> {
        let mut node = self;
        let mut line = self.line;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let child = match (&node.value, step.strip_suffix(']')) {
                (Value::List(items), Some(index)) => index.parse().ok().and_then(|index: usize| items.get(index)),
                _ => node.get(step),
            };
            let Some(child) = child else { break };
            node = child;
            line = node.line.or(line);
        }
        line
    }
}
