//! Marks of secrets that are logins at git forges.

use serde::{Deserialize, Serialize};

/// Maximum number of characters of the name of a user.
const LONGEST_USER: usize = 100;

/// A login at a git forge. Requests to the hosts of such a secret are told apart: those that read
/// pass, and those that write ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenLogin")]
#[non_exhaustive]
pub struct ForgeLogin {
    /// Kind of the forge.
    pub kind: ForgeKind,
    /// Name of the user there, which Basic credentials (RFC 7617) can contain.
    pub user: String,
    /// Port of the forge's HTTPS server, unless it is 443.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Kind of a forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub, or GitHub Enterprise Server.
    Github,
    /// GitLab.
    Gitlab,
    /// Another server with git's smart HTTP protocol.
    Git,
    /// Registry of npm packages.
    Npm,
}

impl ForgeKind {
    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Git => "git",
            Self::Npm => "npm",
        }
    }
}

/// A name that no user of a forge can have.
#[derive(Debug, thiserror::Error)]
#[error("a user at a forge has printable ASCII characters without spaces and colons, at most {LONGEST_USER}")]
pub struct InvalidUser;

/// A login as the file of the vault has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLogin {
    kind: ForgeKind,
    user: String,
    port: Option<u16>,
}

impl ForgeLogin {
    /// Builds the mark of a login. Without `port`, the forge answers at port 443.
    ///
    /// # Errors
    /// Returns an error if no forge can have this user.
    pub fn new(kind: ForgeKind, user: &str, port: Option<u16>) -> Result<Self, InvalidUser> {
        let is_plain = user.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if user.is_empty() || user.len() > LONGEST_USER || !is_plain {
            return Err(InvalidUser);
        }
        Ok(Self { kind, user: user.to_owned(), port: port.filter(|port| *port != 443) })
    }
}

impl TryFrom<WrittenLogin> for ForgeLogin {
    type Error = InvalidUser;

    fn try_from(written: WrittenLogin) -> Result<Self, InvalidUser> {
        Self::new(written.kind, &written.user, written.port)
    }
}
