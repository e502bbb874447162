//! `browser_state`: the logins of the session's browser, sealed in the vault and put back later.

use browser::{Running, StoredState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, DecidedEffects, Effect, Example, Lane, Level, PageAccess, Place, Plan, PlanContext,
    Spec, Timeout, Tool, ToolError,
};
use vault::{Change, RequestParts, Vault};

use crate::errors::of_browser;
use crate::origin;
use crate::session::{self, open, started};

/// Beginning of the names under which the vault has states. No tool sends such a secret anywhere: it is
/// bound to no host.
const PREFIX: &str = "browser_state_";

/// The `browser_state` tool.
pub struct BrowserState;

/// Arguments of `browser_state`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Action.
    action: Action,
    /// Name of the state: letters, digits and _.
    name: String,
    /// Domain, with those below it, to save; default all.
    domain: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Action {
    Save,
    Load,
}

/// Result of `browser_state`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hosts whose logins were saved or loaded.
    hosts: Vec<String>,
    /// Number of cookies.
    cookies: usize,
    /// Number of origins with local storage.
    origins: usize,
}

impl Args {
    /// Returns the name in the vault.
    fn secret(&self) -> Result<String, ToolError> {
        let name = format!("{PREFIX}{}", self.name);
        let is_name = !self.name.is_empty() && vault::is_name(&name);
        if is_name { Ok(name) } else { Err(ToolError::validation("name", "has letters, digits and _ alone")) }
    }

    async fn taken(&self, running: &Running) -> Result<StoredState, ToolError> {
        let domain = self.domain.as_deref().unwrap_or_default();
        let state = running.session().stored_state(domain).await.map_err(of_browser)?;
        if state.is_empty() {
            let problem = "the session has no cookie and no local storage there";
            return Err(ToolError::new(Code::NotFound, problem).hint("log in first"));
        }
        Ok(state)
    }

    fn stored(&self, vault: &Vault) -> Result<StoredState, ToolError> {
        let name = self.secret()?;
        let contents = vault.contents().map_err(tool_support::vault_error)?;
        let Some((_, value)) = contents.get(&name) else {
            let problem = format!("the vault has no state named {}", self.name);
            return Err(ToolError::new(Code::NotFound, problem)
                .hint("save one with the action save; `handfast vault list` names those there are"));
        };
        serde_json::from_slice(value).map_err(|error| {
            ToolError::new(Code::Runtime, format!("{name} in the vault is no state of a browser"))
                .because(error)
        })
    }

    /// Returns the effects on the origins of a state: who has the state acts there as the user.
    fn effects(&self, state: &StoredState) -> Vec<Effect> {
        let verb = if self.action == Action::Save { "save" } else { "load" };
        let on = |origin: String| {
            let what = format!("{verb} the login of {origin} as {}", self.name);
            origin::effect(&origin, PageAccess::Submit, what)
        };
        state.origins().into_iter().filter_map(on).collect()
    }
}

impl Tool for BrowserState {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Save or load logins",
        example: Example {
            files: &[],
            arguments: r#"{"action": "save", "name": "shop", "domain": "shop.example"}"#,
            result: r#"{"hosts": ["shop.example"]}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        ..Spec::reading(
            "browser_state",
            "Save the logins of the session's browser (cookies, local storage) in the vault, or load them. Nobody sees them.",
        )
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        args.secret()?;
        if args.domain.is_some() && args.action == Action::Load {
            return Err(ToolError::validation("domain", "is for the action save"));
        }
        Ok(Plan::of(Vec::new()))
    }

    fn plans_now(&self, _args: &Args) -> bool {
        true
    }

    async fn plan_now(&self, now: &PlanContext<'_>, args: &Args, plan: Plan) -> Result<Plan, ToolError> {
        let state = match args.action {
            Action::Save => args.taken(session::planned(now)?.as_ref()).await?,
            Action::Load => args.stored(now.services.get::<Vault>()?.as_ref())?,
        };
        Ok(Plan { effects: args.effects(&state), ..plan })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let decided = context.service::<DecidedEffects>()?;
        let vault = context.service::<Vault>()?;
        let state = match args.action {
            Action::Save => args.taken(open(context)?.as_ref()).await?,
            Action::Load => args.stored(&vault)?,
        };
        if decided.0 != args.effects(&state) {
            let problem = "the state is one of other hosts now";
            return Err(
                ToolError::new(Code::Conflict, problem).hint("repeat the call if that is what you want")
            );
        }
        let (hosts, cookies, origins) = (state.hosts(), state.cookies.len(), state.origins.len());
        match args.action {
            Action::Save => {
                let text = serde_json::to_vec(&state)
                    .map_err(|error| ToolError::internal("the state cannot be written").because(error))?;
                let name = args.secret()?;
                let change = Change::named(&name).map_err(tool_support::vault_error)?;
                let change =
                    Change { hosts: Some(Vec::new()), places: Some(RequestParts::of(&[])), ..change };
                vault.set(&change, &text, context.clock.now()).map_err(tool_support::vault_error)?;
            }
            Action::Load => {
                let running = started(context).await?;
                let _turn = running.turn().await;
                running.session().put_state(state).await.map_err(of_browser)?;
            }
        }
        Ok(Output { hosts, cookies, origins })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserState), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"action": "save", "name": "../x"}), "name"),
            (serde_json::json!({"action": "save", "name": ""}), "name"),
            (serde_json::json!({"action": "load", "name": "a", "domain": "b"}), "domain"),
            (serde_json::json!({"action": "delete", "name": "a"}), "action"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
