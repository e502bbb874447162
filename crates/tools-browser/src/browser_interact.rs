//! `browser_interact`: an action on an element of a page.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use browser::{
    ActionOutcome, ClickOptions, Condition, KeyPress, Page, PlannedAction, ScrollTo, Selector,
    SnapshotOptions, Typing, TypingMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, DecidedEffects, Example, Lane, Level, Place, Plan, PlanContext, Presentation,
    QuestionPicture, Services, Spec, Timeout, Tool, ToolError,
};

use vault::Vault;

use crate::errors::{of_browser, of_page};
use crate::picture;
use crate::planned::{self, PlannedEffects};
use crate::secret;
use crate::session::{self, open, reported, time};
use crate::traced::traced;
use crate::untrusted::marked;
use crate::upload;

/// Time in which an element must be ready, unless the caller names another.
const READY: Duration = browser::ACTION_TIME;
/// Tokens of the changes of a page that an answer shows.
const CHANGES: usize = 2_000;

/// The `browser_interact` tool.
pub struct BrowserInteract;

/// Arguments of `browser_interact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Tab, default the active one.
    tab_id: Option<u32>,
    /// Action.
    action: Action,
    /// Element: a reference such as e12, CSS, or `xpath:...`.
    selector: Option<String>,
    /// Text to type, or {{secret:NAME}}; option to select; file to upload; where to scroll (down, up, top, bottom, view, 300px).
    value: Option<String>,
    /// Key to press after typing, such as Enter.
    press: Option<String>,
    /// Append to the text of the field instead of replacing it.
    #[serde(default)]
    append: bool,
    /// Seconds to wait for the element, default 5.
    #[schemars(range(min = 0.1, max = 60))]
    timeout: Option<f64>,
    /// URL that the tab must show. Only dialects set it.
    #[schemars(skip)]
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Action {
    Click,
    Type,
    Scroll,
    Select,
    Submit,
    Hover,
    Wait,
    Upload,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Action::Click => "click",
            Action::Type => "type",
            Action::Scroll => "scroll",
            Action::Select => "select",
            Action::Submit => "submit",
            Action::Hover => "hover",
            Action::Wait => "wait",
            Action::Upload => "upload",
        }
    }
}

/// Result of `browser_interact`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Always true: an error is reported otherwise.
    success: bool,
    /// Action.
    action: String,
    /// True if the page has changed.
    page_changed: bool,
    /// New URL, if the page has another one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_url: Option<String>,
    /// Other events: dialogs, downloads, errors, new tabs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<String>,
    /// Facts about the element.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Changes of the page.
    page: String,
}

/// Arguments of a call after their check.
struct CheckedArguments {
    selector: Option<Selector>,
    press: Option<KeyPress>,
    limit: Duration,
}

impl Args {
    fn checked(&self) -> Result<CheckedArguments, ToolError> {
        let selector = self.selector.as_deref().map(Selector::parse).transpose().map_err(of_page)?;
        let press: Option<KeyPress> = self
            .press
            .as_deref()
            .map(|key| KeyPress::parse(key).map_err(|error| ToolError::validation("press", error)))
            .transpose()?;
        let needs_selector = matches!(
            self.action,
            Action::Click | Action::Type | Action::Select | Action::Submit | Action::Hover | Action::Upload
        );
        if needs_selector && selector.is_none() {
            return Err(ToolError::validation(
                "selector",
                format!("is needed for the action {}", self.action.as_str()),
            ));
        }
        if matches!(self.action, Action::Type | Action::Select | Action::Upload) && self.value.is_none() {
            return Err(ToolError::validation(
                "value",
                format!("is needed for the action {}", self.action.as_str()),
            ));
        }
        if self.action == Action::Wait && selector.is_none() && self.value.is_none() {
            return Err(ToolError::validation(
                "selector",
                "or `value`, the text to wait for, is needed for the action wait",
            ));
        }
        if (press.is_some() || self.append) && self.action != Action::Type {
            let field = if press.is_some() { "press" } else { "append" };
            return Err(ToolError::validation(field, "is for the action type"));
        }
        if self.secret()?.is_some() && (self.action != Action::Type || self.append) {
            return Err(ToolError::validation("value", "a secret is for the action type, without `append`"));
        }
        Ok(CheckedArguments { selector, press, limit: time(self.timeout, READY) })
    }

    /// Returns the name of the secret to type.
    fn secret(&self) -> Result<Option<&str>, ToolError> {
        self.value.as_deref().map_or(Ok(None), secret::named)
    }

