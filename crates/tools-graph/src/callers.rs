//! Facts for the policy: who calls the code that a call would change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use cypher::{Graph, NodeId, Side, TypeId};
use roots::{LastLink, Roots};
use tool::{CodeCaller, CodeCallers, Context, EditedFile, EditedLines, EditedSymbol, ToolError};
use tool_support::left_out::is_ignore_file;

use crate::graphs::CodeGraphs;
use crate::keeper::Grammars;
use crate::symbols::{kind, nodes};
use crate::values::{key_of, number, text};

/// Relationships that lead from a caller to what it calls. Calls of which only the name fits do not count.
const CALLS: [&str; 2] = ["CALLS", "INSTANTIATES"];

/// Number of callers that are named.
const NAMED: usize = 10;

/// Number of symbols of one file that are named.
const SYMBOLS: usize = 20;

impl CodeCallers for CodeGraphs {
    fn callers(
        &self,
        context: &Context,
        edited: &[EditedFile],
        over: u64,
        within: Duration,
    ) -> Result<Vec<Vec<EditedSymbol>>, ToolError> {
        if let Some(file) = edited.iter().find(|file| chooses_files(context, file)) {
            let path = file.path.strip_prefix(&context.place.workspace).unwrap_or(&file.path);
            let message = format!("{} decides which files the code graph has", tool::path_text(path));
            return Err(ToolError::new(tool::Code::Unavailable, message));
        }
        let grammars = self.grammars();
        let paths: Vec<Option<String>> =
            edited.iter().map(|file| code_path(context, &grammars, file)).collect();
        if paths.iter().all(Option::is_none) {
            return Ok(vec![Vec::new(); edited.len()]);
        }
        let begun = Instant::now();
        let is_late = || begun.elapsed() > within;
        let answerable = self
            .answerable_unless(context, &is_late)
            .map_err(|error| if is_late() { late(within) } else { error })?;
        let graph = answerable.snapshot.graph.as_ref();
        known(graph, context, (&paths, &grammars))?;
        let symbols = symbols_of(graph, &paths);
        let found = edited.iter().zip(&paths).map(|(file, path)| {
            let of_file = path.iter().flat_map(|path| below(&symbols, path));
            let mut called: Vec<EditedSymbol> = of_file
                .flat_map(|(path, symbols)| {
                    changed(symbols, &file.lines).into_iter().map(move |at| (path, at))
                })
                .filter_map(|(path, symbol)| called(graph, path, symbol, over))
                .collect();
            called.sort_by(|one, two| {
                (two.callers, &one.file, one.line).cmp(&(one.callers, &two.file, two.line))
            });
            called.truncate(SYMBOLS);
            called
        });
        Ok(found.collect())
    }
}

/// Checks that the graph knows each existing file of the edit whole. A file that is not there yet has no callers.
///
/// # Errors
/// `EUNAVAILABLE` if ignore rules leave a file out, or the graph has a part of it.
fn known(
    graph: &dyn Graph,
    context: &Context,
    (paths, grammars): (&[Option<String>], &Grammars),
) -> Result<(), ToolError> {
    let wanted = paths.iter().flatten().map(String::as_str).filter(|path| grammars.reads(path));
    let wanted: BTreeSet<&str> = wanted.collect();
    let files = nodes(graph).filter(|node| kind(graph, *node) == "file");
    let files = files.map(|node| (text(graph, node, "path"), text(graph, node, "gap")));
    let files: Vec<_> = files.filter(|(path, _)| wanted.contains(path.as_ref())).collect();
    let unknown = |path: &str, why: &str| {
        ToolError::new(tool::Code::Unavailable, format!("the code graph {why} {path}"))
    };
    if let Some((path, _)) = files.iter().find(|(_, gap)| !gap.is_empty()) {
        return Err(unknown(path, "knows only a part of"));
    }
    let roots = context.service::<Roots>()?;
    for path in wanted {
        let is_there = || roots.metadata(&context.place.workspace.join(path), LastLink::Keep).is_ok();
        if !files.iter().any(|(known, _)| known.as_ref() == path) && is_there() {
            return Err(unknown(path, "leaves out"));
        }
    }
    Ok(())
}

