//! Tools of other MCP servers: their processes in cells, their lists, and one tool of this runtime for each of
//! theirs.
//!
//! A server is started by the first call that needs it ([`McpServers`]), in a cell that the engine supplies, and its
//! tools are known before from a stored list. Everything that it says is a stranger's word: definitions are pinned at
//! their first use, and a changed one is asked about again; texts are cleaned, bounded and labelled.

mod answer;
mod connection;
mod content;
mod content_answer;
mod content_failure;
mod content_lists;
mod failed_servers;
mod failure;
mod foreign_tool;
mod form;
mod health;
mod http_transport;
mod list_servers;
mod listings;
mod login_use;
mod own_calls;
mod parts;
mod plain_transport;
mod pool;
mod prompt_get;
mod resource_read;
mod running_call;
mod sampling;
mod servers;
mod settings;
mod stored_login;

use std::sync::Arc;

pub use listings::{Shelf, ToolGroups};
pub use mcp_client::oauth;
pub use parts::ServersParts;
pub use plain_transport::{Permit, PlainTransport};
pub use servers::McpServers;
pub use settings::{PACKAGE_KEY, PackageOfServer, ServerSettings, ServersSettings};
pub use stored_login::{LoginSecrets, StoredLogin, needs_login};

/// Maximum length of a name, in bytes. Clients put `mcp__handfast__` in front of it, and accept 64 in all.
pub const LONGEST_NAME: usize = 49;

/// Makes the servers of a runtime from what is stored about them. Starts none.
///
/// # Errors
/// The reason, in words, if the pinned definitions cannot be read.
pub fn servers(parts: ServersParts) -> Result<Arc<McpServers>, String> {
    let makers = servers::ToolMakers {
        list: list_servers::list_servers,
        resource: resource_read::resource_read,
        prompt: prompt_get::prompt_get,
        foreign: foreign_tool::foreign_tool,
    };
    McpServers::new(parts, makers)
}
