//! `handfast tools`: lists the tools, or shows one.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;
use tool::{AnyTool, visible};

use super::{Failure, print_json};
use crate::cli::Global;
use crate::configuration::Configuration;
use crate::pager::print_listing;
use crate::report::table;

pub(super) fn run(global: &Global, name: Option<&str>, as_json: bool) -> Result<ExitCode, Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let toolset = configuration.toolset;
    let all = configuration.tools();
    if let Some(name) = name {
        let tool = named(&all, name)?;
        if as_json {
            print_json(&toolset.dialect.described(tool.as_ref()))?;
        } else {
            print_listing(&shown(tool.as_ref()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let tools: Vec<_> = all.into_iter().filter(|tool| toolset.shows(tool.as_ref())).collect();
    if as_json {
        let dialect = toolset.dialect;
        print_json(&tools.iter().map(|tool| dialect.described(tool.as_ref())).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = tools.iter().map(|tool| {
        let spec = tool.spec();
        let description = tool.description();
        let first = description.split_once(". ").map_or(&*description, |(first, _)| first);
        vec![tool.name().to_owned(), spec.level.to_string(), first.trim_end_matches('.').to_owned()]
    });
    print_listing(&table(&["tool", "level", "what it does"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn named<'a>(all: &'a [Arc<dyn AnyTool>], name: &str) -> Result<&'a Arc<dyn AnyTool>, Failure> {
    all.iter().find(|tool| tool.name() == name).ok_or_else(|| {
        let near = tool::nearest(name, all.iter().map(|tool| tool.name()));
        let advice = near.map_or_else(
            || "`handfast tools --catalogue full` lists all".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        Failure::usage(format!("there is no tool named {}; {advice}", visible(name)))
    })
}

/// Returns a tool for people: what it does, its arguments, and a call.
fn shown(tool: &dyn AnyTool) -> String {
    let (spec, name) = (tool.spec(), tool.name());
    let mut text = format!("{name} ({}): {}\n\n{}\n\n", spec.level, spec.title, tool.description());
    let schema = tool.input_schema();
    let is_required = |argument: &String| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == argument))
    };
    let rows: Vec<Vec<String>> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(argument, schema)| {
            let default = match &schema["default"] {
                _ if is_required(argument) => "required".to_owned(),
                Value::Null => String::new(),
                default => default.to_string(),
            };
            let meaning = schema["description"].as_str().unwrap_or_default().to_owned();
            vec![argument.clone(), kind(schema), default, meaning]
        })
        .collect();
    if rows.is_empty() {
        text.push_str("It takes no arguments.\n");
    } else {
        text.push_str(&table(&["argument", "type", "default", "meaning"], rows));
    }
    text.push_str(&format!("\nhandfast call {name} '{}'\n", spec.example.arguments.replace('\'', "'\\''")));
    text
}

/// Returns the type of an argument in one word, or the values that it may have.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return values.join("|");
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", schema["items"]["type"].as_str().unwrap_or("any")),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}
