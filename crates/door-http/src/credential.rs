//! Credentials: bearer tokens and their roles.

/// Permissions of a credential. No role can both make calls and approve them: an agent with another
/// role's token can make no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Permission to make calls.
    Agent,
    /// Permission to answer approval requests, and to read the audit log.
    User,
    /// Permission to read metrics.
    Observer,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Agent, Self::User, Self::Observer];

    /// Returns the role's name, as in the name of its token's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::Observer => "observer",
        }
    }
}

/// A bearer token, stored as a hash.
#[derive(Debug, Clone)]
pub struct Credential {
    role: Role,
    hash: blake3::Hash,
}

impl Credential {
    /// Creates the credential for this token.
    pub fn new(role: Role, token: &str) -> Self {
        Self { role, hash: blake3::hash(token.as_bytes()) }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }
}

/// Returns the role of a token. The duration reveals nothing about any token: each hash is
/// compared, in constant time (a property of `blake3::Hash`).
pub(crate) fn role_of(credentials: &[Credential], presented: &str) -> Option<Role> {
    let presented = blake3::hash(presented.as_bytes());
    credentials.iter().fold(
        None,
        |found, credential| {
            if credential.hash == presented { Some(credential.role) } else { found }
        },
    )
}

/// Extracts the token of an `Authorization` header (RFC 6750, section 2.1).
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_role_and_nothing_near_it_is() {
        let known = [Credential::new(Role::Agent, "abc"), Credential::new(Role::User, "xyz")];
        assert_eq!(role_of(&known, "abc"), Some(Role::Agent));
        assert_eq!(role_of(&known, "xyz"), Some(Role::User));
        for other in ["", "ab", "abcd", "ABC", "abc ", "\u{0}abc"] {
            assert_eq!(role_of(&known, other), None, "{other:?}");
        }
        assert_eq!(role_of(&[], ""), None);
    }

    #[test]
    fn a_bearer_token_is_read_from_its_header_alone() {
        for header in ["Bearer abc", "bearer abc", " BEARER   abc "] {
            assert_eq!(bearer(header), Some("abc"), "{header:?}");
        }
        for header in ["abc", "Basic abc", "Bearer", "Bearer ", ""] {
            assert_eq!(bearer(header), None, "{header:?}");
        }
    }
}
