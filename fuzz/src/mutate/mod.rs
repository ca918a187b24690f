//! Other inputs from the seeds: of trees, of their spelling, of bytes.

mod bytes;
mod print;
mod request;
mod tree;
mod words;

use oscar_api::tree::{Node, parse_json, parse_yaml};

use crate::Random;

pub use request::request;

/// Mostly JSON, of trees that resemble services.
pub fn json(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    from_tree(random, seeds, print::json)
}

/// Mostly YAML, in the styles that people use.
pub fn yaml(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    from_tree(random, seeds, print::yaml)
}

pub fn json_or_yaml(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if random.once_in(2) { json(random, seeds) } else { yaml(random, seeds) }
}

/// A quantity by its grammar, or nearly one.
pub fn quantity(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if random.once_in(3) {
        return bytes::mutate(random, seeds);
    }
    let mut text = random.pick(&["", "", "", "-", "+"]).to_owned();
    digits(random, &mut text);
    if random.once_in(2) {
        text.push('.');
        digits(random, &mut text);
    }
    text.push_str(random.pick(&words::SUFFIXES));
    if text.ends_with(['e', 'E', '-', '+']) {
        digits(random, &mut text);
    }
    text.into_bytes()
}

fn digits(random: &mut Random, text: &mut String) {
    let most = random.pick(&[2, 4, 20, 45]);
    for _ in 0..random.below(most) {
        text.push_str(random.pick(&["0", "0", "1", "9", "5", "2", "4", "8"]));
    }
}

fn from_tree(random: &mut Random, seeds: &[Vec<u8>], print: fn(&mut Random, &Node) -> String) -> Vec<u8> {
    let seed = random.seed(seeds);
    let tree = if random.once_in(8) { None } else { read(seed) };
    // A seed that is no tree, and now and then one that is, only has bytes.
    let Some(mut tree) = tree else { return bytes::mutate(random, seeds) };
    let other = read(random.seed(seeds)).unwrap_or_else(|| tree.clone());
    // Few changes, so that most of what is accepted stays so and has to survive.
    for _ in 0..random.pick(&[1, 1, 1, 2, 4]) {
        tree::mutate(random, &mut tree, &other);
    }
    let text = print(random, &tree).into_bytes();
    if random.once_in(8) { bytes::mutate(random, &[text]) } else { text }
}

fn read(seed: &[u8]) -> Option<Node> {
    if seed.trim_ascii_start().starts_with(b"{") {
        return parse_json(seed).ok();
    }
    parse_yaml(std::str::from_utf8(seed).ok()?).ok()
}