fn late(within: Duration) -> ToolError {
    let message = format!("the code graph is not ready after {} seconds", within.as_secs());
    ToolError::new(tool::Code::Timeout, message).hint("repeat the call; the work so far is kept")
}

/// Returns true for a change of a file whose rules leave files out of the graph. Callers in them would no longer
/// count.
fn chooses_files(context: &Context, file: &EditedFile) -> bool {
    let is_changed = file.lines != EditedLines::Ranges(Vec::new());
    let name = file.path.strip_prefix(&context.place.workspace).ok().and_then(Path::file_name);
    is_changed && name.is_some_and(is_ignore_file)
}

/// Returns the path of a file of the graph, or of a folder that may have some.
fn code_path(context: &Context, grammars: &Grammars, file: &EditedFile) -> Option<String> {
    let relative = file.path.strip_prefix(&context.place.workspace).ok()?;
    let path = tool::path_text(relative);
    // A removed folder has no ending that would tell what is in it.
    let may_be_folder = file.lines == EditedLines::All;
    (!path.is_empty() && (grammars.reads(&path) || may_be_folder)).then_some(path)
}

/// A definition that can be called.
struct Symbol {
    node: NodeId,
    /// Lines with those of the decorators, counted from 0.
    lines: Range<u64>,
    /// Line below the decorators, counted from 0.
    head: u64,
}

/// Returns the definitions of the files and of what is below the folders, by the path of their file.
fn symbols_of(graph: &dyn Graph, paths: &[Option<String>]) -> BTreeMap<String, Vec<Symbol>> {
    let mut found: BTreeMap<String, Vec<Symbol>> = BTreeMap::new();
    for node in nodes(graph) {
        let file = text(graph, node, "file");
        let is_it = |path: &String| is_at_or_below(&file, path);
        if file.is_empty() || !paths.iter().flatten().any(is_it) || !can_be_called(graph, node) {
            continue;
        }
        let line = |key| number(graph, node, key).and_then(|line| u64::try_from(line).ok());
        if let (Some(head), Some(last)) = (line("start_line"), line("end_line")) {
            let first = line("decorated_from").unwrap_or(head).saturating_sub(1);
            let symbol = Symbol { node, lines: first..last, head: head.saturating_sub(1) };
            found.entry(file.to_string()).or_default().push(symbol);
        }
    }
    found
}

fn can_be_called(graph: &dyn Graph, node: NodeId) -> bool {
    !matches!(kind(graph, node), "file" | "folder" | "module" | "external" | "field" | "variable")
}

fn is_at_or_below(file: &str, path: &str) -> bool {
    Path::new(file).starts_with(path)
}

fn below<'a>(
    symbols: &'a BTreeMap<String, Vec<Symbol>>,
    path: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Vec<Symbol>)> {
    symbols.iter().filter(move |(file, _)| is_at_or_below(file, path)).map(|(file, of)| (file.as_str(), of))
}

/// Returns the symbols that are changed themselves. An edit within a definition is none of the definitions
/// around it.
fn changed<'a>(symbols: &'a [Symbol], lines: &EditedLines) -> Vec<&'a Symbol> {
    let EditedLines::Ranges(ranges) = lines else { return symbols.iter().collect() };
    let mut changed = BTreeMap::new();
    for range in ranges {
        let edit = EditedLines::Ranges(vec![range.clone()]);
        let touched: Vec<&Symbol> = symbols.iter().filter(|symbol| edit.touch(&symbol.lines)).collect();
        let is_inner = |symbol: &Symbol, other: &Symbol| {
            let holds = other.lines.start <= range.start && range.end <= other.lines.end;
            holds && other.lines.len() < symbol.lines.len()
        };
        for symbol in &touched {
            // A decorator that is a lambda is no part of what it decorates.
            let is_decorator = edit.touch(&(symbol.lines.start..symbol.head));
            if is_decorator || !touched.iter().any(|other| is_inner(symbol, other)) {
                changed.insert(symbol.node.0, *symbol);
            }
        }
    }
    changed.into_values().collect()
}

trait Length {
    fn len(&self) -> u64;
}

