//! Tools that read, write and find files.
//!
//! The tools reach files only through [`roots`], by descriptor, and leave every decision to the
//! policy. A plan names paths as the caller spelled them, and the guard of the roots judges the
//! file that was really opened.

mod diff_preview;
mod edit_error;
mod file_delete;
mod file_edit;
mod file_list;
mod file_move;
mod file_patch;
mod file_read;
mod file_search;
mod file_write;
mod matches;
mod patching;
mod picture;
mod range_read;
mod rows;
mod selection;
mod text;
mod version;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

/// Returns the tools of this family.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(file_read::FileRead),
        ErasedTool::tool(file_write::FileWrite),
        ErasedTool::tool(file_edit::FileEdit),
        ErasedTool::tool(file_patch::FilePatch),
        ErasedTool::tool(file_list::FileList),
        ErasedTool::tool(file_search::FileSearch),
        ErasedTool::tool(file_delete::FileDelete),
        ErasedTool::tool(file_move::FileMove),
    ]
}
