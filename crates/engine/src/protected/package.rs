//! Changes of a package's `package.json` whose scripts a hook runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::view::Content;

/// Keys under which managers of git hooks read the commands to run.
const OF_HOOKS: [&str; 7] =
    ["husky", "gitHooks", "simple-git-hooks", "pre-commit", "pre-push", "lint-staged", "ghooks"];

/// Returns the reason why a change of the file needs a separate approval: it changes a script that
/// the words of a hook name, or a command of a manager of hooks.
pub(super) fn change(old: &Content, new: &Content, words: &BTreeSet<String>) -> Option<String> {
    let unread = || Some("a hook runs scripts of it, and the change cannot be determined".to_owned());
    let new = match new {
        Content::Absent => return None,
        Content::Unknown(_) => return unread(),
        Content::Bytes(new) => new,
    };
    let Ok(new) = serde_json::from_slice::<Value>(new) else { return unread() };
    let old = match old {
        Content::Bytes(old) => serde_json::from_slice::<Value>(old).unwrap_or_default(),
        Content::Absent | Content::Unknown(_) => Value::Null,
    };
    let differs = |pointer: &[&str]| {
        let at =
            |value: &Value| pointer.iter().try_fold(value.clone(), |value, key| value.get(*key).cloned());
        at(&new).is_some_and(|value| at(&old) != Some(value))
    };
    for key in OF_HOOKS {
        if differs(&[key]) || differs(&["config", key]) {
            return Some(format!("a hook runs the commands in its `{key}`"));
        }
    }
    let scripts = new.get("scripts").and_then(Value::as_object)?;
    let is_run = |name: &str| {
        let inner = name.strip_prefix("pre").or_else(|| name.strip_prefix("post")).unwrap_or(name);
        [name, inner].iter().any(|name| words.contains(*name)) || name == "test" && words.contains("t")
    };
    let changed = scripts.keys().find(|name| is_run(name) && differs(&["scripts", name]))?;
    Some(format!("a hook runs its script `{}`", tool::visible(changed)))
}
