//! Size of JSON text, before it is parsed.

/// Maximum number of JSON values in one message to a door. Each takes up to a hundred bytes once
/// parsed, and as little as two before.
pub const MAX_JSON_VALUES: usize = 1_000_000;

/// Returns true if JSON text contains more than [`MAX_JSON_VALUES`] values. Reads a short text not
/// at all, and any other text once, without memory. The text need not be valid.
pub fn holds_too_many_values(json: &[u8]) -> bool {
    json.len() > 2 * MAX_JSON_VALUES && values(json) > MAX_JSON_VALUES
}

/// Returns a lower bound for the number of values.
fn values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'{' | b'[' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_strings() {
        assert_eq!(values(br#"{"a":"[[[,,,","b":[1,2,3]}"#), 5);
        assert_eq!(values(br#"["\",[", "\\", 1]"#), 3);
    }

    #[test]
    fn a_text_holds_too_many_values_above_the_limit_alone() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values));
        assert!(holds_too_many_values(list(MAX_JSON_VALUES).as_bytes()));
        assert!(!holds_too_many_values(list(MAX_JSON_VALUES - 1).as_bytes()));
        let commas = format!(r#"{{"content":"{}"}}"#, ",".repeat(3 * MAX_JSON_VALUES));
        assert!(!holds_too_many_values(commas.as_bytes()));
    }
}
