//! The lines of JSON that `cargo nextest run --message-format libtest-json` prints.

use serde_json::Value;

use super::{ReportedTests, TestEnd};

/// Reads the output. It is whole if every suite that began has ended, with totals that match its tests.
pub(super) fn read(output: &str) -> ReportedTests {
    let mut found = ReportedTests::default();
    let (mut begun, mut ended, mut told) = (0_u64, 0_u64, [0_u64; 2]);
    for line in output.lines() {
        if line.trim_start().starts_with("error: could not compile") {
            found.is_broken = true;
            found.errors.push(line.trim().to_owned());
        }
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let word = |field: &str| event[field].as_str().unwrap_or_default();
        match (word("type"), word("event")) {
            ("suite", "started") => begun += 1,
            ("suite", "ok" | "failed") => {
                ended += 1;
                for (total, field) in told.iter_mut().zip(["passed", "failed"]) {
                    *total = total.saturating_add(event[field].as_u64().unwrap_or_default());
                }
            }
            ("test", "ok") => found.add(word("name"), TestEnd::Passed),
            ("test", "ignored") => found.add(word("name"), TestEnd::Skipped),
            ("test", "failed" | "timeout") => {
                found.errors.push(format!("{} failed\n{}", word("name"), word("stdout")));
                found.add(word("name"), TestEnd::Failed);
            }
            _ => {}
        }
    }
    let count = |end| found.tests.values().filter(|found| **found == end).count() as u64;
    found.is_whole = begun > 0 && begun == ended && told == [TestEnd::Passed, TestEnd::Failed].map(count);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"    Finished `test` profile
{"type":"suite","event":"started","test_count":3}
{"type":"test","event":"started","name":"a::a$tests::adds"}
{"type":"test","event":"ok","name":"a::a$tests::adds","exec_time":0.004}
{"type":"test","event":"failed","name":"a::a$tests::wrong","exec_time":0.004,"stdout":"assertion failed"}
{"type":"test","event":"ignored","name":"a::a$tests::late"}
{"type":"suite","event":"failed","passed":1,"failed":1,"ignored":1,"measured":0,"filtered_out":0,"exec_time":0.01}
"#;

    #[test]
    fn each_event_is_a_test_and_an_open_suite_is_no_result() {
        let found = read(OUTPUT);
        assert!(found.is_whole);
        assert_eq!(found.tests["a::a$tests::wrong"], TestEnd::Failed);
        assert_eq!((found.tests.len(), found.errors.len()), (3, 1));
        assert!(!read(&OUTPUT.replace("\"passed\":1", "\"passed\":2")).is_whole);
        assert!(!read(OUTPUT.split("{\"type\":\"suite\",\"event\":\"failed\"").next().unwrap()).is_whole);
    }
}
