//! Frames of a tab: scripts in them, and where they are on the page.

use std::time::Duration;

use cdp::protocol::dom::{GetBoxModel, GetFrameOwner};
use cdp::protocol::page::CreateIsolatedWorld;
use cdp::protocol::runtime::{CallArgument, CallFunctionOn, Evaluate, EvaluateAnswer};
use cdp::{CdpError, ExecutionContextId, FrameId, ObjectId, SessionClient};
use serde::de::DeserializeOwned;

use crate::error::BrowserError;
use crate::limits::{self, cut};
use crate::tab::Tab;

/// Name of the isolated world in every frame.
const WORLD: &str = "handfast";

/// Context of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// A context of our own: it shares the DOM with the page, and no variables.
    Isolated,
    /// The page's own context.
    Page,
}

/// Handle of a frame. It stays valid while the frame loads other documents.
#[derive(Debug, Clone)]
pub struct FrameHandle {
    tab: Tab,
    id: FrameId,
}

impl Tab {
    /// Returns the frames from the outside in; the first is the main frame. Frames that run in other
    /// processes are among them.
    pub fn frames(&self) -> Vec<FrameHandle> {
        let ids = self.read(|state| state.frames.in_order());
        ids.into_iter().map(|id| FrameHandle { tab: self.clone(), id }).collect()
    }

    /// Returns the main frame.
    pub fn main_frame(&self) -> FrameHandle {
        FrameHandle { tab: self.clone(), id: self.read(|state| state.frames.main().clone()) }
    }
}

impl FrameHandle {
    /// Returns the id of the frame.
    pub fn id(&self) -> &FrameId {
        &self.id
    }

    /// Returns the tab of the frame.
    pub fn tab(&self) -> &Tab {
        &self.tab
    }

    /// Returns the URL of the frame's document, cut; `None` if the frame is gone.
    pub fn url(&self) -> Option<String> {
        self.tab.read(|state| Some(state.frames.get(&self.id)?.url.clone()))
    }

    /// Returns the attribute `name` of the frame's element, cut; `None` if the frame is gone.
    pub fn name(&self) -> Option<String> {
        self.tab.read(|state| Some(state.frames.get(&self.id)?.name.clone()))
    }

    /// Returns the frame that contains this one.
    pub fn parent(&self) -> Option<FrameHandle> {
        let id = self.tab.read(|state| state.frames.get(&self.id)?.parent.clone())?;
        Some(Self { tab: self.tab.clone(), id })
    }

    /// Returns the client of the session in which the frame's document lives.
    ///
    /// # Errors
    /// [`BrowserError::FrameGone`].
    pub fn client(&self) -> Result<SessionClient, BrowserError> {
        let session = self.tab.read(|state| Some(state.frames.get(&self.id)?.session.clone()));
        let session = session.ok_or(BrowserError::FrameGone)?;
        Ok(SessionClient::new(self.tab.client().connection().clone(), session))
    }

    /// Calls a function in the frame and returns what it returns, as JSON. A promise is waited for.
    ///
    /// `function` is the source of a function. The isolated world is created when it is needed, and
    /// again after a navigation. A call that a navigation interrupts is not repeated.
    ///
    /// # Errors
    /// [`BrowserError::Script`] if it throws, [`BrowserError::FrameGone`] if the document goes,
    /// [`BrowserError::NotResponding`] after [`limits::SCRIPT`], and the errors of [`Tab::prepare`].
    pub async fn evaluate<T: DeserializeOwned>(
        &self,
        world: World,
        function: &str,
        arguments: Vec<CallArgument>,
    ) -> Result<T, BrowserError> {
        self.evaluate_within(world, function, arguments, limits::SCRIPT).await
    }

    /// Calls a function like [`FrameHandle::evaluate`], with a time limit of its own.
    ///
    /// # Errors
    /// Like [`FrameHandle::evaluate`].
    pub async fn evaluate_within<T: DeserializeOwned>(
        &self,
        world: World,
        function: &str,
        arguments: Vec<CallArgument>,
        limit: Duration,
    ) -> Result<T, BrowserError> {
        let answer = self.call(world, function, arguments, true, limit).await?;
        let json = answer.result.value.as_ref().map_or("null", |value| value.get());
        serde_json::from_str(json).map_err(|error| BrowserError::ScriptAnswer { reason: error.to_string() })
    }

    /// Calls a function and returns the id of the object that it returns: of an element, for
    /// example. The caller releases it with `Runtime.releaseObject`; its document does so at its end.
    ///
    /// # Errors
    /// Like [`FrameHandle::evaluate`]; [`BrowserError::ScriptAnswer`] if it returns no object.
    pub async fn evaluate_object(
        &self,
        world: World,
        function: &str,
        arguments: Vec<CallArgument>,
    ) -> Result<ObjectId, BrowserError> {
        let answer = self.call(world, function, arguments, false, limits::SCRIPT).await?;
        answer.result.object_id.ok_or_else(|| BrowserError::ScriptAnswer {
            reason: format!("the script returned no object: {}", cut(&answer.result.kind, limits::NAME)),
        })
    }

