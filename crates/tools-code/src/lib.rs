//! Scripts that call tools.
//!
//! `lib.rs` is only the list of tools; each tool is one file. A script runs in the cell that the engine supplies
//! (`engine/src/script_cell.rs`), where it reaches nothing but its tools.

mod exchange;
mod language;
mod next_script;
mod real_programs;
mod run_code;
mod running;
mod signatures;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tool::{AnyTool, ErasedTool};

use next_script::NextScripts;
use real_programs::RealPrograms;

pub use language::JavaScriptEngine;
pub use run_code::RunCode;

/// Maximum number of scripts that run at the same time. Further ones wait.
const MOST_SCRIPTS: usize = 8;

/// Place of the folders of scripts, the number of scripts that may still start, and the programs that run them.
#[derive(Debug)]
pub struct Scripts {
    folder: PathBuf,
    permits: Semaphore,
    programs: RealPrograms,
    engine: Option<JavaScriptEngine>,
    next: NextScripts,
}

impl Scripts {
    /// Creates the place. The folder need not exist. Without an engine, scripts in JavaScript need Node.
    pub fn new(folder: PathBuf, engine: Option<JavaScriptEngine>) -> Self {
        let (programs, next) = (RealPrograms::default(), NextScripts::default());
        Self { folder, permits: Semaphore::new(MOST_SCRIPTS), programs, engine, next }
    }
}

/// Returns the tools of this family, in listing order.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![ErasedTool::tool(RunCode)]
}
