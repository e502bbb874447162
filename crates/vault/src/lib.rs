//! The vault: secrets that the agent uses and never sees.
//!
//! The secrets lie in one file in the [age](https://age-encryption.org/v1) format, which any tool
//! for that format opens with the key. The key is an age identity, in a separate file that a
//! passphrase opens or in a key file of the user. The kernel may store a copy of the key for a
//! limited time. In memory, the values lie in pages that stay out of swap and are wiped when
//! dropped ([`SecretBytes`]).
//!
//! This crate makes no policy decision: callers ask the policy first whether a call may use a
//! secret. The crate enforces the limits that were stored with the secret: hosts, request parts and
//! expiry.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let key = folder.path().join("key");
//! vault::make_key_file(&key)?;
//! let vault = vault::Vault::new(folder.path().join("vault"), vault::Keys { key_file: Some(key), ..Default::default() });
//! let now = jiff::Timestamp::UNIX_EPOCH;
//! let hosts = vault::HostRule::parse_all(["api.example.com"])?;
//! vault.set(&vault::Change { hosts: Some(hosts), ..vault::Change::named("api_key")? }, b"sk-0123456789", now)?;
//!
//! let used = vault.value_for("api_key", "api.example.com", vault::RequestPart::Header, now)?;
//! assert_eq!(&used[..], b"sk-0123456789");
//! assert!(vault.value_for("api_key", "elsewhere.example", vault::RequestPart::Header, now).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contents;
mod entry;
mod error;
mod file;
mod key;
mod keyring;
mod login;
mod memory;
mod store;

pub use contents::Contents;
pub use entry::{
    Change, Entry, HostRule, LEAST_CHARACTERS, MAX_BYTES, Name, RequestPart, RequestParts, is_name,
};
pub use error::{Kind, Result, VaultError};
pub use key::{Keys, make_key_file};
pub use login::{ForgeKind, ForgeLogin, InvalidUser};
pub use memory::SecretBytes;
pub use store::{RenewalLock, Vault};
