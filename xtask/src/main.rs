//! The repository's own commands, run as `cargo xtask NAME`.
//!
//! `test` is the one test command: it sets the machine up and then runs all checks. `tidy` checks
//! the rules that the compiler cannot see. `docs` writes the generated pages. `extension` compiles the
//! browser extension. `new-tool` adds a tool to a family. `dist` makes the artefacts of a release; it is the crate `xtask-dist`, because it needs compressors that
//! the other commands need not wait for. `bench` prints speed and memory compared with a peer. `soak` calls and kills many
//! processes for hours. `clients` attaches agent clients to the built binary and drives them.
//!
//! This crate does not ship, and no crate of the product depends on it. Its only state lies under
//! `target/`. Except in `soak`, no signal is handled: Ctrl-C reaches the running child and this
//! process alike. An interrupted installation is repeated next time.

#![allow(
    clippy::disallowed_methods,
    reason = "these commands drive cargo, apt, npm and the built binary; the rules that keep programs and the \
              environment out of the product's libraries do not concern them"
)]

mod bench;
mod clients;
mod command;
mod docs;
mod evaluate;
mod extension;
mod new_tool;
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
    /// Installs what the tests need and runs all checks in order, up to the first failure; with a
    /// crate, runs only the checks of this crate
    #[command(after_help = steps::list())]
    Test {
        /// Runs the format check, clippy and the tests of this crate, without set-up
        #[arg(value_name = "CRATE", conflicts_with = "step")]
        package: Option<String>,
        /// Runs only this step
        #[arg(long, value_name = "NAME", value_parser = steps::names())]
        step: Option<String>,
    },
    /// Checks the repository's own rules: crate edges, file sizes, examples, names
    #[command(after_help = tidy::list())]
    Tidy,
    /// Writes `docs/tools/`, the page of the configuration, its schema, and the description of the HTTP API
    Docs {
        /// Writes nothing, and fails if a page differs from the generated one
        #[arg(long)]
        check: bool,
    },
    /// Compiles the browser extension from TypeScript, and writes its scripts to `extension/js`
    Extension {
        /// Writes nothing, and fails if a script differs from the compiled one
        #[arg(long)]
        check: bool,
    },
    /// Adds a tool to a family: a file that passes every check, and its place in the family's list
    NewTool {
        /// Family, such as `files` for crates/tools-files
        family: String,
        /// Name of the tool, such as `file_read`
        name: String,
    },
    /// Makes the artefacts of a release: builds, packs, installs and tries them; `--help` lists its options
    #[command(disable_help_flag = true)]
    Dist {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
        options: Vec<String>,
    },
    /// Measures the search quality of knowledge on a collection in BEIR's layout: by words, by
    /// vectors, by both, and by both with half of the vectors; `eval graph` and `eval oracles`
    /// measure the code graph
    #[command(alias = "evaluate")]
    Eval(evaluate::Options),
    /// Measures the release binary and a peer side by side, and prints figures and ratios; fails on
    /// no figure
    Bench {
        /// Measures this binary instead of building one
        #[arg(long, value_name = "PATH")]
        binary: Option<PathBuf>,
        /// Takes a tenth of the samples, to try the benchmark itself
        #[arg(long)]
        quick: bool,
        /// Measures only this part
        #[arg(long, value_name = "PART")]
        only: Option<bench::Part>,
    },
    /// Calls, kills and restarts many processes for hours, and checks every answer; `--quick` takes
    /// a minute
    Soak(soak::Options),
    /// Attaches agent clients from npm to the release binary, drives them with a scripted model, and
    /// checks what happened; takes about a quarter of an hour
    Clients(clients::Options),
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
        Task::Test { package: Some(name), .. } => steps::run_crate(&repository, &name),
        Task::Test { package: None, step } => steps::run(&repository, step.as_deref()),
        Task::Tidy => tidy::run(&repository),
        Task::Docs { check } => docs::run(&repository, check),
        Task::Extension { check } => extension::run(&repository, check),
        Task::NewTool { family, name } => new_tool::add(&repository, &family, &name),
        Task::Dist { options } => {
            let line = ["run", "--quiet", "--locked", "--package", "xtask-dist", "--"];
            command::run(repository.cargo(&line).args(options))
        }
        Task::Eval(options) => evaluate::run(&repository, options),
        Task::Bench { binary, quick, only } => bench::run(&repository, binary.as_deref(), quick, only),
        Task::Soak(options) => soak::run(&repository, options),
        Task::Clients(options) => clients::run(&repository, &options),
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
        for name in ["test", "tidy", "docs", "new-tool", "dist", "eval", "bench", "soak", "clients"] {
            assert!(help.contains(name), "{name} is missing from:\n{help}");
        }
    }
}
