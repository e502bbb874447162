//! Tests of several processes on one index, some of which are killed.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use knowledge::Mode;

use crate::base::{Base, Folder, index, sync};

/// Mode of the searches: a model would find any chunk similar to any query.
const WORDS: Option<Mode> = Some(Mode::Keyword);

/// Environment variable that makes a process of this test program an indexing worker.
const WORK: &str = "KNOWLEDGE_TEST_FOLDER";

/// The worker process: indexes and embeds the base, and reports its beginning and end.
#[test]
fn a_process_that_indexes() {
    let Some(folder) = std::env::var_os(WORK) else { return };
    let folder = Path::new(&folder);
    let shelf = Folder { root: folder.join("knowledge"), denied: Vec::new() };
    let index = index(&folder.join("index"), Some("m"));
    eprintln!("begun");
    sync(&index, &shelf, false, None).unwrap();
    index.embed(&|| false, &|_, _| {}).unwrap();
    eprintln!("done");
}

fn start(base: &Base) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["processes::a_process_that_indexes", "--exact", "--nocapture"])
        .env(WORK, base.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut said, "begun");
    (child, said)
}

fn wait_for(said: &mut impl BufRead, word: &str) {
    let found = said.lines().map(Result::unwrap).any(|line| line == word);
    assert!(found, "it ended without saying {word}");
}

/// Checks that every file has all of its sections or none, and that each section is found.
fn check(base: &Base, files: usize, sections: usize) {
    base.sync();
    base.embed();
    for file in 0..files {
        let word = format!("word{file}x");
        let hits = base.found(&word, WORDS).hits;
        assert_eq!(hits.len(), sections.min(10), "{word}");
    }
    assert_eq!(base.sync().files_indexed, 0);
}

fn write(base: &Base, files: usize, sections: usize, round: usize) {
    for file in 0..files {
        let text: String =
            (0..sections).map(|n| format!("# S{n}\n\nword{file}x round{round}y\n\n")).collect();
        base.write(&format!("{file}.md"), text);
    }
}

#[test]
fn a_process_that_is_killed_leaves_every_file_whole_or_as_it_was() {
    let base = Base::with_model(Some("m"));
    for round in 0..6 {
        write(&base, 400, 5, round);
        let (mut child, _said) = start(&base);
        // Kill the worker later in each round, measured by the files of this round in the index.
        let wanted = round * 60;
        let query = format!("round{round}y");
        while base.found(&query, WORDS).hits.len() * 40 < wanted && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        // Each file is of this round or of the previous one, never a mixture.
        for file in 0..400 {
            let hits = base.found(&format!("word{file}x"), WORDS).hits;
            let now = hits.iter().filter(|hit| hit.content.contains(&query)).count();
            assert!(hits.is_empty() || hits.len() == 5, "{file}: {}", hits.len());
            assert!(now == 0 || now == 5, "{file}: {now} of 5 are new");
        }
    }
    check(&base, 400, 5);
}

#[test]
fn two_processes_that_index_at_once_lose_nothing() {
    let base = Base::with_model(Some("m"));
    for round in 0..3 {
        write(&base, 300, 4, round);
        let mut all = [start(&base), start(&base), start(&base)];
        for (child, said) in &mut all {
            wait_for(said, "done");
            assert!(child.wait().unwrap().success());
        }
        check(&base, 300, 4);
        assert_eq!(base.found(&format!("round{round}y"), WORDS).hits.len(), 10);
    }
}

/// Environment variables of a worker that reports its peak memory, and that additionally allocates
/// the size of a large file.
const MEASURED: &str = "KNOWLEDGE_TEST_MEASURED";
const HOLDS: &str = "KNOWLEDGE_TEST_HOLDS";

/// Size of a large file in bytes.
const SIZE: usize = 100_000_000;

/// The measuring process: indexes the base and reports its peak memory in KiB.
#[test]
fn a_process_that_says_its_memory() {
    let Some(folder) = std::env::var_os(MEASURED) else { return };
    let folder = Path::new(&folder);
    let held = std::env::var_os(HOLDS).map(|_| vec![1_u8; SIZE]);
    let shelf = Folder { root: folder.join("knowledge"), denied: Vec::new() };
    let synced = sync(&index(&folder.join("index"), None), &shelf, true, None).unwrap();
    assert_eq!(synced.files_indexed, 1);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    eprintln!("{} KiB", most.trim().trim_end_matches(" kB"));
    drop(held);
}

/// Returns the peak memory of a process that indexes this text, in MiB.
fn memory(text: &str, holds: bool) -> u64 {
    let base = Base::new();
    base.write("a.md", text);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["processes::a_process_that_says_its_memory", "--exact", "--nocapture"])
        .env(MEASURED, base.folder.path());
    if holds {
        command.env(HOLDS, "1");
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let kib = said.lines().find_map(|line| line.strip_suffix(" KiB")).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

#[test]
fn a_hundred_megabytes_are_indexed_in_bounded_memory_with_and_without_headings_or_lines() {
    let paragraph = "What is said of the tide here is said again and again, in the same words. ".repeat(13);
    let short = format!("# One\n\n{paragraph}\n");
    let (small, control) = (memory(&short, false), memory(&short, true));
    assert!(control > small + 90, "what is held shows: {control} MiB, {small} MiB");
    let mut sections = String::with_capacity(SIZE + 2_000);
    while sections.len() < SIZE {
        let number = sections.len();
        write!(sections, "## Part {number}\n\n{paragraph}\n\n").unwrap();
    }
    let with_headings = memory(&sections, false);
    drop(sections);
    let one_line = memory(&paragraph.repeat(SIZE / paragraph.len()), false);
    for (what, most) in [("sections", with_headings), ("one line", one_line)] {
        assert!(most < small + 50, "{what}: {most} MiB, and {small} MiB for a small file");
    }
}
