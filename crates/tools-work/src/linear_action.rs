//! `linear_action`: issues and comments in Linear, each created once even if the call is repeated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tool::{
    Class, Code, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::linear::answers::{self, Comment, Issue};
use crate::linear::api::{ApiCalls, Creation, Linear, made};
use crate::linear::names::{self, named};
use crate::linear::params::{Action, LISTED, Order, Params};
use crate::linear::queries;

/// The `linear_action` tool.
pub struct LinearAction {
    /// Client of Linear.
    pub(crate) linear: Linear,
}

/// Arguments of `linear_action`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Operation.
    action: Action,
    /// Parameters of the action.
    #[serde(default)]
    params: Params,
    /// Show the mutation with names resolved, without sending it; default false. `list_issues` runs as usual.
    #[serde(default)]
    dry_run: bool,
}

/// Result of `linear_action`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The action.
    action: Action,
    /// Issue; for `create_issue` and `update_issue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    issue: Option<Issue>,
    /// Comment; for `create_comment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<Comment>,
    /// True if this call created it; false if an earlier call with the same `idempotency_key` did.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
    /// Issues; for `list_issues`.
    #[serde(skip_serializing_if = "Option::is_none")]
    issues: Option<Vec<Issue>>,
    /// Cursor for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Mutation of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_send: Option<MutationPreview>,
}

/// A mutation for Linear.
#[derive(Debug, Serialize, JsonSchema)]
struct MutationPreview {
    /// GraphQL document.
    query: &'static str,
    /// Variables of the document.
    variables: Value,
}

impl Output {
    fn of(action: Action) -> Self {
        Self {
            action,
            issue: None,
            comment: None,
            created: None,
            issues: None,
            next_cursor: None,
            would_send: None,
        }
    }

    fn would_send(action: Action, query: &'static str, variables: Value) -> Self {
        Self { would_send: Some(MutationPreview { query, variables }), ..Self::of(action) }
    }
}

impl Tool for LinearAction {
    type Args = Args;
    type Output = Output;

    /// An update with an empty description removes it.
    const EMPTY_TEXTS: &'static [&'static str] = &["description"];

    const SPEC: Spec = Spec {
        name: "linear_action",
        title: "Work in Linear",
        description: "Create, update, list and comment on issues in Linear. Teams, states, people and labels by name or id. \
                      A retry creates no second issue. The key stays hidden.",
        example: Example {
            files: &[],
            arguments: r#"{"action": "create_issue", "params": {"team": "ENG", "title": "Pages load slowly", "assignee": "me", "priority": 2}}"#,
            result: r#"{"action": "create_issue", "created": true, "issue": {"title": "Pages load slowly", "team": {"key": "ENG"}, "priority_label": "High"}}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        args.params.check(args.action)?;
        let does = args.action.does(&args.params);
        let level = if does.is_some() { Level::Moderate } else { Level::Safe };
        let effects = self.linear.effects(does);
        Ok(Plan { level: Some(level), ..Plan::of(effects) }.only_tried(args.dry_run))
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        Some(args.params.shown(args.action))
    }

    fn answer_bytes(&self, _args: &Args) -> u64 {
        1024 * 1024
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let asking = ApiCalls::begin(context, &self.linear)?;
        let began = asking.began();
        let work = Box::pin(async {
            match args.action {
                Action::CreateIssue => create_issue(&asking, &args).await,
                Action::UpdateIssue => update_issue(&asking, &args).await,
                Action::ListIssues => list_issues(&asking, &args).await,
                Action::CreateComment => create_comment(&asking, &args).await,
            }
        });
        tool_support::unless_stopped(&context.stop, &began, work).await
    }
}

