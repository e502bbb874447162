//! Builds the static programs, with a C compiler that needs no installation on the machine.
//!
//! SQLite, tree-sitter, zstd and `ring` have parts in C. Zig compiles them for every target, so one pinned Python
//! package is the whole cross-compiler. Rust's own linker makes the program, because Zig's makes none that the kernel
//! can load at a random address (static-pie).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::artefacts::sha256;
use crate::command::{Failure, Result, capture, probe, read, remove_folder, run, write};
use crate::product::Product;
use crate::program::Program;
use crate::target::Target;

/// Profile of `Cargo.toml` for programs that are shipped.
const PROFILE: &str = "dist";
/// Packages and their programs.
const HANDFAST: (&str, &str) = ("handfast", "handfast");
const LANGUAGES: (&str, &str) = ("languages", crate::product::LANGUAGES);
/// Variable by which the main program learns the hash of the one with further languages.
const HASH_VARIABLE: &str = "HANDFAST_LANGUAGES_SHA256";
/// Keeps one of several functions with equal code. Nothing here tells functions apart by their addresses.
const EQUAL_FUNCTIONS_ONCE: &str = "-Clink-arg=--icf=all";
/// Largest size of a program. The aim is 32 MiB; docs/TRIED.md says where the rest goes.
const LARGEST: usize = 56 << 20;

/// Builds the programs for these targets.
pub(crate) fn all(product: &Product, targets: &[Target]) -> Result<Vec<Program>> {
    let tools = install_tools(product)?;
    targets.iter().map(|target| both(product, &tools, *target)).collect()
}

/// Builds the program with further languages, and then the main one, which knows its hash.
fn both(product: &Product, tools: &Path, target: Target) -> Result<Program> {
    install_target(target)?;
    let languages = one(product, tools, target, (LANGUAGES, None))?;
    let hash = sha256(&languages.bytes);
    let program = one(product, tools, target, (HANDFAST, Some(hash)))?;
    Ok(Program { languages: Some(languages.bytes), ..program })
}

/// Builds a program, which gets the hash of the other one.
fn one(
    product: &Product,
    tools: &Path,
    target: Target,
    ((package, name), hash): ((&str, &str), Option<String>),
) -> Result<Program> {
    // The subcommand of the same name passes its last argument to the link of the program alone.
    let mut cargo = Command::new(tools.join("bin/cargo-zigbuild"));
    cargo.current_dir(&product.root).args(["rustc", "--locked", "--package", package, "--bin", name]);
    if let Some(hash) = hash {
        cargo.env(HASH_VARIABLE, hash);
    }
    cargo.args(["--profile", PROFILE, "--target", target.triple(), "--", EQUAL_FUNCTIONS_ONCE]);
    let linker = format!("CARGO_TARGET_{}_LINKER", target.triple().to_uppercase().replace('-', "_"));
    cargo.env(linker, "rust-lld");
    for (name, value) in environment(product, tools)? {
        cargo.env(name, value);
    }
    run(&mut cargo)?;
    let path = product.build_folder.join(target.triple()).join(PROFILE).join(name);
    let program = Program::read(&path, name, product)?;
    let (size, path) = (program.bytes.len(), path.display());
    if !program.is_static {
        return Err(Failure(format!("{path} needs libraries of the system, so it would not run everywhere")));
    }
    if size > LARGEST {
        return Err(Failure(format!("{path} has {size} bytes, more than the promised {LARGEST}")));
    }
    Ok(program)
}

/// Returns the variables of the build. They keep the paths of this machine out of the program.
fn environment(product: &Product, tools: &Path) -> Result<[(&'static str, OsString); 4]> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let home = home.ok_or_else(|| Failure::new("set CARGO_HOME or HOME"))?;
    let (root, home) = (product.root.display(), home.display());
    let rust: [String; 4] = [
        format!("--remap-path-prefix={root}=/build/handfast"),
        format!("--remap-path-prefix={home}=/build/cargo"),
        "-Ctarget-feature=+crt-static".to_owned(),
        // Without it, the addresses that a static-pie program corrects at its start take 3 MB of the file.
        "-Clink-arg=-zpack-relative-relocs".to_owned(),
    ];
    let c = format!("-ffile-prefix-map={root}=/build/handfast -ffile-prefix-map={home}=/build/cargo");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).map_err(|error| Failure(format!("cannot set PATH: {error}")))?;
    Ok([
        // Flags in this form may contain spaces.
        ("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f").into()),
        ("CFLAGS", c.into()),
        ("CARGO_INCREMENTAL", "0".into()),
        ("PATH", path),
    ])
}

/// Installs the pinned tools into a venv, and returns its folder.
fn install_tools(product: &Product) -> Result<PathBuf> {
    let list = product.root.join("xtask/dist/tools.txt");
    let folder = product.build_folder.join("dist-tools");
    let (stamp, pins) = (folder.join("installed-pins"), read(&list)?);
    let python = folder.join("bin/python");
    let works = probe(Command::new(&python).args(["-m", "ziglang", "version"]));
    if works && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(folder);
    }
    remove_folder(&folder)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "-r"];
    run(Command::new(&python).args(pip).arg(&list))?;
    // The stamp is written last, so an interrupted installation never counts as complete.
    write(&stamp, &pins)?;
    Ok(folder)
}

/// Installs Rust's standard library for a target.
fn install_target(target: Target) -> Result<()> {
    let folder =
        capture(Command::new("rustc").args(["--print", "target-libdir", "--target", target.triple()]))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", target.triple()])).map_err(|failure| {
        Failure(format!("{failure}\nThe Rust toolchain lacks the standard library for {target}; install it"))
    })
}
