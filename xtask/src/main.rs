//! The repository's own commands, run as `cargo xtask NAME`.
//!
//! `test` is the one test command: it sets the machine up and then runs everything that must hold.
//! `tidy` holds the rules that the compiler cannot see, `docs` writes the generated pages, `bench` prints speed and
//! memory beside those of a peer, `soak` calls and kills many processes for hours.
//!
//! It does not ship, and no crate of the product knows it.
//! It keeps no state but what lies under `target/`, and but for `soak` handles no signal: Ctrl-C reaches the running child and this
//! process alike, and whatever was half installed is installed again the next time.

#![allow(
    clippy::disallowed_methods,
    reason = "these commands drive cargo, apt, npm and the built binary; the rules that keep programs and the \
              environment out of the product's libraries do not concern them"
)]

mod bench;
mod command;
mod docs;
mod evaluate;
mod repository;
mod setup;
mod soak;
mod steps;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command::Result;
use crate::repository::Repository;

/// The repository's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what the tests need and runs everything that must hold, in order, up to the first failure
    #[command(after_help = steps::list())]
    Test {
        /// Runs this one step alone
        #[arg(long, value_name = "NAME", value_parser = steps::names())]
        step: Option<String>,
    },
    /// Holds the repository's own rules: crate edges, file sizes, examples, names
    #[command(after_help = tidy::list())]
    Tidy,
    /// Writes `docs/tools/` from what `handfast tools --json` prints
    Docs {
        /// Writes nothing, and fails where a page differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Measures how good the search of knowledge is on a collection in BEIR's layout: by words, vectors, both, and both half-made
    #[command(alias = "evaluate")]
    Eval {
        /// The folder with corpus.jsonl, queries.jsonl and qrels/test.tsv
        folder: PathBuf,
        /// The folder of the model [default: what `handfast setup embeddings` has got]
        #[arg(long, value_name = "FOLDER")]
        model: Option<PathBuf>,
    },
    /// Measures the release binary and a peer side by side, and prints figures and ratios; fails on no figure
    Bench {
        /// Measures this binary instead of building one
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
        /// Takes a tenth of the samples, to try the benchmark itself
        #[arg(long)]
        quick: bool,
        /// Measures this part alone
        #[arg(long, value_name = "PART")]
        only: Option<bench::Part>,
    },
    /// Calls, kills and restarts many processes for hours, with every answer checked; `--quick` takes a minute
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let repository = Repository::of_this_build()?;
    match task {
        Task::Test { step } => steps::run(&repository, step.as_deref()),
        Task::Tidy => tidy::run(&repository),
        Task::Docs { check } => docs::run(&repository, check),
        Task::Eval { folder, model } => evaluate::run(&repository, &folder, model),
        Task::Bench { binary, quick, only } => bench::run(&repository, binary.as_deref(), quick, only),
        Task::Soak(options) => soak::run(&repository, options),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_bare_call_lists_every_command() {
        let help = Arguments::command().render_help().to_string();
        for name in ["test", "tidy", "docs", "eval", "bench", "soak"] {
            assert!(help.contains(name), "{name} is missing from:\n{help}");
        }
    }
}
