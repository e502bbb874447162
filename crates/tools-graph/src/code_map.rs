//! `code_map`: the shape of a repository in few tokens, the most used files and definitions first.

use std::collections::BTreeMap;

use cypher::{Graph, NodeId, Side, TypeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::answer::Fresh;
use crate::graphs::CodeGraphs;
use crate::symbols::{kind, nodes};
use crate::values::{number, property, text};

/// Tokens of a map: least, default and most.
const TOKENS: (u32, u32, u32) = (100, 2_000, 2_000);

/// Bytes of text that count as one token. Names of code take fewer tokens than this.
const BYTES_PER_TOKEN: usize = 3;

/// Definitions that a file shows at most.
const PER_FILE: usize = 6;

/// Folders that the head of a map names at most.
const FOLDERS: usize = 12;

/// The `code_map` tool.
pub struct CodeMap;

/// Arguments of `code_map`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder or file to map; default the workspace.
    path: Option<String>,
    /// Maximum size in tokens, default 2000.
    #[schemars(range(min = 100, max = 2_000))]
    budget: Option<u32>,
}

/// Result of `code_map`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Files with their definitions as `kind name :line (uses)`, the most used first.
    map: String,
    /// Number of files that the map shows.
    files_shown: usize,
    /// Number of files below the path.
    files: usize,
    /// Freshness of the graph.
    freshness: Fresh,
}

/// A file with what it defines.
#[derive(Debug, Default)]
struct Mapped {
    lines: i64,
    language: String,
    is_test: bool,
    uses: usize,
    definitions: Vec<Defined>,
}

/// A definition.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Defined {
    line: i64,
    kind: &'static str,
    name: String,
    uses: usize,
}

