//! The hash functions of SCRAM. The only file that names a hash crate.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// The hash that a SCRAM mechanism is built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl Hash {
    /// All of them, weakest first.
    pub const ALL: [Hash; 3] = [Hash::Sha1, Hash::Sha256, Hash::Sha512];

    /// Returns the length of the digest, in bytes.
    pub fn size(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha512 => 64,
        }
    }

    /// Returns `H(data)` of RFC 5802 §2.2.
    pub(crate) fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha1 => Sha1::digest(data).to_vec(),
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    /// Returns `HMAC(key, parts…)` of RFC 5802 §2.2, over the parts as if they were written one
    /// after the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha1 => mac::<Hmac<Sha1>>(key, parts),
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }

    /// Returns `Hi(password, salt, iterations)` of RFC 5802 §2.2, which is PBKDF2: the only
    /// deliberately slow function here.
    pub(crate) fn salted_password(self, prepared: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.size()];
        let (password, iterations) = (prepared.as_bytes(), iterations.max(1));
        match self {
            Hash::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted),
            Hash::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted),
            Hash::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted),
        }
        salted
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // HMAC takes keys of any length (RFC 2104 §2): the error of the general trait can't occur.
    // Should a later version of the crate think otherwise, an empty result compares unequal to
    // every digest and the login fails.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}
