//! `handfast mcp`: serves one agent over standard input and output.

use std::process::ExitCode;
use std::sync::Arc;

use super::{Failure, tokio_runtime};
use crate::cli::Global;
use crate::compose::compose;
use crate::report::warn;

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    let composed = compose(global)?;
    let mut options = mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), composed.session.clone());
    options.on_warning = Arc::new(warn);
    let runtime = tokio_runtime()?;
    let served = runtime.block_on(mcp::serve_stdio(composed.engine.clone(), options));
    runtime.shutdown_background();
    composed.store.close()?;
    served?;
    Ok(ExitCode::SUCCESS)
}
