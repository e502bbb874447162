//! GraphQL requests: queries read, mutations and subscriptions write.

use apollo_parser::cst::{
    CstNode, Definition, FragmentDefinition, OperationDefinition, Selection, SelectionSet,
};
use apollo_parser::{Lexer, Parser, TokenKind};

use crate::action::Action;
use crate::encoding::DecodedBody;
use crate::header;
use crate::json::{self, Json};
use crate::request::{Meaning, Request, unclear};
use crate::shown::shown;
use crate::target::Target;

/// Maximum length of a body, in bytes.
const LONGEST: usize = 1024 * 1024;
/// Maximum number of tokens of a document.
const MAX_TOKENS: usize = 20_000;
/// Maximum depth of brackets of any kind. The parser calls itself for each of some of them.
const DEEPEST: usize = 64;
/// Maximum number of characters of the name of a field in a description.
const NAME: usize = 60;
/// Maximum number of fields that are kept of an operation.
const MAX_FIELDS: usize = 50;

/// Keys of a request (the specification "GraphQL over HTTP"). Another key may name an operation
/// that the server has stored.
const KEYS: [&str; 4] = ["query", "variables", "operationName", "extensions"];
/// Key below `extensions` that names a stored operation.
const PERSISTED: &str = "persistedQuery";

/// Judges a request whose operation is in its body.
pub(crate) fn in_body(request: &Request<'_>, body: &DecodedBody) -> Meaning {
    if !header::is_json(request.headers, &["application/json"]) {
        return unclear(request, "its body is not JSON in UTF-8");
    }
    if body.bytes.len() > LONGEST {
        return unclear(request, "its body is too long");
    }
    if !body.is_whole {
        return Meaning::NeedMore(request.body.len() * 2);
    }
    match json::read(&body.bytes) {
        Some(Json::Object(fields)) => {
            if fields.keys().any(|key| !KEYS.contains(&key.as_str())) {
                return unclear(request, "its body has a key that GraphQL does not know");
            }
            if fields.get("extensions").is_some_and(|extensions| extensions.has_key(PERSISTED)) {
                return unclear(request, "the server may run a stored operation");
            }
            match fields.get("query") {
                Some(Json::Text(document)) => operations(request, document),
                _ => unclear(request, "its body has no query"),
            }
        }
        Some(Json::List(_)) => unclear(request, "its body is a batch"),
        _ => unclear(request, "its body is not a JSON object without a key twice"),
    }
}

/// Judges a request without a body, whose operation may be in its URL.
pub(crate) fn in_url(request: &Request<'_>, target: &Target<'_>) -> Meaning {
    if !target.is_graphql() {
        // Pages for humans have such paths too.
        return if target.query().is_none() { Meaning::Reading } else { rest_of_url(request, target) };
    }
    match target.parameters().as_slice() {
        [] => Meaning::Reading,
        parameters => {
            let mut names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            let known = names.iter().all(|name| ["operationName", "query", "variables"].contains(name));
            let once = names.windows(2).all(|pair| pair[0] != pair[1]);
            match parameters.iter().find(|(name, _)| name == "query") {
                Some((_, document)) if known && once => operations(request, document),
                _ => unclear(request, "its URL has parameters that are not those of one query"),
            }
        }
    }
}

fn rest_of_url(request: &Request<'_>, target: &Target<'_>) -> Meaning {
    if target.has_parameter("query") || target.has_parameter("extensions") {
        return unclear(request, "it may be a GraphQL request");
    }
    Meaning::Reading
}

