//! A BLAKE3 hash as a value: the link between audit rows, and the name of blobs.
//!
//! A blob's name reaches a path only in this form, so no name that a caller typed ever becomes part
//! of a path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 hash: 32 bytes, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Previous hash of the first audit row: 32 zero bytes.
    pub const GENESIS: Self = Self([0; 32]);

    /// Computes the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Converts a slice of exactly 32 bytes into a hash.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Error for a text that is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 lower-case hexadecimal digits")]
pub struct HashSyntaxError;

impl FromStr for Hash {
    type Err = HashSyntaxError;

    fn from_str(text: &str) -> Result<Self, HashSyntaxError> {
        // One spelling is accepted: two names that differ as text never mean the same blob.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(HashSyntaxError);
        }
        blake3::Hash::from_hex(text).map(Self::from).map_err(|_| HashSyntaxError)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_being_written_and_read() {
        let hash = Hash::of(b"content");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string().len(), 64);
    }

    #[test]
    fn only_64_lower_case_digits_are_a_hash() {
        let good = Hash::of(b"content").to_string();
        let hostile = [
            String::new(),
            good[1..].to_owned(),
            format!("{good}0"),
            good.to_uppercase(),
            format!("../{}", &good[3..]),
            format!("{}\0", &good[1..]),
            "é".repeat(32),
        ];
        for text in hostile {
            assert_eq!(text.parse::<Hash>(), Err(HashSyntaxError), "{text:?}");
        }
    }
}
