//! Sluagh: `run_command`, `fetch_url` and `linear_action`.

mod keys;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tool::{Example, Timeout, ToolError};

use crate::table::{DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

pub(crate) const TOOLS: &[ExternalTool] = &[
    ExternalTool {
        name: "run_command",
        canonical: "shell_execute",
        title: "Run a command",
        description: "Safely runs a program with its arguments, without a shell, in a sandbox.",
        takes: &[
            text("command", Need::Required, "The executable (e.g., 'npm', 'git', 'ls')"),
            field("args", Kind::Texts, Need::Required, "Arguments array").becoming("argv"),
            text("cwd", Need::Optional, "Working directory (default: root)").becoming("working_directory"),
            field(
                "timeout",
                Kind::Milliseconds,
                Need::Default("30000"),
                "Timeout in ms (default: 30000; maximum: 60000)",
            ),
            field(
                "env",
                Kind::TextByName,
                Need::Optional,
                "Optional env overrides; system-critical keys are refused",
            )
            .adapted(),
        ],
        adapt: Some(adapt),
        gives: &[
            gives("stdout", ValueSource::Text("stdout"), "Standard output."),
            gives("stderr", ValueSource::Text("stderr"), "Standard error."),
            gives("exitCode", ValueSource::ExitCode("exit_code"), "128 + N if ended by signal N."),
            gives("duration", ValueSource::Milliseconds, "Milliseconds."),
        ],
        timeout: Some(Timeout { default: Duration::from_secs(30), max: Duration::from_mins(1) }),
        example: Example {
            files: &[],
            arguments: r#"{"command": "echo", "args": ["hello"]}"#,
            result: r#"{"stdout": "hello\n", "stderr": "", "exitCode": 0}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "fetch_url",
        canonical: "fetch_url",
        title: "Fetch a URL",
        description: "Interacts with external APIs. `$NAME` in a header value is replaced by that API \
             key on sending.",
        takes: &[
            text("url", Need::Required, "http or https"),
            field(
                "method",
                Kind::OneOf(&["GET", "POST", "PUT", "DELETE", "PATCH"]),
                Need::Required,
                "HTTP method",
            ),
            field(
                "headers",
                Kind::TextByName,
                Need::Optional,
                "Names and values, e.g. Authorization: $LINEAR_API_KEY",
            ),
            field("body", Kind::Any, Need::Optional, "JSON object or string"),
            field(
                "timeout",
                Kind::Milliseconds,
                Need::Optional,
                "Timeout in ms (default: 30000); at most 3600000",
            ),
        ],
        adapt: Some(bounded),
        gives: &[
            gives("status", ValueSource::Integer("status"), "HTTP status, e.g. 200."),
            gives("statusText", ValueSource::Text("status_text"), "E.g. OK."),
            gives("headers", ValueSource::TextByName("headers"), "By lower-case name."),
            gives("data", ValueSource::Any("data"), "Parsed if JSON, else text or base64."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"url": "https://api.example.com/issues/1", "method": "GET", "headers": {"Accept": "application/json"}}"#,
            result: r#"{"status": 200, "statusText": "OK", "data": {"id": 1}}"#,
        },
        ..DEFAULTS
    },
    ExternalTool {
        name: "linear_action",
        canonical: "linear_action",
        title: "Work in Linear",
        description: "High-level wrapper for Linear operations to ensure consistency. The key is added \
             on sending.",
        takes: &[
            field(
                "action",
                Kind::OneOf(&["create_issue", "update_issue", "list_issues", "create_comment"]),
                Need::Required,
                "Action",
            ),
            field(
                "params",
                Kind::Object(&[
                    optional("title", Kind::Text, "create_issue (required), update_issue"),
                    optional("description", Kind::Text, "create_issue, update_issue: Markdown"),
                    optional(
                        "teamId",
                        Kind::Text,
                        "create_issue (required, or team), update_issue, list_issues",
                    ),
                    optional(
                        "priority",
                        Kind::Integer(0, 4),
                        "create_issue, update_issue, list_issues: 0 none, 1 urgent, 2 high, 3 medium, 4 low",
                    ),
                    optional("id", Kind::Text, "update_issue (required): the issue, as ENG-12 or by id"),
                    optional("stateId", Kind::Text, "create_issue, update_issue, list_issues"),
                    optional(
                        "assigneeId",
                        Kind::Text,
                        "create_issue, update_issue, list_issues; me; none if unassigned",
                    ),
                    optional("issueId", Kind::Text, "create_comment (required): as ENG-12 or by id"),
                    optional("body", Kind::Text, "create_comment (required): Markdown"),
                    optional("team", Kind::Text, "In place of teamId: key or name"),
                    optional(
                        "state",
                        Kind::Text,
                        "In place of stateId: name; list_issues also a type such as started",
                    ),
                    optional("assignee", Kind::Text, "In place of assigneeId: name or email"),
                    optional("labels", Kind::Texts, "create_issue, update_issue, list_issues: names or ids"),
                    optional("addLabels", Kind::Texts, "update_issue"),
                    optional("removeLabels", Kind::Texts, "update_issue"),
                    optional("dueDate", Kind::Text, "create_issue, update_issue: YYYY-MM-DD"),
                    optional("estimate", Kind::Integer(0, 1000), "create_issue, update_issue: points"),
                    optional("parent", Kind::Text, "create_issue, update_issue: the parent issue"),
                    optional("replyTo", Kind::Text, "create_comment: id of the parent comment"),
                    optional(
                        "idempotencyKey",
                        Kind::Text,
                        "create_issue, create_comment: calls with the same key create once",
                    ),
                    optional("query", Kind::Text, "list_issues: text in title or description"),
                    optional("updatedAfter", Kind::Text, "list_issues: RFC 3339, or YYYY-MM-DD"),
                    optional("limit", Kind::Integer(1, 100), "list_issues: default 25"),
                    optional("cursor", Kind::Text, "list_issues: nextCursor of the previous page"),
                    optional(
                        "orderBy",
                        Kind::OneOf(&["created", "updated"]),
                        "list_issues: latest first; default created",
                    ),
                    optional("includeArchived", Kind::Switch, "list_issues: default false"),
                    optional(
                        "dryRun",
                        Kind::Switch,
                        "Look up names and show the mutation without sending it; default false",
                    ),
                ]),
                Need::Required,
                "By action; ids may also be names",
            )
            .adapted(),
        ],
        adapt: Some(linear),
        gives: &[
            gives("action", ValueSource::Text("action"), "The action done."),
            gives("issue", ValueSource::OptionalAny("issue"), "For create_issue and update_issue."),
            gives("comment", ValueSource::OptionalAny("comment"), "For create_comment."),
            gives(
                "created",
                ValueSource::OptionalAny("created"),
                "False if an earlier call with the same idempotencyKey created it.",
            ),
            gives("issues", ValueSource::OptionalAny("issues"), "For list_issues."),
            gives("nextCursor", ValueSource::OptionalText("next_cursor"), "For the next page, if any."),
            gives("wouldSend", ValueSource::OptionalAny("would_send"), "For a dry run."),
        ],
        example: Example {
            files: &[],
            arguments: r#"{"action": "create_issue", "params": {"teamId": "ENG", "title": "Pages load slowly", "assigneeId": "me", "priority": 2}}"#,
            result: r#"{"action": "create_issue", "created": true, "issue": {"title": "Pages load slowly", "team": {"key": "ENG"}, "priority_label": "High"}}"#,
        },
        ..DEFAULTS
    },
];

/// Builds an optional parameter that [`linear`] maps.
const fn optional(name: &'static str, kind: Kind, says: &'static str) -> Field {
    field(name, kind, Need::Optional, says).adapted()
}

/// Parameters of the source with an id in their name, and their canonical names.
const IDS: [(&str, &str); 5] = [
    ("teamId", "team"),
    ("stateId", "state"),
    ("assigneeId", "assignee"),
    ("issueId", "issue"),
    ("id", "issue"),
];

/// Maps the parameters to their canonical names.
fn linear(given: &Map<String, Value>, canonical: &mut Map<String, Value>) -> Result<(), ToolError> {
    let mut params = Map::new();
    for (name, value) in given.get("params").and_then(Value::as_object).into_iter().flatten() {
        if name == "dryRun" {
            canonical.insert("dry_run".to_owned(), value.clone());
            continue;
        }
        let of_id = IDS.iter().find(|(id, _)| id == name).map(|(_, of)| (*of).to_owned());
        let becomes = of_id.unwrap_or_else(|| snake_case(name));
        if params.insert(becomes.clone(), value.clone()).is_some() {
            let problem = format!("duplicates another parameter, which also sets `{becomes}`; leave one out");
            return Err(ToolError::validation(&format!("params.{name}"), problem));
        }
    }
    canonical.insert("params".to_owned(), Value::Object(params));
    Ok(())
}

/// Returns pairs of the canonical name and the dialect's name of a field, as errors quote them. If
/// two names share one canonical name, the name in the source comes first.
pub(crate) fn words_for<'a>(
    object: &'a str,
    fields: impl Iterator<Item = &'a str> + 'a,
) -> impl Iterator<Item = (String, String)> + 'a {
    let of_source = [("issue`: update_issue", "id`: update_issue")].into_iter();
    let of_source =
        of_source.map(move |(theirs, ours)| (format!("`{object}.{theirs}"), format!("`{object}.{ours}")));
    let renamed = fields.filter_map(move |name| {
        let canonical = snake_case(name.strip_suffix("Id").unwrap_or(name));
        (canonical != name).then(|| (format!("`{object}.{canonical}`"), format!("`{object}.{name}`")))
    });
    of_source.chain(renamed)
}