/// Judges a document.
fn operations(request: &Request<'_>, document: &str) -> Meaning {
    if let Some(why) = unusual(document) {
        return unclear(request, why);
    }
    let parsed = Parser::new(document).recursion_limit(DEEPEST).token_limit(MAX_TOKENS).parse();
    if parsed.errors().len() > 0 {
        return unclear(request, "its GraphQL document is invalid");
    }
    let tree = parsed.document();
    // A part that belongs to no definition would be one that the loop below does not see.
    if tree.syntax().children().count() != tree.definitions().count() {
        return unclear(request, "its GraphQL document is invalid");
    }
    let (mut queries, mut others, mut fragments) = (0, Vec::new(), Vec::new());
    let mut other = "mutation";
    for definition in tree.definitions() {
        match definition {
            Definition::OperationDefinition(operation) => match kind(&operation) {
                Some("query") => queries += 1,
                Some(kind) => {
                    other = kind;
                    others.push(operation);
                }
                None => return unclear(request, "its GraphQL document is invalid"),
            },
            Definition::FragmentDefinition(fragment) => fragments.push(fragment),
            _ => return unclear(request, "its GraphQL document defines types"),
        }
    }
    match (queries, others.as_slice()) {
        (0, []) => unclear(request, "its GraphQL document has no operation"),
        (_, []) => Meaning::Reading,
        (_, others) => {
            Meaning::writing(Action::GraphQl { operation: other, fields: fields(others, &fragments) })
        }
    }
}

/// Returns the reason why parsers may differ about a document, or spend too much on it.
fn unusual(document: &str) -> Option<&'static str> {
    let mut depth = 0_usize;
    let mut count = 0_usize;
    for token in Lexer::new(document) {
        let Ok(token) = token else { return Some("its GraphQL document is invalid") };
        count += 1;
        match token.kind() {
            TokenKind::LCurly | TokenKind::LParen | TokenKind::LBracket => depth += 1,
            TokenKind::RCurly | TokenKind::RParen | TokenKind::RBracket => depth = depth.saturating_sub(1),
            // Parsers differ about the characters that end a comment.
            TokenKind::Comment if token.data().chars().any(|letter| !matches!(letter, ' '..='~' | '\t')) => {
                return Some("a comment of its GraphQL document has unusual characters");
            }
            TokenKind::StringValue
                if !token.data().starts_with("\"\"\"") && token.data().contains(['\n', '\r']) =>
            {
                return Some("a string of its GraphQL document has more than one line");
            }
            TokenKind::Whitespace if !is_usual_space(token.data()) => {
                return Some("its GraphQL document has unusual spaces");
            }
            _ => {}
        }
        if depth > DEEPEST || count > MAX_TOKENS {
            return Some("its GraphQL document is too large");
        }
    }
    None
}

/// Returns true if all parsers see the same spaces and line ends.
fn is_usual_space(space: &str) -> bool {
    space.replace("\r\n", "\n").chars().all(|letter| matches!(letter, ' ' | '\t' | '\n'))
}

fn kind(operation: &OperationDefinition) -> Option<&'static str> {
    let Some(kind) = operation.operation_type() else { return Some("query") };
    match (kind.query_token(), kind.mutation_token(), kind.subscription_token()) {
        (Some(_), None, None) => Some("query"),
        (None, Some(_), None) => Some("mutation"),
        (None, None, Some(_)) => Some("subscription"),
        _ => None,
    }
}

/// Returns the fields that operations would run, also those in fragments. An alias is the caller's
/// word, and the name of a field is that of the schema.
fn fields(operations: &[OperationDefinition], fragments: &[FragmentDefinition]) -> Vec<String> {
    let mut open: Vec<SelectionSet> =
        operations.iter().filter_map(OperationDefinition::selection_set).collect();
    let mut seen: Vec<String> = Vec::new();
    let mut fields = Vec::new();
    while let Some(set) = open.pop() {
        for selection in set.selections() {
            match selection {
                Selection::Field(field) => {
                    let name = field.name().map(|name| shown(&name.text(), NAME)).unwrap_or_default();
                    if fields.len() < MAX_FIELDS && !fields.contains(&name) {
                        fields.push(name);
                    }
                }
                Selection::InlineFragment(inline) => open.extend(inline.selection_set()),
                Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name().and_then(|name| name.name());
                    let name = name.map(|name| name.text().to_string()).unwrap_or_default();
                    if !seen.contains(&name) {
                        open.extend(
                            fragments
                                .iter()
                                .filter(|fragment| is_named(fragment, &name))
                                .filter_map(FragmentDefinition::selection_set),
                        );
                        seen.push(name);
                    }
                }
            }
        }
    }
    fields
}

fn is_named(fragment: &FragmentDefinition, name: &str) -> bool {
    let own = fragment.fragment_name().and_then(|name| name.name());
    own.is_some_and(|own| own.text() == name)
}
