//! Canonical tools through which a door reads content for its client, outside the client's calls.

/// Tool that returns the content with one id or path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentTool {
    /// Canonical name.
    pub name: &'static str,
    /// Argument that selects the content.
    pub argument: &'static str,
    /// Arguments that select a part of it.
    pub options: &'static [&'static str],
}

/// Reads a file.
pub const FILE: ContentTool =
    ContentTool { name: "file_read", argument: "path", options: &["offset", "max_bytes"] };

/// Reads the full text of a truncated output.
pub const OUTPUT: ContentTool =
    ContentTool { name: "output_read", argument: "output_ref", options: &["offset", "limit", "regex"] };

/// Shows the changes of a checkpoint.
pub const CHECKPOINT: ContentTool = ContentTool { name: "checkpoint_diff", argument: "id", options: &[] };

/// Lists checkpoints: `limit` bounds their number, and `checkpoints` of its answer has the `id` of
/// each.
pub const CHECKPOINT_LIST: &str = "checkpoint_list";

/// Undoes a checkpoint by its `id`.
pub const CHECKPOINT_RESTORE: &str = "checkpoint_restore";

/// Lists a folder: with `details: false`, `names` of its answer has the names in it.
pub const FILE_LIST: &str = "file_list";

/// Describes the tools and their reach.
pub const CAPABILITIES: &str = "self_list_capabilities";
