//! Names of environment variables that contain credentials.

/// Parts of a name, in capitals, that mark a credential.
const PARTS: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTH_SOCK",
];

/// Words between underscores that mark a credential in the same way: `GITHUB_PAT` names a
/// credential, `MY_PATH` does not.
const WORDS: [&str; 2] = ["PAT", "PASS"];

/// Returns true if an environment variable of this name, in any case, contains a credential.
pub fn is_credential_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    PARTS.iter().any(|part| name.contains(part)) || name.split('_').any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::is_credential_name;

    #[test]
    fn a_credential_is_known_by_a_part_or_a_word_of_its_name() {
        for name in
            ["GITHUB_TOKEN", "aws_secret_access_key", "GITHUB_PAT", "db_pass", "PASS", "SSH_AUTH_SOCK"]
        {
            assert!(is_credential_name(name), "{name}");
        }
        for name in ["PATH", "MY_PATH", "COMPASS", "EDITOR", "TIMEOUT", "_", ""] {
            assert!(!is_credential_name(name), "{name}");
        }
    }
}
