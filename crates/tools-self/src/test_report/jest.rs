//! The JSON report of Jest, which Vitest writes too.

use serde_json::Value;

use super::{ReportedTests, TestEnd};

/// Reads the report. It is whole if its total matches its tests.
pub(super) fn read(report: &str) -> ReportedTests {
    let mut found = ReportedTests::default();
    let Ok(report) = serde_json::from_str::<Value>(report) else { return found };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for file in list(&report["testResults"]) {
        let path = file["name"].as_str().unwrap_or_default();
        // Both runs of a trial have their files in a folder of this name.
        let name = path.rsplit_once("/.handfast-trial/").map_or(path, |(_, below)| below);
        let tests = list(&file["assertionResults"]);
        if tests.is_empty() && file["status"] == "failed" {
            found.is_broken = true;
            let message = file["message"].as_str().unwrap_or_default();
            found.errors.push(format!("{name} did not run: {message}"));
        }
        for test in tests {
            let full = format!("{name} {}", test["fullName"].as_str().unwrap_or_default());
            let end = match test["status"].as_str() {
                Some("passed") => TestEnd::Passed,
                Some("failed") => TestEnd::Failed,
                _ => TestEnd::Skipped,
            };
            if end == TestEnd::Failed {
                let messages = list(&test["failureMessages"]);
                let message = messages.first().and_then(Value::as_str).unwrap_or_default();
                found.errors.push(format!("{full}: {message}"));
            }
            found.add(&full, end);
        }
    }
    found.is_whole = report["numTotalTests"].as_u64() == Some(found.tests.len() as u64);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_load_is_broken_and_a_wrong_total_is_no_result() {
        let report = r#"{"numTotalTests": 2, "numFailedTests": 1, "testResults": [{"name": "/w/.handfast-trial/t/a.test.js", "status": "failed",
            "assertionResults": [{"fullName": "adds", "status": "passed", "failureMessages": []},
            {"fullName": "wrong", "status": "failed", "failureMessages": ["expected 1"]}]}]}"#;
        let found = read(report);
        assert!(found.is_whole && !found.is_broken);
        assert_eq!(found.tests["t/a.test.js wrong"], TestEnd::Failed);
        assert!(!read(&report.replace("\"numTotalTests\": 2", "\"numTotalTests\": 3")).is_whole);
        let broken = r#"{"numTotalTests": 0, "testResults": [{"name": "/w/a.test.js", "status": "failed",
            "message": "SyntaxError", "assertionResults": []}]}"#;
        assert!(read(broken).is_broken);
    }
}
