//! `vault_list`: the names of the secrets, never their values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Context, Example, Place, Plan, Spec, Tool, ToolError};
use vault::Vault;

use crate::vault_failure::failed;

/// The `vault_list` tool.
pub struct VaultList;

/// Arguments of `vault_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// Result of `vault_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Secrets, sorted by name.
    secrets: Vec<Secret>,
}

/// A secret.
#[derive(Debug, Serialize, JsonSchema)]
struct Secret {
    /// Name of the secret.
    key: String,
    /// Hosts that may receive the secret.
    hosts: Vec<String>,
    /// Parts of a request that may have it: header, query, body.
    places: Vec<String>,
    /// Time at which the value was set, RFC 3339.
    set_at: String,
    /// Time of the last use, RFC 3339, to the minute; absent if never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    /// Time of expiry, RFC 3339; absent if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// True if the secret has expired and is no longer used.
    expired: bool,
}

impl Tool for VaultList {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "List secrets",
        example: Example {
            files: &[],
            arguments: "{}",
            result: r#"{"secrets": [{"key": "github.com", "hosts": ["api.github.com"], "places": ["header"], "expired": false}]}"#,
        },
        ..Spec::reading("vault_list", "List the secrets of the vault: names, hosts, dates; never a value.")
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, _args: Args) -> Result<Output, ToolError> {
        let contents = context.service::<Vault>()?.contents().map_err(failed)?;
        let now = context.clock.now();
        let secrets = contents.iter().map(|(entry, _)| Secret {
            key: entry.name.as_str().to_owned(),
            hosts: entry.hosts.iter().cloned().map(String::from).collect(),
            places: entry.places.names().into_iter().map(str::to_owned).collect(),
            set_at: entry.set_at.to_string(),
            last_used_at: entry.last_used_at.map(|time| time.to_string()),
            expires_at: entry.expires_at.map(|time| time.to_string()),
            expired: entry.expires_at.is_some_and(|end| end <= now),
        });
        Ok(Output { secrets: secrets.collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::Workspace;
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn holds_no_value_and_refuses_to_be_asked_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new().with_service(crate::tests::vault(folder.path()));
        let tool = ErasedTool::tool(VaultList);
        let listed = testkit::run_tool(tool.as_ref(), &workspace, json!({})).unwrap().to_string();
        assert!(listed.contains("github.com") && !listed.contains("ghp_"), "{listed}");
        let refused = tool.prepare(json!({"values": true}), &workspace.place());
        assert_eq!(refused.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
