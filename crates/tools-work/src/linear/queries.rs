//! All GraphQL documents for Linear, as constants. Callers' texts are never part of a document,
//! only of its variables.

/// Fields of an issue in an answer, without its description.
macro_rules! issue {
    () => {
        "fragment Shown on Issue { id identifier title url priority priorityLabel estimate dueDate createdAt updatedAt \
         state { id name type } team { id key name } assignee { id name displayName email } \
         labels(first: 20) { nodes { id name } } parent { id identifier } }"
    };
}

/// Query for a team by id, key or name.
pub const TEAMS: &str = "query Teams($filter: TeamFilter, $first: Int!) { teams(filter: $filter, first: $first) { nodes { id key name } } }";

/// Query for the owner of the key.
pub const VIEWER: &str = "query Viewer { viewer { id name displayName email } }";

/// Query for people by id, name or address.
pub const USERS: &str = "query Users($filter: UserFilter, $first: Int!) \
    { users(filter: $filter, first: $first) { nodes { id name displayName email } } }";

/// Query for states of a team's issues.
pub const STATES: &str = "query States($filter: WorkflowStateFilter, $first: Int!) \
    { workflowStates(filter: $filter, first: $first) { nodes { id name type } } }";

/// Query for labels of a team and of the whole workspace.
pub const LABELS: &str = "query Labels($filter: IssueLabelFilter, $first: Int!) \
    { issueLabels(filter: $filter, first: $first) { nodes { id name team { id } } } }";

/// Query for one issue by its id or its identifier.
pub const ISSUE: &str =
    concat!("query OneIssue($id: String!) { issue(id: $id) { ...Shown description } } ", issue!());

/// Query for a page of issues.
pub const ISSUES: &str = concat!(
    "query Issues($filter: IssueFilter, $first: Int!, $after: String, $orderBy: PaginationOrderBy, $includeArchived: Boolean) \
     { issues(filter: $filter, first: $first, after: $after, orderBy: $orderBy, includeArchived: $includeArchived) \
     { nodes { ...Shown } pageInfo { hasNextPage endCursor } } } ",
    issue!()
);

/// Query for an issue by an id that the client chose.
pub const FIND_ISSUE: &str = concat!(
    "query FindIssue($id: ID!) \
     { issues(filter: { id: { eq: $id } }, first: 1, includeArchived: true) { nodes { ...Shown description } } } ",
    issue!()
);

/// Query for a comment by an id that the client chose.
pub const FIND_COMMENT: &str = "query FindComment($id: ID!) \
    { comments(filter: { id: { eq: $id } }, first: 1, includeArchived: true) \
    { nodes { id body url createdAt user { id name } issue { id identifier } } } }";

/// Mutation that creates an issue.
pub const CREATE_ISSUE: &str = concat!(
    "mutation CreateIssue($input: IssueCreateInput!) \
     { issueCreate(input: $input) { success issue { ...Shown description } } } ",
    issue!()
);

/// Mutation that changes an issue.
pub const UPDATE_ISSUE: &str = concat!(
    "mutation UpdateIssue($id: String!, $input: IssueUpdateInput!) \
     { issueUpdate(id: $id, input: $input) { success issue { ...Shown description } } } ",
    issue!()
);

/// Mutation that creates a comment on an issue.
pub const CREATE_COMMENT: &str = "mutation CreateComment($input: CommentCreateInput!) \
    { commentCreate(input: $input) { success comment { id body url createdAt user { id name } issue { id identifier } } } }";

/// All documents.
pub const ALL: [&str; 12] = [
    TEAMS,
    VIEWER,
    USERS,
    STATES,
    LABELS,
    ISSUE,
    ISSUES,
    FIND_ISSUE,
    FIND_COMMENT,
    CREATE_ISSUE,
    UPDATE_ISSUE,
    CREATE_COMMENT,
];
