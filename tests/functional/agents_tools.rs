//! The tools that an agent's file names are all that the agent reaches, in any way.

use serde_json::{Value, json};

use super::agents::{answer, events};
use super::agents_below::thinking;
use super::models::configure;
use crate::harness::Fixture;

#[test]
fn an_agent_reaches_no_tool_that_its_file_does_not_name() {
    let write = |path: &str| json!({"path": path, "content": "x"});
    let script = "\
        for path, call in [('script', lambda: tools._channel.call('file_write', {'path': 'script', 'content': 'x'})),\n        \
                ('inner', lambda: tools.tool_call(name='file_write', arguments={'path': 'inner', 'content': 'x'}))]:\n    \
            try: call(); print(path, 'written')\n    \
            except ToolError as error: print(path, error.code)\n";
    let server = thinking(move |last, messages| match (last, messages.len()) {
        ("Begin.", _) => answer("", &[("file_write", write("direct"))]),
        ("Below.", _) => answer("", &[("file_write", write("below"))]),
        (_, 4) if messages[1]["content"] == "Begin." => answer(
            "",
            &[
                ("run_code", json!({ "code": script })),
                ("tool_call", json!({"name": "file_write", "arguments": write("called")})),
                (
                    "schedule_task",
                    json!({"name": "later", "task_goal": "tool: file_write", "schedule": "in 2 hours"}),
                ),
                ("create_agent", json!({"task_description": "Below."})),
            ],
        ),
        _ => answer("Done.", &[]),
    });
    for (tools, reaches) in [
        ("[run_code, tool_call, schedule_task, create_agent]", false),
        ("[run_code, tool_call, schedule_task, create_agent, file_write]", true),
    ] {
        let file = format!("---\ntools: {tools}\n---\nGo on.\n");
        let fixture = Fixture::with_files(&[(".handfast/agents/limited.md", file.as_str())]);
        configure(&fixture, &server, "");
        fixture.configure("catalogue: full\n");
        let run = fixture.run(&["run", "--agent", "limited", "--json", "--yes", "Begin."]);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        let made: Vec<&str> = ["direct", "script", "inner", "called", "below"]
            .into_iter()
            .filter(|path| fixture.workspace().join(path).exists())
            .collect();
        let expected: &[&str] = if reaches { &["direct", "script", "inner", "called", "below"] } else { &[] };
        assert_eq!(made, expected, "{tools}: {}", run.stdout);
        let script: Option<Value> = events(&run.stdout).into_iter().find(|event| {
            event["type"] == "result" && event["text"].as_str().unwrap_or_default().contains("script ")
        });
        let text = script.unwrap_or_else(|| panic!("{}", run.stdout))["text"].to_string();
        let outcome = if reaches { "written" } else { "EPERMISSION" };
        assert!(
            text.contains(&format!("script {outcome}")) && text.contains(&format!("inner {outcome}")),
            "{text}"
        );
    }
}
