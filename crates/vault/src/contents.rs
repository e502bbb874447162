//! In-memory contents of a vault: the entries and their values.

use std::ops::Range;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{Entry, Result, SecretBytes, VaultError};

/// Newest format version of [`VaultPlaintext`], in which entries may be logins. A vault without one
/// is written in the first version, so that earlier programs open it.
const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;
/// Maximum number of bytes of a written entry, not counting its value and its hosts.
const BESIDE: usize = 1024;
/// Maximum number of bytes of one written host.
const HOST: usize = 300;

/// The entries of a vault, with all values in one block of locked memory.
#[derive(Debug)]
pub struct Contents {
    pub(crate) generation: u64,
    entries: Vec<(Entry, Range<usize>)>,
    values: SecretBytes,
}

/// The plaintext of a vault, as serialized before encryption.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VaultPlaintext<'a> {
    version: u32,
    /// Counter that grows by one with each change.
    generation: u64,
    #[serde(borrow)]
    entries: Vec<WrittenEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry<'a> {
    entry: Entry,
    /// Value in Base64, whose alphabet needs no JSON escapes, so that deserialization borrows the
    /// text and makes no copy.
    value: &'a str,
}

/// The version field of a plaintext of any format version.
#[derive(Deserialize)]
struct OfVersion {
    version: u32,
}

impl Contents {
    pub(crate) fn empty() -> Self {
        Self { generation: 0, entries: Vec::new(), values: SecretBytes::zeroed(0) }
    }

    /// Reads the decrypted plaintext of a vault.
    pub(crate) fn read(plain: &[u8], path: &Path) -> Result<Self> {
        let damaged = || VaultError::Damaged { path: path.to_owned() };
        let of: OfVersion = serde_json::from_slice(plain).map_err(|_| damaged())?;
        if of.version > VERSION {
            return Err(VaultError::Later { path: path.to_owned() });
        }
        let written: VaultPlaintext<'_> = serde_json::from_slice(plain).map_err(|_| damaged())?;
        let mut values = SecretBytes::zeroed(plain.len());
        let (mut entries, mut filled) = (Vec::with_capacity(written.entries.len()), 0);
        for WrittenEntry { entry, value } in written.entries {
            let into = values.get_mut(filled..).unwrap_or_default();
            let length = STANDARD.decode_slice(value, into).map_err(|_| damaged())?;
            entries.push((entry, filled..filled + length));
            filled += length;
        }
        values.truncate(filled);
        Ok(Self { generation: written.generation, entries, values })
    }

    /// Serializes the contents for encryption.
    pub(crate) fn write(&self) -> serde_json::Result<Zeroizing<Vec<u8>>> {
        let encoded: Vec<Zeroizing<String>> =
            self.entries.iter().map(|(_, at)| Zeroizing::new(STANDARD.encode(self.bytes(at)))).collect();
        let beside = |(entry, _): &(Entry, Range<usize>)| BESIDE + HOST * entry.hosts.len();
        let room = encoded.iter().map(|value| value.len()).sum::<usize>()
            + self.entries.iter().map(beside).sum::<usize>();
        let entries = self.entries.iter().zip(&encoded);
        let entries = entries.map(|((entry, _), value)| WrittenEntry { entry: entry.clone(), value });
        let has_login = self.entries.iter().any(|(entry, _)| entry.login.is_some());
        let version = if has_login { VERSION } else { FIRST_VERSION };
        let written = VaultPlaintext { version, generation: self.generation, entries: entries.collect() };
        // Reserve the maximum size at once, because a growing buffer would leave a copy behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(BESIDE + room));
        serde_json::to_writer(&mut *plain, &written)?;
        Ok(plain)
    }

    fn bytes(&self, at: &Range<usize>) -> &[u8] {
        self.values.get(at.clone()).unwrap_or_default()
    }

    /// Iterates over all entries with their values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        self.entries.iter().map(|(entry, at)| (entry, self.bytes(at)))
    }

    /// Returns the entry of this name with its value.
    pub fn get(&self, name: &str) -> Option<(&Entry, &[u8])> {
        let found = self.entries.binary_search_by(|(entry, _)| entry.name.as_str().cmp(name)).ok()?;
        self.entries.get(found).map(|(entry, at)| (entry, self.bytes(at)))
    }

    /// Returns true if the system keeps the values out of swap.
    pub fn is_locked_in_memory(&self) -> bool {
        self.values.is_locked()
    }

    /// Builds the next generation: without the entry `name`, and with the entry `to` if one is
    /// given.
    pub(crate) fn changed(&self, name: &str, to: Option<(Entry, &[u8])>) -> Self {
        let others = self.iter().filter(|(entry, _)| entry.name.as_str() != name);
        let mut all: Vec<(Entry, &[u8])> = others.map(|(entry, value)| (entry.clone(), value)).collect();
        all.extend(to);
        all.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        let mut values = SecretBytes::zeroed(all.iter().map(|(_, value)| value.len()).sum());
        let (mut entries, mut filled) = (Vec::with_capacity(all.len()), 0);
        for (entry, value) in all {
            let at = filled..filled + value.len();
            values[at.clone()].copy_from_slice(value);
            filled = at.end;
            entries.push((entry, at));
        }
        Self { generation: self.generation + 1, entries, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ForgeKind, ForgeLogin};

    const EARLIER: &str = r#"{"version":1,"generation":3,"entries":[{"entry":{"name":"token","hosts":["a.example"],"places":{"header":true,"query":false,"body":false},"set_at":"2026-07-01T00:00:00Z"},"value":"MDEyMzQ1Njc4OWFi"}]}"#;

    fn read(text: &str) -> Result<Contents> {
        Contents::read(text.as_bytes(), Path::new("vault"))
    }

    #[test]
    fn a_vault_without_logins_has_the_first_version_and_one_with_a_login_the_second() {
        let earlier = read(EARLIER).unwrap();
        assert_eq!(String::from_utf8(earlier.write().unwrap().to_vec()).unwrap(), EARLIER);
        let (entry, value) = earlier.get("token").unwrap();
        let login = ForgeLogin::new(ForgeKind::Github, "me", None).unwrap();
        let marked = earlier.changed("token", Some((Entry { login: Some(login), ..entry.clone() }, value)));
        let written = String::from_utf8(marked.write().unwrap().to_vec()).unwrap();
        assert!(
            written.contains(r#""version":2"#)
                && written.contains(r#""login":{"kind":"github","user":"me"}"#),
            "{written}"
        );
        let again = read(&written).unwrap();
        assert_eq!(again.get("token").unwrap().0.login, marked.get("token").unwrap().0.login);
        assert!(matches!(read(&written.replace("\"me\"", "\"m:e\"")), Err(VaultError::Damaged { .. })));
        assert!(matches!(
            read(&written.replace("\"version\":2", "\"version\":3")),
            Err(VaultError::Later { .. })
        ));
    }
}
