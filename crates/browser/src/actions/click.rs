//! Clicks, the pointer over an element, and boxes to tick.

use std::time::Duration;

use cdp::protocol::input::{DispatchMouseEvent, MouseButton, MouseEventKind};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::actionability::{Need, ReadyElement};
use crate::actions::{ActionOutcome, FieldState};
use crate::error::BrowserError;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

/// Time that the page gets to say where a click has arrived.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Choice of a click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClickOptions {
    /// Button.
    pub button: MouseButton,
    /// Number of clicks: 2 for a double click. At least 1, at most 3.
    pub count: u8,
    /// Keys that are held.
    pub modifiers: Modifiers,
}

impl Default for ClickOptions {
    fn default() -> Self {
        Self { button: MouseButton::Left, count: 1, modifiers: Modifiers::default() }
    }
}

/// Keys that are held during a click.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modifiers {
    /// Alt.
    pub alt: bool,
    /// Control.
    pub control: bool,
    /// Meta.
    pub meta: bool,
    /// Shift.
    pub shift: bool,
}

impl Modifiers {
    fn bits(self) -> u8 {
        u8::from(self.alt)
            | u8::from(self.control) << 1
            | u8::from(self.meta) << 2
            | u8::from(self.shift) << 3
    }
}

/// Report of the script on where the events of a click arrived.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Arrival {
    /// Element that was in the way, if one was: the click was stopped then.
    blocked: String,
    /// True if the page put another element in its place between press and release.
    replaced: bool,
}

impl Page {
    /// Clicks on an element.
    ///
    /// # Errors
    /// [`PageError`]; nothing was clicked then.
    pub async fn click(
        &self,
        selector: &Selector,
        options: ClickOptions,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let started = Instant::now();
        let deadline = started + limit;
        loop {
            let element = self.ready(selector, Need::Click, deadline).await?;
            self.click_at(element.point, options).await?;
            let arrival = self.arrival(&element).await;
            let outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
            if arrival.blocked.is_empty() && !arrival.replaced {
                return Ok(outcome);
            }
            if Instant::now() >= deadline {
                let reason = if arrival.replaced {
                    "the page replaced it between press and release".to_owned()
                } else {
                    format!("at the moment of the click, its place was taken by {}", arrival.blocked)
                };
                return Err(PageError::NotReady {
                    selector: selector.to_string(),
                    waited: started.elapsed(),
                    reason,
                });
            }
        }
    }

    /// Moves the pointer over an element.
    ///
    /// # Errors
    /// [`PageError`].
    pub async fn hover(&self, selector: &Selector, limit: Duration) -> Result<ActionOutcome, PageError> {
        let element = self.ready(selector, Need::Hover, Instant::now() + limit).await?;
        self.dispatch(mouse(
            MouseEventKind::MouseMoved,
            element.point,
            ClickOptions { button: MouseButton::None, ..ClickOptions::default() },
            0,
        ))
        .await?;
        Ok(ActionOutcome::new(element.frame.reference(element.number), element.is_new))
    }

    /// Clicks on a checkbox, a radio button or a switch, unless it is in the wanted state already.
    ///
    /// # Errors
    /// [`PageError::Unfit`] if the click did not bring it there.
    pub async fn check(
        &self,
        selector: &Selector,
        wanted: bool,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let element = self.ready(selector, Need::Presence, Instant::now() + limit).await?;
        let number = [json!(element.number)];
        let state: FieldState = self.call_on(&element.frame, "fieldState", number.clone(), selector).await?;
        let word = if wanted { "checked" } else { "unchecked" };
        if state.checked == wanted {
            let mut outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
            outcome.notes.push(format!("It was {word} already."));
            return Ok(outcome);
        }
        let outcome = self.click(selector, ClickOptions::default(), limit).await?;
        // A page that renders anew or leaves has no state to compare.
        if let Ok(state) = self.call_on::<FieldState>(&element.frame, "fieldState", number, selector).await
            && state.checked != wanted
        {
            return Err(PageError::Unfit {
                selector: selector.to_string(),
                reason: format!("it was clicked and is not {word}"),
            });
        }
        Ok(outcome)
    }

    /// Clicks at a point of the page.
    pub(super) async fn click_at(&self, point: (f64, f64), options: ClickOptions) -> Result<(), PageError> {
        let still = ClickOptions { button: MouseButton::None, ..options };
        let client = self.tab().client();
        let send = |kind, count| client.run(mouse(kind, point, options, count));
        let moved = client.run(mouse(MouseEventKind::MouseMoved, point, still, 0));
        // All are sent without waiting for answers, so that the page has no time to change between them.
        let (moved, pressed, released) = tokio::join!(
            moved,
            send(MouseEventKind::MousePressed, 1),
            send(MouseEventKind::MouseReleased, 1)
        );
        moved.and(pressed).and(released).map_err(BrowserError::from)?;
        for count in 2..=options.count.min(3) {
            let (pressed, released) = tokio::join!(
                send(MouseEventKind::MousePressed, count),
                send(MouseEventKind::MouseReleased, count)
            );
            pressed.and(released).map_err(BrowserError::from)?;
        }
        Ok(())
    }

    /// Sends an event of the pointer, and waits until the page has handled it.
    pub(super) async fn dispatch(&self, event: DispatchMouseEvent) -> Result<(), PageError> {
        self.tab().client().run(event).await.map_err(BrowserError::from)?;
        Ok(())
    }

    /// Returns where a click has arrived. A page that is gone or busy with the click has got it.
    async fn arrival(&self, element: &ReadyElement) -> Arrival {
        self.call_within(&element.frame, "guarded", [], REPORT_TIME).await.unwrap_or_default()
    }
}

fn mouse(
    kind: MouseEventKind,
    (x, y): (f64, f64),
    options: ClickOptions,
    click_count: u8,
) -> DispatchMouseEvent {
    let buttons = match (kind, options.button) {
        (MouseEventKind::MousePressed, MouseButton::Left) => 1,
        (MouseEventKind::MousePressed, MouseButton::Right) => 2,
        (MouseEventKind::MousePressed, MouseButton::Middle) => 4,
        _ => 0,
    };
    DispatchMouseEvent {
        kind,
        x,
        y,
        modifiers: options.modifiers.bits(),
        button: options.button,
        buttons,
        click_count,
        ..DispatchMouseEvent::default()
    }
}
