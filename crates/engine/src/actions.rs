//! The planned actions of an audit row, in words.

use std::path::Path;

use serde_json::Value;

/// Lists the effects of a plan as the audit has it.
pub(crate) fn effects(plan: &Value) -> impl Iterator<Item = &Value> {
    plan["effects"].as_array().into_iter().flatten()
}

/// Returns the planned actions of an audit row in words, such as `run npm test` or `read src/a.rs`.
/// Paths within the workspace are relative.
pub fn actions(plan: &Value) -> Vec<String> {
    let workspace = plan["workspace"].as_str().map(Path::new);
    let relative = |path: &str| {
        let inner = workspace.and_then(|workspace| Path::new(path).strip_prefix(workspace).ok());
        match inner.and_then(Path::to_str) {
            Some("") => ".".to_owned(),
            Some(inner) => inner.to_owned(),
            None => path.to_owned(),
        }
    };
    let action = |effect: &Value| {
        let command = &effect["command"];
        let object = match (effect["path"].as_str(), command["shell"].as_str()) {
            (Some(path), _) => relative(path),
            (None, Some(line)) => line.to_owned(),
            (None, None) if command.is_null() => {
                let named = effect["host"].as_str().or_else(|| effect["what"].as_str());
                named.unwrap_or_default().to_owned()
            }
            (None, None) => words(&command["argv"]),
        };
        format!("{} {object}", effect["effect"].as_str().unwrap_or_default()).trim_end().to_owned()
    };
    effects(plan).map(action).collect()
}

/// Returns the words of a command in one line.
fn words(argv: &Value) -> String {
    let words: Vec<&str> = argv.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_told_in_words_with_paths_of_the_workspace() {
        let plan = json!({"workspace": "/w", "effects": [
            {"effect": "read", "path": "/w/a"},
            {"effect": "write", "path": "/w"},
            {"effect": "write", "path": "/other/a"},
            {"effect": "run", "command": {"shell": "ls -l"}, "directory": "/w"},
            {"effect": "run", "command": {"argv": ["npm", "test"]}},
            {"effect": "connect", "host": "a.example"},
        ]});
        let told = ["read a", "write .", "write /other/a", "run ls -l", "run npm test", "connect a.example"];
        assert_eq!(actions(&plan), told);
        assert_eq!(actions(&Value::Null), Vec::<String>::new());
    }
}
