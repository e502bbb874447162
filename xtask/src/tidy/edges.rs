//! Rules for dependencies between crates.
//!
//! The order of the layers is the architecture. An edge that is not allowed here needs a change of
//! `docs/ARCHITECTURE.md` first.

use crate::tidy::{Finding, Tree};

/// The purpose of a crate, which decides its permitted dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// The vocabulary of all crates.
    Vocabulary,
    /// The pure policy decision.
    Policy,
    /// The interface of durable state: rows and traits.
    StoreApi,
    /// An implementation of durable state.
    Store,
    /// The parsers of a pure decision: no input or output, and no judgement.
    Syntax,
    /// The meaning of requests to git forges: pure, and without a judgement on them.
    Requests,
    /// Times at which something happens: pure.
    Times,
    /// Jobs that are stored and claimed.
    Jobs,
    /// Costs of models, kept in the store.
    Budgets,
    /// Waiting for the locks of other processes.
    Locks,
    /// Edits of other programs' configuration.
    Settings,
    /// Resolution of paths beneath open folders.
    Paths,
    /// A mechanism that works on the machine and knows no tool.
    Mechanism,
    /// The vocabulary of search by words and by meaning: no engine and no database.
    Search,
    /// The language of graph queries: no input or output, and no code of a repository.
    GraphQueries,
    /// Findings of compilers, in their own files: no input or output beyond the reader that is handed in.
    CompilerIndexes,
    /// Facts of source code and the graph of them: no input or output, and no tool.
    CodeFacts,
    /// A small program that extracts facts of code for the main one.
    CodeFactsProgram,
    /// Processor-specific arithmetic.
    Arithmetic,
    /// A model that turns texts into vectors.
    Meaning,
    /// Models of language, behind a transport that the caller hands in.
    Models,
    /// A model of language that runs on this machine.
    LocalModels,
    /// The protocol of foreign tool servers, behind connections that the caller hands in.
    ToolServers,
    /// Folders that are tools, and what their user has allowed.
    PluginFolders,
    Interpreter,
    /// The loop of agents over interfaces that the caller implements.
    Agents,
    /// The knowledge base, and search in it.
    Knowledge,
    /// The memory of agents, and search in it.
    Memory,
    /// The life of a call.
    Engine,
    /// A family of tools.
    Tools,
    /// Outside names and shapes.
    Dialects,
    /// A wire protocol.
    Door,
    /// Requests to other servers on behalf of Handfast itself.
    Outward,
    /// The connections of cells.
    Egress,
    /// The protocol of a browser.
    DevTools,
    /// A browser, driven through its protocol.
    Browsing,
    /// Shared code of several tool families.
    Outgoing,
    /// Reports of calls to other systems.
    Telling,
    /// The composition of all crates.
    Product,
    /// The test kit.
    TestKit,
    /// The repository's own commands.
    Xtask,
}

use Layer::{
    Agents, Arithmetic, Browsing, Budgets, CodeFacts, CodeFactsProgram, CompilerIndexes, DevTools, Dialects,
    Door, Egress, Engine, GraphQueries, Interpreter, Jobs, Knowledge, LocalModels, Locks, Meaning, Mechanism,
    Memory, Models, Outgoing, Outward, Paths, PluginFolders, Policy, Product, Requests, Search, Settings,
    Store, StoreApi, Syntax, Telling, TestKit, Times, ToolServers, Tools, Vocabulary, Xtask,
};

/// The layer of every crate by name. `tools-*` match by their prefix.
const LAYERS: [(&str, Layer); 51] = [
    ("tool", Vocabulary),
    ("shell-syntax", Syntax),
    ("policy", Policy),
    ("store-api", StoreApi),
    ("store-sqlite", Store),
    ("store-conformance", TestKit),
    ("memory", Memory),
    ("jobs", Jobs),
    ("spending", Budgets),
    ("locks", Locks),
    ("config-edit", Settings),
    ("beneath", Paths),
    ("roots", Mechanism),
    ("sandbox", Mechanism),
    ("watch", Mechanism),
    ("checkpoint", Mechanism),
    ("database", Mechanism),
    ("retrieval", Search),
    ("cypher", GraphQueries),
    ("codegraph", CodeFacts),
    ("scip-index", CompilerIndexes),
    ("languages", CodeFactsProgram),
    ("simd", Arithmetic),
    ("embed-bert", Meaning),
    ("llm", Models),
    ("llm-local", LocalModels),
    ("mcp-client", ToolServers),
    ("plugins", PluginFolders),
    ("javascript", Interpreter),
    ("agents", Agents),
    ("knowledge", Knowledge),
    ("embed-http", Outgoing),
    ("edit", Mechanism),
    ("vault", Mechanism),
    ("engine", Engine),
    ("dialects", Dialects),
    ("door-mcp", Door),
    ("door-http", Door),
    ("door-csp", Door),
    ("fetch", Outward),
    ("forge", Requests),
    ("schedule", Times),
    ("egress", Egress),
    ("cdp", DevTools),
    ("browser", Browsing),
    ("tool-support", Outgoing),
    ("traces", Telling),
    ("handfast", Product),
    ("testkit", TestKit),
    ("xtask", Xtask),
    ("xtask-dist", Xtask),
];