/// Returns the fields that creation and update share, with names resolved to ids. `team` is the
/// team of the issue.
async fn fields(asking: &ApiCalls<'_>, params: &Params, team: &str) -> Result<Map<String, Value>, ToolError> {
    let mut input = Map::new();
    let mut set = |name: &str, value: Value| input.insert(name.to_owned(), value);
    let plain =
        [("title", &params.title), ("description", &params.description), ("dueDate", &params.due_date)];
    for (name, text) in plain {
        if let Some(text) = text {
            set(name, json!(text));
        }
    }
    if let Some(priority) = params.priority {
        set("priority", json!(priority));
    }
    if let Some(estimate) = params.estimate {
        set("estimate", json!(estimate));
    }
    if let Some(state) = &params.state {
        set("stateId", json!(names::state(asking, state, team).await?));
    }
    match params.assignee.as_deref() {
        None => {}
        Some("none") => {
            set("assigneeId", Value::Null);
        }
        Some(person) => {
            set("assigneeId", json!(names::person(asking, person).await?));
        }
    }
    let lists = [
        ("labelIds", &params.labels),
        ("addedLabelIds", &params.add_labels),
        ("removedLabelIds", &params.remove_labels),
    ];
    for (name, labels) in lists {
        if let Some(labels) = labels {
            set(name, json!(names::labels(asking, labels, team).await?));
        }
    }
    if let Some(parent) = &params.parent {
        set("parentId", one_issue(asking, "parent", parent).await?["id"].take());
    }
    Ok(input)
}

async fn create_issue(asking: &ApiCalls<'_>, args: &Args) -> Result<Output, ToolError> {
    let params = &args.params;
    let team = names::team(asking, params.team.as_deref().unwrap_or_default()).await?;
    let mut input = fields(asking, params, &team).await?;
    let id = id_for(args.action, &team, params.idempotency_key.as_deref())?;
    input.insert("id".to_owned(), json!(id));
    input.insert("teamId".to_owned(), json!(team));
    let variables = json!({"input": input});
    if args.dry_run {
        return Ok(Output::would_send(args.action, queries::CREATE_ISSUE, variables));
    }
    let making = Creation {
        document: queries::CREATE_ISSUE,
        variables,
        at: "issueCreate/issue",
        finding: queries::FIND_ISSUE,
        found_at: "issues",
        id: &id,
    };
    let (issue, created) = asking.make(&making).await?;
    let issue: Issue = answers::read(issue)?;
    if !created && params.title.as_ref() != Some(&issue.title) {
        return Err(used_before(&format!("{} \"{}\"", issue.identifier, issue.title)));
    }
    Ok(Output { issue: Some(issue), created: Some(created), ..Output::of(args.action) })
}

async fn create_comment(asking: &ApiCalls<'_>, args: &Args) -> Result<Output, ToolError> {
    let params = &args.params;
    let issue = one_issue(asking, "issue", params.issue.as_deref().unwrap_or_default()).await?;
    let about = issue["id"].as_str().unwrap_or_default();
    let id = id_for(args.action, about, params.idempotency_key.as_deref())?;
    let mut input = json!({"id": id, "issueId": about, "body": params.body});
    if let Some(parent) = &params.reply_to {
        input["parentId"] = json!(parent);
    }
    let variables = json!({"input": input});
    if args.dry_run {
        return Ok(Output::would_send(args.action, queries::CREATE_COMMENT, variables));
    }
    let making = Creation {
        document: queries::CREATE_COMMENT,
        variables,
        at: "commentCreate/comment",
        finding: queries::FIND_COMMENT,
        found_at: "comments",
        id: &id,
    };
    let (comment, created) = asking.make(&making).await?;
    let comment: Comment = answers::read(comment)?;
    if !created && params.body.as_ref() != Some(&comment.body) {
        return Err(used_before("another comment on this issue"));
    }
    Ok(Output { comment: Some(comment), created: Some(created), ..Output::of(args.action) })
}

