//! Definitions of the graph by the names that callers use for them.

use cypher::{Graph, NodeId, Value};
use tool::{Code, ToolError};

use crate::values::{key_of, labels, number, text};

/// Number of candidates that an error names.
const NAMED: usize = 8;

/// Labels from the most to the least exact, with the word that answers use.
const KINDS: [(&str, &str); 14] = [
    ("Method", "method"),
    ("Macro", "macro"),
    ("Struct", "struct"),
    ("Enum", "enum"),
    ("Interface", "interface"),
    ("Trait", "trait"),
    ("TypeAlias", "type"),
    ("Class", "class"),
    ("Function", "function"),
    ("Field", "field"),
    ("Variable", "variable"),
    ("Module", "module"),
    ("File", "file"),
    ("External", "external"),
];

/// Returns the kind of a node in one word.
pub(crate) fn kind(graph: &dyn Graph, node: NodeId) -> &'static str {
    let labels = labels(graph, node);
    KINDS.iter().find(|(label, _)| labels.contains(label)).map_or("folder", |(_, word)| word)
}

/// Returns all nodes.
pub(crate) fn nodes(graph: &dyn Graph) -> impl Iterator<Item = NodeId> + '_ {
    let bound = u32::try_from(graph.node_bound()).unwrap_or(u32::MAX);
    (0..bound).map(NodeId).filter(|node| graph.has_node(*node))
}

/// Finds the definition or file that a caller names: by its id, its qualified name or its name.
pub(crate) fn named(graph: &dyn Graph, symbol: &str) -> Result<NodeId, ToolError> {
    let symbol = symbol.trim();
    let dotted = symbol.replace("::", ".");
    let last = dotted.rsplit(['.', '#']).next().unwrap_or(&dotted);
    let ends = |node: &NodeId| {
        let qualified = text(graph, *node, "qualified_name");
        qualified
            .strip_suffix(dotted.as_str())
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let mut found = with(graph, "id", symbol);
    if found.is_empty() {
        found = with(graph, "qualified_name", &dotted);
    }
    if found.is_empty() {
        found = with(graph, "name", last).into_iter().filter(ends).collect();
    }
    match found.as_slice() {
        [] => Err(unknown(graph, symbol, last)),
        [one] => Ok(*one),
        [first, ..] if found.iter().all(|node| text(graph, *node, "id") == text(graph, *first, "id")) => {
            Ok(*first)
        }
        _ => {
            let shown: Vec<String> = found.iter().take(NAMED).map(|node| place(graph, *node)).collect();
            let rest = found.len().saturating_sub(NAMED);
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let problem = format!("{symbol} is the name of {}{rest}", shown.join(", "));
            Err(ToolError::validation("symbol", problem).hint("give one of these ids"))
        }
    }
}

/// Finds the innermost definition around a line.
pub(crate) fn at_line(graph: &dyn Graph, file: &str, line: i64) -> Result<NodeId, ToolError> {
    let spans = nodes(graph).filter(|node| &*text(graph, *node, "file") == file).filter_map(|node| {
        let (first, last) = (number(graph, node, "start_line")?, number(graph, node, "end_line")?);
        (first <= line && line <= last && kind(graph, node) != "module").then_some((last - first, node))
    });
    let innermost = spans.min_by_key(|(length, node)| (*length, node.0)).map(|(_, node)| node);
    innermost.ok_or_else(|| {
        let problem = if with(graph, "path", file).is_empty() {
            format!("{file} is not in the graph")
        } else {
            format!("no definition of {file} is around line {line}")
        };
        ToolError::new(Code::NotFound, problem).hint("file_list and file_read show files and their lines")
    })
}

/// Returns the definitions and files whose property is a text. Folders and things outside are left out.
fn with(graph: &dyn Graph, key: &str, value: &str) -> Vec<NodeId> {
    let value = Value::string(value);
    let Some(key) = key_of(graph, key) else { return Vec::new() };
    let found = graph.find(None, key, &value).unwrap_or_default();
    let is_it = |node: &NodeId| {
        graph.node_property(*node, key) == value && !matches!(kind(graph, *node), "folder" | "external")
    };
    found.into_iter().filter(is_it).collect()
}

/// Returns the id of a node, with its place.
fn place(graph: &dyn Graph, node: NodeId) -> String {
    let (id, kind) = (text(graph, node, "id"), kind(graph, node));
    match number(graph, node, "start_line") {
        Some(line) => format!("{id} ({kind}, line {line})"),
        None => format!("{id} ({kind})"),
    }
}

/// Returns the error for a name that nothing has, with the nearest name.
fn unknown(graph: &dyn Graph, symbol: &str, last: &str) -> ToolError {
    let names: Vec<_> = nodes(graph)
        .filter(|node| !matches!(kind(graph, *node), "folder" | "external" | "module"))
        .map(|node| text(graph, node, "name"))
        .collect();
    let nearest = tool::nearest(last, names.iter().map(|name| &**name));
    let nearest = nearest.map(|name| format!("; the nearest is {name}")).unwrap_or_default();
    ToolError::new(Code::NotFound, format!("nothing in the code graph is named {symbol}{nearest}"))
        .hint("file_search finds names in text; code_map shows the most used ones")
}
