//! `vault_set`: a secret for the vault, which leaves the vault only in requests to its hosts.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use vault::{Change, HostRule, LEAST_CHARACTERS, RequestPart, RequestParts, Vault};

use crate::vault_failure::failed;

/// The `vault_set` tool.
pub struct VaultSet;

/// Arguments of `vault_set`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of the secret, such as github.com.
    key: String,
    /// The credential, at least 12 characters.
    value: String,
    /// Hosts that may get the secret, such as api.github.com or *.github.com; default none, or unchanged.
    hosts: Option<Vec<String>>,
    /// Parts of a request that may have the secret; default header.
    places: Option<Vec<PlaceName>>,
    /// Time of expiry, RFC 3339; default never.
    expires_at: Option<String>,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// A part of a request.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PlaceName {
    Header,
    Query,
    Body,
}

impl From<PlaceName> for RequestPart {
    fn from(name: PlaceName) -> Self {
        match name {
            PlaceName::Header => Self::Header,
            PlaceName::Query => Self::Query,
            PlaceName::Body => Self::Body,
        }
    }
}

/// Result of `vault_set`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the secret.
    key: String,
    /// Always true.
    stored: bool,
}

impl Args {
    fn change(&self) -> Result<Change, ToolError> {
        let named = Change::named(&self.key).map_err(|error| ToolError::validation("key", error))?;
        let rules = self.hosts.as_ref().map(|hosts| HostRule::parse_all(hosts.iter().map(String::as_str)));
        let hosts = rules.transpose().map_err(|error| ToolError::validation("hosts", error))?;
        let positions =
            |places: &Vec<PlaceName>| places.iter().copied().map(RequestPart::from).collect::<Vec<_>>();
        let places = self.places.as_ref().map(|places| RequestParts::of(&positions(places)));
        let time = self.expires_at.as_deref().map(str::parse::<Timestamp>).transpose();
        let expires_at = time.map_err(|error| ToolError::validation("expires_at", error))?;
        if self.value.chars().count() < LEAST_CHARACTERS {
            return Err(ToolError::validation("value", vault::VaultError::Short)
                .hint("nothing was stored; the user must type a PIN or short password where it is needed"));
        }
        Ok(Change { hosts, places, expires_at, ..named })
    }
}

impl Tool for VaultSet {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "vault_set",
        title: "Store a secret",
        description: "Store a credential in the encrypted vault; no tool shows it again.",
        example: Example {
            files: &[],
            arguments: r#"{"key": "telegram_bot_token", "value": "123456:ABC-DEF1234", "hosts": ["api.telegram.org"]}"#,
            result: r#"{"key": "telegram_bot_token", "stored": true}"#,
        },
        level: Level::Critical,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    const SECRETS: &'static [&'static str] = &["value"];

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let change = args.change()?;
        let mut what = format!("vault set {}", change.name.as_str());
        match &change.hosts {
            Some(hosts) if hosts.is_empty() => what.push_str(" for no host"),
            Some(hosts) => {
                let hosts: Vec<String> = hosts.iter().cloned().map(String::from).collect();
                what.push_str(&format!(" for {}", hosts.join(", ")));
            }
            None => what.push_str(" for its current hosts"),
        }
        if let Some(places) = change.places {
            what.push_str(&format!(" in {}", places.names().join(", ")));
        }
        if let Some(end) = change.expires_at {
            what.push_str(&format!(" until {end}"));
        }
        Ok(Plan::of(vec![Effect::ChangeHandfast { what }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let change = args.change()?;
        let vault = context.service::<Vault>()?;
        vault.set(&change, args.value.as_bytes(), context.clock.now()).map_err(failed)?;
        let contents = vault.contents().map_err(failed)?;
        let is_bound = contents.get(change.name.as_str()).is_some_and(|(entry, _)| !entry.hosts.is_empty());
        if !is_bound {
            context.warn(format!(
                "{0} is stored but bound to no host yet, so no tool can use it: the user binds it with \
                 `handfast vault set {0} --host HOST` and enters the value again",
                change.name.as_str()
            ));
        }
        Ok(Output { key: args.key, stored: true })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use testkit::Workspace;
    use tool::{Code, ErasedTool};
    use vault::{Keys, Vault};

    use super::*;

    fn planned(arguments: Value) -> Result<Vec<Effect>, ToolError> {
        let place = Workspace::new().place();
        ErasedTool::tool(VaultSet).prepare(arguments, &place).map(|prepared| prepared.plan.effects)
    }

    #[test]
    fn the_plan_says_where_the_secret_may_go_and_nothing_of_it() {
        let value = "sk-0123456789";
        let effects =
            planned(json!({"key": "k", "value": value, "hosts": ["*.example.com"], "places": ["query"]}));
        let what = "vault set k for *.example.com in query".to_owned();
        assert_eq!(effects.unwrap(), [Effect::ChangeHandfast { what }]);
        let tool = ErasedTool::tool(VaultSet);
        assert!(tool.takes_secrets() && tool.is_secret("value") && !tool.is_secret("key"));
    }

    #[test]
    fn refuses_what_is_wrong_and_never_names_the_value() {
        for (arguments, field) in [
            (json!({"key": "a b", "value": "sk-0123456789"}), "key"),
            (json!({"key": "k", "value": "sk-01234567"}), "value"),
            (json!({"key": "k", "value": "sk-0123456789", "hosts": ["*"]}), "hosts"),
            (json!({"key": "k", "value": "sk-0123456789", "expires_at": "soon"}), "expires_at"),
        ] {
            let error = planned(arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(&format!("`{field}`")), "{}", error.message);
            assert!(!error.message.contains("sk-0"), "{}", error.message);
        }
    }

    #[test]
    fn a_vault_that_is_not_there_or_locked_is_unavailable_and_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = || json!({"key": "k", "value": "sk-0123456789"});
        let run = || {
            let vault = Arc::new(Vault::new(folder.path().join("vault"), Keys::default()));
            let workspace = Workspace::new().with_service(vault);
            testkit::run_tool(ErasedTool::tool(VaultSet).as_ref(), &workspace, arguments()).unwrap_err()
        };
        let error = run();
        assert_eq!((error.code, error.hint.unwrap().contains("vault set NAME")), (Code::Unavailable, true));
        crate::tests::vault(folder.path());
        let error = run();
        assert_eq!((error.code, error.hint.unwrap().contains("vault unlock")), (Code::Unavailable, true));
    }
}
