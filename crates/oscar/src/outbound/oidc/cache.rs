//! A memory of bounded size that forgets what was not used for long.

use std::collections::HashMap;
use std::hash::Hash;

/// Two halves: what is used moves to the young one. When that is full, the old half is
/// forgotten and the young one takes its place. Every operation costs the same, whatever
/// the size.
pub(super) struct Memory<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Memory<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { half: (capacity / 2).max(1), young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.put(key.clone(), value.clone());
        Some(value)
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut memory = Memory::new(10);
        memory.put(0, "kept");
        for other in 1..1000 {
            memory.put(other, "other");
            assert_eq!(memory.get(&0), Some("kept"));
            assert!(memory.young.len() + memory.old.len() <= 10);
        }
        assert_eq!(memory.get(&1), None);
    }

    #[test]
    fn what_was_replaced_or_removed_does_not_come_back() {
        let mut memory = Memory::new(2);
        memory.put(1, "first");
        memory.put(2, "other");
        memory.put(1, "second");
        assert_eq!(memory.get(&1), Some("second"));
        memory.remove(&1);
        assert_eq!(memory.get(&1), None);
    }
}
