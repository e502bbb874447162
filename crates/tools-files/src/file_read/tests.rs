//! Tests of `file_read`.

use serde_json::{Value, json};
use testkit::{DenyNames, Workspace, run_tool};
use tool::{Code, ErasedTool, StopReason};

use super::*;

fn read(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
    run_tool(ErasedTool::tool(FileRead).as_ref(), workspace, arguments)
}

#[test]
fn parts_of_a_file_make_up_the_whole() {
    let text = "zwölf Boxkämpfer\njagen Eva\r\n\nquer über den Sylter Deich";
    let workspace = Workspace::new().with_files(&[("pangram", text)]);
    for most in 1..=text.len() + 1 {
        let (mut parts, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let part = read(&workspace, json!({"path": "pangram", "offset": at, "max_bytes": most})).unwrap();
            assert_eq!((&part["line_count"], &part["encoding"]), (&json!(4), &json!("utf-8")));
            parts.push_str(part["content"].as_str().unwrap());
            offset = part["next_offset"].as_u64();
            assert_eq!(offset.is_some(), part["truncated"] == true);
        }
        assert_eq!(parts, text, "max_bytes {most}");
    }
}

#[test]
fn lines_are_counted_from_one_and_keep_their_ends() {
    let workspace = Workspace::new().with_files(&[("f", "a\nb\r\n\nd")]);
    let lines = |start: Value, end: Value| {
        let mut lines = json!({"start": start, "end": end});
        lines.as_object_mut().unwrap().retain(|_, bound| !bound.is_null());
        read(&workspace, json!({"path": "f", "lines": lines})).map(|output| output["content"].clone())
    };
    assert_eq!(lines(json!(1), json!(2)).unwrap(), "a\nb\r\n");
    assert_eq!(lines(json!(3), Value::Null).unwrap(), "\nd");
    assert_eq!(lines(Value::Null, json!(1)).unwrap(), "a\n");
    assert_eq!(lines(json!(4), json!(9)).unwrap(), "d");
    assert_eq!(lines(json!(7), Value::Null).unwrap(), "");
    for (start, end, field) in [(0, 1, "lines.start"), (3, 2, "lines.end")] {
        let error = lines(json!(start), json!(end)).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        assert!(error.message.contains(field), "{}", error.message);
    }
}

#[test]
fn whoever_has_this_version_gets_no_content() {
    let workspace = Workspace::new().with_files(&[("f", "one\ntwo\n")]);
    workspace.sparse("large", 65 << 20);
    for path in ["f", "large"] {
        let part = read(&workspace, json!({"path": path, "max_bytes": 2})).unwrap();
        let whole = read(&workspace, json!({"path": path, "lines": {"start": 2}})).unwrap();
        assert_eq!(part["version"], whole["version"], "{path}");
        let again = read(&workspace, json!({"path": path, "version": part["version"]})).unwrap();
        assert_eq!((&again["unchanged"], &again["content"]), (&json!(true), &json!("")));
        workspace.sparse(path, 70 << 20);
        let changed = read(&workspace, json!({"path": path, "version": part["version"], "max_bytes": 3}));
        let changed = changed.unwrap();
        assert_eq!((changed.get("unchanged"), &changed["content"]), (None, &json!("AAAAAA==")));
        assert_ne!(changed["version"], part["version"]);
    }
    // Rewriting the same content restores the version.
    let before = {
        workspace.write("f", "x");
        read(&workspace, json!({"path": "f"})).unwrap()["version"].clone()
    };
    workspace.write("f", "y");
    workspace.write("f", "x");
    assert_eq!(read(&workspace, json!({"path": "f", "version": before})).unwrap()["unchanged"], true);
}

#[test]
fn an_offset_may_lie_behind_the_end_and_behind_that_of_any_file() {
    let workspace = Workspace::new().with_files(&[("f", "abc")]);
    let at = |offset: Value| read(&workspace, json!({"path": "f", "offset": offset}));
    assert_eq!(at(json!(1.0)).unwrap()["content"], "bc");
    for beyond in [4, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
        let output = at(json!(beyond)).unwrap();
        assert_eq!((&output["content"], &output["truncated"]), (&json!(""), &json!(false)), "{beyond}");
    }
    let error = at(json!(1e30)).unwrap_err();
    assert_eq!(error.code, Code::Validation);
    assert!(error.message.starts_with("`offset`"), "{}", error.message);
}

#[test]
fn lines_deep_in_a_large_file_are_found_across_chunks() {
    let lines: Vec<String> = (1..=100_000).map(|number| format!("line {number}")).collect();
    let text = lines.join("\n") + "\n";
    let workspace = Workspace::new().with_files(&[("large", &text)]);
    let output =
        read(&workspace, json!({"path": "large", "lines": {"start": 65_000, "end": 65_001}})).unwrap();
    assert_eq!(output["content"], "line 65000\nline 65001\n");
    assert_eq!(output["line_count"], 100_000);
    let cut =
        read(&workspace, json!({"path": "large", "lines": {"start": 99_999}, "max_bytes": 15})).unwrap();
    assert_eq!(cut["content"], "line 99999\n", "a part ends with a line");
    let on = read(&workspace, json!({"path": "large", "offset": cut["next_offset"]})).unwrap();
    assert_eq!(on["content"], "line 100000\n");
}

