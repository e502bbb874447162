//! Plugins that misbehave: each is stopped, named, and quarantined after three failures in a row.

use tool::{Code, StopReason};

use crate::place::{Place, eventually};

const GOOD: &str = "echo '{\"ok\":true,\"data\":{\"n\":1}}'\n";

#[test]
fn output_that_is_no_answer_fails_the_call_and_names_the_fault() {
    for (script, told) in [
        ("echo garbage\n".to_owned(), "is not JSON: garbage"),
        (format!("{GOOD}{GOOD}"), "more than one answer"),
        ("true\n".to_owned(), "answered nothing"),
        ("yes '{}'\n".to_owned(), "more than 1048576 bytes"),
        ("head -c 1073741824 /dev/zero\n".to_owned(), "more than 1048576 bytes"),
        ("echo '{\"ok\":true,\"data\":{\"n\":\"one\"}}'\n".to_owned(), "does not fit its output_schema"),
        ("echo '{\"data\":{\"n\":1}}'\n".to_owned(), "another form"),
        (format!("{GOOD}exit 3\n"), "exit code 3"),
        ("kill -9 $$\n".to_owned(), "signal 9"),
        (format!("head -c 300000 /dev/zero >&2\n{GOOD}exit 1\n"), "exit code 1"),
    ] {
        let place = Place::new();
        let tool = place.plugin(&script, "");
        let error = place.call(&tool).unwrap_err();
        assert!(error.message.contains(told), "{script}: {error:?}");
        assert_eq!(error.code, Code::Runtime, "{script}");
        assert!(error.hint.unwrap().contains("failure 1 in a row"));
    }
    let place = Place::new();
    let tool = place.plugin(GOOD, "");
    assert_eq!(place.call(&tool).unwrap()["n"], 1);
}

#[test]
fn what_a_plugin_prints_to_standard_error_is_shown_without_its_control_characters() {
    let place = Place::new();
    let tool = place.plugin("printf 'broken \\033[2J here' >&2; exit 1\n", "");
    let error = place.call(&tool).unwrap_err();
    let stderr = error.data.unwrap()["stderr"].as_str().unwrap().to_owned();
    assert!(stderr.contains("broken") && stderr.contains("here") && !stderr.contains('\u{1b}'), "{stderr}");
}

#[test]
fn three_failures_in_a_row_quarantine_a_plugin_until_a_human_enables_it_again() {
    let place = Place::new();
    let tool = place.plugin("exit 7\n", "");
    for _ in 0..3 {
        assert!(place.call(&tool).unwrap_err().message.contains("exit code 7"));
    }
    let error = place.call(&tool).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("quarantined") && error.message.contains("exit code 7"), "{error:?}");
    assert!(error.hint.unwrap().contains("handfast plugin enable plugin"));
    let tool = place.plugin(GOOD, "");
    assert!(place.call(&tool).is_ok());
}

#[test]
fn errors_that_a_plugin_reports_itself_and_calls_that_are_cancelled_are_no_failures() {
    let place = Place::new();
    let refusing =
        "echo '{\"ok\":false,\"error\":{\"code\":\"ENOTFOUND\",\"message\":\"no page\",\"hint\":\"h\"}}'\n";
    let tool = place.plugin(refusing, "");
    for _ in 0..5 {
        let error = place.call(&tool).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (Code::NotFound, "the plugin answers: no page"));
    }
    let tool = place.plugin("exec sleep 100\n", "");
    let error = place.call_too_long(&tool, StopReason::Cancelled).unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
    assert_eq!(place.store.all().unwrap()[0].state.failures, 0);
    let error = place.call_too_long(&tool, StopReason::Deadline).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    assert_eq!(place.store.all().unwrap()[0].state.failures, 1);
}

/// Process of a test, which ends with the test.
struct Control(std::process::Child);

impl Drop for Control {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn no_process_of_a_plugin_is_left_after_its_call() {
    let place = Place::new();
    // No other run of this test has the same number.
    let seconds = format!("98765.{}", std::process::id());
    let leaving = format!("for n in 1 2 3; do (setsid sleep {seconds} >/dev/null 2>&1 &) ; done\n");
    let tool = place.plugin(&format!("{leaving}{GOOD}"), "");
    let left = || {
        let lines = std::fs::read_dir("/proc").unwrap().flatten();
        let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let has = |line: &Vec<u8>| line.windows(seconds.len()).any(|part| part == seconds.as_bytes());
        lines.map(line).filter(has).count()
    };
    let _control = Control(
        std::process::Command::new("sleep")
            .arg(&seconds)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap(),
    );
    eventually("the control", || left() == 1);
    assert!(place.call(&tool).is_ok());
    eventually("the end of all but the control", || left() == 1);
}

#[test]
fn a_plugin_that_changes_after_it_was_allowed_is_refused_and_its_allowed_form_is_what_runs() {
    let place = Place::new();
    let tool = place.plugin(GOOD, "");
    let folder = place.write("echo '{\"ok\":true,\"data\":{\"n\":666}}'\n", "");
    let refused = place.tool().err().unwrap();
    assert!(
        refused.contains("have changed") && refused.contains("handfast plugin enable plugin"),
        "{refused}"
    );
    assert_eq!(place.call(&tool).unwrap()["n"], 1, "a call that has begun runs what was allowed");
    place.enable(&folder);
    let error = place.call(&tool).unwrap_err();
    assert!(error.message.contains("disabled or changed"), "{error:?}");
    assert_eq!(place.call(&place.tool().unwrap()).unwrap()["n"], 666);
}
