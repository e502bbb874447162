use proptest::prelude::*;

use super::*;

fn exec(command: &str, timeout: Option<u64>, folder: Option<&str>) -> Request {
    let task = Task::Exec { command: command.to_owned(), timeout, folder: folder.map(str::to_owned) };
    Request { id: None, cache: false, task }
}

/// Parses each request block of the source verbatim.
#[test]
fn the_requests_of_the_source_are_read() {
    let read = |text: &str| parse(text.as_bytes());
    assert_eq!(read("TASK REQ:exec npm test IN:SHELL OUT:EXEC_RESULT\n"), Ok(exec("npm test", None, None)));
    assert_eq!(
        read(
            "TASK REQ:exec IN:SHELL OUT:EXEC_RESULT\nCOMMAND \"npm test\"\nTIMEOUT_MS 30000\nWORKING_DIR /path/to/project\n"
        ),
        Ok(exec("npm test", Some(30_000), Some("/path/to/project")))
    );
    for (text, name) in [
        (
            "TASK REQ:canvas IN:TOOL OUT:CANVAS_RESULT\nACTION present|hide|navigate|eval|snapshot\n\
             URL https://dashboard.example.com\nWIDTH 1920\nHEIGHT 1080\n",
            "canvas",
        ),
        (
            "TASK REQ:node IN:TOOL OUT:NODE_RESULT\nACTION camera_snap|screen_record|location_get|notify\n\
             NODE iphone-talas\nPARAMS {\"facing\": \"back\", \"quality\": 0.8}\n",
            "node",
        ),
    ] {
        assert_eq!(read(text).map(|request| request.task), Ok(Task::Other(name)));
    }
    let browser = "TASK REQ:browser IN:TOOL OUT:BROWSER_RESULT\nACTION navigate|click|type|screenshot|extract\n\
                   TARGET_URL https://example.com\nSELECTOR css:.class|xpath://div\nVALUE <text_to_type>\n";
    let keys = [
        ("ACTION", "navigate|click|type|screenshot|extract"),
        ("TARGET_URL", "https://example.com"),
        ("SELECTOR", "css:.class|xpath://div"),
        ("VALUE", "<text_to_type>"),
    ];
    let keys = keys.map(|(key, value)| (key, value.to_owned())).to_vec();
    assert_eq!(read(browser).map(|request| request.task), Ok(Task::Act { operation: "browser", keys }));
    let cron = "TASK REQ:cron IN:TOOL OUT:CRON_RESULT\nACTION list|add|remove|enable|disable\nJOB_ID memory-daily-sweep\n\
                SCHEDULE \"0 3 * * *\"\nTASK_DESCRIPTION \"Memory maintenance\"\n";
    let keys = [
        ("ACTION", "list|add|remove|enable|disable"),
        ("JOB_ID", "memory-daily-sweep"),
        ("SCHEDULE", "0 3 * * *"),
        ("TASK_DESCRIPTION", "Memory maintenance"),
    ];
    let keys = keys.map(|(key, value)| (key, value.to_owned())).to_vec();
    assert_eq!(read(cron).map(|request| request.task), Ok(Task::Act { operation: "cron", keys }));
    let mcp = "TASK REQ:mcp IN:TOOL OUT:MCP_RESULT\nSERVER filesystem|brave-search|playwright\n\
               TOOL read_file|search|click\nPARAMS {\"path\": \"src/index.ts\"}\n";
    let server = "filesystem|brave-search|playwright".to_owned();
    let (tool, params) =
        ("read_file|search|click".to_owned(), Some("{\"path\": \"src/index.ts\"}".to_owned()));
    assert_eq!(read(mcp).map(|request| request.task), Ok(Task::Mcp { server, tool, params }));
}

const HEAD: &str = "TASK REQ:exec IN:SHELL OUT:EXEC_RESULT\n";

