//! `handfast tools`: lists the tools.

use std::process::ExitCode;

use super::{Failure, print_json};
use crate::cli::Global;
use crate::configuration::Configuration;
use crate::pager::print_listing;
use crate::report::table;

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let toolset = configuration.toolset;
    let tools: Vec<_> =
        configuration.tools().into_iter().filter(|tool| toolset.shows(tool.as_ref())).collect();
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