impl Tool for CodeMap {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "code_map",
        title: "Map of the code",
        description: "Show the shape of the code in at most 2,000 tokens: the most used files and definitions first. Start here in an unknown repository.",
        example: Example {
            files: &[("app.py", "def load():\n    pass\n\ndef main():\n    load()\n")],
            arguments: r#"{"budget": 200}"#,
            result: r#"{"map": "1 files, 5 lines (python 1)\n\napp.py (5 lines)\n  function load :1 (1)\n  function main :4\n", "files_shown": 1, "files": 1}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(300),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let budget = args.budget.unwrap_or(TOKENS.1);
        if !(TOKENS.0..=TOKENS.2).contains(&budget) {
            let problem = format!("{budget} is not between {} and {}", TOKENS.0, TOKENS.2);
            return Err(ToolError::validation("budget", problem));
        }
        below(args, place)?;
        Ok(Plan::of(vec![Effect::Read { path: place.workspace.clone() }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let below = below(&args, &context.place)?;
        let graphs = context.service::<CodeGraphs>()?;
        let (freshness, graph) = Fresh::split(&graphs.answerable(context)?);
        let files = mapped(graph.as_ref(), &below);
        if files.is_empty() && !below.is_empty() {
            return Err(ToolError::new(tool::Code::NotFound, format!("no code is at {below}"))
                .hint("file_list shows the folders; the graph leaves out ignored and hidden files"));
        }
        let bytes = args.budget.unwrap_or(TOKENS.1) as usize * BYTES_PER_TOKEN;
        let (map, files_shown) = drawn(&files, bytes);
        Ok(Output { map, files_shown, files: files.len(), freshness })
    }
}

/// Returns the path below which files are mapped, relative to the workspace; empty for all of it.
fn below(args: &Args, place: &Place) -> Result<String, ToolError> {
    let Some(path) = &args.path else { return Ok(String::new()) };
    let resolved = place.resolve("path", path)?;
    let relative = resolved.strip_prefix(&place.workspace).map_err(|_| {
        ToolError::validation("path", "is outside the workspace, which is all that the graph has")
    })?;
    Ok(tool::path_text(relative))
}

/// Collects the files below a path with their definitions.
fn mapped(graph: &dyn Graph, below: &str) -> BTreeMap<String, Mapped> {
    let is_below = |path: &str| {
        let rest = path.strip_prefix(below);
        below.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let used = [
        "CALLS",
        "REFERENCES",
        "INSTANTIATES",
        "INHERITS",
        "IMPLEMENTS",
        "HAS_TYPE",
        "RETURNS_TYPE",
        "IMPORTS",
    ];
    let used: Vec<TypeId> = (0_u16..)
        .map(TypeId)
        .zip(graph.relationship_types())
        .filter(|(_, name)| used.contains(&&***name))
        .map(|(id, _)| id)
        .collect();
    let uses = |node: NodeId| -> usize {
        used.iter().map(|kind| graph.links(node, Side::Incoming, Some(*kind)).len()).sum()
    };
    let mut files: BTreeMap<String, Mapped> = BTreeMap::new();
    for node in nodes(graph) {
        let path = text(graph, node, "file");
        let kind = kind(graph, node);
        if path.is_empty() || !is_below(&path) || matches!(kind, "module" | "field" | "variable") {
            continue;
        }
        let file = files.entry(path.to_string()).or_default();
        let uses = uses(node);
        file.uses += uses;
        if kind == "file" {
            file.lines = number(graph, node, "lines").unwrap_or_default();
            file.language = text(graph, node, "language").to_string();
            file.is_test = property(graph, node, "is_test") == cypher::Value::Boolean(true);
        } else {
            let qualified = text(graph, node, "qualified_name");
            let line = number(graph, node, "start_line").unwrap_or_default();
            file.definitions.push(Defined { line, kind, name: tool::visible(&qualified), uses });
        }
    }
    files
}

/// Writes the map within a number of bytes. Returns the number of files in it, too.
fn drawn(files: &BTreeMap<String, Mapped>, bytes: usize) -> (String, usize) {
    let mut map = head(files);
    map.truncate(map.floor_char_boundary(bytes / 2));
    let mut ranked: Vec<(&String, &Mapped)> = files.iter().collect();
    ranked.sort_by_key(|(path, file)| (file.is_test, std::cmp::Reverse(file.uses), path.as_str()));
    let mut shown = 0;
    for (path, file) in &ranked {
        let mut most: Vec<&Defined> = file.definitions.iter().collect();
        most.sort_by_key(|one| (std::cmp::Reverse(one.uses), one.line));
        most.truncate(PER_FILE);
        most.sort();
        let mut part = format!("\n{} ({} lines)\n", tool::visible(path), file.lines);
        for one in &most {
            let uses = if one.uses > 0 { format!(" ({})", one.uses) } else { String::new() };
            part.push_str(&format!("  {} {} :{}{uses}\n", one.kind, one.name, one.line));
        }
        let more = file.definitions.len() - most.len();
        if more > 0 {
            part.push_str(&format!("  and {more} more\n"));
        }
        // The last line about files that are left out takes its place, too.
        if map.len() + part.len() + 40 > bytes {
            break;
        }
        map.push_str(&part);
        shown += 1;
    }
    if shown < ranked.len() {
        map.push_str(&format!("\nand {} more files\n", ranked.len() - shown));
    }
    (map, shown)
}

/// Returns the counts by language and folder.
fn head(files: &BTreeMap<String, Mapped>) -> String {
    let (mut languages, mut folders): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
    for (path, file) in files {
        *languages.entry(&file.language).or_default() += 1;
        if let Some((folder, _)) = path.split_once('/') {
            *folders.entry(folder).or_default() += 1;
        }
    }
    let lines: i64 = files.values().map(|file| file.lines).sum();
    let languages: Vec<String> =
        ranked(languages).into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut text = format!("{} files, {lines} lines ({})\n", files.len(), languages.join(", "));
    let folders = ranked(folders);
    let named: Vec<String> = folders
        .iter()
        .take(FOLDERS)
        .map(|(name, count)| format!("{}/ {count}", tool::visible(name)))
        .collect();
    if !named.is_empty() {
        text.push_str(&format!("folders: {}\n", named.join(", ")));
    }
    text
}

/// Returns names by their counts, the largest first.
fn ranked(counts: BTreeMap<&str, usize>) -> Vec<(&str, usize)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{DenyNames, Workspace};
    use tool::Code;

    use crate::tests::World;

    fn world() -> World {
        let files = [
            ("Cargo.toml", "[package]\nname = \"m\"\n"),
            (
                "src/machine.rs",
                "pub struct Engine {}\nimpl Engine {\n    pub fn start(&self) {}\n}\npub fn rare() {}\n",
            ),
            (
                "src/main.rs",
                "mod machine;\nuse crate::machine::Engine;\nfn main() { go(&Engine {}); }\nfn go(e: &Engine) { e.start(); }\n",
            ),
            ("tests/all.rs", "#[test]\nfn works() {}\n"),
        ];
        World::new(Workspace::new().with_files(&files))
    }

    #[test]
    fn the_most_used_files_come_first_and_tests_last() {
        let map = world().run("code_map", json!({})).unwrap();
        let text = map["map"].as_str().unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("src/machine.rs (5 lines)") < at("src/main.rs") && at("src/main.rs") < at("tests/all.rs"));
        assert!(text.contains("struct Engine :1 (") && text.contains("method Engine.start :3 (1)"), "{text}");
        assert!(text.starts_with("3 files, 11 lines (rust 3)\nfolders: src/ 2, tests/ 1\n"), "{text}");
        assert_eq!((&map["files"], &map["files_shown"]), (&json!(3), &json!(3)));
    }

    #[test]
    fn a_budget_holds_and_a_path_narrows() {
        let world = world();
        for number in 0..300 {
            let body: String = (0..20).map(|at| format!("pub fn f{number}_{at}() {{}}\n")).collect();
            world.workspace.write(&format!("src/m{number}.rs"), body);
        }
        for budget in [100, 500, 2_000] {
            let map = world.run("code_map", json!({ "budget": budget })).unwrap();
            let text = map["map"].as_str().unwrap();
            assert!(text.len() <= budget * 3 && text.contains("more files"), "{budget}: {}", text.len());
        }
        let one = world.run("code_map", json!({"path": "src/main.rs"})).unwrap();
        assert_eq!((&one["files"], &one["files_shown"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn refuses_wrong_budgets_and_paths_outside() {
        let world = world();
        for (arguments, code) in [
            (json!({"budget": 99}), Code::Validation),
            (json!({"budget": 2_001}), Code::Validation),
            (json!({"path": "../outside"}), Code::Validation),
            (json!({"path": "nowhere"}), Code::NotFound),
        ] {
            assert_eq!(world.run("code_map", arguments.clone()).unwrap_err().code, code, "{arguments}");
        }
    }

    #[test]
    fn denied_files_are_not_on_the_map() {
        let World { workspace, graphs } = world();
        let world =
            World { workspace: workspace.guarded(DenyNames { read: &["machine.rs"], write: &[] }), graphs };
        let text = world.run("code_map", json!({})).unwrap()["map"].as_str().unwrap().to_owned();
        assert!(
            text.contains("src/main.rs") && !text.contains("machine.rs") && !text.contains("rare"),
            "{text}"
        );
    }
}
