//! `cargo xtask dist`: the artefacts of a release.
//!
//! Builds a static program for each target, packs it in every form, and installs and tries the
//! artefacts of this machine's architecture. Equal commits give equal bytes: times come from the
//! commit, entries are sorted and belong to root, and no path of this machine gets into the program.
//!
//! This is a crate of its own, so that the other commands of `cargo xtask` build without compressors.
//! It publishes nothing. It writes only below cargo's build folder, or to the folder of `--out`.

#![allow(
    clippy::disallowed_methods,
    reason = "these commands drive cargo, pip, npm and dpkg; the rules that keep programs and the environment out of \
              the product's libraries do not concern them"
)]

mod archive;
mod artefacts;
mod clean_root;
#[allow(dead_code, reason = "this crate does not use every function")]
#[path = "../../src/command.rs"]
mod command;
mod compile;
mod deb;
mod licences;
mod npm;
mod packages;
mod product;
mod program;
mod sbom;
mod target;
mod texts;
mod trial;
mod wheel;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::command::{Failure, Result, remove_folder};
use crate::product::{LANGUAGES, NAME, Product};
use crate::program::Program;
use crate::target::Target;

/// Makes the artefacts of a release, and tries those of this machine's architecture.
#[derive(Parser)]
#[command(name = "cargo xtask dist", bin_name = "cargo xtask dist")]
struct Arguments {
    /// Architecture to build for; may be given several times
    #[arg(long = "target", value_name = "TARGET", default_values_t = Target::ALL)]
    targets: Vec<Target>,
    /// Packs this program of this machine's architecture instead of building one
    #[arg(long, value_name = "PATH", conflicts_with = "targets")]
    binary: Option<PathBuf>,
    /// Packs this program with further languages, too
    #[arg(long, value_name = "PATH", requires = "binary")]
    languages: Option<PathBuf>,
    /// Folder for the artefacts; must be empty or missing [default: target/artefacts, which is emptied]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Compresses less, to try the packaging itself
    #[arg(long)]
    quick: bool,
    /// Installs and tries nothing
    #[arg(long)]
    no_trial: bool,
    /// Installs the artefacts in a clean root without Rust and network, and follows the read-me there. Uses the
    /// artefacts that the folder has already. Needs root or `sudo`, and `debootstrap`; takes minutes
    #[arg(long, conflicts_with = "no_trial")]
    clean_root: bool,
    /// Runs the program of the other architecture there, too, by QEMU 10 or newer (`qemu-user`)
    #[arg(long, requires = "clean_root")]
    emulated: bool,
    /// Builds from a checkout with changes that are not committed
    #[arg(long)]
    allow_dirty: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask dist: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let product = Product::of_this_checkout()?;
    let chosen = arguments.out.clone().unwrap_or_else(|| product.build_folder.join("artefacts"));
    if !arguments.clean_root {
        return make(&product, arguments);
    }
    if chosen.join("SHA256SUMS").is_file() {
        eprintln!("uses the artefacts in {}", chosen.display());
    } else {
        make(&product, arguments)?;
    }
    print(&clean_root::try_all(&product, &chosen, arguments.emulated)?.join("\n"))
}

/// Makes the artefacts, and tries those of this machine's architecture.
fn make(product: &Product, arguments: &Arguments) -> Result<()> {
    let programs = match &arguments.binary {
        Some(path) => {
            let mut program = Program::read(path, NAME, product)?;
            if let Some(path) = &arguments.languages {
                program.languages = Some(Program::read(path, LANGUAGES, product)?.bytes);
            }
            vec![program]
        }
        None => {
            if !arguments.allow_dirty {
                product.check_committed()?;
            }
            compile::all(product, &arguments.targets)?
        }
    };
    let out = empty_folder(product, arguments.out.as_deref())?;
    let compression = if arguments.quick { flate2::Compression::fast() } else { flate2::Compression::best() };
    let artefacts = artefacts::write_all(product, &programs, &out, compression)?;
    let tried = if arguments.no_trial { Vec::new() } else { trial::all(product, &artefacts)? };
    let summary = artefacts::summary(&artefacts, &tried);
    print(&format!("{summary}\nin {}", out.display()))
}

fn print(summary: &str) -> Result<()> {
    let printed = writeln!(std::io::stdout(), "{summary}");
    printed.map_err(|error| Failure::new(format!("the summary cannot be printed: {error}")))
}

/// Returns the folder for the artefacts, which exists and is empty.
fn empty_folder(product: &Product, chosen: Option<&Path>) -> Result<PathBuf> {
    let folder = match chosen {
        Some(folder) => folder.to_owned(),
        None => {
            let folder = product.build_folder.join("artefacts");
            remove_folder(&folder)?;
            folder
        }
    };
    let failed =
        |error: std::io::Error| Failure(format!("cannot use the folder {}: {error}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(failed)?;
    if std::fs::read_dir(&folder).map_err(failed)?.next().is_some() {
        let folder = folder.display();
        return Err(Failure(format!("the folder {folder} is not empty; name a new one with --out")));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Arguments::command().debug_assert();
    }
}
