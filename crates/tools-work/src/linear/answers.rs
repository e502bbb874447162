//! Linear's issues and comments, as callers get them.

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
    /// A UUID.
    id: String,
    /// Such as ENG-12.
    pub(crate) identifier: String,
    /// Its title.
    pub(crate) title: String,
    /// Where people see it.
    url: String,
    /// Markdown; of one issue, not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Its state.
    state: State,
    /// Its team.
    team: Team,
    /// Who works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<Person>,
    /// Its labels, the first 20.
    #[serde(deserialize_with = "nodes")]
    labels: Vec<Label>,
    /// 0 none, 1 urgent, 2 high, 3 medium, 4 low.
    #[serde(deserialize_with = "whole")]
    priority: i64,
    /// The same in words.
    priority_label: String,
    /// Points.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<f64>,
    /// YYYY-MM-DD.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_date: Option<String>,
    /// The issue that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Reference>,
    /// RFC 3339.
    created_at: String,
    /// RFC 3339.
    updated_at: String,
}

/// A state of a workflow.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct State {
    /// A UUID.
    id: String,
    /// Such as In Progress.
    name: String,
    /// triage, backlog, unstarted, started, completed, canceled or duplicate.
    #[serde(rename = "type")]
    kind: String,
}

/// A team.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Team {
    /// A UUID.
    id: String,
    /// With which its issues begin.
    key: String,
    /// Its name.
    name: String,
}

/// A person.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
struct Person {
    /// A UUID.
    id: String,
    /// The whole name.
    name: String,
    /// The name that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<String>,
}

/// A label.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Label {
    /// A UUID.
    id: String,
    /// Its name.
    name: String,
}

/// An issue, only named.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Reference {
    /// A UUID.
    id: String,
    /// Such as ENG-12.
    identifier: String,
}

/// A comment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
pub(crate) struct Comment {
    /// A UUID.
    id: String,
    /// Markdown.
    pub(crate) body: String,
    /// Where people see it.
    url: String,
    /// RFC 3339.
    created_at: String,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Person>,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<Reference>,
}

/// What Linear answered, as one of these.
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

/// A whole number that the schema calls a float.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    format!("{number:.0}").parse().map_err(serde::de::Error::custom)
}
