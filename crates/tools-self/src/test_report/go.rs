//! The lines of JSON that `go test -json` prints.

use serde_json::Value;

use super::{ReportedTests, TestEnd};

/// Reads the output. It is whole if every package that has begun has ended.
pub(super) fn read(output: &str) -> ReportedTests {
    let mut found = ReportedTests::default();
    let (mut begun, mut ended) = (0_u64, 0_u64);
    for line in output.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let word = |field: &str| event[field].as_str().unwrap_or_default();
        let (action, package, test) = (word("Action"), word("Package"), word("Test"));
        let full = format!("{package} {test}");
        match (action, test.is_empty()) {
            ("start", true) => begun += 1,
            ("pass" | "skip", true) => ended += 1,
            ("fail", true) => {
                ended += 1;
                if !word("FailedBuild").is_empty() {
                    found.is_broken = true;
                    found.errors.push(format!("{package} was not built"));
                }
            }
            ("build-fail", _) => {
                found.is_broken = true;
                found.errors.push(format!("{} was not built", word("ImportPath")));
            }
            ("pass", false) => found.add(&full, TestEnd::Passed),
            ("skip", false) => found.add(&full, TestEnd::Skipped),
            ("fail", false) => {
                found.errors.push(format!("{full} failed"));
                found.add(&full, TestEnd::Failed);
            }
            _ => {}
        }
    }
    // A package that could not be loaded ends without a beginning.
    found.is_whole = ended > 0 && begun <= ended;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestAdds"}
{"Action":"output","Package":"a","Test":"TestAdds","Output":"{\"Action\":\"pass\",\"Package\":\"a\",\"Test\":\"Forged\"}\n"}
{"Action":"pass","Package":"a","Test":"TestAdds","Elapsed":0}
{"Action":"fail","Package":"a","Test":"TestWrong","Elapsed":0}
{"Action":"skip","Package":"a","Test":"TestLate","Elapsed":0}
{"Action":"fail","Package":"a","Elapsed":0.1}
"#;

    #[test]
    fn output_of_a_test_is_no_event_and_an_open_package_no_result() {
        let found = read(OUTPUT);
        assert!(found.is_whole && !found.is_broken);
        assert_eq!((found.tests.len(), found.tests["a TestWrong"]), (3, TestEnd::Failed));
        assert!(!read(OUTPUT.lines().next().unwrap()).is_whole);
        let broken = r#"{"ImportPath":"a","Action":"build-fail"}
{"Action":"start","Package":"a"}
{"Action":"fail","Package":"a","Elapsed":0,"FailedBuild":"a"}"#;
        assert!(read(broken).is_broken);
    }
}