fn snake_case(name: &str) -> String {
    let letters = name.chars().flat_map(|letter| {
        let parts = letter.is_ascii_uppercase().then_some('_');
        parts.into_iter().chain(std::iter::once(letter.to_ascii_lowercase()))
    });
    letters.collect()
}

/// Caps the timeout, because the source has no limit and the canonical tool refuses longer times.
#[expect(clippy::unnecessary_wraps, reason = "what adapts may refuse")]
fn bounded(_: &Map<String, Value>, canonical: &mut Map<String, Value>) -> Result<(), ToolError> {
    if let Some(seconds) = canonical.get("timeout").and_then(Value::as_f64) {
        canonical.insert("timeout".to_owned(), json!(seconds.min(3600.0)));
    }
    Ok(())
}

/// Maps the arguments of a command. `env(1)` sets the variables, so the policy and the audit see
/// the command exactly as it runs.
fn adapt(given: &Map<String, Value>, canonical: &mut Map<String, Value>) -> Result<(), ToolError> {
    // The canonical tool refuses a timeout above its limit, so the value is reduced to the limit.
    if let Some(seconds) = canonical.get("timeout").and_then(Value::as_f64) {
        canonical.insert("timeout".to_owned(), json!(seconds.min(60.0)));
    }
    let variables = given.get("env").and_then(Value::as_object).filter(|env| !env.is_empty());
    // Without arguments, the canonical tool takes `command` for a command line.
    let is_line = given["args"].as_array().is_none_or(Vec::is_empty)
        && !given["command"].as_str().is_some_and(is_plain);
    if variables.is_none() && !is_line {
        return Ok(());
    }
    let mut words = Vec::new();
    for (key, value) in variables.into_iter().flatten() {
        keys::require_free(key)?;
        words.push(json!(format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    if given["command"].as_str().is_some_and(|program| program.contains('\0')) {
        return Err(ToolError::validation("command", "has a NUL byte"));
    }
    if given["command"].as_str().is_some_and(|program| program.contains('=')) {
        return Err(ToolError::validation(
            "command",
            "the name of a program with `env` or without arguments must not contain `=`",
        ));
    }
    words.push(given["command"].clone());
    words.extend(given["args"].as_array().into_iter().flatten().cloned());
    canonical.insert("command".to_owned(), json!("env"));
    canonical.insert("argv".to_owned(), Value::Array(words));
    Ok(())
}

/// Returns true if a shell takes the text for the name of a program, without any other meaning.
fn is_plain(program: &str) -> bool {
    program.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '+' | '-' | '@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(arguments: &Value) -> Result<Value, ToolError> {
        let given = arguments.as_object().unwrap();
        let mut canonical = crate::table::canonical(TOOLS[0].takes, given);
        adapt(given, &mut canonical).map(|()| Value::Object(canonical))
    }

    #[test]
    fn milliseconds_become_seconds_and_a_minute_is_the_most() {
        for (milliseconds, seconds) in [
            (json!(null), 30.0),
            (json!(1), 0.001),
            (json!(1_500), 1.5),
            (json!(60_000), 60.0),
            (json!(600_000), 60.0),
        ] {
            let mut arguments = json!({"command": "a", "args": [], "timeout": milliseconds});
            if arguments["timeout"].is_null() {
                arguments.as_object_mut().unwrap().remove("timeout");
            }
            assert_eq!(adapted(&arguments).unwrap()["timeout"], seconds, "{arguments}");
        }
        assert_eq!(TOOLS[0].timeout.map(|timeout| timeout.max), Some(Duration::from_mins(1)));
    }

    #[test]
    fn variables_are_set_by_a_program_that_the_policy_sees() {
        let canonical = adapted(&json!({"command": "npm", "args": ["test"], "env": {"CI": "a b"}})).unwrap();
        assert_eq!(
            (canonical["command"].clone(), canonical["argv"].clone()),
            (json!("env"), json!(["CI=a b", "npm", "test"]))
        );
        let none = adapted(&json!({"command": "npm", "args": ["test"], "env": {}})).unwrap();
        assert_eq!((none["command"].clone(), none["argv"].clone()), (json!("npm"), json!(["test"])));
    }

    #[test]
    fn a_program_without_arguments_is_no_command_line() {
        let command = |program: &str| {
            let canonical = adapted(&json!({"command": program, "args": []})).unwrap();
            (canonical["command"].clone(), canonical["argv"].clone())
        };
        assert_eq!(command("ls"), (json!("ls"), json!([])));
        for line in ["ls; rm -r x", "echo a", "$HOME/x", "~/x", "a\nb", "*", "`id`"] {
            assert_eq!(command(line), (json!("env"), json!([line])));
        }
        assert!(adapted(&json!({"command": "A=b", "args": []})).is_err());
    }

    #[test]
    fn a_protected_key_is_refused_by_name_and_its_neighbours_are_not() {
        for key in keys::PROTECTED_KEYS.iter().copied().chain(["LD_X", "GIT_DIR", "BASH_FUNC_ls"]) {
            let error = adapted(&json!({"command": "a", "args": [], "env": {key: "x"}})).unwrap_err();
            assert!(error.message.starts_with(&format!("`env.{key}`")), "{}", error.message);
        }
        for key in [
            "LINEAR_API_KEY",
            "WORKER_TOKEN",
            "OPENAI_API_KEY",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_PAT",
            "DB_PASS",
        ] {
            let error = adapted(&json!({"command": "a", "args": [], "env": {key: "x"}})).unwrap_err();
            assert!(error.message.contains("a credential"), "{}", error.message);
        }
        for key in
            ["PATHS", "MY_PATH", "TIMEOUT", "COMPASS", "path", "_", "LDFLAGS", "GITHUB_REF", "KEYBOARD", "CI"]
        {
            assert!(adapted(&json!({"command": "a", "args": [], "env": {key: "x"}})).is_ok(), "{key}");
        }
    }
}
