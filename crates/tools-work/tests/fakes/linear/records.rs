//! The records of a Linear workspace, and the queries on them.

use serde_json::{Map, Value, json};

/// URL prefix of an issue for people.
const PLACE: &str = "https://linear.app/handfast/issue";

pub(super) struct Records {
    teams: Vec<Value>,
    users: Vec<Value>,
    states: Vec<Value>,
    labels: Vec<Value>,
    issues: Vec<Value>,
    comments: Vec<Value>,
    /// Second of the day at which the next event happens.
    ticks: usize,
}

/// Builds the id of a record. `kind` is the kind of record.
fn id(kind: u8, number: usize) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

impl Records {
    pub(super) fn new() -> Self {
        let team = |number, key: &str, name: &str| json!({"id": id(1, number), "key": key, "name": name});
        let teams = vec![team(1, "ENG", "Engineering"), team(2, "OPS", "Operations")];
        let user = |number, name: &str, shown: &str, email: &str, active: bool| json!({"id": id(2, number), "name": name, "displayName": shown, "email": email, "active": active, "isMe": number == 1});
        let users = vec![
            user(1, "Ada Lovelace", "ada", "ada@example.com", true),
            user(2, "Alan Turing", "alan", "alan@example.com", true),
            user(3, "Alan Turing", "alan2", "alan.turing@example.com", true),
            user(4, "Grace Hopper", "grace", "grace@example.com", false),
        ];
        let mut states = Vec::new();
        for team in &teams {
            for (name, kind) in [
                ("Backlog", "backlog"),
                ("Todo", "unstarted"),
                ("In Progress", "started"),
                ("Done", "completed"),
            ] {
                states.push(json!({"id": id(3, states.len() + 1), "name": name, "type": kind, "team": team}));
            }
        }
        let label = |number, name: &str, is_group: bool, team: Value| json!({"id": id(4, number), "name": name, "isGroup": is_group, "team": team});
        let labels = vec![
            label(1, "Bug", false, Value::Null),
            label(2, "Speed", false, teams[0].clone()),
            label(3, "Pager", false, teams[1].clone()),
            label(4, "Area", true, Value::Null),
            label(5, "Docs", false, Value::Null),
        ];
        Self { teams, users, states, labels, issues: Vec::new(), comments: Vec::new(), ticks: 0 }
    }

    pub(super) fn issues(&self) -> &[Value] {
        &self.issues
    }

    pub(super) fn comments(&self) -> &[Value] {
        &self.comments
    }

    pub(super) fn seed_issue(&mut self, title: &str) -> String {
        let input = json!({"teamId": self.teams[0]["id"], "title": title});
        let made = self.create_issue(&input).expect("an issue");
        made["issue"]["identifier"].as_str().expect("an identifier").to_owned()
    }

    /// Returns the value of a field at the root, or Linear's error message.
    pub(super) fn resolve(&mut self, field: &str, arguments: &Value) -> Result<Value, String> {
        match field {
            "viewer" => Ok(self.users[0].clone()),
            "issue" => self.issue(&arguments["id"]),
            "issues" => {
                let mut issues = self.issues.clone();
                if arguments["includeArchived"] != true {
                    issues.retain(|issue| issue["archivedAt"].is_null());
                }
                let by = if arguments["orderBy"] == "updatedAt" { "updatedAt" } else { "createdAt" };
                issues.sort_by(|one, other| other[by].as_str().cmp(&one[by].as_str()));
                page(&issues, arguments)
            }
            "comments" => page(&self.comments, arguments),
            "teams" => page(&self.teams, arguments),
            "users" => page(&self.users, arguments),
            "workflowStates" => page(&self.states, arguments),
            "issueLabels" => page(&self.labels, arguments),
            "issueCreate" => self.create_issue(&arguments["input"]),
            "issueUpdate" => self.update_issue(&arguments["id"], &arguments["input"]),
            "commentCreate" => self.create_comment(&arguments["input"]),
            other => Err(format!("this server knows no {other}")),
        }
    }

