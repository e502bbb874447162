//! Names of plugins.

/// Returns true if a text can be the name of a plugin, and so of a tool. Two underscores in a row are for the tools of
/// servers (`server__tool`).
pub fn is_plugin_name(name: &str) -> bool {
    name.len() <= 40
        && !name.contains("__")
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tools() {
        for (name, is_name) in
            [("a_1", true), ("A", false), ("1a", false), ("a-b", false), ("a__b", false), ("", false)]
        {
            assert_eq!(is_plugin_name(name), is_name, "{name}");
        }
        assert!(!is_plugin_name(&"a".repeat(41)));
    }
}