#[test]
fn quotes_escapes_ids_and_line_ends_are_read() {
    let text = format!("{HEAD}ID a-1\r\nCACHE true\nCOMMAND \"echo \\\"a\\\" \\u00e4\\n\\ttwo\"\r\n");
    let request = parse(text.as_bytes()).unwrap();
    assert_eq!((request.id.as_deref(), request.cache), (Some("a-1"), true));
    assert_eq!(request.task, exec("echo \"a\" ä\n\ttwo", None, None).task);
    let short = parse(b"TASK REQ:exec \"a  IN:SHELL\" IN:SHELL OUT:EXEC_RESULT").unwrap();
    assert_eq!(short, exec("a  IN:SHELL", None, None));
    let twice = parse(b"TASK REQ:exec echo IN:SHELL OUT:EXEC_RESULT IN:SHELL OUT:EXEC_RESULT").unwrap();
    assert_eq!(twice, exec("echo IN:SHELL OUT:EXEC_RESULT", None, None));
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_column() {
    let fault = |text: &[u8]| parse(text).unwrap_err().to_string();
    let after = |lines: &str| fault(format!("{HEAD}{lines}").as_bytes());
    for (said, expected) in [
        (fault(b"task REQ:exec"), "line 1, column 1: a request begins with TASK REQ: and an operation"),
        (fault(b"\xef\xbb\xbfTASK REQ:exec IN:SHELL OUT:EXEC_RESULT"), "line 1, column 1: a request begins"),
        (fault(b" TASK REQ:exec IN:SHELL OUT:EXEC_RESULT"), "line 1, column 1: a request begins"),
        (fault(b"TASK REQ:memory IN:SHELL OUT:X"), "line 1, column 10: the operation is none of exec,"),
        (
            fault(b"TASK REQ:exec IN:SHELL OUT:RESULT\n"),
            "line 1, column 15: the line of exec ends in IN:SHELL",
        ),
        (fault(b"TASK REQ:exec  IN:SHELL OUT:EXEC_RESULT"), "line 1, column 15: one space stands"),
        (fault(b"TASK REQ:exec \"a IN:SHELL OUT:EXEC_RESULT"), "line 1, column 16: this is no JSON string"),
        (fault(b"TASK REQ:cron x IN:TOOL OUT:CRON_RESULT"), "line 1, column 15: nothing stands between"),
        (fault(HEAD.as_bytes()), "line 1, column 39: COMMAND is missing"),
        (after("COMMAND npm test\n"), "line 2, column 12: ` ` needs the value to be in double quotes"),
        (after("COMMAND äöü$x\n"), "line 2, column 9: `ä` needs"),
        (after("COMMAND \"äöü\\x\"\n"), "line 2, column 14: this is no JSON string"),
        (after("COMMAND \"a\" b\n"), "line 2, column 13: this is no JSON string"),
        (after("COMMAND \"a\n"), "line 2, column 10: this is no JSON string"),
        (after("COMMAND\n"), "line 2, column 8: COMMAND has no value"),
        (after("COMMAND \n"), "line 2, column 8: COMMAND has no value"),
        (after("COMMAND a\tb\n"), "line 2, column 10: a control character (U+0009)"),
        (after("COMMAND \"a\0b\"\n"), "line 2, column 11: a control character (U+0000)"),
        (after("COMMAND \"a\rb\"\n"), "line 2, column 11: a control character (U+000D)"),
        (after("COMMAND a\n \n"), "line 3, column 1: a key in capitals"),
        (after("command a\n"), "line 2, column 1: a key in capitals"),
        (after("COMMAND a\nCOMMAND b\n"), "line 3, column 1: COMMAND stands in line 2 already"),
        (
            after("COMMAND a\nSHELL b\n"),
            "line 3, column 1: exec has no key SHELL; its keys are COMMAND, TIMEOUT_MS",
        ),
        (after("COMMAND a\nTIMEOUT_MS 1.5\n"), "line 3, column 12: a whole number of milliseconds"),
        (after("COMMAND a\nTIMEOUT_MS 0\n"), "line 3, column 12: a whole number"),
        (after("COMMAND a\nTIMEOUT_MS +5\n"), "line 3, column 12: a whole number"),
        (after("COMMAND a\nTIMEOUT_MS 99999999999999999999\n"), "line 3, column 12: a whole number"),
        (after("COMMAND a\nCACHE yes\n"), "line 3, column 7: it is true or false"),
        (after("COMMAND a\nID \"\"\n"), "line 3, column 4: an ID has 1 to 200"),
    ] {
        assert!(said.starts_with(expected), "{said} is not {expected}");
    }
    let bad = parse(&[HEAD.as_bytes(), b"COMMAND \"\xff\""].concat()).unwrap_err();
    assert_eq!(bad.to_string(), "line 2, column 10: this is not UTF-8");
    let both = parse(b"TASK REQ:exec ls IN:SHELL OUT:EXEC_RESULT\nCOMMAND ls").unwrap_err();
    assert_eq!(both.to_string(), "line 2, column 1: the command stands in line 1 already");
}

#[test]
fn the_answer_to_a_wrong_request_has_its_id_where_that_can_be_read() {
    let fault = parse(format!("{HEAD}COMMAND a b\nID \"one two\"\n").as_bytes()).unwrap_err();
    assert_eq!(fault.id.as_deref(), Some("one two"));
    assert_eq!(parse(b"nonsense\nID $\n").unwrap_err().id, None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_at_a_place_in_them(
        lines in proptest::collection::vec(prop_oneof![
            Just(b"TASK REQ:exec IN:SHELL OUT:EXEC_RESULT".to_vec()),
            Just(b"COMMAND \"a\"".to_vec()),
            "(COMMAND|TIMEOUT_MS|ID|CACHE|WORKING_DIR|[A-Z]{0,3}) ?[\"\\\\a-z0-9 $\u{e4}\u{1F600}\t]{0,12}".prop_map(String::into_bytes),
            "TASK REQ:[a-z\" ]{0,9} (IN:SHELL)? OUT:(EXEC_RESULT)?".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..20),
        ], 0..6),
    ) {
        let bytes = lines.join(&b'\n');
        if let Err(fault) = parse(&bytes) {
            let line = bytes.split(|byte| *byte == b'\n').nth(fault.line - 1).unwrap();
            prop_assert!(fault.column >= 1 && fault.column <= line.len() + 1, "{fault} in {line:?}");
        }
    }

    #[test]
    fn what_an_answer_quotes_a_request_may_hold(command in "\\PC{1,40}|[\u{0}-\u{ff}]{1,20}") {
        let text = format!("{HEAD}COMMAND {}\n", crate::value::token(&command));
        prop_assert_eq!(parse(text.as_bytes()), Ok(exec(&command, None, None)));
    }
}
