//! Parameters of all actions, and the actions that accept each one.

use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Deserialize;
use tool::ToolError;

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Action {
    CreateIssue,
    UpdateIssue,
    ListIssues,
    CreateComment,
}

/// An order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Order {
    Created,
    Updated,
}

/// Default number of issues in a list.
pub(crate) const LISTED: u32 = 25;

/// Parameters. Each description names the actions that accept the parameter.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Params {
    /// `create_issue` (required), `update_issue`: title.
    pub(crate) title: Option<String>,
    /// `create_issue`, `update_issue`: description in Markdown; an empty text removes it.
    pub(crate) description: Option<String>,
    /// `create_issue` (required), `update_issue`, `list_issues`: team key, name or id.
    pub(crate) team: Option<String>,
    /// `create_issue`, `update_issue`, `list_issues`: priority; 0 none, 1 urgent, 2 high, 3 medium, 4 low.
    #[schemars(range(min = 0, max = 4))]
    pub(crate) priority: Option<u8>,
    /// `create_issue`, `update_issue`: state name or id in the team; `list_issues`: or a type such as started.
    pub(crate) state: Option<String>,
    /// `create_issue`, `update_issue`, `list_issues`: person by name, email or id; `me`; `none` for nobody.
    pub(crate) assignee: Option<String>,
    /// `create_issue`: label names or ids; `update_issue`: replaces all labels; `list_issues`: has all of them.
    #[schemars(length(max = 20))]
    pub(crate) labels: Option<Vec<String>>,
    /// `update_issue`: label names or ids to add, at most 20.
    #[schemars(length(max = 20))]
    pub(crate) add_labels: Option<Vec<String>>,
    /// `update_issue`: label names or ids to remove, at most 20.
    #[schemars(length(max = 20))]
    pub(crate) remove_labels: Option<Vec<String>>,
    /// `create_issue`, `update_issue`: due date, YYYY-MM-DD.
    pub(crate) due_date: Option<String>,
    /// `create_issue`, `update_issue`: estimate in points, at most 1000.
    #[schemars(range(min = 0, max = 1000))]
    pub(crate) estimate: Option<u32>,
    /// `create_issue`, `update_issue`: parent issue, as ENG-12 or by id.
    pub(crate) parent: Option<String>,
    /// `update_issue`, `create_comment` (required): issue, as ENG-12 or by id.
    pub(crate) issue: Option<String>,
    /// `create_comment` (required): text in Markdown.
    pub(crate) body: Option<String>,
    /// `create_comment`: id of the comment to which this one replies.
    pub(crate) reply_to: Option<String>,
    /// `create_issue`, `create_comment`: repeated calls with the same key create one object.
    pub(crate) idempotency_key: Option<String>,
    /// `list_issues`: text in the title or the description.
    pub(crate) query: Option<String>,
    /// `list_issues`: earliest last change, RFC 3339 or YYYY-MM-DD.
    pub(crate) updated_after: Option<String>,
    /// `list_issues`: maximum number of issues, default 25, at most 100.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) limit: Option<u32>,
    /// `list_issues`: `next_cursor` of the previous page.
    pub(crate) cursor: Option<String>,
    /// `list_issues`: order, the latest first; default created.
    pub(crate) order_by: Option<Order>,
    /// `list_issues`: include archived issues; default false.
    pub(crate) include_archived: Option<bool>,
}

/// Maximum number of characters of a name. Linear's own limit applies to texts.
const LONGEST_NAME: usize = 512;
/// Maximum number of labels per call, because each one is a separate query.
const MAX_LABELS: usize = 20;

impl Action {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CreateIssue => "create_issue",
            Self::UpdateIssue => "update_issue",
            Self::ListIssues => "list_issues",
            Self::CreateComment => "create_comment",
        }
    }

    /// Describes the change of an action and its target, for approval; `None` for an action that
    /// only reads.
    pub(crate) fn does(self, params: &Params) -> Option<String> {
        let named = |name: &Option<String>| name.clone().unwrap_or_default();
        match self {
            Self::CreateIssue => Some(format!("create an issue in the team {}", named(&params.team))),
            Self::UpdateIssue => Some(format!("change the issue {}", named(&params.issue))),
            Self::ListIssues => None,
            Self::CreateComment => Some(format!("comment on the issue {}", named(&params.issue))),
        }
    }

    fn takes(self) -> &'static [&'static str] {
        match self {
            Self::CreateIssue => &[
                "title",
                "description",
                "team",
                "priority",
                "state",
                "assignee",
                "labels",
                "due_date",
                "estimate",
                "parent",
                "idempotency_key",
            ],
            Self::UpdateIssue => &[
                "issue",
                "title",
                "description",
                "team",
                "priority",
                "state",
                "assignee",
                "labels",
                "add_labels",
                "remove_labels",
                "due_date",
                "estimate",
                "parent",
            ],
            Self::ListIssues => &[
                "team",
                "state",
                "assignee",
                "labels",
                "priority",
                "query",
                "updated_after",
                "limit",
                "cursor",
                "order_by",
                "include_archived",
            ],
            Self::CreateComment => &["issue", "body", "reply_to", "idempotency_key"],
        }
    }

    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::CreateIssue => &["team", "title"],
            Self::UpdateIssue => &["issue"],
            Self::ListIssues => &[],
            Self::CreateComment => &["issue", "body"],
        }
    }
}

