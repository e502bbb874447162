//! `handfast tools`: what there is.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use tool::AnyTool;

use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::compose::registered;
use crate::report::table;

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let listed = |tool: &Arc<dyn AnyTool>| global.catalogue.is_none_or(|kind| kind.lists(tool.as_ref()));
    let tools: Vec<_> = registered().into_iter().filter(listed).collect();
    if as_json {
        print_json(&tools.iter().map(|tool| described(tool.as_ref())).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = tools.iter().map(|tool| {
        let spec = tool.spec();
        let first = tool.description().split_once(". ").map_or(tool.description(), |(first, _)| first);
        vec![tool.name().to_owned(), spec.level.to_string(), first.trim_end_matches('.').to_owned()]
    });
    print(&table(&["tool", "level", "what it does"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn described(tool: &dyn AnyTool) -> Value {
    let spec = tool.spec();
    let example = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    json!({
        "name": tool.name(),
        "title": spec.title,
        "description": tool.description(),
        "level": spec.level,
        "timeout_seconds": { "default": spec.timeout.default.as_secs(), "max": spec.timeout.max.as_secs() },
        "input_schema": tool.input_schema(),
        "output_schema": tool.output_schema(),
        "example": {
            "files": spec.example.files.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
            "arguments": example(spec.example.arguments),
            "result": example(spec.example.result),
        },
    })
}
