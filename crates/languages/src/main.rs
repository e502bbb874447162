//! `handfast-languages`: the grammars that are too large for the main program, in a program of their own.
//!
//! Handfast starts it when the code graph has files of these languages. It greets, and then answers each request on
//! standard input with the facts of one file on standard output, until the input ends. `codegraph` has the messages.
//!
//! The texts that it parses are a stranger's. So before it reads the first one it gives up every right but
//! computing: it can open no file, reach no network and start no program.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use codegraph::{Greeting, Language, WireError, add_grammar, answer, read_message, write_message};

/// Version, which must be that of the main program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum size of the addresses of this process, in bytes. The tree of the largest file that is read takes half.
const MEMORY: u64 = 2 << 30;

/// Languages of this program.
const LANGUAGES: [Language; 2] = [Language::Cpp, Language::CSharp];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|word| word.to_str()) {
        Some("--version") => {
            said(writeln!(io::stdout(), "handfast-languages {VERSION}").map_err(WireError::from))
        }
        Some("--attempts") => attempts(true),
        Some("--attempts-unconfined") => attempts(false),
        Some(_) => usage(),
        None if io::stdin().is_terminal() => usage(),
        None => said(serve()),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "handfast-languages {VERSION} is a part of Handfast, which starts it: `handfast setup languages --from \
         PROGRAM` installs it. It reads requests from standard input."
    );
    ExitCode::from(2)
}

fn said(outcome: Result<(), WireError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("handfast-languages: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Gives up every right but computing.
fn confine() -> Result<(), WireError> {
    sandbox::only_compute(MEMORY).map_err(|error| WireError::Io(io::Error::other(error)))
}

/// Greets, and answers requests until the input ends.
fn serve() -> Result<(), WireError> {
    add_grammar(Language::Cpp, tree_sitter_cpp::LANGUAGE.into());
    add_grammar(Language::CSharp, tree_sitter_c_sharp::LANGUAGE.into());
    confine()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let greeting = Greeting::of_this_program(VERSION, LANGUAGES.to_vec());
    write_message(&mut output, &greeting.to_bytes()?)?;
    while let Some(request) = read_message(&mut input)? {
        write_message(&mut output, &answer(&request)?)?;
    }
    Ok(())
}

/// Attempts what a program that was taken over would do, and prints what came of each: for tests, and for whoever
/// wants to see it.
fn attempts(is_confined: bool) -> ExitCode {
    if is_confined && let Err(error) = confine() {
        return said(Err(error));
    }
    let outcome = |result: io::Result<()>| match result {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused: {}", error.raw_os_error().unwrap_or_default()),
    };
    let file = std::fs::File::open("/proc/self/status").map(drop);
    let new = std::env::temp_dir().join(format!("handfast-languages-{}", std::process::id()));
    let written = std::fs::File::create_new(&new).map(drop);
    let removed = std::fs::remove_file(&new);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map(drop);
    let thread = std::thread::Builder::new().spawn(|| ()).map(drop);
    let program = program();
    let lines = [
        ("open", file),
        ("create", written),
        ("remove", removed),
        ("socket", socket),
        ("thread", thread),
        ("program", program),
    ]
    .map(|(name, result)| format!("{name} {}\n", outcome(result)));
    said(io::stdout().write_all(lines.concat().as_bytes()).map_err(WireError::from))
}

#[expect(clippy::disallowed_methods, reason = "an attempt that must fail, and harmless where it does not")]
fn program() -> io::Result<()> {
    std::process::Command::new("/bin/true").status().map(drop)
}
