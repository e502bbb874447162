//! One query on a graph, within its limits, with errors as callers see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cypher::{Answer, Detail, Error, ErrorClass, Graph, Options, Parameters};
use tool::{Code, Context, Retry, ToolError};

use crate::graphs::CodeGraphs;

/// Answers a query: at most 5 seconds, 1,000 rows and 256 MiB. Blocks.
pub(crate) fn ask(
    context: &Context,
    graphs: &CodeGraphs,
    graph: &dyn Graph,
    query: &str,
    parameters: &Parameters,
) -> Result<Answer, ToolError> {
    let _turn = graphs.turn(context)?;
    let cancel = Arc::new(AtomicBool::new(graphs.is_ended()));
    let stops = cancel.clone();
    context.stop.on_request(move |_| stops.store(true, Ordering::Relaxed));
    let options = Options { cancel: Some(&cancel), ..Options::default() };
    cypher::query(graph, query, parameters, &options).map_err(|error| failed(context, &error))
}

/// Converts the error of a query.
fn failed(context: &Context, error: &Error) -> ToolError {
    let code = match error.detail {
        Detail::Cancelled => {
            let stopped = context.stop.check().err();
            return stopped.unwrap_or_else(|| ToolError::new(Code::Cancelled, "the query was cancelled"));
        }
        Detail::DeadlineExceeded => Code::Timeout,
        Detail::MemoryExceeded => Code::Quota,
        _ => Code::Validation,
    };
    let field = if error.class == ErrorClass::ParameterMissing { "params" } else { "query" };
    let hint = match error.detail {
        Detail::WritingClause => "the graph follows the files: edit a file, and the next query sees it",
        Detail::DeadlineExceeded | Detail::MemoryExceeded => "EXPLAIN before the query shows its plan",
        Detail::MissingParameter => "give it in `params`, by its name without the dollar sign",
        _ => "graph_schema shows labels, relationship types, properties and examples",
    };
    ToolError::new(code, format!("`{field}`: {error}")).hint(hint).retry(Retry::Never)
}
