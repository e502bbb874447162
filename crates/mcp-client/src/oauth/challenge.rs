//! The refusal of a server that wants a login.

/// Facts of a `WWW-Authenticate` header with the scheme `Bearer`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Challenge {
    /// URL of the metadata of the protected resource (RFC 9728).
    pub resource_metadata: Option<String>,
    /// Scopes that the request needs, apart by spaces.
    pub scope: Option<String>,
    /// Code of the error, such as `insufficient_scope`.
    pub error: Option<String>,
}

/// Reads the header. Parameters of other schemes and invalid ones are left out.
pub fn parse_challenge(header: &str) -> Challenge {
    let mut challenge = Challenge::default();
    let mut is_bearer = false;
    let mut rest = header.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|character: char| " =,".contains(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let value = after.trim_start().strip_prefix('=');
        let Some(value) = value.filter(|_| !word.is_empty()) else {
            // A word without a value begins the parameters of a scheme.
            if !word.is_empty() {
                is_bearer = word.eq_ignore_ascii_case("bearer");
            }
            rest = after.trim_start_matches([' ', ',', '=']);
            continue;
        };
        let (value, after) = parameter(value.trim_start());
        if is_bearer {
            let place = match word.to_ascii_lowercase().as_str() {
                "resource_metadata" => Some(&mut challenge.resource_metadata),
                "scope" => Some(&mut challenge.scope),
                "error" => Some(&mut challenge.error),
                _ => None,
            };
            // The first one counts, so that nothing behind it can replace it.
            if let Some(place) = place.filter(|place| place.is_none()) {
                *place = Some(value);
            }
        }
        rest = after.trim_start_matches([' ', ',']);
    }
    challenge
}

/// Reads a value, quoted or not, and returns the rest.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (value, after) = text.split_at(end);
        return (value.to_owned(), after);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(index + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_parameters_of_bearer_are_read() {
        let header = r#"Basic realm="x, scope=y", Bearer error="insufficient_scope", scope="a b", resource_metadata="https://h/\"p", scope="c""#;
        let expected = Challenge {
            resource_metadata: Some("https://h/\"p".to_owned()),
            scope: Some("a b".to_owned()),
            error: Some("insufficient_scope".to_owned()),
        };
        assert_eq!(parse_challenge(header), expected);
        assert_eq!(parse_challenge("bearer scope=a").scope.as_deref(), Some("a"));
        assert_eq!(parse_challenge("Digest scope=\"a\""), Challenge::default());
    }

    proptest! {
        #[test]
        fn any_header_is_read(header in "[Bbearer \"=,\\\\a-c]{0,60}", other in any::<String>()) {
            parse_challenge(&header);
            parse_challenge(&format!("Bearer {other}"));
        }
    }
}
