//! Shared error conversion of the tools that act through roots.
//!
//! This crate opens nothing. Of the tools it knows only the names that its hints mention.

use roots::{EntryKind, RootsError};
use tool::{Code, Context, EffectState, Retry, ToolError};

const LISTED: &str = "file tools can access the workspace and the paths that the profile lists in \
                      `allowed_read_paths` and `allowed_write_paths`";

/// Returns a converter for `map_err`: roots errors become tool errors, with paths relative to the
/// workspace.
pub fn failure(context: &Context) -> impl Fn(RootsError) -> ToolError + Copy + '_ {
    move |error| outward(context, error.relative_to(&context.place.workspace))
}

// BOUNDED: an error wraps at most one other error.
fn outward(context: &Context, error: RootsError) -> ToolError {
    let message = error.to_string();
    let made = |code| ToolError::new(code, message.clone());
    match error {
        RootsError::NotInRoots { .. } | RootsError::LeadsOutside { .. } => {
            made(Code::Permission).hint(LISTED)
        }
        RootsError::ReadOnly { .. } => {
            made(Code::Permission).hint("`allowed_write_paths` of the profile lists the writable paths")
        }
        RootsError::Refused { refusal, .. } => {
            let mut made = made(Code::Permission);
            made.hint = refusal.hint;
            made
        }
        RootsError::NotFound { .. } => made(Code::NotFound).hint("file_list shows the existing files"),
        RootsError::NoFolder { .. } => made(Code::NotFound).hint("to create a folder, write a file into it"),
        RootsError::WrongKind { wanted, found, .. } => {
            let made = made(Code::Validation);
            match (wanted, found) {
                (EntryKind::File, EntryKind::Folder) => made.hint("file_list lists a folder"),
                (EntryKind::Folder, EntryKind::File) => made.hint("file_read reads a file"),
                _ => made,
            }
        }
        RootsError::Exists { .. } => {
            made(Code::Conflict).hint("choose another name, or delete the existing entry first")
        }
        RootsError::NotEmpty { .. } => {
            made(Code::Conflict).hint("`recursive: true` deletes a folder with its content")
        }
        RootsError::IsRoot { .. } => made(Code::Permission).hint("give a path below it"),
        RootsError::IntoItself { .. } | RootsError::TooManyLinks { .. } => made(Code::Validation),
        RootsError::OtherFileSystem { .. } => {
            made(Code::Runtime).hint("work on the parts in one file system")
        }
        RootsError::TooDeep { .. } => made(Code::Quota).hint("work on a subfolder"),
        RootsError::Changed { .. } => {
            made(Code::Conflict).retry(Retry::Now).hint("check the current state, then try again")
        }
        RootsError::OwnerNotKept { source, .. } => made(Code::Permission)
            .hint("its owner can change it; or delete it and write a new file")
            .because(source),
        RootsError::NoOpenat2 => made(Code::Unavailable).hint("use Linux 5.6 or later"),
        RootsError::Stopped => match context.stop.check() {
            Err(stopped) => stopped,
            Ok(()) => ToolError::internal("an operation stopped without a request"),
        },
        RootsError::Partly { source } => outward(context, *source).effect(EffectState::Maybe),
        RootsError::Io { doing, path, source } => ToolError::io(doing, &path, source),
    }
}