async fn update_issue(asking: &ApiCalls<'_>, args: &Args) -> Result<Output, ToolError> {
    let params = &args.params;
    let issue = one_issue(asking, "issue", params.issue.as_deref().unwrap_or_default()).await?;
    let moved_to = match &params.team {
        Some(team) => Some(names::team(asking, team).await?),
        None => None,
    };
    let team = moved_to.as_deref().or(issue["team"]["id"].as_str()).unwrap_or_default();
    let mut input = fields(asking, params, team).await?;
    if let Some(team) = &moved_to {
        input.insert("teamId".to_owned(), json!(team));
    }
    let variables = json!({"id": issue["id"], "input": input});
    if args.dry_run {
        return Ok(Output::would_send(args.action, queries::UPDATE_ISSUE, variables));
    }
    let data = asking.change(queries::UPDATE_ISSUE, &variables).await?;
    let issue = answers::read(made(data, "issueUpdate/issue")?)?;
    Ok(Output { issue: Some(issue), ..Output::of(args.action) })
}

async fn list_issues(asking: &ApiCalls<'_>, args: &Args) -> Result<Output, ToolError> {
    let params = &args.params;
    let mut all: Vec<Value> = Vec::new();
    if let Some(team) = &params.team {
        all.push(json!({"team": {"id": {"eq": names::team(asking, team).await?}}}));
    }
    if let Some(state) = &params.state {
        all.push(json!({"state": named(state, &["name", "type"])}));
    }
    match params.assignee.as_deref() {
        None => {}
        Some("me") => all.push(json!({"assignee": {"isMe": {"eq": true}}})),
        Some("none") => all.push(json!({"assignee": {"null": true}})),
        Some(person) => all.push(json!({"assignee": {"id": {"eq": names::person(asking, person).await?}}})),
    }
    all.extend(
        params.labels.iter().flatten().map(|label| json!({"labels": {"some": named(label, &["name"])}})),
    );
    all.extend(params.priority.map(|priority| json!({"priority": {"eq": priority}})));
    all.extend(params.since()?.map(|time| json!({"updatedAt": {"gte": time}})));
    all.extend(params.query.as_ref().map(|text| {
        let contains = json!({"containsIgnoreCase": text});
        json!({"or": [{"title": contains}, {"description": contains}]})
    }));
    let variables = json!({
        "filter": {"and": all},
        "first": params.limit.unwrap_or(LISTED),
        "after": params.cursor,
        "orderBy": if params.order_by == Some(Order::Updated) { "updatedAt" } else { "createdAt" },
        "includeArchived": params.include_archived.unwrap_or(false),
    });
    let mut data = asking.query(queries::ISSUES, variables).await?;
    let page = &mut data["issues"];
    let issues = answers::read(page["nodes"].take())?;
    let next_cursor = (page["pageInfo"]["hasNextPage"] == true)
        .then(|| page["pageInfo"]["endCursor"].as_str().map(str::to_owned))
        .flatten();
    Ok(Output { issues: Some(issues), next_cursor, ..Output::of(args.action) })
}

/// Returns the issue with this identifier or id.
async fn one_issue(asking: &ApiCalls<'_>, field: &str, name: &str) -> Result<Value, ToolError> {
    match asking.ask(queries::ISSUE, &json!({"id": name})).await? {
        Ok(mut data) if data["issue"]["id"].is_string() => Ok(data["issue"].take()),
        Ok(_) => Err(names::unlike("issue")),
        Err(complaint) if complaint.is_about_input() => {
            let message = format!("`params.{field}`: this key has no access to an issue \"{name}\"");
            Err(ToolError::new(Code::NotFound, message)
                .hint("give an identifier such as ENG-12, or an id; `list_issues` finds issues")
                .because(ToolError::from(complaint)))
        }
        Err(complaint) => Err(complaint.into()),
    }
}

