//! `vault_delete`: removal of a secret from the vault.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use vault::{Change, Vault, VaultError};

use crate::vault_failure::failed;

/// The `vault_delete` tool.
pub struct VaultDelete;

/// Arguments of `vault_delete`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of the secret.
    key: String,
}

/// Result of `vault_delete`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the secret.
    key: String,
    /// Always true.
    deleted: bool,
}

impl Tool for VaultDelete {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "vault_delete",
        title: "Delete a secret",
        description: "Delete a credential from the vault.",
        example: Example {
            files: &[],
            arguments: r#"{"key": "github.com"}"#,
            result: r#"{"key": "github.com", "deleted": true}"#,
        },
        level: Level::Critical,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let named = Change::named(&args.key).map_err(|error| ToolError::validation("key", error))?;
        let what = format!("vault delete {}", named.name.as_str());
        Ok(Plan::of(vec![Effect::ChangeHandfast { what }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let vault = context.service::<Vault>()?;
        if !vault.remove(&args.key).map_err(failed)? {
            return Err(failed(VaultError::Unknown));
        }
        Ok(Output { key: args.key, deleted: true })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::Workspace;
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn what_is_not_there_is_said_and_a_wrong_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new().with_service(crate::tests::vault(folder.path()));
        let tool = ErasedTool::tool(VaultDelete);
        let run = |key: &str| testkit::run_tool(tool.as_ref(), &workspace, json!({"key": key}));
        assert_eq!(run("github").unwrap_err().code, Code::NotFound);
        assert_eq!(run("github.com").unwrap()["deleted"], true);
        assert_eq!(run("github.com").unwrap_err().code, Code::NotFound);
        let refused = tool.prepare(json!({"key": "../x"}), &workspace.place());
        assert_eq!(refused.map(|_| ()).unwrap_err().code, Code::Validation);
    }
}