impl Params {
    /// Returns the names of the given parameters, in order.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("title", self.title.is_some()),
            ("description", self.description.is_some()),
            ("team", self.team.is_some()),
            ("priority", self.priority.is_some()),
            ("state", self.state.is_some()),
            ("assignee", self.assignee.is_some()),
            ("labels", self.labels.is_some()),
            ("add_labels", self.add_labels.is_some()),
            ("remove_labels", self.remove_labels.is_some()),
            ("due_date", self.due_date.is_some()),
            ("estimate", self.estimate.is_some()),
            ("parent", self.parent.is_some()),
            ("issue", self.issue.is_some()),
            ("body", self.body.is_some()),
            ("reply_to", self.reply_to.is_some()),
            ("idempotency_key", self.idempotency_key.is_some()),
            ("query", self.query.is_some()),
            ("updated_after", self.updated_after.is_some()),
            ("limit", self.limit.is_some()),
            ("cursor", self.cursor.is_some()),
            ("order_by", self.order_by.is_some()),
            ("include_archived", self.include_archived.is_some()),
        ];
        all.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect()
    }

    /// Checks that the action accepts the given parameters and has the required ones.
    ///
    /// # Errors
    /// `EVALIDATION` naming the parameter.
    pub(crate) fn check(&self, action: Action) -> Result<(), ToolError> {
        let wrong =
            |name: &str, problem: String| Err(ToolError::validation(&format!("params.{name}"), problem));
        let given = self.given();
        if let Some(name) = given.iter().find(|name| !action.takes().contains(name)) {
            let takes = action.takes().iter().map(|name| format!("`params.{name}`")).collect::<Vec<_>>();
            return wrong(name, format!("{} accepts {}", action.name(), takes.join(", ")));
        }
        if let Some(name) = action.needs().iter().find(|name| !given.contains(name)) {
            return wrong(name, format!("{} requires it", action.name()));
        }
        if action == Action::UpdateIssue && given.len() == 1 {
            return wrong("issue", format!("{} requires a parameter to change", action.name()));
        }
        if self.labels.is_some() && (self.add_labels.is_some() || self.remove_labels.is_some()) {
            return wrong(
                "labels",
                "replaces all labels; omit `params.add_labels` and `params.remove_labels`".to_owned(),
            );
        }
        for (name, text) in self.names() {
            if text.trim().is_empty() {
                return wrong(name, "is empty".to_owned());
            }
            if text.chars().count() > LONGEST_NAME || text.chars().any(char::is_control) {
                return wrong(name, format!("must be one line of at most {LONGEST_NAME} characters"));
            }
        }
        for (name, labels) in [
            ("labels", &self.labels),
            ("add_labels", &self.add_labels),
            ("remove_labels", &self.remove_labels),
        ] {
            if labels.as_ref().is_some_and(|labels| labels.len() > MAX_LABELS) {
                return wrong(name, format!("has at most {MAX_LABELS} labels"));
            }
        }
        if self.body.as_ref().is_some_and(|body| body.trim().is_empty()) {
            return wrong("body", "is empty".to_owned());
        }
        if self.priority.is_some_and(|priority| priority > 4) {
            return wrong("priority", "must be from 0 to 4".to_owned());
        }
        if self.due_date.as_ref().is_some_and(|date| date.parse::<Date>().is_err()) {
            return wrong("due_date", "must be a date such as 2026-02-28".to_owned());
        }
        self.since()?;
        Ok(())
    }

    /// Parses `updated_after` into Linear's format.
    ///
    /// # Errors
    /// `EVALIDATION` if the text is no time.
    pub(crate) fn since(&self) -> Result<Option<String>, ToolError> {
        let Some(text) = &self.updated_after else { return Ok(None) };
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Some(format!("{time:.3}")));
        }
        match text.parse::<Date>() {
            Ok(date) => Ok(Some(format!("{date}T00:00:00.000Z"))),
            Err(_) => Err(ToolError::validation(
                "params.updated_after",
                "must be a time such as 2026-02-28T12:00:00Z or a date such as 2026-02-28",
            )),
        }
    }

    /// Returns the given parameters that are names, and so have one line.
    fn names(&self) -> Vec<(&'static str, &str)> {
        let single = [
            ("title", &self.title),
            ("team", &self.team),
            ("state", &self.state),
            ("assignee", &self.assignee),
            ("parent", &self.parent),
            ("issue", &self.issue),
            ("reply_to", &self.reply_to),
            ("idempotency_key", &self.idempotency_key),
            ("query", &self.query),
            ("cursor", &self.cursor),
        ];
        let lists = [
            ("labels", &self.labels),
            ("add_labels", &self.add_labels),
            ("remove_labels", &self.remove_labels),
        ];
        let single = single.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        let lists = lists
            .into_iter()
            .flat_map(|(name, texts)| texts.iter().flatten().map(move |text| (name, text.as_str())));
        single.chain(lists).collect()
    }

    /// Returns the call as shown to the human who approves it: first the names, then the texts.
    pub(crate) fn shown(&self, action: Action) -> String {
        let mut lines = vec![action.name().to_owned()];
        for (name, text) in self.names() {
            lines.push(format!("{name}: {text}"));
        }
        let numbers = [("priority", self.priority.map(u32::from)), ("estimate", self.estimate)];
        lines.extend(numbers.iter().filter_map(|(name, number)| Some(format!("{name}: {}", (*number)?))));
        lines.extend(self.due_date.iter().map(|date| format!("due_date: {date}")));
        for text in [&self.description, &self.body].into_iter().flatten() {
            lines.push(String::new());
            lines.push(text.clone());
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(action: Action, params: Value) -> Option<String> {
        let params: Params = serde_json::from_value(params).unwrap();
        params.check(action).err().map(|error| error.message)
    }

    #[test]
    fn each_action_has_its_parameters_and_others_are_refused_by_name() {
        use Action::{CreateComment, CreateIssue, ListIssues, UpdateIssue};
        for (action, params) in [
            (CreateIssue, json!({"team": "ENG", "title": "T", "labels": ["a"], "assignee": "me"})),
            (UpdateIssue, json!({"issue": "ENG-1", "add_labels": ["a"], "remove_labels": ["b"]})),
            (ListIssues, json!({})),
            (ListIssues, json!({"updated_after": "2026-02-28", "limit": 100})),
            (CreateComment, json!({"issue": "ENG-1", "body": "two\nlines"})),
        ] {
            assert_eq!(problem(action, params.clone()), None, "{params}");
        }
        for (action, params, field) in [
            (CreateIssue, json!({"title": "T"}), "params.team"),
            (CreateIssue, json!({"team": "ENG"}), "params.title"),
            (CreateIssue, json!({"team": "ENG", "title": " "}), "params.title"),
            (CreateIssue, json!({"team": "ENG", "title": "a\nb"}), "params.title"),
            (CreateIssue, json!({"team": "ENG", "title": "T", "body": "b"}), "params.body"),
            (CreateIssue, json!({"team": "ENG", "title": "T", "priority": 5}), "params.priority"),
            (CreateIssue, json!({"team": "ENG", "title": "T", "due_date": "2026-02-30"}), "params.due_date"),
            (UpdateIssue, json!({"issue": "ENG-1"}), "params.issue"),
            (UpdateIssue, json!({"state": "Done"}), "params.issue"),
            (UpdateIssue, json!({"issue": "A-1", "labels": [], "add_labels": ["a"]}), "params.labels"),
            (UpdateIssue, json!({"issue": "A-1", "idempotency_key": "k"}), "params.idempotency_key"),
            (ListIssues, json!({"title": "T"}), "params.title"),
            (ListIssues, json!({"updated_after": "yesterday"}), "params.updated_after"),
            (CreateComment, json!({"issue": "ENG-1"}), "params.body"),
            (CreateComment, json!({"issue": "ENG-1", "body": "\n"}), "params.body"),
        ] {
            let message = problem(action, params.clone()).unwrap_or_else(|| panic!("{params}"));
            assert!(message.starts_with(&format!("`{field}`")), "{params}: {message}");
        }
    }
}