/// Returns the id for a new object: derived from the key and the place if there is a key, else
/// random.
fn id_for(action: Action, place: &str, key: Option<&str>) -> Result<String, ToolError> {
    let mut bytes = [0_u8; 16];
    match key {
        Some(key) => {
            let mut hasher = blake3::Hasher::new();
            for part in ["handfast linear_action", action.name(), place, key] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
            bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        }
        None => getrandom::fill(&mut bytes)
            .map_err(|error| ToolError::internal("the system returned no random bytes").because(error))?,
    }
    // Version 4 (RFC 9562, section 5.4), which Linear requires.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

fn used_before(by: &str) -> ToolError {
    ToolError::new(Code::Conflict, format!("`params.idempotency_key`: was used for {by}"))
        .hint("use another key, or change the existing issue with `update_issue`")
}

#[cfg(test)]
mod tests {
    use testkit::Workspace;
    use tool::{Effect, ErasedTool};

    use super::*;

    fn plan(arguments: Value) -> Result<Plan, ToolError> {
        let linear = Linear::at(Linear::ENDPOINT, Linear::SECRET).unwrap();
        let place = Workspace::new().place();
        ErasedTool::tool(LinearAction { linear }).prepare(arguments, &place).map(|prepared| prepared.plan)
    }

    #[test]
    fn listing_is_safe_and_changing_is_not_and_both_name_host_and_secret() {
        let host = "api.linear.app".to_owned();
        let effects = |does: Option<&str>| {
            let (method, host) = (Some("POST".to_owned()), host.clone());
            let connect =
                Effect::Connect { host: host.clone(), port: 443, method, only_asks: does.is_none() };
            let act = does.map(|what| Effect::Act { host: host.clone(), what: what.to_owned() });
            let secret = Effect::UseSecret { name: "linear_api_key".to_owned(), host };
            [connect].into_iter().chain(act).chain([secret]).collect::<Vec<_>>()
        };
        let create = json!({"action": "create_issue", "params": {"team": "ENG", "title": "T"}});
        let mut tried = create.clone();
        tried["dry_run"] = json!(true);
        for (arguments, level, does) in [
            (json!({"action": "list_issues"}), Level::Safe, None),
            (create, Level::Moderate, Some("create an issue in the team ENG")),
            (
                json!({"action": "update_issue", "params": {"issue": "ENG-1", "state": "Done"}}),
                Level::Moderate,
                Some("change the issue ENG-1"),
            ),
            (
                json!({"action": "create_comment", "params": {"issue": "ENG-1", "body": "b"}}),
                Level::Moderate,
                Some("comment on the issue ENG-1"),
            ),
            (tried, Level::Safe, None),
        ] {
            let plan = plan(arguments.clone()).unwrap();
            assert_eq!((plan.level, plan.effects), (Some(level), effects(does)), "{arguments}");
        }
    }

    #[test]
    fn refuses_what_belongs_to_another_action_and_an_endpoint_where_the_key_could_be_read() {
        for arguments in [
            json!({"action": "delete_issue"}),
            json!({"action": "create_issue"}),
            json!({"action": "create_issue", "params": {"team": "ENG", "title": "T", "endpoint": "https://evil.example"}}),
            json!({"action": "list_issues", "params": {"title": "T"}}),
        ] {
            assert_eq!(plan(arguments.clone()).unwrap_err().code, Code::Validation, "{arguments}");
        }
        for endpoint in
            ["http://linear.example/graphql", "https://key@api.linear.app/", "ftp://api.linear.app"]
        {
            assert!(Linear::at(endpoint, "k").is_err(), "{endpoint}");
        }
        assert!(Linear::at("http://localhost:1/graphql", "k").is_ok());
    }

    #[test]
    fn the_same_key_at_the_same_place_is_the_same_id_and_nothing_else_is() {
        let id = |action, place, key| id_for(action, place, key).unwrap();
        let one = id(Action::CreateIssue, "t", Some("k"));
        assert_eq!(one, id(Action::CreateIssue, "t", Some("k")));
        assert!(names::is_id(&one) && one.as_bytes()[14] == b'4', "{one}");
        for other in [
            id(Action::CreateIssue, "t", Some("l")),
            id(Action::CreateIssue, "tk", Some("")),
            id(Action::CreateComment, "t", Some("k")),
            id(Action::CreateIssue, "t", None),
            id(Action::CreateIssue, "t", None),
        ] {
            assert_ne!(one, other);
        }
    }
}