impl Length for Range<u64> {
    fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Returns the symbol if it has more callers than the number.
fn called(graph: &dyn Graph, file: &str, symbol: &Symbol, over: u64) -> Option<EditedSymbol> {
    let type_id = |wanted: &str| {
        let at = graph.relationship_types().iter().position(|name| &**name == wanted)?;
        u16::try_from(at).ok().map(TypeId)
    };
    let mut callers: BTreeSet<NodeId> = BTreeSet::new();
    let mut places: BTreeSet<CodeCaller> = BTreeSet::new();
    let line_key = key_of(graph, "line");
    for kind in CALLS.iter().filter_map(|name| type_id(name)) {
        for link in graph.links(symbol.node, Side::Incoming, Some(kind)) {
            let caller = link.neighbour;
            if caller == symbol.node || !callers.insert(caller) {
                continue;
            }
            let line = line_key.and_then(|key| match graph.relationship_property(link.relationship, key) {
                cypher::Value::Integer(line) => u64::try_from(line).ok(),
                _ => None,
            });
            let file = text(graph, caller, "file").to_string();
            places.insert(CodeCaller { file, line: line.unwrap_or(1), name: name(graph, caller) });
            if places.len() > NAMED {
                places.pop_last();
            }
        }
    }
    let count = u64::try_from(callers.len()).unwrap_or(u64::MAX);
    (count > over).then(|| EditedSymbol {
        name: name(graph, symbol.node),
        file: file.to_owned(),
        line: symbol.lines.start + 1,
        callers: count,
        first: places.into_iter().collect(),
    })
}

/// Returns the name of a definition within its file; the top level of a file has none.
fn name(graph: &dyn Graph, node: NodeId) -> String {
    let id = text(graph, node, "id");
    let within = id.split_once('#').map_or("", |(_, name)| name);
    if within.is_empty() { "top level".to_owned() } else { within.to_owned() }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of ranges is meant")]
mod tests {
    use std::sync::Arc;

    use testkit::{DenyNames, Workspace};

    use super::*;
    use crate::tests::World;

    const SOON: Duration = Duration::from_mins(1);

    fn world() -> World {
        let files = [
            (
                "base.py",
                "class Store:\n    def put(self):\n        return 1\n\n    def get(self):\n        return 2\n\ndef load():\n    return Store()\n",
            ),
            ("one.py", "from base import load\n\ndef first():\n    load()\n    return load()\n"),
            ("two.py", "from base import load\n\ndef second():\n    return load().put()\n\nload()\n"),
        ];
        World::new(Workspace::new().with_files(&files))
    }

    fn ask(world: &World, path: &str, lines: EditedLines, over: u64) -> Vec<EditedSymbol> {
        let context = world.workspace.context();
        let edited = [EditedFile { path: world.workspace.at(path), lines }];
        world.graphs.callers(&context, &edited, over, SOON).unwrap().remove(0)
    }

    fn names(found: &[EditedSymbol]) -> Vec<(&str, u64)> {
        found.iter().map(|symbol| (symbol.name.as_str(), symbol.callers)).collect()
    }

    #[test]
    fn a_changed_symbol_has_its_callers_with_their_places() {
        let world = world();
        let found = ask(&world, "base.py", EditedLines::Ranges(vec![8..9]), 2);
        assert_eq!(names(&found), [("load", 3)]);
        let places: Vec<String> =
            found[0].first.iter().map(|at| format!("{}:{} {}", at.file, at.line, at.name)).collect();
        assert_eq!(places, ["one.py:4 first", "two.py:4 second", "two.py:6 top level"]);
        assert_eq!((found[0].file.as_str(), found[0].line), ("base.py", 8));
        assert_eq!(ask(&world, "base.py", EditedLines::Ranges(vec![8..9]), 3), []);
        assert_eq!(ask(&world, "base.py", EditedLines::Ranges(vec![6..7]), 0), []);
    }

    #[test]
    fn an_edit_of_a_method_is_none_of_its_class_and_a_removed_file_is_all_of_them() {
        let world = world();
        let within = ask(&world, "base.py", EditedLines::Ranges(vec![2..3]), 0);
        assert_eq!(names(&within), [("Store.put", 1)]);
        let header = ask(&world, "base.py", EditedLines::Ranges(vec![0..1]), 0);
        assert_eq!(names(&header), [("Store", 1)]);
        let all = ask(&world, "base.py", EditedLines::All, 0);
        assert_eq!(names(&all), [("load", 3), ("Store", 1), ("Store.put", 1)]);
    }

    #[test]
    fn a_removed_folder_counts_with_what_is_below_it_and_text_files_have_no_symbols() {
        let workspace = Workspace::new().with_files(&[
            ("lib/a.py", "def low():\n    pass\n"),
            ("library.py", "def other():\n    pass\n"),
            ("use.py", "from lib.a import low\nfrom library import other\n\nlow()\nother()\n"),
            ("notes.txt", "low\n"),
        ]);
        let world = World::new(workspace);
        assert_eq!(names(&ask(&world, "lib", EditedLines::All, 0)), [("low", 1)]);
        assert_eq!(ask(&world, "notes.txt", EditedLines::Ranges(vec![0..1]), 0), []);
        assert_eq!(ask(&world, "new.py", EditedLines::Ranges(vec![0..1]), 0), []);
        assert_eq!(ask(&world, "../outside.py", EditedLines::All, 0), []);
    }

    #[test]
    fn a_decorator_belongs_to_its_definition_however_far_above_it_stands() {
        let workspace = Workspace::new().with_files(&[
            (
                "base.py",
                "import functools\n\n@(lambda f: f)\n\n# Far below.\ndef load():\n    return 1\n\ndef other():\n    return 2\n",
            ),
            ("lib.rs", "#[inline]\n\n#[must_use]\n\npub fn low() -> u8 {\n    1\n}\n\npub fn high() -> u8 {\n    low()\n}\n"),
            ("use.py", "from base import load, other\n\nload()\nother()\n"),
        ]);
        let world = World::new(workspace);
        for line in 2..7 {
            let found = ask(&world, "base.py", EditedLines::Ranges(vec![line..line + 1]), 0);
            assert!(names(&found).contains(&("load", 1)), "line {line}: {found:?}");
        }
        assert_eq!(ask(&world, "base.py", EditedLines::Ranges(vec![1..2]), 0), []);
        assert_eq!(names(&ask(&world, "base.py", EditedLines::Ranges(vec![9..10]), 0)), [("other", 1)]);
        assert_eq!(names(&ask(&world, "lib.rs", EditedLines::Ranges(vec![0..1]), 0)), [("low", 1)]);
        assert_eq!(ask(&world, "lib.rs", EditedLines::Ranges(vec![8..9]), 0), []);
    }

    #[test]
    fn an_edit_of_an_ignore_file_is_not_known_because_it_changes_what_the_graph_has() {
        let world = world();
        let context = world.workspace.context();
        let asked = |path: &str| {
            let edited = [EditedFile { path: world.workspace.at(path), lines: EditedLines::All }];
            world.graphs.callers(&context, &edited, 0, SOON)
        };
        for path in [".gitignore", ".ignore", "lib/.ignore", "lib/.gitignore"] {
            let error = asked(path).unwrap_err();
            assert_eq!(error.code, tool::Code::Unavailable, "{path}: {}", error.message);
            assert!(error.message.contains(path), "{}", error.message);
        }
        for path in ["gitignore", ".ignore.md"] {
            assert_eq!(asked(path).unwrap(), [[]], "{path}");
        }
    }

    #[test]
    fn callers_in_denied_files_are_neither_named_nor_counted() {
        let World { workspace, graphs } = world();
        let world =
            World { workspace: workspace.guarded(DenyNames { read: &["two.py"], write: &[] }), graphs };
        assert_eq!(names(&ask(&world, "base.py", EditedLines::Ranges(vec![8..9]), 0)), [("load", 1)]);
    }

    #[test]
    fn a_graph_that_is_not_ready_in_time_is_an_error_that_says_so() {
        let world = world();
        let context = world.workspace.context();
        let edited = [EditedFile { path: world.workspace.at("base.py"), lines: EditedLines::All }];
        let error = world.graphs.callers(&context, &edited, 0, Duration::ZERO).unwrap_err();
        assert_eq!(error.code, tool::Code::Timeout, "{}", error.message);
        assert!(world.graphs.callers(&context, &edited, 0, SOON).is_ok());
        let shared: Arc<dyn CodeCallers> = world.graphs.clone();
        assert_eq!(shared.callers(&context, &edited, 1, SOON).unwrap()[0].len(), 1);
    }
}
