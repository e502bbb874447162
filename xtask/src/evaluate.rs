//! `cargo xtask eval`: runs the example of the crate `knowledge` that measures a collection, with
//! the installed model, that of the crate `codegraph` that compares call graphs, or that of `cypher` that compares answers.

mod oracles;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use crate::command::{Failure, Result, run as run_command};
use crate::repository::Repository;
use crate::setup;

/// Path of the model that `handfast setup embeddings` installs, relative to the base folder of states.
const MODEL: &str = "handfast/models/all-MiniLM-L6-v2";

/// Folder of the programs with known call graphs, relative to the repository.
const PROGRAMS: &str = "crates/codegraph/tests/fixtures/pycg";

/// The options of the task.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Options {
    /// Folder with corpus.jsonl, queries.jsonl and qrels/test.tsv
    #[arg(required = true)]
    folder: Option<PathBuf>,
    /// Folder of the model [default: the model that `handfast setup embeddings` installed]
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Another subject
    #[command(subcommand)]
    subject: Option<Subject>,
}

/// A subject that is not the search of knowledge.
#[derive(Debug, clap::Subcommand)]
enum Subject {
    /// Compares the calls of the code graph with known call graphs, edge by edge; fails below a
    /// precision of 0.95 or a recall of 0.80
    Graph {
        /// Folder with programs of Python, each with a callgraph.json in the layout of `PyCG`'s
        /// micro-benchmark [default: its copy in this repository]
        #[arg(long, value_name = "FOLDER")]
        corpus: Option<PathBuf>,
    },
    /// Compares the answers of the query engine with those of a second one (graphdblite), on random small graphs and
    /// random queries; fails if more than one in a thousand differs without a known reason. Needs pip
    Cypher {
        /// Number of graphs, with 20 queries each
        #[arg(long, default_value_t = 2_000)]
        graphs: usize,
        /// Number from which the graphs and queries follow
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Compares the calls of the code graph with those that TypeScript's own compiler and scip-python find in two
    /// packages each; fails below a precision of 0.95 or a recall of 0.70. Needs npm and pip; takes some minutes
    Oracles {
        /// Compares only this package
        #[arg(value_name = "PACKAGE", value_parser = PossibleValuesParser::new(oracles::names()))]
        package: Option<String>,
        /// Prints every call that is wrong or missing
        #[arg(long)]
        all: bool,
    },
}

/// Runs the evaluation. Without a model, search uses words only.
pub(crate) fn run(repository: &Repository, options: Options) -> Result<()> {
    let Options { folder, model, subject } = options;
    if let Some(Subject::Oracles { package, all }) = subject {
        return oracles::run(repository, package.as_deref(), all);
    }
    if let Some(Subject::Cypher { graphs, seed }) = subject {
        setup::install_python_tools(repository, "cypher", "cypher.txt", &[])?;
        let mut cargo = repository.cargo(&example("cypher", "compare"));
        cargo.arg(repository.test_tools().join("cypher/bin/python"));
        cargo.arg(repository.root.join("xtask/test-tools/cypher_peer.py"));
        return run_command(cargo.arg(graphs.to_string()).arg(seed.to_string()));
    }
    if let Some(Subject::Graph { corpus }) = subject {
        // Cargo runs in the repository, and the folder of a caller may be relative to another one.
        let corpus = match corpus {
            Some(corpus) => std::path::absolute(corpus)
                .map_err(|error| Failure(format!("cannot use the folder: {error}")))?,
            None => PathBuf::from(PROGRAMS),
        };
        return run_command(repository.cargo(&example("codegraph", "call_graph")).arg(corpus));
    }
    let arguments = example("knowledge", "retrieval_quality");
    run_command(repository.cargo(&arguments).args(folder).args(model.or_else(set_up)))
}

/// Returns the arguments of Cargo that run an example of a package.
fn example<'a>(package: &'a str, name: &'a str) -> [&'a str; 8] {
    ["run", "--release", "--quiet", "--package", package, "--example", name, "--"]
}

fn set_up() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(state.join(MODEL)).filter(|model| model.is_dir())
}