#[test]
fn a_page_of_default_size_has_fewer_lines_than_clients_cut() {
    let workspace = Workspace::new();
    workspace.write("short", "x\n".repeat(5_000).as_bytes());
    workspace.write("wide", "x\n".repeat(5_000).bytes().flat_map(|byte| [byte, 0]).collect::<Vec<_>>());
    let mut offset = 0;
    for (lines, next) in [(1_900, Some(3_800)), (1_900, Some(7_600)), (1_200, None)] {
        let part = read(&workspace, json!({"path": "short", "offset": offset})).unwrap();
        assert_eq!(part["content"].as_str().unwrap().lines().count(), lines);
        assert_eq!(part["next_offset"].as_u64(), next);
        offset = next.unwrap_or_default();
    }
    let asked = read(&workspace, json!({"path": "short", "max_bytes": 20_000})).unwrap();
    assert_eq!(asked["content"].as_str().unwrap().lines().count(), 5_000);
    let wide = read(&workspace, json!({"path": "wide", "encoding": "utf-16le"})).unwrap();
    assert_eq!(wide["content"].as_str().unwrap().lines().count(), 5_000);
}

#[test]
fn other_encodings_are_decoded_and_binary_comes_as_base64() {
    let workspace = Workspace::new();
    workspace.write("latin", b"caf\xe9\n");
    workspace.write("wide.txt", b"\xff\xfea\0\n\0b\0\n\0");
    workspace.write("unmarked", b"a\0\n\0\xe9\0.\0");
    workspace.write("network", b"\0a\0\n\0b\0\n");
    workspace.write("data.bin", b"\0\x01\n");
    let field = |arguments: Value, field: &str| read(&workspace, arguments).unwrap()[field].clone();
    assert_eq!(field(json!({"path": "latin"}), "encoding"), "base64");
    for (path, likely) in [
        ("latin", "`encoding` to latin-1"),
        ("wide.txt", "`encoding` to utf-16le"),
        ("unmarked", "`encoding` to utf-16le"),
        ("network", "`encoding` to utf-16be"),
    ] {
        let note = field(json!({ "path": path }), "note");
        assert!(note.as_str().unwrap().contains(likely), "{path}: {note}");
    }
    assert!(read(&workspace, json!({"path": "data.bin"})).unwrap().get("note").is_none());
    assert!(read(&workspace, json!({"path": "latin", "encoding": "base64"})).unwrap().get("note").is_none());
    assert_eq!(field(json!({"path": "latin", "encoding": "latin1"}), "content"), "café\n");
    let second = json!({"path": "wide.txt", "encoding": "utf-16", "lines": {"start": 2}});
    assert_eq!(field(second, "content"), "b\n");
    assert_eq!(field(json!({"path": "wide.txt", "encoding": "utf-16le"}), "line_count"), 2);
    let binary = read(&workspace, json!({"path": "data.bin"})).unwrap();
    assert_eq!(binary["content"], "AAEK");
    assert_eq!(binary["mime_type"], "application/octet-stream");
    assert!(binary.get("line_count").is_none());
}

#[test]
fn the_media_type_follows_name_and_content() {
    let kind = |path: &str, is_text| media_type(Path::new(path), is_text);
    assert_eq!(kind("a.rs", true), "text/x-rust");
    assert_eq!(kind("a.ts", true), "text/plain");
    assert_eq!(kind("a.ts", false), "video/vnd.dlna.mpeg-tts");
    assert_eq!(kind("a.svg", true), "image/svg+xml");
    assert_eq!(kind("LICENSE", true), "text/plain");
    assert_eq!(kind("a.json", true), "application/json");
}

#[test]
fn a_sparse_file_of_10_gb_costs_a_part() {
    let workspace = Workspace::new();
    workspace.sparse("sparse", 10 << 30);
    let output = read(&workspace, json!({"path": "sparse", "max_bytes": 30})).unwrap();
    assert_eq!(output["size_bytes"], 10_u64 << 30);
    assert_eq!(output["content"].as_str().unwrap().len(), 40);
    assert!(output["truncated"] == true && output.get("line_count").is_none());
    let end = read(&workspace, json!({"path": "sparse", "offset": (10_u64 << 30) - 1})).unwrap();
    assert_eq!((&end["content"], &end["truncated"]), (&json!("AA=="), &json!(false)));
}

#[test]
fn a_search_for_a_line_that_never_comes_ends_with_the_call() {
    let workspace = Workspace::new();
    workspace.sparse("sparse", 10 << 30);
    let context = workspace.context();
    context.stop.request(StopReason::Deadline);
    let tool = ErasedTool::tool(FileRead);
    let arguments = json!({"path": "sparse", "lines": {"start": 2}});
    let error = testkit::run_in(tool.as_ref(), &context, arguments).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
}

#[test]
fn a_denied_file_is_refused_under_every_name() {
    let guard = DenyNames { read: &["secret"], ..DenyNames::default() };
    let workspace = Workspace::new().guarded(guard).with_files(&[("secret", "s"), ("d/x", "")]);
    workspace.link("link", "secret");
    for path in ["secret", "link", "d/../secret"] {
        let error = read(&workspace, json!({"path": path})).unwrap_err();
        assert_eq!(error.code, Code::Permission, "{path}");
        assert!(error.message.contains("`secret`") && error.hint.is_some(), "{}", error.message);
    }
}

#[test]
fn what_is_out_of_bounds_is_refused_with_the_field() {
    let workspace = Workspace::new().with_files(&[("f", "x")]);
    for (arguments, field) in [
        (json!({"path": "f", "max_bytes": 0}), "`max_bytes`"),
        (json!({"path": "f", "max_bytes": LARGEST_MAX_BYTES + 1}), "`max_bytes`"),
        (json!({"path": "f", "encoding": "ebcdic"}), "`encoding`"),
        (json!({"path": "f", "offset": 1, "lines": {"start": 1}}), "`offset`"),
        (json!({"path": "a\0b"}), "`path`"),
        (json!({"path": "f", "lines": {"first": 1}}), "`lines.first`"),
    ] {
        let error = read(&workspace, arguments).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        assert!(error.message.contains(field), "{}", error.message);
    }
}
