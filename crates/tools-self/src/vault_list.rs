//! `vault_list`: which secrets there are, and never what they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Context, Example, Place, Plan, Spec, Tool, ToolError};
use vault::Vault;

use crate::vault_failure::failed;

/// Lists the secrets.
pub struct VaultList;

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// Which there are.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// By name.
    secrets: Vec<Secret>,
}

/// One secret.
#[derive(Debug, Serialize, JsonSchema)]
struct Secret {
    /// The name.
    key: String,
    /// Hosts that it may be sent to.
    hosts: Vec<String>,
    /// Where in a request: header, query, body.
    places: Vec<String>,
    /// RFC 3339.
    set_at: String,
    /// RFC 3339, to the minute; absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    /// RFC 3339; absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// It is used no more.
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
        ..Spec::reading("vault_list", "Lists the secrets of the vault: names, hosts, ages; never a value.")
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
    use tool::{Code, Erased};

    use super::*;

    #[test]
    fn holds_no_value_and_refuses_to_be_asked_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new().with_service(crate::tests::vault(folder.path()));
        let tool = Erased::tool(VaultList);
        let listed = testkit::run_tool(tool.as_ref(), &workspace, json!({})).unwrap().to_string();
        assert!(listed.contains("github.com") && !listed.contains("ghp_"), "{listed}");
        let refused = tool.prepare(json!({"values": true}), &workspace.place());
        assert_eq!(refused.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
