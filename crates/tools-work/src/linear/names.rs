//! Resolution of callers' names to Linear's ids: a team by its key, a person by an address, a state
//! or a label by its name.

use serde_json::{Value, json};
use tool::{Code, ToolError};

use crate::linear::api::ApiCalls;
use crate::linear::queries;

/// Maximum number of candidates that are compared, and shown if none matches.
const CANDIDATES: usize = 50;

/// A kind of object that has names.
struct Kind {
    /// Parameter that names the object.
    field: &'static str,
    what: &'static str,
    document: &'static str,
    /// Field of the answer with the objects.
    root: &'static str,
    /// Name fields, the most specific one first.
    names: &'static [&'static str],
}

const TEAM: Kind =
    Kind { field: "team", what: "team", document: queries::TEAMS, root: "teams", names: &["key", "name"] };
const PERSON: Kind = Kind {
    field: "assignee",
    what: "active user",
    document: queries::USERS,
    root: "users",
    names: &["email", "displayName", "name"],
};
const STATE: Kind = Kind {
    field: "state",
    what: "state in this team",
    document: queries::STATES,
    root: "workflowStates",
    names: &["name"],
};
const LABEL: Kind = Kind {
    field: "labels",
    what: "label for this team",
    document: queries::LABELS,
    root: "issueLabels",
    names: &["name"],
};

/// Returns the id of a team.
pub(crate) async fn team(asking: &ApiCalls<'_>, name: &str) -> Result<String, ToolError> {
    one(asking, &TEAM, name, None).await
}

/// Returns the id of a person; `me` is the owner of the key.
pub(crate) async fn person(asking: &ApiCalls<'_>, name: &str) -> Result<String, ToolError> {
    if name == "me" {
        let data = asking.query(queries::VIEWER, json!({})).await?;
        return id(&data["viewer"]);
    }
    one(asking, &PERSON, name, Some(json!({"active": {"eq": true}}))).await
}

/// Returns the id of a state of a team.
pub(crate) async fn state(asking: &ApiCalls<'_>, name: &str, team: &str) -> Result<String, ToolError> {
    one(asking, &STATE, name, Some(json!({"team": {"id": {"eq": team}}}))).await
}

/// Returns the ids of labels that issues of a team may have.
pub(crate) async fn labels(
    asking: &ApiCalls<'_>,
    names: &[String],
    team: &str,
) -> Result<Vec<String>, ToolError> {
    let of_team = json!({
        "isGroup": {"eq": false},
        "or": [{"team": {"id": {"eq": team}}}, {"team": {"null": true}}],
    });
    let mut ids = Vec::new();
    for name in names {
        ids.push(one(asking, &LABEL, name, Some(of_team.clone())).await?);
    }
    Ok(ids)
}

/// Returns true if the text has the form of Linear's ids, which are UUIDs.
pub(crate) fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns a filter for an object by one of these names, or by its id.
pub(crate) fn named(text: &str, names: &[&str]) -> Value {
    if is_id(text) {
        return json!({"id": {"eq": text}});
    }
    let named: Vec<Value> = names.iter().map(|name| json!({*name: {"eqIgnoreCase": text}})).collect();
    json!({"or": named})
}

async fn one(
    asking: &ApiCalls<'_>,
    kind: &Kind,
    name: &str,
    among: Option<Value>,
) -> Result<String, ToolError> {
    let all: Vec<Value> = among.into_iter().collect();
    let mut filters = all.clone();
    filters.push(named(name, kind.names));
    let found = nodes(asking, kind, filters).await?;
    let is_called = |node: &&Value, field: &str| node[field] == name;
    // An id is unique. Otherwise the name fields are compared in order, first exactly and then
    // without case.
    let exactly = kind.names.iter().find_map(|field| {
        let mut called = found.iter().filter(|node| is_called(node, field));
        called.next().filter(|_| called.next().is_none())
    });
    let by_key = || {
        let field = kind.names.first()?;
        let same = |node: &&Value| node[*field].as_str().is_some_and(|of| of.eq_ignore_ascii_case(name));
        let mut called = found.iter().filter(same);
        called.next().filter(|_| called.next().is_none())
    };
    match (exactly.or_else(by_key), found.as_slice()) {
        (Some(node), _) | (None, [node]) => id(node),
        (None, []) => {
            let there = nodes(asking, kind, all).await?;
            let message =
                format!("`params.{}`: this key has no access to any {} \"{name}\"", kind.field, kind.what);
            let error = ToolError::new(Code::NotFound, message).data(json!({"candidates": there}));
            Err(error.hint(if there.is_empty() {
                "there are none".to_owned()
            } else {
                format!("there are: {}", listed(&there, kind))
            }))
        }
        (None, several) => {
            let message = format!("`params.{}`: several have the name \"{name}\"", kind.field);
            Err(ToolError::new(Code::Conflict, message)
                .hint(format!("use the id: {}", listed(several, kind)))
                .data(json!({"candidates": several})))
        }
    }
}

async fn nodes(asking: &ApiCalls<'_>, kind: &Kind, filters: Vec<Value>) -> Result<Vec<Value>, ToolError> {
    let variables = json!({"filter": {"and": filters}, "first": CANDIDATES});
    let mut data = asking.query(kind.document, variables).await?;
    match data[kind.root]["nodes"].take() {
        Value::Array(nodes) => Ok(nodes),
        _ => Err(unlike(kind.root)),
    }
}

/// Returns some objects in one line: names, and the id of each.
fn listed(nodes: &[Value], kind: &Kind) -> String {
    const SHOWN: usize = 12;
    let shown = nodes.iter().take(SHOWN).map(|node| {
        let names: Vec<&str> = kind.names.iter().filter_map(|name| node[*name].as_str()).collect();
        format!("{} ({})", names.join(" / "), node["id"].as_str().unwrap_or_default())
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if nodes.len() > SHOWN { format!("{shown}, ...") } else { shown }
}

fn id(node: &Value) -> Result<String, ToolError> {
    node["id"].as_str().map(str::to_owned).ok_or_else(|| unlike("id"))
}

/// Returns the error for an answer that does not match the schema.
pub(crate) fn unlike(what: &str) -> ToolError {
    ToolError::new(Code::Runtime, format!("Linear's response does not match its schema: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_from_a_name() {
        assert!(is_id("9d2f3a4b-0c1d-4e5f-8a6b-7c8d9e0f1a2b"));
        for name in
            ["", "ENG", "9d2f3a4b-0c1d-4e5f-8a6b", "9d2f3a4b-0c1d-4e5f-8a6b-7c8d9e0f1a2g", "a-b-c-d-e"]
        {
            assert!(!is_id(name), "{name}");
        }
        assert_eq!(named("x", &["key", "name"])["or"][0], json!({"key": {"eqIgnoreCase": "x"}}));
    }
}