    fn issue(&self, id: &Value) -> Result<Value, String> {
        let found = self.issues.iter().find(|issue| issue["id"] == *id || issue["identifier"] == *id);
        found.cloned().ok_or_else(|| "Entity not found: Issue - Could not find referenced Issue.".to_owned())
    }

    fn now(&mut self) -> String {
        self.ticks += 1;
        format!("2026-03-01T{:02}:{:02}:{:02}.000Z", self.ticks / 3600, self.ticks / 60 % 60, self.ticks % 60)
    }

    fn create_issue(&mut self, input: &Value) -> Result<Value, String> {
        let own = own_id(input, 5, &self.issues)?;
        let team = referred(&self.teams, &input["teamId"], "Team")?;
        if input["title"].as_str().is_none_or(str::is_empty) {
            return Err("title must not be empty".to_owned());
        }
        let number = self.issues.iter().filter(|issue| issue["team"]["id"] == team["id"]).count() + 1;
        let identifier = format!("{}-{number}", team["key"].as_str().unwrap_or_default());
        let first = self.states.iter().find(|state| state["team"]["id"] == team["id"]).cloned();
        let now = self.now();
        let mut issue = json!({
            "id": own, "identifier": identifier, "url": format!("{PLACE}/{identifier}"),
            "team": team, "state": first, "assignee": null, "labels": {"nodes": [], "pageInfo": {"hasNextPage": false}},
            "priority": 0, "priorityLabel": "No priority", "description": null, "estimate": null, "dueDate": null,
            "parent": null, "createdAt": now, "updatedAt": now, "archivedAt": null,
        });
        self.apply(&mut issue, input)?;
        self.issues.push(issue.clone());
        Ok(json!({"success": true, "issue": issue}))
    }

    fn update_issue(&mut self, id: &Value, input: &Value) -> Result<Value, String> {
        let mut issue = self.issue(id)?;
        if !input["teamId"].is_null() {
            issue["team"] = referred(&self.teams, &input["teamId"], "Team")?;
        }
        self.apply(&mut issue, input)?;
        issue["updatedAt"] = json!(self.now());
        for place in &mut self.issues {
            if place["id"] == issue["id"] {
                place.clone_from(&issue);
            }
        }
        Ok(json!({"success": true, "issue": issue}))
    }

