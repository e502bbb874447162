//! A tab's page as an agent sees it: its frames with their numbers, and what was last read of it.

use std::collections::HashMap;
use std::time::Duration;

use cdp::FrameId;
use cdp::protocol::dom::DescribeNode;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::elements::Reference;
use crate::error::BrowserError;
use crate::frame::{FrameHandle, World};
use crate::limits;
use crate::page_error::PageError;
use crate::page_script::{CALL, ELEMENT, SCRIPT};
use crate::snapshot::line::Line;
use crate::tab::Tab;

/// A tab's page as an agent sees it. It lives as long as the tab, through all its documents.
#[derive(Debug)]
pub struct Page {
    tab: Tab,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    frames: HashMap<FrameId, FrameEntry>,
    last_frame: u32,
    previous: Option<Previous>,
}

/// Facts about a frame that outlive its documents.
#[derive(Debug, Clone, Copy)]
struct FrameEntry {
    /// Number of the frame in references; 0 for the main frame.
    number: u32,
    /// First number that an element of the next document may have. Numbers are never used again, so
    /// a reference to an element of an earlier document finds nothing instead of something else.
    next: u32,
}

/// The page as it was last read in whole.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    /// Time at which the document of the main frame began, which no other document of the tab shares.
    pub(crate) document: f64,
    pub(crate) lines: Vec<Line>,
}

impl Previous {
    /// Returns true if this is of the document that began at this time.
    pub(crate) fn is_of(&self, document: f64) -> bool {
        self.document.to_bits() == document.to_bits()
    }
}

/// A frame with its number.
#[derive(Debug, Clone)]
pub(crate) struct NumberedFrame {
    pub(crate) handle: FrameHandle,
    pub(crate) number: u32,
}

impl NumberedFrame {
    /// Returns the reference to an element of this frame.
    pub(crate) fn reference(&self, number: u32) -> Reference {
        Reference { frame: self.number, number }
    }
}

/// Element of a frame that has the focus.
#[derive(Debug, Deserialize)]
struct Focus {
    /// Number of the element; 0 if none has the focus.
    number: u32,
    /// True if the focus is inside the frame of the element.
    is_frame: bool,
}

/// Answer of the script with the state of its numbering.
#[derive(Debug, Deserialize)]
struct Answer<T> {
    next: u32,
    value: T,
}

impl Page {
    /// Creates the view of a tab.
    pub fn new(tab: Tab) -> Self {
        Self { tab, state: Mutex::new(State::default()) }
    }

    /// Returns the tab.
    pub fn tab(&self) -> &Tab {
        &self.tab
    }

    /// Returns the frames from the outside in, each with its number.
    pub(crate) fn frames(&self) -> Vec<NumberedFrame> {
        let handles = self.tab.frames();
        let mut state = self.state.lock();
        // Frames that are gone do not come back under their id.
        state.frames.retain(|id, _| handles.iter().any(|handle| handle.id() == id));
        handles
            .into_iter()
            .map(|handle| {
                let number = state.entry(&handle).number;
                NumberedFrame { handle, number }
            })
            .collect()
    }

    /// Returns the main frame.
    pub(crate) fn main_frame(&self) -> NumberedFrame {
        NumberedFrame { handle: self.tab.main_frame(), number: 0 }
    }

    /// Calls a function of the script in a frame.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        frame: &NumberedFrame,
        function: &'static str,
        values: impl IntoIterator<Item = Value>,
    ) -> Result<T, PageError> {
        self.call_within(frame, function, values, limits::SCRIPT).await
    }

    /// Calls a function of the script that takes its time, in addition to the usual limit.
    pub(crate) async fn call_within<T: DeserializeOwned>(
        &self,
        frame: &NumberedFrame,
        function: &'static str,
        values: impl IntoIterator<Item = Value>,
        limit: Duration,
    ) -> Result<T, PageError> {
        let mut arguments = vec![json!(function).into()];
        arguments.extend(values.into_iter().map(Into::into));
        let run = |arguments| frame.handle.evaluate_within::<String>(World::Isolated, CALL, arguments, limit);
        let mut answer = run(arguments.clone()).await?;
        if answer.is_empty() {
            let first = vec![json!(self.state.lock().entry(&frame.handle).next).into()];
            frame.handle.evaluate_within::<Value>(World::Isolated, SCRIPT, first, limit).await?;
            answer = run(arguments).await?;
        }
        if answer.is_empty() {
            // Another document came between the two calls.
            return Err(BrowserError::FrameGone.into());
        }
        let answer: Answer<T> = serde_json::from_str(&answer)
            .map_err(|error| PageError::Script { function, reason: error.to_string() })?;
        let mut state = self.state.lock();
        let entry = state.entry(&frame.handle);
        entry.next = entry.next.max(answer.next);
        Ok(answer.value)
    }

    /// Returns an element as an object of the browser.
    pub(crate) async fn object(
        &self,
        frame: &NumberedFrame,
        number: u32,
    ) -> Result<cdp::ObjectId, PageError> {
        Ok(frame.handle.evaluate_object(World::Isolated, ELEMENT, vec![json!(number).into()]).await?)
    }

    /// Returns the frames inside a frame, by the numbers of the elements that contain them.
    pub(crate) async fn frames_inside(
        &self,
        frame: &NumberedFrame,
    ) -> Result<HashMap<u32, FrameId>, PageError> {
        let numbers: Vec<u32> = self.call(frame, "frameElements", []).await?;
        let client = frame.handle.client()?;
        let mut found = HashMap::new();
        for number in numbers {
            // An element that leaves meanwhile contains nothing.
            let Ok(object) = self.object(frame, number).await else { continue };
            let command = DescribeNode { node: object.clone().into(), pierce: false };
            if let Ok(answer) = client.run(command).await
                && let Some(id) = answer.node.frame_id
            {
                found.insert(number, id);
            }
            client.post(cdp::protocol::runtime::ReleaseObject { object_id: object });
        }
        Ok(found)
    }

    /// Returns the reference of the element that has the focus, if one has.
    ///
    /// # Errors
    /// [`PageError`], if the page does not answer.
    pub async fn focused(&self) -> Result<Option<Reference>, PageError> {
        let frames = self.frames();
        let mut frame = self.main_frame();
        for _ in 0..limits::FRAMES {
            let focus: Focus = self.call(&frame, "focusedNumber", []).await?;
            if !focus.is_frame {
                return Ok((focus.number > 0).then(|| frame.reference(focus.number)));
            }
            let inside = self.frames_inside(&frame).await?;
            let inner = inside.get(&focus.number);
            match inner.and_then(|id| frames.iter().find(|frame| frame.handle.id() == id)) {
                Some(inner) => frame = inner.clone(),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the page as it was last read in whole.
    pub(crate) fn previous(&self) -> Option<Previous> {
        self.state.lock().previous.clone()
    }

    pub(crate) fn set_previous(&self, previous: Previous) {
        self.state.lock().previous = Some(previous);
    }
}

impl State {
    fn entry(&mut self, handle: &FrameHandle) -> &mut FrameEntry {
        let last = &mut self.last_frame;
        self.frames.entry(handle.id().clone()).or_insert_with(|| {
            if handle.parent().is_some() {
                *last += 1;
                return FrameEntry { number: *last, next: 1 };
            }
            FrameEntry { number: 0, next: 1 }
        })
    }
}