/// Outside crates that only some crates may name, with the reason.
const OWNERS: [(&str, &[&str], &str); 14] = [
    ("rquickjs", &["javascript"], "an engine in C runs in a process of its own, and nothing else names it"),
    ("brush-parser", &["shell-syntax"], "one crate says what a line for the shell runs"),
    (
        "tree-sitter-bash",
        &["shell-syntax", "codegraph"],
        "one crate says what a line for the shell runs, and one what a script defines",
    ),
    (
        "rusqlite",
        &["store-sqlite", "database", "knowledge"],
        "one crate knows how SQLite holds the state, one crate opens the agent's own databases, and one keeps an index",
    ),
    ("rmcp", &["door-mcp"], "the door owns every wire type"),
    (
        "hyper",
        &["door-http", "fetch", "egress"],
        "the door owns every wire type, one crate asks other servers, and one carries what cells ask them",
    ),
    ("opentelemetry-proto", &["traces"], "one crate knows how traces are sent"),
    ("age", &["vault"], "one crate holds what opens the secrets"),
    ("landlock", &["sandbox"], "one crate sets up what confines a command"),
    ("seccompiler", &["sandbox"], "one crate sets up what confines a command"),
    (
        "tokio",
        &[
            "browser",
            "cdp",
            "egress",
            "embed-http",
            "engine",
            "door-mcp",
            "door-http",
            "door-csp",
            "traces",
            "fetch",
            "handfast",
            "mcp-client",
            "tools-code",
            "tools-mcp",
        ],
        "tools, policy and mechanisms know no async runtime",
    ),
    ("pulldown-cmark", &["knowledge"], "one crate cuts markdown"),
    ("clap", &["handfast", "xtask", "xtask-dist"], "a library reads no command line"),
    (
        "schemars",
        &["tool", "tools-*", "handfast", "policy", "dialects"],
        "schemas come from the tools' own types and those of the configuration, and a library's user writes tools",
    ),
];

/// Returns the layers that shipped code of a layer may name.
fn allowed(layer: Layer) -> &'static [Layer] {
    match layer {
        Vocabulary | StoreApi | Locks | Paths | Arithmetic | Search | Settings | Requests | Outward
        | DevTools | GraphQueries | Interpreter | Times | CompilerIndexes | Xtask => &[],
        Browsing => &[Vocabulary, Mechanism, DevTools],
        Mechanism => &[Locks, Paths],
        Store => &[StoreApi, Locks],
        Syntax | Dialects | Models | ToolServers => &[Vocabulary],
        CodeFacts => &[GraphQueries, CompilerIndexes],
        CodeFactsProgram => &[CodeFacts, Mechanism],
        PluginFolders => &[Vocabulary, Locks, Paths],
        Meaning => &[Search, Arithmetic],
        LocalModels => &[Vocabulary, Models, Arithmetic],
        Agents => &[Vocabulary, Models],
        Knowledge => &[Search],
        Memory => &[StoreApi, Search],
        Jobs => &[StoreApi, Times],
        Budgets => &[Vocabulary, StoreApi, Models],
        Policy => &[Vocabulary, Syntax],
        Egress => &[Outward],
        Engine => &[Vocabulary, Policy, StoreApi, Mechanism, Memory, Requests, Outward, Egress],
        Outgoing => &[Vocabulary, Mechanism, Search, Outward],
        Tools => &[
            Vocabulary,
            Mechanism,
            Knowledge,
            Memory,
            CodeFacts,
            GraphQueries,
            Browsing,
            Times,
            Jobs,
            Models,
            ToolServers,
            Budgets,
            Outward,
            Outgoing,
            PluginFolders,
        ],
        TestKit => &[Vocabulary, Policy, StoreApi, Mechanism],
        // Requests to an identity provider go through the client of the other crates.
        Door => &[Vocabulary, Engine, Dialects, Outward],
        Telling => &[Vocabulary, Engine, Outward],
        Product => &[
            Vocabulary,
            Policy,
            StoreApi,
            Store,
            Locks,
            Settings,
            Mechanism,
            Search,
            Meaning,
            Knowledge,
            Engine,
            Tools,
            Dialects,
            Door,
            Outward,
            Outgoing,
            Telling,
            Browsing,
            Times,
            Jobs,
            Models,
            LocalModels,
            ToolServers,
            PluginFolders,
            Interpreter,
            Agents,
            Budgets,
        ],
    }
}

