//! Resources and prompts of other servers, as clients of this runtime list and name them.

/// Name of the tool that reads a resource of another server.
pub const FOREIGN_RESOURCE_TOOL: &str = "mcp_resource_read";

/// Name of the tool that fills in a prompt of another server.
pub const FOREIGN_PROMPT_TOOL: &str = "mcp_prompt_get";

/// Beginning of the URIs of resources of other servers: `handfast-mcp://SERVER/URI`. No resource of Handfast has
/// this scheme, and the server's own URI follows unchanged, so that a client can also fill in a template.
const SCHEME: &str = "handfast-mcp://";

/// Returns the URI or template that clients of this runtime see for one of a server.
pub fn foreign_uri(server: &str, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

/// Returns the server and its own URI; `None` if it is no URI of [`foreign_uri`].
pub fn split_foreign_uri(uri: &str) -> Option<(&str, &str)> {
    let (server, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    (!server.is_empty() && !uri.is_empty()).then_some((server, uri))
}

/// Resource of another server, or a template of such resources. All texts are cleaned and labelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignResource {
    /// URI or template in the form of [`foreign_uri`].
    pub uri: String,
    /// Name for people.
    pub name: String,
    /// Description for a model.
    pub description: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Size in bytes, as the server claims it.
    pub size: Option<u64>,
}

/// Prompt of another server. All texts are cleaned and labelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignPrompt {
    /// Name, such as `server__prompt`.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Arguments, which are texts.
    pub arguments: Vec<ForeignArgument>,
}

/// Argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignArgument {
    /// Name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// True if the prompt needs it.
    pub is_required: bool,
}

/// Lists that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentChange {
    /// True if the resources or templates changed.
    pub resources: bool,
    /// True if the prompts changed.
    pub prompts: bool,
}

/// Listener to changes of the lists. Returns false once it has gone.
pub type ContentListener = Box<dyn Fn(ContentChange) -> bool + Send + Sync>;

/// Resources and prompts of other servers, from stored lists: listing them starts no server. Reading them is a call
/// of [`FOREIGN_RESOURCE_TOOL`] or [`FOREIGN_PROMPT_TOOL`].
pub trait ForeignContent: Send + Sync {
    /// Returns the resources.
    fn resources(&self) -> Vec<ForeignResource>;

    /// Returns the templates of resources.
    fn templates(&self) -> Vec<ForeignResource>;

    /// Returns the prompts.
    fn prompts(&self) -> Vec<ForeignPrompt>;

    /// Calls the listener after each change, until it returns false. It must not block.
    fn on_change(&self, listener: ContentListener);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_leads_back_to_its_server_and_to_no_other() {
        for (server, uri) in [
            ("git", "file:///a%20b?c=d#e"),
            ("a.b-c_D", "handfast://file/etc/passwd"),
            ("s", "handfast-mcp://t/x"),
            ("s", "../t/x"),
            ("s", "/"),
            ("s", "note"),
        ] {
            assert_eq!(split_foreign_uri(&foreign_uri(server, uri)), Some((server, uri)));
        }
        for uri in [
            "handfast://file/a",
            "handfast-mcp://",
            "handfast-mcp:///x",
            "handfast-mcp://s",
            "handfast-mcp://s/",
        ] {
            assert_eq!(split_foreign_uri(uri), None, "{uri}");
        }
    }
}
