//! Effects of an action on its page: planned before it happens, and compared when it does.

use std::time::Duration;

use browser::{Condition, Page, PageError, PlannedAction, Selector, Target};
use tool::{Code, DecidedEffects, Effect, Level, PageAccess, ToolError};

use crate::errors::of_page;
use crate::origin;

/// Longest time for which a plan waits for its element.
const APPEARING: Duration = Duration::from_secs(5);

/// Effects of an action, with the level that they have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedEffects {
    pub(crate) effects: Vec<Effect>,
    pub(crate) level: Level,
}

/// Returns the effects of an action on an element. Waits for the element if it is not there yet.
pub(crate) async fn effects_on(
    page: &Page,
    action: &PlannedAction,
    selector: &Selector,
    verb: &str,
    limit: Duration,
) -> Result<PlannedEffects, ToolError> {
    let target = match page.describe(action, selector).await {
        Err(PageError::NoMatch { .. }) => {
            // If it does not appear, the description says what there is instead.
            let _appeared = page.wait(&Condition::Visible(selector.clone()), limit.min(APPEARING)).await;
            page.describe(action, selector).await
        }
        described => described,
    };
    Ok(of_target(&page.tab().url(), &target.map_err(of_page)?, verb))
}

/// Returns the effects of an action that has no element.
pub(crate) fn effects_of_page(url: &str, what: &str) -> PlannedEffects {
    let effects: Vec<Effect> = origin::effect(url, PageAccess::Use, what).into_iter().collect();
    let level = if effects.is_empty() { Level::Safe } else { Level::Moderate };
    PlannedEffects { effects, level }
}

fn of_target(url: &str, target: &Target, verb: &str) -> PlannedEffects {
    let facts = &target.facts;
    let named = |what: &str| {
        let role = if facts.role.is_empty() { &facts.tag } else { &facts.role };
        format!("{what} `{}` ({role})", facts.name)
    };
    let own = if facts.origin.is_empty() { url } else { &facts.origin };
    if facts.is_submit {
        let to = if facts.form_action.is_empty() { own } else { &facts.form_action };
        let what = named("submit the form by");
        let effect = origin::effect(to, PageAccess::Submit, &what)
            .or_else(|| origin::effect(own, PageAccess::Submit, &what));
        return PlannedEffects { effects: effect.into_iter().collect(), level: Level::Destructive };
    }
    if facts.leaves_page || facts.is_download {
        let access = if facts.is_download { PageAccess::Submit } else { PageAccess::Use };
        let what = format!("{} to {}", named("follow the link"), facts.href);
        let effect = origin::effect(&facts.href, access, what);
        return PlannedEffects { effects: effect.into_iter().collect(), level: Level::Destructive };
    }
    effects_of_page(own, &named(verb))
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
