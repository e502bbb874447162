//! Tools of other MCP servers: their processes in cells, their lists, and one tool of this runtime for each of
//! theirs.
//!
//! A server is started by the first call that needs it ([`McpServers`]), in a cell that the engine supplies, and its
//! tools are known before from a stored list. Everything that it says is a stranger's word: definitions are pinned at
//! their first use, and a changed one is asked about again; texts are cleaned, bounded and labelled.

mod answer;
mod connection;
mod failure;
mod foreign_tool;
mod form;
mod http_transport;
mod list_servers;
mod listings;
mod own_calls;
mod parts;
mod pool;
mod servers;
mod settings;

use std::sync::Arc;

pub use listings::{Shelf, ToolGroups};
pub use parts::ServersParts;
pub use servers::McpServers;
pub use settings::{PACKAGE_KEY, PackageOfServer, ServerSettings, ServersSettings};

/// Maximum length of a name, in bytes. Clients put `mcp__handfast__` in front of it, and accept 64 in all.
pub const LONGEST_NAME: usize = 49;

/// Makes the servers of a runtime from what is stored about them. Starts none.
///
/// # Errors
/// The reason, in words, if the pinned definitions cannot be read.
pub fn servers(parts: ServersParts) -> Result<Arc<McpServers>, String> {
    let makers =
        servers::ToolMakers { list: list_servers::list_servers, foreign: foreign_tool::foreign_tool };
    McpServers::new(parts, makers)
}