/// Returns the layers that tests may name in addition: the test kit, and companion crates for
/// crates that only make sense together.
fn allowed_in_tests(layer: Layer) -> &'static [Layer] {
    match layer {
        Xtask => &[],
        // A door is tested with a real engine, and that needs the engine's parts.
        Door => &[TestKit, Policy, StoreApi, Store, Mechanism],
        // Search by meaning is tested with a model, the memory with a store, and the code graph with an index.
        Tools => &[TestKit, Search, Store, CompilerIndexes],
        Engine | Memory | Jobs | Budgets => &[TestKit, Store],
        // Times are tested with the firings that a store makes of them.
        Times => &[StoreApi, Store],
        Knowledge => &[TestKit, Meaning],
        // Egress is tested with cells, and its speed is measured with each connection's row in the audit.
        Egress => &[Mechanism, StoreApi, Store],
        _ => &[TestKit],
    }
}

fn layer_of(name: &str) -> Option<Layer> {
    let listed = LAYERS.iter().find(|(listed, _)| *listed == name).map(|(_, layer)| *layer);
    listed.or_else(|| name.starts_with("tools-").then_some(Tools))
}

/// Checks the edges within the workspace.
pub(super) fn inside(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &tree.packages {
        let place = format!("{}/Cargo.toml", package.name);
        let Some(layer) = layer_of(&package.name) else {
            found.push(Finding::file(&place, "its layer is unknown: name it in xtask/src/tidy/edges.rs"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.in_workspace) {
            let target = layer_of(&dependency.name);
            let below = target.is_some_and(|target| {
                allowed(layer).contains(&target)
                    || dependency.for_tests && allowed_in_tests(layer).contains(&target)
            });
            if !below {
                let (from, to) = (&package.name, &dependency.name);
                let whose = if dependency.for_tests { "the tests of " } else { "" };
                found.push(Finding::file(&place, format!("{whose}{from} may not name {to}")));
            }
        }
    }
    found
}

/// Checks the edges to outside crates that the architecture relies on. Tests may name any crate,
/// because they drive real peers.
pub(super) fn outside(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &tree.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.for_tests) {
            let owner = OWNERS.iter().find(|(name, ..)| *name == dependency.name);
            if let Some((name, owners, why)) = owner
                && !owners.iter().any(|owner| owns(owner, &package.name))
            {
                let message = format!("{name} belongs to {} alone: {why}", owners.join(", "));
                found.push(Finding::file(&format!("{}/Cargo.toml", package.name), message));
            }
        }
    }
    found
}

/// Reports dependencies that the workspace's `Cargo.toml` lists with a version and no crate uses.
pub(super) fn unused(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let stated = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.trim());
    let used = |name: &str| {
        let inside = tree.packages.iter().any(|package| package.name == name);
        inside || tree.packages.iter().flat_map(|package| &package.dependencies).any(|used| used.name == name)
    };
    let unused = stated.filter(|name| !name.starts_with('#') && !used(name));
    unused
        .map(|name| Finding::file("Cargo.toml", format!("states a version of {name}, which nothing uses")))
        .collect()
}

