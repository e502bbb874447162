//! Linear's issues and comments as callers see them.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tool::ToolError;

use crate::linear::names::unlike;

/// An issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
pub(crate) struct Issue {
    /// Id of the issue, a UUID.
    id: String,
    /// Identifier, such as ENG-12.
    pub(crate) identifier: String,
    /// Title.
    pub(crate) title: String,
    /// URL for people.
    url: String,
    /// Description in Markdown; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Workflow state.
    state: State,
    /// Team of the issue.
    team: Team,
    /// Person who works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<Person>,
    /// Labels, the first 20.
    #[serde(deserialize_with = "nodes")]
    labels: Vec<Label>,
    /// Priority: 0 none, 1 urgent, 2 high, 3 medium, 4 low.
    #[serde(deserialize_with = "whole")]
    priority: i64,
    /// Priority in words.
    priority_label: String,
    /// Estimate in points.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<f64>,
    /// Due date, YYYY-MM-DD.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_date: Option<String>,
    /// Parent issue.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Reference>,
    /// Time of creation, RFC 3339.
    created_at: String,
    /// Time of the last change, RFC 3339.
    updated_at: String,
}

/// A workflow state.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct State {
    /// Id of the state, a UUID.
    id: String,
    /// Name, such as In Progress.
    name: String,
    /// Kind: triage, backlog, unstarted, started, completed, canceled or duplicate.
    #[serde(rename = "type")]
    kind: String,
}

/// A team.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Team {
    /// Id of the team, a UUID.
    id: String,
    /// Prefix of its issue identifiers.
    key: String,
    /// Name of the team.
    name: String,
}

/// A person.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
struct Person {
    /// Id of the person, a UUID.
    id: String,
    /// Full name.
    name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

/// A label.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Label {
    /// Id of the label, a UUID.
    id: String,
    /// Name of the label.
    name: String,
}

/// A reference to an issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Reference {
    /// Id of the issue, a UUID.
    id: String,
    /// Identifier, such as ENG-12.
    identifier: String,
}

/// A comment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
pub(crate) struct Comment {
    /// Id of the comment, a UUID.
    id: String,
    /// Text in Markdown.
    pub(crate) body: String,
    /// URL for people.
    url: String,
    /// Time of creation, RFC 3339.
    created_at: String,
    /// Author.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Person>,
    /// Issue of the comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<Reference>,
}

/// Parses an answer of Linear as one of these types.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, ToolError> {
    serde_json::from_value(value).map_err(|error| unlike(&error.to_string()).because(error))
}

fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Label>, D::Error> {
    #[derive(Deserialize)]
    struct Connection {
        nodes: Vec<Label>,
    }
    Connection::deserialize(deserializer).map(|connection| connection.nodes)
}

/// Parses an integer that the schema declares as a float.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    format!("{number:.0}").parse().map_err(serde::de::Error::custom)
}
