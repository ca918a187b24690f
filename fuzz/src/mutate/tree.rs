//! Changes of a tree that keep most of it meaningful.

use oscar_api::tree::{Node, Value};

use super::words;
use crate::Random;

/// Changes one node somewhere; parts of `other` may move in.
pub(super) fn mutate(random: &mut Random, tree: &mut Node, other: &Node) {
    let place = random.below(count(tree));
    if let Some(node) = nth(tree, &mut place.clone()) {
        change(random, node, other);
    }
}

fn change(random: &mut Random, node: &mut Node, other: &Node) {
    match random.below(16) {
        0 => node.value = Value::Null,
        1 => node.value = Value::Bool(random.once_in(2), "True".to_owned()),
        2 => {
            let number = random.pick(&["0", "1", "-1", "2.5", "1e3", "30500", "65536", "4294967296", "0.001", "1e-9"]);
            node.value = Value::Number((*number).to_owned());
        }
        3 => node.value = Value::List(vec![node.clone(); random.below(3)]),
        4 => {
            let place = random.below(count(other));
            let mut other = other.clone();
            if let Some(found) = nth(&mut other, &mut place.clone()) {
                *node = found.clone();
            }
        }
        5 if random.once_in(8) => deepen(random, node),
        _ => grow(random, node),
    }
}

/// A change of its own kind: a text stays a text, a list a list.
fn grow(random: &mut Random, node: &mut Node) {
    match &mut node.value {
        Value::Text(text) => change_text(random, text),
        Value::List(items) if !items.is_empty() => {
            let at = random.below(items.len());
            if random.once_in(2) {
                items.remove(at);
            } else {
                items.push(items[at].clone());
            }
        }
        Value::Map(entries) if !entries.is_empty() => {
            let at = random.below(entries.len());
            match random.below(5) {
                0 => {
                    entries.remove(at);
                }
                1 => entries.push(entries[at].clone()),
                2 => entries[at].0 = entries[at].0.to_ascii_uppercase(),
                3 => change_text(random, &mut entries[at].0),
                _ => {
                    let with = random.below(entries.len());
                    entries.swap(at, with);
                }
            }
        }
        value => *value = Value::Text(random.pick(&words::WORDS).to_owned()),
    }
}

fn change_text(random: &mut Random, text: &mut String) {
    let word = random.pick(&words::WORDS);
    match random.below(6) {
        0 => text.push_str(word),
        1 => text.insert_str(0, word),
        2 => {
            let at = text.char_indices().map(|(at, _)| at).nth(random.below(text.len())).unwrap_or_default();
            text.insert_str(at, word);
        }
        3 => *text = text.repeat(random.below(40)).chars().take(600).collect(),
        4 => *text = text.chars().take(random.below(text.len())).collect(),
        _ => word.clone_into(text),
    }
}

fn deepen(random: &mut Random, node: &mut Node) {
    for _ in 0..random.below(80) {
        let inner = std::mem::replace(node, Node { value: Value::Null, line: None });
        node.value = Value::List(vec![inner]);
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|(_, node)| count(node)).sum(),
        Value::Null | Value::Bool(..) | Value::Number(_) | Value::Text(_) => 0,
    }
}

/// The node at this place when all are counted in the order of the document.
fn nth<'a>(node: &'a mut Node, place: &mut usize) -> Option<&'a mut Node> {
    if *place == 0 {
        return Some(node);
    }
    *place -= 1;
    match &mut node.value {
        Value::List(items) => items.iter_mut().find_map(|item| nth(item, place)),
        Value::Map(entries) => entries.iter_mut().find_map(|(_, node)| nth(node, place)),
        Value::Null | Value::Bool(..) | Value::Number(_) | Value::Text(_) => None,
    }
}