fn owns(owner: &str, package: &str) -> bool {
    owner.strip_suffix('*').map_or(owner == package, |prefix| package.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Dependency, Package};
    use crate::tidy::fixture::{inside as edge, outside as outer, package, tree};

    fn messages(check: fn(&Tree) -> Vec<Finding>, packages: Vec<Package>) -> Vec<String> {
        let mut tree = tree(&[]);
        tree.packages = packages;
        check(&tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_edges_of_the_architecture_are_allowed() {
        let good = vec![
            package("policy", &[edge("tool"), edge("shell-syntax")]),
            package(
                "engine",
                &[edge("policy"), edge("store-api"), edge("memory"), edge("tool"), edge("sandbox")],
            ),
            package(
                "store-sqlite",
                &[edge("store-api"), Dependency { for_tests: true, ..edge("store-conformance") }],
            ),
            package("tools-shell", &[edge("tool"), edge("sandbox")]),
            package("tools-web", &[edge("tool"), edge("fetch"), edge("tool-support")]),
            package("tool-support", &[edge("tool"), edge("vault"), edge("fetch")]),
            package("llm", &[edge("tool")]),
            package("llm-local", &[edge("llm"), edge("simd"), edge("tool")]),
            package("mcp-client", &[edge("tool")]),
            package(
                "door-mcp",
                &[edge("engine"), edge("tool"), Dependency { for_tests: true, ..edge("store-sqlite") }],
            ),
            package(
                "handfast",
                &[edge("door-mcp"), edge("engine"), edge("tools-shell"), edge("store-sqlite")],
            ),
            package("roots", &[Dependency { for_tests: true, ..edge("testkit") }]),
        ];
        assert_eq!(messages(inside, good), Vec::<String>::new());
    }

    #[test]
    fn every_other_edge_is_refused() {
        for (from, to) in [
            ("tools-files", "engine"),
            ("tools-files", "tools-shell"),
            ("tool-support", "tools-web"),
            ("tool-support", "engine"),
            ("fetch", "tool-support"),
            ("llm", "fetch"),
            ("llm", "vault"),
            ("llm", "llm-local"),
            ("llm-local", "fetch"),
            ("mcp-client", "fetch"),
            ("mcp-client", "sandbox"),
            ("door-mcp", "tools-files"),
            ("door-mcp", "door-http"),
            ("door-http", "door-mcp"),
            ("sandbox", "tool"),
            ("sandbox", "roots"),
            ("tool", "policy"),
            ("store-api", "tool"),
            ("store-sqlite", "retrieval"),
            ("policy", "store-api"),
            ("memory", "tool"),
            ("memory", "store-sqlite"),
            ("tools-data", "store-api"),
            ("engine", "store-sqlite"),
            ("shell-syntax", "policy"),
            ("engine", "shell-syntax"),
            ("engine", "tools-files"),
            ("engine", "handfast"),
            ("engine", "testkit"),
            ("xtask", "handfast"),
        ] {
            let found = messages(inside, vec![package(from, &[edge(to)])]);
            assert_eq!(found, [format!("{from} may not name {to}")]);
        }
    }

    #[test]
    fn tests_do_not_turn_the_layers_round() {
        let edge = Dependency { for_tests: true, ..edge("engine") };
        let found = messages(inside, vec![package("tools-files", &[edge])]);
        assert_eq!(found, ["the tests of tools-files may not name engine"]);
    }

    #[test]
    fn a_crate_of_unknown_layer_is_refused() {
        let found = messages(inside, vec![package("misc", &[])]);
        assert_eq!(found, ["its layer is unknown: name it in xtask/src/tidy/edges.rs"]);
    }

    #[test]
    fn a_stated_version_that_nothing_uses_is_refused() {
        let manifest = "[workspace.dependencies]\ntool = { path = \"crates/tool\" }\n# a comment = here\n\
                        serde = \"1\"\nsqlx = \"1\"\n\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n";
        let mut tree = tree(&[("Cargo.toml", manifest)]);
        tree.packages = vec![package("tool", &[outer("serde")])];
        assert_eq!(
            unused(&tree),
            [Finding::file("Cargo.toml", "states a version of sqlx, which nothing uses")]
        );
    }

    #[test]
    fn an_outside_crate_stays_with_its_owner() {
        let packages = vec![
            package("store-sqlite", &[outer("rusqlite")]),
            package("engine", &[outer("rusqlite")]),
            package("tools-files", &[outer("schemars"), outer("tokio")]),
        ];
        let found = messages(outside, packages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("rusqlite belongs to store-sqlite, database, knowledge alone"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("tokio belongs to browser, cdp, egress, embed-http, engine"),
            "{found:?}"
        );
    }
}