    async fn call(
        &self,
        world: World,
        function: &str,
        arguments: Vec<CallArgument>,
        return_by_value: bool,
        limit: Duration,
    ) -> Result<EvaluateAnswer, BrowserError> {
        self.tab.prepare().await?;
        let mut is_first = true;
        loop {
            let client = self.client()?;
            let context = self.context(world, &client).await?;
            let command = CallFunctionOn {
                function_declaration: function.to_owned(),
                execution_context_id: Some(context),
                arguments: arguments.clone(),
                return_by_value,
                await_promise: true,
                ..CallFunctionOn::default()
            };
            match self.tab.guarded(limit, client.run_within(command, limit)).await {
                Ok(answer) => return thrown_or(answer),
                Err(BrowserError::Protocol(error)) => {
                    // The context went away before the call: nothing has run.
                    let never_ran = is_missing_context(&error);
                    if never_ran {
                        self.forget(context);
                    }
                    if !(never_ran && std::mem::take(&mut is_first)) {
                        return Err(self.translate(error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the context for scripts, which is created if there is none.
    async fn context(
        &self,
        world: World,
        client: &SessionClient,
    ) -> Result<ExecutionContextId, BrowserError> {
        let known = self.tab.read(|state| {
            let frame = state.frames.get(&self.id)?;
            Some(if world == World::Isolated { frame.world } else { frame.page_context })
        });
        match known.ok_or(BrowserError::FrameGone)? {
            Some(context) => return Ok(context),
            None if world == World::Page => return Err(BrowserError::FrameGone),
            None => {}
        }
        let command = CreateIsolatedWorld { frame_id: self.id.clone(), world_name: WORLD.to_owned() };
        let creating = self.tab.guarded(limits::SCRIPT, client.run(command)).await;
        let context = self.translated(creating)?.execution_context_id;
        let script = self.tab.settings().world_script;
        if !script.is_empty() {
            let command = Evaluate {
                expression: script.to_owned(),
                context_id: Some(context),
                return_by_value: true,
                ..Evaluate::default()
            };
            let running = self.tab.guarded(limits::SCRIPT, client.run(command)).await;
            thrown_or(self.translated(running)?)?;
        }
        self.tab.change(|state| {
            if let Some(frame) = state.frames.get_mut(&self.id) {
                frame.world = Some(context);
            }
        });
        Ok(context)
    }

    fn forget(&self, context: ExecutionContextId) {
        self.tab.change(|state| {
            let session = state.frames.get(&self.id).map(|frame| frame.session.clone());
            if let Some(session) = session {
                state.frames.forget_worlds(&session, Some(context));
            }
        });
    }

    fn translated<T>(&self, result: Result<T, BrowserError>) -> Result<T, BrowserError> {
        result.map_err(|error| match error {
            BrowserError::Protocol(error) => self.translate(error),
            other => other,
        })
    }

    /// Returns the error for a refusal of the browser.
    fn translate(&self, error: CdpError) -> BrowserError {
        let is_gone = match &error {
            CdpError::SessionEnded { .. } => true,
            CdpError::Refused { message, .. } => {
                is_missing_context(&error) || GONE.iter().any(|text| message.contains(text))
            }
            _ => false,
        };
        if self.tab.is_closed() {
            BrowserError::TabClosed { tab: self.tab.number() }
        } else if is_gone {
            BrowserError::FrameGone
        } else {
            error.into()
        }
    }

    /// Returns where the upper left corner of the frame's viewport is in the viewport of the page, in
    /// CSS pixels. Borders and scroll positions are taken into account; transformations that turn or
    /// scale a frame are not.
    ///
    /// # Errors
    /// [`BrowserError::FrameGone`], and the errors of [`Tab::prepare`].
    pub async fn offset_in_page(&self) -> Result<(f64, f64), BrowserError> {
        self.tab.prepare().await?;
        let mut offset = (0.0, 0.0);
        let mut frame = self.clone();
        // One step for each process between the frame and the page.
        for _ in 0..limits::FRAMES {
            let Some(parent) = frame.parent() else { return Ok(offset) };
            let client = parent.client()?;
            let frame_id = frame.id.clone();
            let boxes = async {
                let node = client.run(GetFrameOwner { frame_id }).await?.backend_node_id;
                client.run(GetBoxModel { node: node.into() }).await
            };
            let found = self.tab.guarded(limits::SCRIPT, boxes).await;
            // The boxes are relative to the outermost frame of the parent's process.
            let [x, y, ..] = self.translated(found)?.model.content;
            offset = (offset.0 + x, offset.1 + y);
            let root = self.tab.read(|state| state.frames.local_root(&parent.id));
            frame = Self { tab: self.tab.clone(), id: root.ok_or(BrowserError::FrameGone)? };
        }
        Err(BrowserError::FrameGone)
    }
}

/// Messages of Chromium for a document that went away during a call.
const GONE: [&str; 6] = [
    "Execution context was destroyed",
    "Inspected target navigated or closed",
    "Session with given id not found",
    "No frame for given id found",
    "Not attached to an active page",
    "Frame with the given id was not found",
];

/// Returns true if the context of a call was gone before the call, so that nothing has run.
fn is_missing_context(error: &CdpError) -> bool {
    error.refusal().is_some_and(|message| message.contains("Cannot find context with specified id"))
}

/// Returns the answer of a script, or the error for what it has thrown.
fn thrown_or(answer: EvaluateAnswer) -> Result<EvaluateAnswer, BrowserError> {
    match &answer.exception_details {
        Some(thrown) => Err(BrowserError::Script { message: cut(&thrown.message(), limits::TEXT) }),
        None => Ok(answer),
    }
}
