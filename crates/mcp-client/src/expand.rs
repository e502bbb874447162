//! Values of a configuration with `${VAR}` and `${VAR:-default}` in them, kept as data.
//!
//! Nothing here knows an environment: the caller supplies the values when a server starts, so a secret can
//! stay a placeholder until then.

/// Maximum length of a value after its variables were put in, in bytes. Linux takes 128 KiB for one
/// argument of a program.
pub const LONGEST_VALUE: usize = 128 * 1024;

/// Value with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

/// Part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Variable { name: String, default: Option<String> },
}

/// Reason why a value could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The caller has no value for a variable without a default.
    #[error("`${{{name}}}` has no value, and no default (`${{{name}:-...}}`)")]
    Missing {
        /// Name of the variable.
        name: String,
    },
    /// The value is too long.
    #[error("a value with `${{...}}` is longer than {limit} bytes")]
    TooLong {
        /// Maximum length, in bytes.
        limit: usize,
    },
}

impl Template {
    /// Parses a value. A `${` that begins no variable is text, as in Claude Code.
    pub fn parse(value: &str) -> Self {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = value;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            text.push_str(before);
            let inside = from.get(2..).unwrap_or_default();
            let Some((body, after)) = inside.split_once('}') else {
                rest = from;
                break;
            };
            let (name, default) =
                body.split_once(":-").map_or((body, None), |(name, default)| (name, Some(default)));
            if is_name(name) {
                if !text.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut text)));
                }
                parts.push(TemplatePart::Variable {
                    name: name.to_owned(),
                    default: default.map(ToOwned::to_owned),
                });
                rest = after;
            } else {
                text.push_str("${");
                rest = inside;
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(TemplatePart::Text(text));
        }
        Self { parts }
    }

    /// Puts values in the places of the variables. A value is text: a `${` within it means nothing. An empty value
    /// counts as missing where the variable has a default.
    ///
    /// # Errors
    /// [`ExpandError::Missing`] or [`ExpandError::TooLong`].
    pub fn expand(&self, value_of: impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
        let mut expanded = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => expanded.push_str(text),
                TemplatePart::Variable { name, default } => match (value_of(name), default) {
                    (Some(value), None) => expanded.push_str(&value),
                    (Some(value), Some(_)) if !value.is_empty() => expanded.push_str(&value),
                    (_, Some(default)) => expanded.push_str(default),
                    (None, None) => return Err(ExpandError::Missing { name: name.clone() }),
                },
            }
            if expanded.len() > LONGEST_VALUE {
                return Err(ExpandError::TooLong { limit: LONGEST_VALUE });
            }
        }
        Ok(expanded)
    }

    /// Returns the names of the variables, in their order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable { name, .. } => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// Returns the text if there is no variable in it.
    pub fn plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the value as the configuration has it.
    pub fn source(&self) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Variable { name, default: None } => format!("${{{name}}}"),
            TemplatePart::Variable { name, default: Some(default) } => format!("${{{name}:-{default}}}"),
        };
        self.parts.iter().map(part).collect()
    }
}

fn is_name(name: &str) -> bool {
    let begins = |character: char| character.is_ascii_alphabetic() || character == '_';
    name.starts_with(begins) && name.chars().all(|character| begins(character) || character.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.com".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${HOST}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once_and_defaults_stand_in() {
        let expand = |value: &str| Template::parse(value).expand(values);
        assert_eq!(expand("https://${HOST}/x").as_deref(), Ok("https://example.com/x"));
        assert_eq!(expand("${NONE:-a:-b}${EMPTY:-c}").as_deref(), Ok("a:-bc"));
        assert_eq!(expand("[${EMPTY}]").as_deref(), Ok("[]"));
        assert_eq!(expand("${TRICK}").as_deref(), Ok("${HOST}"), "a value is no template");
        assert_eq!(expand("$HOME ${not a name} ${ $").as_deref(), Ok("$HOME ${not a name} ${ $"));
        assert_eq!(expand("${NONE}"), Err(ExpandError::Missing { name: "NONE".to_owned() }));
        assert_eq!(
            expand("${NONE}").unwrap_err().to_string(),
            "`${NONE}` has no value, and no default (`${NONE:-...}`)"
        );
    }

    #[test]
    fn a_value_has_a_bound() {
        let long = |_: &str| Some("x".repeat(LONGEST_VALUE));
        assert_eq!(
            Template::parse("${A}${B}").expand(long),
            Err(ExpandError::TooLong { limit: LONGEST_VALUE })
        );
    }

    #[test]
    fn variables_and_plain_values_are_told_apart() {
        let template = Template::parse("a${ONE}b${TWO:-x}");
        assert_eq!(template.variables().collect::<Vec<_>>(), ["ONE", "TWO"]);
        assert_eq!((template.plain(), Template::parse("npx").plain()), (None, Some("npx")));
    }

    proptest! {
        #[test]
        fn a_parsed_value_keeps_its_source(value in "[${}A-B:\\-a ]{0,30}") {
            prop_assert_eq!(Template::parse(&value).source(), value);
        }
    }
}
