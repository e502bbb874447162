//! `handfast graph`: questions about the code, by calls of the same tools that agents have.

mod picture;

use std::process::ExitCode;

use dialects::Dialect;
use engine::{CallRequest, Door, Principal};
use serde_json::{Map, Value, json};
use tool::{Code, Outcome, Stop, visible};

use super::call::{answered, asker, read_text};
use super::checkpoints::refused;
use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::Global;
use crate::cli_graph::GraphCommand;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::pager::print_listing;
use crate::report::{note, table, warn};
use crate::terminal::ProgressLine;

/// Maximum number of neighbours of a picture on each side.
const NEIGHBOURS: usize = 40;

pub(super) fn run(global: &Global, command: &GraphCommand) -> Result<ExitCode, Failure> {
    let mut options = global.run_options();
    // The commands call the canonical tools, whichever names agents see.
    options.dialect = Some(Dialect::Handfast);
    let composed = compose(RuntimeOptions::once(options))?;
    let runtime = tokio_runtime()?;
    let outcome = runtime.block_on(async {
        let outcome = shown(&composed, global, command).await;
        composed.engine.shutdown().await;
        outcome
    });
    runtime.shutdown_background();
    composed.store.close()?;
    composed.close_traces();
    outcome
}

/// Makes the calls of a command, and prints what they found.
async fn shown(composed: &Composed, global: &Global, command: &GraphCommand) -> Result<ExitCode, Failure> {
    let call = async |tool: &'static str, arguments: Value| data(composed, global, tool, arguments).await;
    match command {
        GraphCommand::Query { query, params, commit, json } => {
            let mut arguments = json!({"query": read_text(query)?, "params": parameters(params)?});
            if let Some(commit) = commit {
                arguments["commit"] = json!(commit);
            }
            let found = match call("graph_query", arguments).await? {
                Ok(found) => found,
                Err(code) => return Ok(code),
            };
            if *json {
                print_json(&found)?;
            } else {
                print_listing(&rows(&found))?;
                tell(&found);
            }
        }
        GraphCommand::Schema { json } => match call("graph_schema", json!({})).await? {
            Ok(found) if *json => print_json(&found)?,
            Ok(found) => print_listing(&schema(&found))?,
            Err(code) => return Ok(code),
        },
        GraphCommand::Map { path, budget, json } => {
            let mut arguments = Map::new();
            arguments.extend(path.iter().map(|path| ("path".to_owned(), json!(path))));
            arguments.extend(budget.iter().map(|budget| ("budget".to_owned(), json!(budget))));
            match call("code_map", Value::Object(arguments)).await? {
                Ok(found) if *json => print_json(&found)?,
                Ok(found) => print_listing(found["map"].as_str().unwrap_or_default())?,
                Err(code) => return Ok(code),
            }
        }
        GraphCommand::Index { json } => match call("graph_query", json!({"query": "RETURN 1"})).await? {
            Ok(found) if *json => print_json(&found["freshness"])?,
            Ok(found) => tell(&found),
            Err(code) => return Ok(code),
        },
        GraphCommand::Stats { json } => match call("graph_schema", json!({})).await? {
            Ok(found) => stats(&found, *json)?,
            Err(code) => return Ok(code),
        },
        GraphCommand::View { symbol, output } => {
            let found = match call("code_impact", json!({"symbol": symbol, "depth": 1})).await? {
                Ok(found) => found,
                Err(code) => return Ok(code),
            };
            let mut sides = Vec::new();
            for pattern in ["(n)-[r]->(s)", "(s)-[r]->(n)"] {
                let query = format!(
                    "MATCH (s {{id: $id}}) MATCH {pattern} WHERE NOT type(r) IN ['CONTAINS', 'TESTS'] \
                     RETURN DISTINCT n.id AS id, n.name AS name, n.file AS file, n.start_line AS line, type(r) AS type \
                     ORDER BY type, id LIMIT {}",
                    NEIGHBOURS + 1
                );
                match call("graph_query", json!({"query": query, "params": {"id": found["symbol"]}})).await? {
                    Ok(side) => sides.push(side["rows"].clone()),
                    Err(code) => return Ok(code),
                }
            }
            let svg = picture::drawn(found["symbol"].as_str().unwrap_or_default(), &sides, NEIGHBOURS);
            match output {
                Some(file) => std::fs::write(file, svg)
                    .map_err(|error| Failure::from(format!("cannot write {}: {error}", file.display())))?,
                None => print(&svg)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a call. Returns the data of its result, or the exit code of a call that a signal has ended.
async fn data(
    composed: &Composed,
    global: &Global,
    tool: &str,
    arguments: Value,
) -> Result<Result<Value, ExitCode>, Failure> {
    let line = ProgressLine::new();
    let stop = Stop::default();
    let (session, dialect) = (composed.session.clone(), composed.toolset.dialect.as_str());
    let asker = asker(global, false, line.clone());
    let principal = Principal::new(Door::CommandLine, session, dialect, asker);
    let mut request = CallRequest::new(principal, tool, arguments);
    request.stop = stop.clone();
    if let Some(line) = &line {
        request.progress = line.clone();
    }
    let (result, signal) = answered(composed, request, &stop, line.as_deref()).await?;
    if let Some(code) = signal {
        return Ok(Err(ExitCode::from(code)));
    }
    for warning in &result.meta.warnings {
        warn(warning);
    }
    match result.outcome {
        Outcome::Ok(data) => Ok(Ok(serde_json::to_value(&data)?)),
        Outcome::Err(error) => {
            let exit_code = match error.code {
                Code::Permission => 3,
                Code::Approval => 4,
                _ => refused(&error).exit_code,
            };
            Err(Failure { exit_code, ..refused(&error) })
        }
    }
}

/// Reads parameters: JSON, or else a text.
fn parameters(given: &[String]) -> Result<Value, Failure> {
    let mut read = Map::new();
    for one in given {
        let (name, value) = one
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("`--param {one}` has no `=`: write NAME=VALUE")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        read.insert(name.to_owned(), value);
    }
    Ok(Value::Object(read))
}

/// Returns rows as a table.
fn rows(found: &Value) -> String {
    let columns: Vec<&str> =
        found["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let cells = |row: &Value| columns.iter().map(|column| cell(&row[*column])).collect();
    table(&columns, found["rows"].as_array().into_iter().flatten().map(cells))
}

/// Returns a value in one line. A node is shown by its id.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(entries) if entries.contains_key("labels") => {
            entries.get("id").map(cell).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

/// Says how current an answer is, and what is missing.
fn tell(found: &Value) {
    if found["truncated"] == true {
        note("there are more rows; use ORDER BY, SKIP and LIMIT");
    }
    if found["capped"] == true {
        note("paths without a bound were cut at 32 steps");
    }
    let fresh = &found["freshness"];
    let mut text = format!("{} files are in the graph", fresh["indexed"]);
    for (field, what) in [("pending", "could not be read now"), ("left_out", "are beyond the limits")] {
        if fresh[field].as_u64().is_some_and(|count| count > 0) {
            text.push_str(&format!(", {} {what}", fresh[field]));
        }
    }
    note(&text);
}

/// Returns the schema as tables.
fn schema(found: &Value) -> String {
    let list = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.collect::<Vec<_>>().join(", ")
    };
    let all = |field: &str| found[field].as_array().cloned().unwrap_or_default();
    let labels = all("labels")
        .into_iter()
        .map(|one| vec![cell(&one["label"]), cell(&one["count"]), list(&one["properties"])]);
    let mut text = table(&["label", "nodes", "properties"], labels);
    let relationships = all("relationships")
        .into_iter()
        .map(|one| vec![cell(&one["type"]), cell(&one["count"]), list(&one["from"]), list(&one["to"])]);
    text.push('\n');
    text.push_str(&table(&["type", "count", "from", "to"], relationships));
    text.push_str(&format!(
        "\nproperties of relationships: {}\n",
        visible(&list(&found["relationship_properties"]))
    ));
    for example in all("examples") {
        text.push_str(&format!(
            "\n{}\n  {}\n",
            visible(&cell(&example["asks"])),
            visible(&cell(&example["query"]))
        ));
    }
    text
}

/// Prints the counts.
fn stats(found: &Value, json: bool) -> Result<(), Failure> {
    let fresh = &found["freshness"];
    let counts = [
        ("files", &fresh["indexed"]),
        ("pending", &fresh["pending"]),
        ("nodes", &found["nodes"]),
        ("relationships", &found["relationship_count"]),
    ];
    if json {
        let mut counts: Map<String, Value> =
            counts.into_iter().map(|(name, count)| (name.to_owned(), count.clone())).collect();
        counts.insert("languages".to_owned(), found["languages"].clone());
        return print_json(&counts);
    }
    let mut text =
        table(&["what", "count"], counts.into_iter().map(|(name, count)| vec![name.to_owned(), cell(count)]));
    let languages = found["languages"].as_array().into_iter().flatten().map(|one| {
        let note =
            if one["missing"] == true { "not in the graph: run `handfast setup languages`" } else { "" };
        vec![cell(&one["language"]), cell(&one["files"]), note.to_owned()]
    });
    text.push('\n');
    text.push_str(&table(&["language", "files", ""], languages));
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_or_texts() {
        let given = ["n=3", "s=it's; MATCH", "l=[1,2]", "e=a=b"].map(str::to_owned);
        assert_eq!(parameters(&given).unwrap(), json!({"n": 3, "s": "it's; MATCH", "l": [1, 2], "e": "a=b"}));
        assert!(parameters(&["n".to_owned()]).is_err());
    }

    #[test]
    fn rows_are_a_table_with_nodes_by_their_ids() {
        let found =
            json!({"columns": ["n", "count"], "rows": [{"n": {"labels": ["F"], "id": "a#b"}, "count": 2}]});
        assert_eq!(rows(&found), "N    COUNT\na#b  2\n");
    }
}
