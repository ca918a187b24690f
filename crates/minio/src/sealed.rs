//! What MinIO's administrative interface takes and gives is encrypted under the secret key of the
//! caller: `salt (32) | algorithm (1) | nonce (8) | fragments`. A fragment is up to 16 KiB and its
//! tag; each is numbered, and the last one is marked, so that none can be dropped or exchanged.

use argon2::{Algorithm, Argon2, Params, Version};
use oscar_engine::ports::clock::Entropy;
use oscar_model::secret::Secret;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

const SALT: usize = 32;
const NONCE: usize = 8;
const FRAGMENT: usize = 16 * 1024;
const TAG: usize = 16;
const ARGON_AES: u8 = 0;
const ARGON_CHACHA: u8 = 1;
/// In the additional data of the last fragment.
const LAST: u8 = 0x80;

/// Seals for one secret key. Making a key from it costs 64 MiB and a tenth of a second, so one
/// salt is used for everything that a process sends; each message has its own nonce.
pub(crate) struct Sealer {
    salt: [u8; SALT],
    key: [u8; 32],
}

impl Sealer {
    /// Blocks for a moment.
    pub(crate) fn new(secret: &Secret, entropy: &dyn Entropy) -> Option<Self> {
        let mut salt = [0; SALT];
        entropy.fill(&mut salt);
        Some(Self { salt, key: derive(secret, &salt)? })
    }

    pub(crate) fn seal(&self, plain: &[u8], entropy: &dyn Entropy) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let stream = Stream::new(UnboundKey::new(&AES_256_GCM, &self.key).ok()?, nonce)?;
        let mut out = [&self.salt[..], &[ARGON_AES], &nonce].concat();
        let mut fragments = plain.chunks(FRAGMENT).peekable();
        let mut number = 1;
        loop {
            let mut fragment = fragments.next().unwrap_or_default().to_vec();
            let last = fragments.peek().is_none();
            let sealing = stream.key.seal_in_place_append_tag(stream.nonce(number), stream.about(last), &mut fragment);
            sealing.ok()?;
            out.extend(fragment);
            if last {
                return Some(out);
            }
            number += 1;
        }
    }
}

/// What the other side sealed under the same secret key. Blocks for a moment.
pub(crate) fn open(secret: &Secret, sealed: &[u8]) -> Option<Vec<u8>> {
    let (salt, rest) = sealed.split_at_checked(SALT)?;
    let (algorithm, rest) = rest.split_first()?;
    let (nonce, mut rest) = rest.split_at_checked(NONCE)?;
    let algorithm = match *algorithm {
        ARGON_AES => &AES_256_GCM,
        ARGON_CHACHA => &CHACHA20_POLY1305,
        _ => return None,
    };
    let key = UnboundKey::new(algorithm, &derive(secret, salt)?).ok()?;
    let stream = Stream::new(key, nonce.try_into().ok()?)?;
    let mut out = Vec::new();
    for number in 1.. {
        let (fragment, left) = rest.split_at(rest.len().min(FRAGMENT + TAG));
        let mut fragment = fragment.to_vec();
        let opened = stream.key.open_in_place(stream.nonce(number), stream.about(left.is_empty()), &mut fragment);
        out.extend_from_slice(opened.ok()?);
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    Some(out)
}

fn derive(secret: &Secret, salt: &[u8]) -> Option<[u8; 32]> {
    let params = Params::new(64 * 1024, 1, 4, Some(32)).ok()?;
    let mut key = [0; 32];
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_into(secret.expose().as_bytes(), salt, &mut key).ok()?;
    Some(key)
}

struct Stream {
    key: LessSafeKey,
    nonce: [u8; NONCE],
    /// The tag of nothing under the first nonce; part of what every fragment is bound to.
    begin: [u8; TAG],
}

impl Stream {
    fn new(key: UnboundKey, nonce: [u8; NONCE]) -> Option<Self> {
        let mut stream = Self { key: LessSafeKey::new(key), nonce, begin: [0; TAG] };
        let tag = stream.key.seal_in_place_separate_tag(stream.nonce(0), Aad::empty(), &mut []).ok()?;
        stream.begin = tag.as_ref().try_into().ok()?;
        Some(stream)
    }

    fn nonce(&self, number: u32) -> Nonce {
        let mut nonce = [0; NONCE + 4];
        nonce[..NONCE].copy_from_slice(&self.nonce);
        nonce[NONCE..].copy_from_slice(&number.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn about(&self, last: bool) -> Aad<[u8; 1 + TAG]> {
        let mut about = [0; 1 + TAG];
        about[0] = if last { LAST } else { 0 };
        about[1..].copy_from_slice(&self.begin);
        Aad::from(about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
        }
    }

    #[test]
    fn what_was_sealed_is_opened_whatever_its_length_and_nothing_else_is() {
        let secret = Secret::new("root-secret-key");
        let ours = Sealer::new(&secret, &Counting).expect("a sealer");
        for length in [0, 1, FRAGMENT - 1, FRAGMENT, FRAGMENT + 1, 3 * FRAGMENT] {
            let plain = vec![7; length];
            let sealed = ours.seal(&plain, &Counting).expect("sealed");
            assert_eq!(open(&secret, &sealed).as_deref(), Some(&plain[..]), "{length}");
            if length == FRAGMENT + 1 {
                assert_eq!(open(&Secret::new("another-secret"), &sealed), None);
                let cut = &sealed[..SALT + 1 + NONCE + FRAGMENT + TAG];
                assert_eq!(open(&secret, cut), None, "the last fragment is missing");
                let mut changed = sealed;
                changed[SALT + 1 + NONCE] ^= 1;
                assert_eq!(open(&secret, &changed), None);
            }
        }
        assert_eq!(open(&secret, b"too short"), None);
    }
}
