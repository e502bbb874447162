//! Tools that read, write and find files.
//!
//! The tools reach files only through [`roots`], by descriptor, and leave every decision to the
//! policy. A plan names paths as the caller spelled them, and the guard of the roots judges the
//! file that was really opened.

mod file_delete;
mod file_edit;
mod file_list;
mod file_move;
mod file_patch;
mod file_read;
mod file_search;
mod file_write;
mod hits;
mod parts;
mod patching;
mod picture;
mod refused;
mod rows;
mod selection;
mod showing;
mod text;
mod version;

use std::sync::Arc;

use tool::{AnyTool, Erased};

/// Returns the tools of this family.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        Erased::tool(file_read::FileRead),
        Erased::tool(file_write::FileWrite),
        Erased::tool(file_edit::FileEdit),
        Erased::tool(file_patch::FilePatch),
        Erased::tool(file_list::FileList),
        Erased::tool(file_search::FileSearch),
        Erased::tool(file_delete::FileDelete),
        Erased::tool(file_move::FileMove),
    ]
}
