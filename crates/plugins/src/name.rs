//! Names of plugins.

/// Returns true if a text can be the name of a plugin, and so of a tool.
pub fn is_plugin_name(name: &str) -> bool {
    name.len() <= 40
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tools() {
        for (name, is_name) in [("a_1", true), ("A", false), ("1a", false), ("a-b", false), ("", false)] {
            assert_eq!(is_plugin_name(name), is_name, "{name}");
        }
        assert!(!is_plugin_name(&"a".repeat(41)));
    }
}
