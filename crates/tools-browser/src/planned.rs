//! Effects of an action on its page: planned before it happens, and compared when it does.

use std::time::Duration;

use browser::{Condition, Page, PageError, PlannedAction, Selector, Target};
use tool::{Code, DecidedEffects, Effect, Level, PageAccess, Place, ToolError};
use vault::Vault;

use crate::errors::of_page;
use crate::{origin, secret};

/// Longest time for which a plan waits for its element.
const APPEARING: Duration = Duration::from_secs(5);

/// Effects of an action, with the level that they have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedEffects {
    pub(crate) effects: Vec<Effect>,
    pub(crate) level: Level,
    /// Origin of the element's document; empty if the action has no element.
    pub(crate) origin: String,
    /// Name of the field, if the entry of the secret to type names it.
    pub(crate) field: Option<String>,
}

/// Returns the effects of an action on an element. Waits for the element if it is not there yet.
pub(crate) async fn effects_on(
    page: &Page,
    action: &PlannedAction,
    selector: &Selector,
    verb: &str,
    secret: Option<(&str, &Vault)>,
    limit: Duration,
) -> Result<PlannedEffects, ToolError> {
    let target = described(page, action, selector, limit).await?;
    let url = page.tab().url();
    let (effects, level) = of_target(&url, &target, verb);
    let origin = origin::of(own_url(&url, &target));
    let mut planned = PlannedEffects { effects, level, origin, field: None };
    if let Some((name, vault)) = secret {
        planned.effects.push(secret::effect(name, &target.facts, own_url(&url, &target), vault)?);
        if !target.facts.is_password {
            planned.field = secret::field(name, &target.facts, vault)?.map(str::to_owned);
        }
    }
    Ok(planned)
}

/// Returns the effects of giving a file of the workspace to an element: the page can read and send it from
/// then on.
pub(crate) async fn effects_of_upload(
    page: &Page,
    selector: &Selector,
    (file, place): (&str, &Place),
    limit: Duration,
) -> Result<PlannedEffects, ToolError> {
    let target = described(page, &PlannedAction::Click, selector, limit).await?;
    if target.facts.is_submit || target.facts.leaves_page {
        let problem = format!("{} submits a form or leaves the page", named(&target));
        return Err(ToolError::new(Code::Runtime, problem)
            .hint("name the file input, or the button that opens a file chooser"));
    }
    let url = page.tab().url();
    let own = own_url(&url, &target);
    let path = place.resolve("value", file)?;
    let what = format!("give the file {} to {}", place.show(&path), named(&target));
    let given = origin::effect(own, PageAccess::Submit, what);
    let given = given
        .ok_or_else(|| ToolError::new(Code::Permission, "the page has no server, so it gets no file"))?;
    let effects = vec![Effect::Read { path }, given];
    Ok(PlannedEffects { effects, level: Level::Destructive, origin: origin::of(own), field: None })
}

/// Describes an element, and waits for it if it is not there yet.
async fn described(
    page: &Page,
    action: &PlannedAction,
    selector: &Selector,
    limit: Duration,
) -> Result<Target, ToolError> {
    let target = match page.describe(action, selector).await {
        Err(PageError::NoMatch { .. }) => {
            // If it does not appear, the description says what there is instead.
            let _appeared = page.wait(&Condition::Visible(selector.clone()), limit.min(APPEARING)).await;
            page.describe(action, selector).await
        }
        described => described,
    };
    target.map_err(of_page)
}

/// Returns the element as questions name it.
fn named(target: &Target) -> String {
    let facts = &target.facts;
    let role = if facts.role.is_empty() { &facts.tag } else { &facts.role };
    format!("`{}` ({role})", facts.name)
}

/// Returns the effects of an action that has no element.
pub(crate) fn effects_of_page(url: &str, what: &str) -> PlannedEffects {
    let (effects, level) = of_use(url, what);
    PlannedEffects { effects, level, origin: String::new(), field: None }
}

fn of_use(url: &str, what: &str) -> (Vec<Effect>, Level) {
    let effects: Vec<Effect> = origin::effect(url, PageAccess::Use, what).into_iter().collect();
    let level = if effects.is_empty() { Level::Safe } else { Level::Moderate };
    (effects, level)
}

/// Returns the origin of the element's document, or the URL of the page if the document has none of its
/// own.
fn own_url<'a>(url: &'a str, target: &'a Target) -> &'a str {
    let origin = &target.facts.origin;
    if origin.is_empty() { url } else { origin }
}

fn of_target(url: &str, target: &Target, verb: &str) -> (Vec<Effect>, Level) {
    let facts = &target.facts;
    let named = |what: &str| format!("{what} {}", named(target));
    let own = own_url(url, target);
    if facts.is_submit {
        let to = if facts.form_action.is_empty() { own } else { &facts.form_action };
        let what = named("submit the form by");
        let effect = origin::effect(to, PageAccess::Submit, &what)
            .or_else(|| origin::effect(own, PageAccess::Submit, &what));
        return (effect.into_iter().collect(), Level::Destructive);
    }
    if facts.leaves_page || facts.is_download {
        let access = if facts.is_download { PageAccess::Submit } else { PageAccess::Use };
        let what = format!("{} to {}", named("follow the link"), facts.href);
        let effect = origin::effect(&facts.href, access, what);
        return (effect.into_iter().collect(), Level::Destructive);
    }
    of_use(own, &named(verb))
}

/// Checks that an action still does what was decided on.
///
/// # Errors
/// `ECONFLICT` if the page has changed so that the action would do something else.
pub(crate) fn require_same(decided: &DecidedEffects, now: &PlannedEffects) -> Result<(), ToolError> {
    if decided.0 == now.effects {
        return Ok(());
    }
    let what = now.effects.iter().find_map(|effect| match effect {
        Effect::Browse { origin, what, .. } => Some(format!("{what} on {origin}")),
        _ => None,
    });
    let what = what.unwrap_or_else(|| "nothing outside of the page".to_owned());
    Err(ToolError::new(
        Code::Conflict,
        format!("the page has changed, and the action would now do this: {what}"),
    )
    .hint("read the page again, and repeat the call if that is what you want"))
}
