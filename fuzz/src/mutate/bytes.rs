//! Changes that know nothing of what the bytes mean.

use super::words;
use crate::Random;

/// Longer inputs find nothing more and cost time.
const MOST: usize = 16 << 10;

pub(super) fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = random.seed(seeds).to_vec();
    for _ in 0..=random.below(4) {
        change(random, &mut data, seeds);
    }
    data.truncate(MOST);
    data
}

fn change(random: &mut Random, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = random.below(data.len() + 1);
    let end = (at + 1 + random.below(16)).min(data.len());
    match random.below(7) {
        0 if at < data.len() => data[at] ^= 1 << random.below(8),
        1 if at < data.len() => data[at] = random.byte(),
        2 if at < end => {
            data.drain(at..end);
        }
        3 if at < end => {
            let copy = data[at..end].to_vec();
            insert(data, end, &copy);
        }
        4 => data.truncate(at),
        5 => {
            // The beginning of one and the end of another.
            let other = random.seed(seeds).to_vec();
            let from = random.below(other.len() + 1);
            data.truncate(at);
            data.extend_from_slice(&other[from..]);
        }
        _ => {
            let word = random.pick(&words::WORDS).as_bytes();
            insert(data, at, word);
        }
    }
}

fn insert(data: &mut Vec<u8>, at: usize, what: &[u8]) {
    data.splice(at..at, what.iter().copied());
}