    /// Returns the action in a line.
    fn title(&self) -> String {
        let words = [Some(self.action.as_str()), self.selector.as_deref(), self.value.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn scroll(&self) -> Result<ScrollTo, ToolError> {
        let text = self.value.as_deref().unwrap_or(if self.selector.is_some() { "view" } else { "down" });
        ScrollTo::parse(text).ok_or_else(|| {
            ToolError::validation(
                "value",
                "is none of down, up, left, right, top, bottom, view, a number of pages, or 300px",
            )
        })
    }

    async fn effects(
        &self,
        page: &Page,
        checked: &CheckedArguments,
        (place, services): (&Place, &Services),
    ) -> Result<PlannedEffects, ToolError> {
        if self.action == Action::Wait {
            return Ok(PlannedEffects {
                effects: Vec::new(),
                level: Level::Safe,
                origin: String::new(),
                field: None,
            });
        }
        let url = page.tab().url();
        let Some(selector) = &checked.selector else {
            return Ok(planned::effects_of_page(&url, self.action.as_str()));
        };
        let action = match self.action {
            Action::Click => PlannedAction::Click,
            Action::Type => PlannedAction::Type { press: checked.press.clone() },
            Action::Submit => PlannedAction::Submit,
            Action::Scroll | Action::Select | Action::Hover | Action::Wait | Action::Upload => {
                PlannedAction::Other
            }
        };
        if self.action == Action::Upload {
            let file = self.value.as_deref().unwrap_or_default();
            return planned::effects_of_upload(page, selector, (file, place), checked.limit).await;
        }
        let verb = match self.action {
            Action::Click => "click",
            Action::Type => "type into",
            Action::Select => "select in",
            other => other.as_str(),
        };
        let Some(name) = self.secret()? else {
            return planned::effects_on(page, &action, selector, verb, None, checked.limit).await;
        };
        let vault = services.get::<Vault>()?;
        planned::effects_on(page, &action, selector, verb, Some((name, vault.as_ref())), checked.limit).await
    }

    /// Types a secret whose use was decided on.
    async fn type_secret(
        &self,
        context: &Context,
        page: &Page,
        checked: &CheckedArguments,
        (name, selector, now): (&str, &Selector, &PlannedEffects),
    ) -> Result<ActionOutcome, ToolError> {
        let decided = context.service::<DecidedEffects>()?;
        let value = secret::value(context, name, &decided.0)?;
        let value = std::str::from_utf8(&value).map_err(|_| {
            ToolError::new(Code::Unavailable, format!("the secret {name} is no text, and fields take text"))
        })?;
        let press = checked.press.as_ref();
        page.type_secret(selector, value, (&now.origin, now.field.as_deref()), press, checked.limit)
            .await
            .map_err(of_page)
    }

    async fn act(
        &self,
        context: &Context,
        page: &Page,
        checked: &CheckedArguments,
        now: &PlannedEffects,
    ) -> Result<ActionOutcome, ToolError> {
        let limit = checked.limit;
        let value = self.value.as_deref().unwrap_or_default();
        let Some(selector) = &checked.selector else {
            return match self.action {
                Action::Scroll => page.scroll(None, self.scroll()?, limit).await,
                _ => page.wait(&Condition::Text(value.to_owned()), limit).await,
            }
            .map_err(of_page);
        };
        if let Some(name) = self.secret()? {
            return self.type_secret(context, page, checked, (name, selector, now)).await;
        }
        match self.action {
            Action::Click => page.click(selector, ClickOptions::default(), limit).await,
            Action::Type => {
                let mode = if self.append { TypingMode::Append } else { TypingMode::Replace };
                let typing = Typing { mode, press: checked.press.clone(), ..Typing::new(value) };
                page.type_text(selector, &typing, limit).await
            }
            Action::Scroll => page.scroll(Some(selector), self.scroll()?, limit).await,
            Action::Select => page.select(selector, &[value], limit).await,
            Action::Submit => page.submit(selector, limit).await,
            Action::Hover => page.hover(selector, limit).await,
            Action::Upload => return upload::give(context, page, selector, value, limit).await,
            Action::Wait if value == "hidden" => page.wait(&Condition::Hidden(selector.clone()), limit).await,
            Action::Wait => page.wait(&Condition::Visible(selector.clone()), limit).await,
        }
        .map_err(of_page)
    }
}

impl Tool for BrowserInteract {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Act on a page",
        example: Example {
            files: &[],
            arguments: r#"{"tab_id": 1, "action": "scroll", "value": "down"}"#,
            result: r#"{"success": true, "action": "scroll"}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_secs(90) },
        lane: Lane::Browser,
        presentation: Presentation::Text { field: "page" },
        ..Spec::reading(
            "browser_interact",
            "Click, type, scroll, select, submit, hover, wait or upload. Waits until the element is ready, and returns what changed on the page.",
        )
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        args.checked()?;
        if args.action == Action::Scroll {
            args.scroll()?;
        }
        if args.action == Action::Upload {
            place.resolve("value", args.value.as_deref().unwrap_or_default())?;
        }
        let level = match args.action {
            Action::Wait => Level::Safe,
            Action::Click | Action::Submit | Action::Upload => Level::Destructive,
            Action::Type | Action::Scroll | Action::Select | Action::Hover => Level::Moderate,
        };
        Ok(Plan { level: Some(level), ..Plan::of(Vec::new()) })
    }

    fn plans_now(&self, args: &Args) -> bool {
        args.action != Action::Wait
    }

    async fn plan_now(&self, now: &PlanContext<'_>, args: &Args, plan: Plan) -> Result<Plan, ToolError> {
        let running = session::planned(now)?;
        let page = session::page(&running, args.tab_id, args.url.as_deref())?;
        let PlannedEffects { effects, level, .. } =
            args.effects(&page, &args.checked()?, (now.place, now.services)).await?;
        Ok(Plan { effects, level: Some(level), ..plan })
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let value = args.value.as_deref()?;
        match args.action {
            Action::Type => Some(format!("text to type:\n{value}\n")),
            Action::Select => Some(format!("option to select: {value}\n")),
            _ => None,
        }
    }

    async fn picture(&self, now: &PlanContext<'_>, args: &Args) -> Option<QuestionPicture> {
        let selector = Selector::parse(args.selector.as_deref()?).ok()?;
        let running = session::planned(now).ok()?;
        let page = session::page(&running, args.tab_id, None).ok()?;
        picture::for_question(&page, &selector).await
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.map(|seconds| Duration::from_secs_f64(seconds + 20.0))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        // A stop ends every wait for the page at once.
        let began = AtomicBool::new(true);
        let (title, tab) = (args.title(), args.tab_id);
        let acting = tool_support::unless_stopped(&context.stop, &began, act_on_page(context, args));
        traced(context, title, acting, |_| tab).await
    }
}

/// Acts and reports what came of it.
async fn act_on_page(context: &Context, args: Args) -> Result<Output, ToolError> {
    let running = open(context)?;
    let _turn = running.turn().await;
    let page = session::page(&running, args.tab_id, args.url.as_deref())?;
    page.tab().prepare().await.map_err(of_browser)?;
    let checked = args.checked()?;
    let now = args.effects(&page, &checked, (&context.place, &context.services)).await?;
    if args.action != Action::Wait {
        let decided = context.service::<DecidedEffects>()?;
        planned::require_same(&decided, &now)?;
    }
    let mark = page.tab().begin_report();
    let outcome = args.act(context, &page, &checked, &now).await?;
    let is_settled = page.tab().settle(&mark, checked.limit).await;
    let report = page.tab().report(&mark);
    let options = SnapshotOptions { diff: true, budget: CHANGES, ..SnapshotOptions::default() };
    let mut notes = outcome.notes;
    // The action has happened, so a page that cannot be read any more is no error of the call.
    let changes = match page.snapshot(&options).await {
        Ok(shown) => shown.text,
        Err(error) => {
            notes.push(format!("the page could not be read afterwards: {error}"));
            String::new()
        }
    };
    if !is_settled {
        notes.push("the page was still loading".to_owned());
    }
    Ok(Output {
        success: true,
        action: args.action.as_str().to_owned(),
        page_changed: report.navigation.is_some() || changes.trim() != "no change",
        new_url: report.navigation.as_ref().map(|change| change.to.clone()),
        events: reported(&report),
        notes,
        page: marked(&changes, &context.call),
    })
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserInteract), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"tab_id": 1, "action": "click"}), "selector"),
            (serde_json::json!({"tab_id": 1, "action": "type", "selector": "a"}), "value"),
            (serde_json::json!({"tab_id": 1, "action": "click", "selector": "a", "press": "Enter"}), "press"),
            (
                serde_json::json!({"tab_id": 1, "action": "type", "selector": "a", "value": "my {{secret:x}}"}),
                "value",
            ),
            (serde_json::json!({"tab_id": 1, "action": "scroll", "value": "sideways"}), "value"),
            (serde_json::json!({"tab_id": 1, "action": "wait"}), "selector"),
            (serde_json::json!({"tab_id": 1, "action": "upload", "value": "a"}), "selector"),
            (serde_json::json!({"tab_id": 1, "action": "upload", "selector": "a"}), "value"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
