//! The text that test programs of Rust print, as `cargo test` passes it on.

use std::sync::LazyLock;

use regex::Regex;

use super::{ReportedTests, TestEnd};

/// Line of a test: `test name ... ok`.
static TEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:,.*| <.*>)?$").ok());
/// Line that begins the tests of one program.
static PROGRAM: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s+(?:Running (?:unittests )?(\S+) \(.*\)|Doc-tests (\S+))\s*$").ok());
/// Line that ends the tests of one program, with its counts.
static COUNTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored;").ok()
});

/// Reads the output. It is whole if every program has ended with counts that match its lines.
pub(super) fn read(output: &str) -> ReportedTests {
    let mut found = ReportedTests::default();
    let (Some(test), Some(program), Some(counts)) = (&*TEST, &*PROGRAM, &*COUNTS) else { return found };
    let (mut name, mut seen, mut open, mut programs, mut agrees) =
        (String::new(), [0_u64; 3], false, 0_u64, true);
    // The output of failed tests follows their lines, and can look like them.
    let mut lists = false;
    for line in output.lines() {
        if let Some(begins) = program.captures(line) {
            agrees &= !open;
            begins.get(1).or(begins.get(2)).map_or("", |part| part.as_str()).clone_into(&mut name);
            (seen, open) = ([0; 3], true);
        } else if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            lists = true;
        } else if ["failures:", "successes:"].contains(&line) {
            lists = false;
        } else if let Some(ended) = test.captures(line).filter(|_| lists) {
            let (index, end) = match ended.get(2).map(|word| word.as_str()) {
                Some("ok") => (0, TestEnd::Passed),
                Some("ignored") => (2, TestEnd::Skipped),
                _ => (1, TestEnd::Failed),
            };
            if let Some(count) = seen.get_mut(index) {
                *count += 1;
            }
            let test = ended.get(1).map_or("", |part| part.as_str());
            let test = test.strip_suffix(" - should panic").unwrap_or(test);
            let full = if name.is_empty() { test.to_owned() } else { format!("{name} {test}") };
            if end == TestEnd::Failed {
                found.errors.push(format!("{full} failed"));
            }
            found.add(&full, end);
        } else if let Some(ended) = counts.captures(line) {
            let told = [1, 2, 3].map(|at| ended.get(at).and_then(|n| n.as_str().parse::<u64>().ok()));
            agrees &= told == seen.map(Some);
            (seen, open, lists) = ([0; 3], false, false);
            programs += 1;
        } else if line.starts_with("error: could not compile")
            || line.starts_with("error: failed to parse manifest")
        {
            found.is_broken = true;
            found.errors.push(line.to_owned());
        } else if (line.starts_with("error[") || line.starts_with("error: ")) && programs == 0 {
            found.errors.push(line.to_owned());
        }
    }
    found.is_whole = agrees && !open && programs > 0;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling a v0.1.0 (/w)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.43s
     Running unittests src/lib.rs (target/debug/deps/a-0123456789abcdef)

running 3 tests
test tests::adds ... ok
test tests::late ... ignored, slow
test tests::wrong - should panic ... FAILED

failures:

---- tests::wrong stdout ----
test forged ... ok

failures:
    tests::wrong

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests a

running 1 test
test src/lib.rs - add (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.12s
";

    #[test]
    fn counts_come_from_lines_that_agree_with_the_totals() {
        let found = read(OUTPUT);
        assert!(found.is_whole && !found.is_broken);
        let names: Vec<(&str, TestEnd)> = found.tests.iter().map(|(name, end)| (&**name, *end)).collect();
        assert_eq!(
            names,
            [
                ("a src/lib.rs - add (line 3)", TestEnd::Passed),
                ("src/lib.rs tests::adds", TestEnd::Passed),
                ("src/lib.rs tests::late", TestEnd::Skipped),
                ("src/lib.rs tests::wrong", TestEnd::Failed),
            ]
        );
        assert!(!read(&OUTPUT.replace("1 passed; 1 failed", "2 passed; 1 failed")).is_whole);
        assert!(!read(OUTPUT.split("test result: ok").next().unwrap()).is_whole, "cut off");
        let forged = OUTPUT.replace("running 1 test\n", "running 1 test\ntest more ... ok\n");
        assert!(!read(&forged).is_whole, "a printed line is no test");
    }

    #[test]
    fn a_broken_build_is_no_result() {
        let found = read(
            "error[E0425]: cannot find value `x`\n --> src/lib.rs:1:1\nerror: could not compile `a` (lib)\n",
        );
        assert!(found.is_broken && !found.is_whole && found.tests.is_empty());
        assert_eq!(found.errors.len(), 2);
    }
}
