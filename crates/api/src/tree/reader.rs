use std::cell::RefCell;
use std::collections::BTreeMap;

use oscar_model::fault::{Faults, join, quoted};
use oscar_model::quantity::{QUANTITY_RULE, Quantity};

use super::{Node, Value};

/// More entries than this in one list or map of a definition are a mistake.
const MOST_ENTRIES: usize = 1000;

/// Reads typed values out of a tree, collecting what is wrong instead of stopping at it.
pub struct Reader<'a> {
    faults: RefCell<Faults>,
    /// YAML writers leave quotes away: numbers and booleans are then taken for text.
    lenient: bool,
    root: &'a Node,
}

impl<'a> Reader<'a> {
    pub fn new(root: &'a Node, lenient: bool) -> Self {
        Self { faults: RefCell::default(), lenient, root }
    }

    /// The fields of the root, or a fault and no field.
    pub fn fields(&'a self, path: &str) -> Fields<'a> {
        self.fields_of(self.root, path)
    }

    pub fn fields_of(&'a self, node: &'a Node, path: &str) -> Fields<'a> {
        let node = match &node.value {
            Value::Map(_) => Some(node),
            Value::Null => None,
            _ => {
                self.fault(path, node.kind(), "a map of fields");
                None
            }
        };
        Fields { reader: self, node, path: path.to_owned() }
    }

    pub fn fault(&self, path: &str, found: impl Into<String>, allowed: impl Into<String>) {
        self.faults.borrow_mut().push(path, found, allowed);
    }

    /// Takes over the faults of a part that was checked elsewhere.
    pub fn absorb(&self, path: &str, part: Faults) {
        self.faults.borrow_mut().absorb(path, part);
    }

    pub fn has_fault_at(&self, path: &str) -> bool {
        self.faults.borrow().0.iter().any(|fault| fault.path == path)
    }

    pub fn into_faults(self) -> Faults {
        self.faults.into_inner()
    }

    fn text_of(&self, node: &Node, path: &str) -> String {
        match &node.value {
            Value::Text(text) => text.clone(),
            Value::Null => String::new(),
            Value::Number(text) | Value::Bool(_, text) if self.lenient => text.clone(),
            _ => {
                self.fault(path, node.kind(), "text");
                String::new()
            }
        }
    }

    fn count_of(&self, node: &Node, path: &str, most: u32) -> u32 {
        let value = match &node.value {
            Value::Null => return 0,
            Value::Number(text) => text.parse::<u32>().ok().filter(|value| *value <= most),
            _ => None,
        };
        value.unwrap_or_else(|| {
            let found = if let Value::Number(text) = &node.value { text.clone() } else { node.kind().to_owned() };
            self.fault(path, found, format!("a whole number from 0 to {most}"));
            0
        })
    }
}

/// The fields of one map. An absent field and `null` are alike: the zero value.
pub struct Fields<'a> {
    reader: &'a Reader<'a>,
    node: Option<&'a Node>,
    path: String,
}

impl<'a> Fields<'a> {
    pub fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub fn reader(&self) -> &'a Reader<'a> {
        self.reader
    }

    pub fn fault(&self, key: &str, found: impl Into<String>, allowed: impl Into<String>) {
        self.reader.fault(&self.path(key), found, allowed);
    }

    /// The value of a key unless it is absent or null.
    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.node?.get(key).filter(|node| node.value != Value::Null)
    }

    pub fn text(&self, key: &str) -> String {
        self.get(key).map_or_else(String::new, |node| self.reader.text_of(node, &self.path(key)))
    }

    pub fn flag(&self, key: &str) -> bool {
        self.flag_or(key, false)
    }

    pub fn flag_or(&self, key: &str, default: bool) -> bool {
        match self.get(key).map(|node| (node, &node.value)) {
            None => default,
            Some((_, Value::Bool(value, _))) => *value,
            Some((node, _)) => {
                self.fault(key, node.kind(), "true or false");
                default
            }
        }
    }

    pub fn count(&self, key: &str, most: u32) -> u32 {
        self.get(key).map_or(0, |node| self.reader.count_of(node, &self.path(key), most))
    }

    /// A quantity that is not negative; blank is none.
    pub fn quantity(&self, key: &str) -> Option<Quantity> {
        let text = self.text(key);
        if text.is_empty() {
            return None;
        }
        let quantity = Quantity::parse(&text).filter(|quantity| !quantity.is_negative());
        if quantity.is_none() {
            self.fault(key, quoted(&text), QUANTITY_RULE);
        }
        quantity
    }

    /// A word from a closed list; blank is the default.
    pub fn word<T: Default>(&self, key: &str, rule: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        let text = self.text(key);
        if text.is_empty() {
            return T::default();
        }
        parse(&text).unwrap_or_else(|| {
            self.fault(key, quoted(&text), rule);
            T::default()
        })
    }

    pub fn items(&self, key: &str) -> Vec<(&'a Node, String)> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let path = self.path(key);
        match &node.value {
            Value::List(items) if items.len() <= MOST_ENTRIES => {
                items.iter().enumerate().map(|(index, item)| (item, format!("{path}[{index}]"))).collect()
            }
            Value::List(items) => {
                self.fault(key, format!("{} entries", items.len()), format!("at most {MOST_ENTRIES}"));
                Vec::new()
            }
            _ => {
                self.fault(key, node.kind(), "a list");
                Vec::new()
            }
        }
    }

    pub fn texts(&self, key: &str) -> Vec<String> {
        self.items(key).into_iter().map(|(node, path)| self.reader.text_of(node, &path)).collect()
    }

    /// Ports: one number or a list of them. Older clients send a scalar, and 0 for "none".
    pub fn ports(&self, key: &str) -> Vec<u16> {
        let port = |node: &Node, path: &str| u16::try_from(self.reader.count_of(node, path, 65535)).unwrap_or(0);
        match self.get(key) {
            Some(node) if matches!(node.value, Value::Number(_)) => {
                Some(port(node, &self.path(key))).filter(|port| *port != 0).into_iter().collect()
            }
            _ => self.items(key).into_iter().map(|(node, path)| port(node, &path)).collect(),
        }
    }

    /// The entries of a map of anything.
    pub fn entries(&self, key: &str) -> Vec<(&'a str, &'a Node, String)> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let path = self.path(key);
        match &node.value {
            Value::Map(entries) if entries.len() <= MOST_ENTRIES => {
                entries.iter().map(|(name, node)| (name.as_str(), node, join(&path, name))).collect()
            }
            Value::Map(entries) => {
                self.fault(key, format!("{} entries", entries.len()), format!("at most {MOST_ENTRIES}"));
                Vec::new()
            }
            _ => {
                self.fault(key, node.kind(), "a map");
                Vec::new()
            }
        }
    }

    pub fn text_map(&self, key: &str) -> BTreeMap<String, String> {
        let entries = self.entries(key).into_iter();
        entries.map(|(name, node, path)| (name.to_owned(), self.reader.text_of(node, &path))).collect()
    }

    /// The fields of a map below; no fields when it is absent.
    #[must_use]
    pub fn fields(&self, key: &str) -> Fields<'a> {
        match self.get(key) {
            Some(node) => self.reader.fields_of(node, &self.path(key)),
            None => Fields { reader: self.reader, node: None, path: self.path(key) },
        }
    }
}