    /// Applies an input to an issue. A field that is null in the input is removed.
    fn apply(&self, issue: &mut Value, input: &Value) -> Result<(), String> {
        let given: &Map<String, Value> = input.as_object().ok_or("no input")?;
        for (name, value) in given {
            match name.as_str() {
                "title" | "description" | "estimate" | "dueDate" => issue[name] = value.clone(),
                "priority" => {
                    let labels = ["No priority", "Urgent", "High", "Medium", "Low"];
                    let at = value.as_u64().and_then(|at| usize::try_from(at).ok());
                    let label = at.and_then(|at| labels.get(at)).ok_or("priority must be between 0 and 4")?;
                    issue["priority"] = value.clone();
                    issue["priorityLabel"] = json!(label);
                }
                "stateId" => {
                    let state = referred(&self.states, value, "WorkflowState")?;
                    if state["team"]["id"] != issue["team"]["id"] {
                        return Err("the state belongs to another team".to_owned());
                    }
                    issue["state"] = state;
                }
                "assigneeId" if value.is_null() => issue["assignee"] = Value::Null,
                "assigneeId" => issue["assignee"] = referred(&self.users, value, "User")?,
                "parentId" => issue["parent"] = self.issue(value)?,
                "labelIds" => issue["labels"]["nodes"] = self.labels_of(value)?.into(),
                "addedLabelIds" | "removedLabelIds" => {
                    let these = self.labels_of(value)?;
                    let mut nodes = issue["labels"]["nodes"].as_array().cloned().unwrap_or_default();
                    nodes.retain(|label| !these.contains(label));
                    if name == "addedLabelIds" {
                        nodes.extend(these);
                    }
                    issue["labels"]["nodes"] = nodes.into();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn labels_of(&self, ids: &Value) -> Result<Vec<Value>, String> {
        let ids = ids.as_array().map(Vec::as_slice).unwrap_or_default();
        ids.iter()
            .map(|id| {
                let label = referred(&self.labels, id, "IssueLabel")?;
                if label["isGroup"] == true {
                    Err("a group of labels cannot be applied".to_owned())
                } else {
                    Ok(label)
                }
            })
            .collect()
    }

    fn create_comment(&mut self, input: &Value) -> Result<Value, String> {
        let own = own_id(input, 6, &self.comments)?;
        let issue = self.issue(&input["issueId"])?;
        if input["body"].as_str().is_none_or(str::is_empty) {
            return Err("body must not be empty".to_owned());
        }
        if !input["parentId"].is_null() {
            referred(&self.comments, &input["parentId"], "Comment")?;
        }
        let comment = json!({
            "id": own, "body": input["body"], "url": format!("{}#comment-{}", issue["url"].as_str().unwrap_or_default(), &own[..8]),
            "createdAt": self.now(), "user": self.users[0], "issue": issue, "parentId": input["parentId"],
        });
        self.comments.push(comment.clone());
        Ok(json!({"success": true, "comment": comment}))
    }
}

/// Returns the id for a new record: the chosen one if it is valid and unused, otherwise a new one.
fn own_id(input: &Value, kind: u8, among: &[Value]) -> Result<String, String> {
    let Some(own) = input["id"].as_str() else { return Ok(id(kind, among.len() + 1)) };
    let is_version_4 = own.len() == 36 && own.as_bytes()[14] == b'4';
    if !is_version_4 {
        return Err("id must be a UUID".to_owned());
    }
    if among.iter().any(|record| record["id"] == own) {
        return Err("Conflict on insert: a record with this id exists already.".to_owned());
    }
    Ok(own.to_owned())
}

fn referred(among: &[Value], id: &Value, what: &str) -> Result<Value, String> {
    let found = among.iter().find(|record| record["id"] == *id).cloned();
    found.ok_or_else(|| format!("Entity not found: {what} - Could not find referenced {what}."))
}

/// Returns a page of the records that match the filter, after the cursor. A cursor is the id of the
/// last record.
fn page(records: &[Value], arguments: &Value) -> Result<Value, String> {
    let fitting: Vec<&Value> = records.iter().filter(|record| fits(record, &arguments["filter"])).collect();
    let begin = match arguments["after"].as_str() {
        None => 0,
        Some(cursor) => {
            let at = fitting.iter().position(|record| record["id"] == cursor);
            at.ok_or_else(|| "the cursor is not valid".to_owned())? + 1
        }
    };
    let first = arguments["first"].as_u64().and_then(|first| usize::try_from(first).ok()).unwrap_or(50);
    if first == 0 || first > 250 {
        return Err("first must be between 1 and 250".to_owned());
    }
    let nodes: Vec<&Value> = fitting[begin..].iter().take(first).copied().collect();
    let end = nodes.last().map(|record| record["id"].clone());
    let more = fitting.len() > begin + nodes.len();
    Ok(json!({"nodes": nodes, "pageInfo": {"hasNextPage": more, "endCursor": end}}))
}

/// Returns true if a value matches a filter, by the names of its fields and comparators.
fn fits(value: &Value, filter: &Value) -> bool {
    let Some(conditions) = filter.as_object() else { return true };
    let text = |of: &Value| of.as_str().unwrap_or_default().to_lowercase();
    conditions.iter().all(|(name, wanted)| match name.as_str() {
        _ if wanted.is_null() => true,
        "and" => wanted.as_array().is_some_and(|all| all.iter().all(|filter| fits(value, filter))),
        "or" => wanted.as_array().is_some_and(|any| any.iter().any(|filter| fits(value, filter))),
        "some" => value["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| fits(node, wanted))),
        "null" => value.is_null() == (*wanted == true),
        "eq" if wanted.is_number() => value.as_f64() == wanted.as_f64(),
        "eq" => value == wanted,
        "eqIgnoreCase" => value.is_string() && text(value) == text(wanted),
        "containsIgnoreCase" => text(value).contains(&text(wanted)),
        "gte" => value.as_str() >= wanted.as_str(),
        field => fits(&value[field], wanted),
    })
}
