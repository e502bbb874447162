//! `handfast plugin test`: the tests of a plugin's manifest, as calls like all others.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::{CallRequest, Door, Principal};
use plugins::{FoundPlugin, PluginStore, PluginTest, StoredPlugin, TestOutcome};
use serde_json::{Map, Value, json};
use tool::{CallResult, Clock as _, Data, Outcome, StopReason, dynamic_tool};
use tools_plugins::PluginTool;

use crate::cli::Global;
use crate::clock::SystemClock;
use crate::commands::{Failure, print, print_json, tokio_runtime};
use crate::compose::{RuntimeOptions, compose};
use crate::run_options::RunOptions;
use crate::signals::until_done;
use crate::terminal::YesAsker;

/// Result of one test.
struct Tested {
    name: String,
    /// Difference from the expected outcome; `None` if the test passes.
    problem: Option<String>,
}

pub(super) fn run(global: &Global, found: &FoundPlugin, json: bool) -> Result<ExitCode, Failure> {
    let (content, manifest) = super::readable(found)?;
    let mut results = Vec::new();
    let mut signalled = None;
    for test in manifest.all_tests() {
        // Each test has a state and a workspace of its own, so that no test sees another one.
        let around = tempfile::tempdir()?;
        let store = PluginStore::at(around.path().join("allowed"));
        store.enable(&manifest.name, &content, SystemClock.now())?;
        let stored = store.all()?.pop().ok_or("the state of the test is lost")?;
        let (problem, signal) = tested(global, around.path(), (&store, &stored), test)?;
        if signal.is_some() {
            signalled = signal;
            break;
        }
        results.push(Tested { name: test.name.clone(), problem });
    }
    if let Some(code) = signalled {
        // Every folder is removed by now.
        return Ok(ExitCode::from(code));
    }
    let failed = results.iter().filter(|test| test.problem.is_some()).count();
    if json {
        let shown = results.iter().map(|test| json!({"name": test.name, "problem": test.problem}));
        let shown: Vec<Value> = shown.collect();
        print_json(&json!({"passed": results.len() - failed, "failed": failed, "tests": shown}))?;
    } else {
        for Tested { name, problem } in &results {
            let line = match problem {
                None => format!("ok      {}\n", tool::visible(name)),
                Some(problem) => format!("FAILED  {}: {}\n", tool::visible(name), tool::visible(problem)),
            };
            print(&line)?;
        }
        print(&format!("{} passed, {failed} failed\n", results.len() - failed))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs one test. Returns how its outcome differs from the expected one, and the exit code of a signal that ended it.
fn tested(
    global: &Global,
    around: &Path,
    (store, stored): (&PluginStore, &StoredPlugin),
    test: &PluginTest,
) -> Result<(Option<String>, Option<u8>), Failure> {
    let workspace = around.join("workspace");
    std::fs::create_dir(&workspace)?;
    for (path, text) in &test.files {
        let path = workspace.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
    }
    let options = RunOptions {
        workspace: Some(workspace),
        state: Some(around.join("state")),
        dialect: Some(dialects::Dialect::Handfast),
        ..global.run_options()
    };
    let composed = compose(RuntimeOptions::once(options))?;
    let tool = PluginTool::of(store, stored).map_err(|unusable| unusable.0)?;
    let tool = dynamic_tool(tool);
    let name = tool.name().to_owned();
    composed
        .engine
        .registry()
        .replace_group("tested plugin", vec![tool])
        .map_err(|error| Failure::usage(format!("{error}; change `name` in plugin.yaml")))?;
    let (session, dialect) = (composed.session.clone(), composed.toolset.dialect.as_str());
    // The user types the command, which is the answer to every question about it.
    let principal = Principal::new(Door::CommandLine, session, dialect, Arc::new(YesAsker));
    let request = CallRequest::new(principal, &name, test.arguments.clone());
    let stop = request.stop.clone();
    let ran: io::Result<_> = tokio_runtime()?.block_on(async {
        let call = composed.engine.call(request);
        let ran = until_done(call, || stop.request(StopReason::Cancelled)).await?;
        composed.engine.shutdown().await;
        Ok(ran)
    });
    let (result, signalled) = ran?;
    composed.store.close()?;
    Ok((difference(test, &result), signalled))
}

fn difference(test: &PluginTest, result: &CallResult) -> Option<String> {
    match (&test.expected, &result.outcome) {
        (TestOutcome::Error(code), Outcome::Err(error)) if error.code.as_str() == code => None,
        (TestOutcome::Error(code), Outcome::Ok(_)) => {
            Some(format!("expected {code}, and the call succeeded"))
        }
        (TestOutcome::Error(code), Outcome::Err(error)) => {
            Some(format!("expected {code}, and got {}: {}", error.code, error.message))
        }
        (TestOutcome::Result(_), Outcome::Err(error)) => {
            let stderr = error.data.as_ref().and_then(|data| data["stderr"].as_str());
            let stderr = stderr.map(|text| format!("; standard error: {text}")).unwrap_or_default();
            Some(format!("{}: {}{stderr}", error.code, error.message))
        }
        (TestOutcome::Result(expected), Outcome::Ok(Data::Value(data))) => missing(expected, data),
        (TestOutcome::Result(expected), Outcome::Ok(Data::Written(written))) => {
            match serde_json::from_str(written.as_str()) {
                Ok(data) => missing(expected, &data),
                Err(error) => Some(format!("the answer is not JSON: {error}")),
            }
        }
    }
}

/// Returns the first field that differs from the expected one.
fn missing(expected: &Map<String, Value>, data: &Value) -> Option<String> {
    let differs = |(field, value): &(&String, &Value)| data.get(field) != Some(value);
    let (field, value) = expected.iter().find(differs)?;
    let got = data.get(field).map_or_else(|| "nothing".to_owned(), Value::to_string);
    Some(format!("`{field}` is {got}, and {value} was expected"))
}
