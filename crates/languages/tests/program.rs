//! The program as the main one runs it: it answers requests with facts, it survives what is no request, and it can do
//! nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

use std::io::Write;
use std::process::{Child, Command, Stdio};

use codegraph::{
    ExtractLimits, FileFacts, Gap, Greeting, LARGEST_MESSAGE, Language, Request, read_message, write_message,
};

fn start() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_handfast-languages"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Asks for the facts of texts, and returns them.
fn ask(texts: &[(Language, &[u8])], limits: &ExtractLimits) -> Vec<FileFacts> {
    let mut child = start();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let greeting = Greeting::from_bytes(&read_message(&mut output).unwrap().unwrap()).unwrap();
    assert!(greeting.fits(env!("CARGO_PKG_VERSION")) && !greeting.fits("0.0.0"));
    assert_eq!(greeting.languages, [Language::Cpp, Language::CSharp]);
    let mut found = Vec::new();
    for (language, text) in texts {
        let request = Request::new(*language, text, limits);
        write_message(&mut input, &request.to_bytes().unwrap()).unwrap();
        let answer = read_message(&mut output).unwrap().unwrap();
        found.push(request.read_answer(&answer).unwrap());
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    found
}

fn names(facts: &FileFacts) -> Vec<&str> {
    facts.definitions.iter().skip(1).map(|definition| facts.name(definition.name)).collect()
}

#[test]
fn both_languages_are_answered_by_one_run() {
    let cpp = b"namespace a { class Box { public: int size() { return 1; } }; }\n";
    let csharp =
        b"namespace A { class Cart { int Total() { return Price(); } int Price() { return 3; } } }\n";
    let found = ask(
        &[
            (Language::Cpp, cpp),
            (Language::CSharp, csharp),
            (Language::Cpp, b""),
            (Language::Cpp, b"\xff\0((("),
        ],
        &ExtractLimits::default(),
    );
    assert_eq!(names(&found[0]), ["a", "Box", "size"]);
    assert_eq!(names(&found[1]), ["A", "Cart", "Total", "Price"]);
    assert!(names(&found[2]).is_empty());
    assert!(found.iter().all(|facts| facts.gap.is_none()));
}

#[test]
fn the_limits_of_the_request_hold() {
    let limits = ExtractLimits { bytes: 10, ..ExtractLimits::default() };
    assert_eq!(ask(&[(Language::Cpp, b"int f() { return 1; }")], &limits)[0].gap, Some(Gap::TooLarge));
    let limits = ExtractLimits { work_per_byte: 1, ..ExtractLimits::default() };
    let text = b"x = a(b)(c)(d);\n".repeat(2_000);
    assert_eq!(ask(&[(Language::CSharp, &text)], &limits)[0].gap, Some(Gap::TooMuchWork));
}

#[test]
fn a_language_of_the_main_program_is_no_business_of_this_one() {
    let mut child = start();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    read_message(&mut output).unwrap().unwrap();
    let request = Request::new(Language::Go, b"package a\n", &ExtractLimits::default());
    write_message(&mut input, &request.to_bytes().unwrap()).unwrap();
    let answer = read_message(&mut output).unwrap().unwrap();
    // A build of the whole workspace has the other grammars in this program, too.
    assert!(answer.is_empty() || request.read_answer(&answer).is_ok());
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_is_no_request_ends_the_program_with_a_message() {
    let too_long = u32::try_from(LARGEST_MESSAGE + 1).unwrap().to_le_bytes();
    for bytes in [&too_long[..], &[4, 0, 0, 0, 255, 255, 255, 255], &[9, 0, 0, 0, 1]] {
        let mut child = start();
        let mut output = child.stdout.take().unwrap();
        read_message(&mut output).unwrap().unwrap();
        // The program may have ended already.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{bytes:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("message"), "{bytes:?}");
    }
}

#[test]
fn the_program_can_do_nothing_but_compute() {
    let attempts = |mode: &str| {
        let ran = Command::new(env!("CARGO_BIN_EXE_handfast-languages")).arg(mode).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let eperm = "refused: 1";
    let names = ["open", "create", "remove", "socket", "thread", "program"];
    let expected = |outcome: &str| names.map(|name| format!("{name} {outcome}\n")).concat();
    assert_eq!(attempts("--attempts"), expected(eperm));
    assert_eq!(attempts("--attempts-unconfined"), expected("done"), "each attempt works without the bounds");
}

#[test]
fn a_person_is_told_what_the_program_is() {
    let run = |word: &str| Command::new(env!("CARGO_BIN_EXE_handfast-languages")).arg(word).output().unwrap();
    let version = run("--version");
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("handfast-languages {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = run("--help");
    assert_eq!(help.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&help.stderr).contains("handfast setup languages"));
}
