//! The XML report in the form of `JUnit`, which pytest and the runner of Node write.

use super::{ReportedTests, TestEnd};

/// Reads the report. It is whole if its last element is closed.
///
/// The writers of both runners escape every `<` and `>` in texts and attributes, so a tag is found by its
/// characters alone.
pub(super) fn read(report: &str) -> ReportedTests {
    let mut found = ReportedTests::default();
    let mut rest = report;
    while let Some((_, after)) = rest.split_once("<testcase") {
        let Some((tag, after)) = after.split_once('>') else { break };
        let (is_empty, attributes) = match tag.strip_suffix('/') {
            Some(attributes) => (true, attributes),
            None => (false, tag),
        };
        let (inner, after) =
            if is_empty { ("", after) } else { after.split_once("</testcase>").unwrap_or((after, "")) };
        rest = after;
        let (class, name) = (attribute(attributes, "classname"), attribute(attributes, "name"));
        let full = match class.as_str() {
            "" | "test" => name,
            class => format!("{class} {name}"),
        };
        let has = |tag: &str| inner.contains(tag);
        let end = match () {
            () if has("<failure") || has("<error") => TestEnd::Failed,
            () if has("<skipped") => TestEnd::Skipped,
            () => TestEnd::Passed,
        };
        if end == TestEnd::Failed {
            let tag = ["<failure", "<error"].iter().find_map(|tag| Some(inner.split_once(tag)?.1));
            let message = attribute(tag.unwrap_or_default(), "message");
            // A file that pytest cannot load is reported as a test with an error of its collection.
            if has("<error") && message.starts_with("collection failure") {
                found.is_broken = true;
            }
            found.errors.push(format!("{full}: {message}"));
        }
        found.add(&full, end);
    }
    found.is_whole = report.trim_end().ends_with("</testsuites>");
    found
}

/// Returns the value of an attribute, without its escapes; empty if there is none.
fn attribute(tag: &str, name: &str) -> String {
    let tag = tag.split_once('>').map_or(tag, |(tag, _)| tag);
    let begin = format!(" {name}=\"");
    let Some((_, value)) = tag.split_once(&begin) else { return String::new() };
    let value = value.split_once('"').map_or(value, |(value, _)| value);
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#10;", "\n")];
    let plain = plain.into_iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to));
    plain.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="3" time="0.03"><testcase classname="tests.test_a" name="test_adds[a&lt;b]" time="0.001" /><testcase classname="tests.test_a" name="test_wrong" time="0.001"><failure message="assert 1 == 2&#10; x">def test(): &lt;testcase name="forged"/&gt;</failure></testcase><testcase classname="tests.test_a" name="test_late" time="0.0"><skipped type="pytest.skip" message="slow">late</skipped></testcase></testsuite></testsuites>"#;

    #[test]
    fn each_case_is_a_test_and_a_cut_report_no_result() {
        let found = read(REPORT);
        assert!(found.is_whole && !found.is_broken);
        assert_eq!(found.tests.len(), 3);
        assert_eq!(found.tests["tests.test_a test_adds[a<b]"], TestEnd::Passed);
        assert_eq!(found.tests["tests.test_a test_late"], TestEnd::Skipped);
        assert_eq!(found.errors, ["tests.test_a test_wrong: assert 1 == 2\n x"]);
        assert!(!read(&REPORT[..REPORT.len() - 20]).is_whole);
        let broken = REPORT.replace("<failure message=\"", "<error message=\"collection failure ");
        assert!(read(&broken).is_broken);
    }
}
