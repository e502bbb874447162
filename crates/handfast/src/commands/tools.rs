//! `handfast tools`: what there is.

use std::process::ExitCode;
use std::sync::Arc;

use tool::AnyTool;

use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::compose::registered;
use crate::report::table;

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let listed = |tool: &Arc<dyn AnyTool>| global.catalogue.is_none_or(|kind| kind.lists(tool.as_ref()));
    let tools: Vec<_> = registered().into_iter().filter(listed).collect();
    if as_json {
        print_json(&tools.iter().map(|tool| tool::described(tool.as_ref())).collect::<Vec<_>>())?;
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
