//! Credentials at rest: sealed with a key that is not in the database.
//!
//! A value is bound to its place, so a row that is moved to another key or table, or back from
//! an older copy of another row, cannot be opened. Losing the key loses the values: there is no
//! other way in.

use oscar_engine::ports::StoreError;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

pub(super) const KEY_LENGTH: usize = 32;

/// The first byte of every sealed value, for the day when there is another way to seal.
const FORMAT: u8 = 1;

/// Seals and opens values with one key.
pub(super) struct Seal {
    key: LessSafeKey,
    random: SystemRandom,
}

/// The table and the key of the row that a value belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) table: &'static str,
    pub(super) key: &'a [&'a str],
}

impl Place<'_> {
    /// Each part with its length, so that no two places are written alike.
    fn bytes(&self) -> Vec<u8> {
        let parts = std::iter::once(self.table).chain(self.key.iter().copied());
        parts.flat_map(|part| format!("{}:{part}", part.len()).into_bytes()).collect()
    }
}

impl Seal {
    pub(super) fn new(key: &[u8; KEY_LENGTH]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("the key has the length of the algorithm");
        Self { key: LessSafeKey::new(key), random: SystemRandom::new() }
    }

    /// A number is drawn for every value: no count has to survive a crash, and a manager seals
    /// far fewer values than it takes for two to meet.
    pub(super) fn seal(&self, place: Place<'_>, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let failed = |what: &str| StoreError::Unavailable(format!("a value could not be sealed: {what}"));
        let number = random::<NONCE_LEN>(&self.random).ok_or_else(|| failed("there are no random bytes"))?;
        let mut sealed = [&[FORMAT], &number[..]].concat();
        let mut secret = value.to_vec();
        let nonce = Nonce::assume_unique_for_key(number);
        self.key
            .seal_in_place_append_tag(nonce, Aad::from(place.bytes()), &mut secret)
            .map_err(|_| failed("it is too large"))?;
        sealed.append(&mut secret);
        Ok(sealed)
    }

    /// `None` when it was not sealed with this key for this place.
    pub(super) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let (number, secret) = sealed.strip_prefix(&[FORMAT])?.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(number).ok()?;
        let mut secret = secret.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place.bytes()), &mut secret).ok()?.len();
        secret.truncate(length);
        Some(secret)
    }
}

/// The port's word for a value that does not open.
pub(super) fn unopened(place: Place<'_>) -> StoreError {
    StoreError::Broken(format!(
        "a sealed value of the table {} cannot be opened: it was changed, or moved there from another row; \
         restore the database from a backup",
        place.table
    ))
}

pub(super) fn random<const N: usize>(source: &SystemRandom) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    source.fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place<'_> = Place { table: "grants", key: &["a", "b"] };

    #[test]
    fn what_was_sealed_opens_in_its_place_with_its_key_only() {
        let seal = Seal::new(&[7; 32]);
        let sealed = seal.seal(HERE, b"planted").expect("sealed");
        assert!(!sealed.windows(7).any(|window| window == b"planted"));
        assert_eq!(seal.open(HERE, &sealed).as_deref(), Some(&b"planted"[..]));
        assert_ne!(seal.seal(HERE, b"planted"), Ok(sealed.clone()), "no two look alike");
        for place in [
            Place { table: "formers", ..HERE },
            Place { key: &["a", "c"], ..HERE },
            Place { key: &["ab"], ..HERE },
            Place { key: &["", "ab"], ..HERE },
            Place { key: &["a", "b", ""], ..HERE },
        ] {
            assert_eq!(seal.open(place, &sealed), None, "{place:?}");
        }
        assert_eq!(Seal::new(&[8; 32]).open(HERE, &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open(HERE, &changed), None, "byte {at}");
            assert_eq!(seal.open(HERE, &sealed[..at]), None, "cut off at {at}");
        }
    }

    #[test]
    fn a_blank_value_is_sealed_like_any_other() {
        let seal = Seal::new(&[7; 32]);
        let sealed = seal.seal(HERE, b"").expect("sealed");
        assert_eq!(seal.open(HERE, &sealed), Some(vec![]));
    }
}
