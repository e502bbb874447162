//! Who sends a request.

/// What a credential is good for. No role can both ask and answer: an agent that was given the wrong token can call nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Makes calls.
    Agent,
    /// Answers the questions of calls, and looks at what was done.
    User,
    /// Reads figures.
    Observer,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Agent, Self::User, Self::Observer];

    /// The role's name, as in the name of its token's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::Observer => "observer",
        }
    }
}

/// A bearer token, as its hash alone.
#[derive(Debug, Clone)]
pub struct Credential {
    role: Role,
    hash: blake3::Hash,
}

impl Credential {
    /// The credential of whoever presents this token.
    pub fn new(role: Role, token: &str) -> Self {
        Self { role, hash: blake3::hash(token.as_bytes()) }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }
}

/// Whose token it is. How long that takes tells nothing of any token: hashes are compared, in constant time (`blake3::Hash` is), and
/// each with every one.
pub(crate) fn role_of(credentials: &[Credential], presented: &str) -> Option<Role> {
    let presented = blake3::hash(presented.as_bytes());
    credentials.iter().fold(
        None,
        |found, credential| {
            if credential.hash == presented { Some(credential.role) } else { found }
        },
    )
}

/// The token of an `Authorization` header (RFC 6750, section 2.1).
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
