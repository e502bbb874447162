//! Domain `Target`: browser contexts, pages, and the sessions attached to them.

use serde::{Deserialize, Serialize};

use crate::id::{BrowserContextId, FrameId, SessionId, TargetId};
use crate::protocol::is_false;

/// Creates a browser context: pages with cookies and storage of their own.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateBrowserContext {
    /// True if the context ends with the session that created it.
    pub dispose_on_detach: bool,
}
command!(CreateBrowserContext, "Target.createBrowserContext", BrowserContextAnswer);

/// A browser context.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrowserContextAnswer {
    /// Id of the context.
    pub browser_context_id: BrowserContextId,
}

/// Closes the pages of a context and forgets everything in it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisposeBrowserContext {
    /// Id of the context.
    pub browser_context_id: BrowserContextId,
}
command!(DisposeBrowserContext, "Target.disposeBrowserContext");

/// Opens a page.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTarget {
    /// First URL.
    pub url: String,
    /// Context of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_context_id: Option<BrowserContextId>,
    /// True if the page opens without coming to the front.
    #[serde(skip_serializing_if = "is_false")]
    pub background: bool,
}
command!(CreateTarget, "Target.createTarget", TargetAnswer);

/// A target.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetAnswer {
    /// Id of the target.
    pub target_id: TargetId,
}

/// Closes a page. Handlers of `beforeunload` do not run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseTarget {
    /// Id of the target.
    pub target_id: TargetId,
}
command!(CloseTarget, "Target.closeTarget");

/// Brings a page to the front.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivateTarget {
    /// Id of the target.
    pub target_id: TargetId,
}
command!(ActivateTarget, "Target.activateTarget");

/// Asks for the state of a target.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTargetInfo {
    /// Id of the target.
    pub target_id: TargetId,
}
command!(GetTargetInfo, "Target.getTargetInfo", TargetInfoAnswer);

/// State of a target.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetInfoAnswer {
    /// State of the target.
    pub target_info: TargetInfo,
}

/// Attaches to new targets automatically: to pages when called on the browser, to the frames and
/// workers below a page when called in its session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAutoAttach {
    /// True if new targets are attached to.
    pub auto_attach: bool,
    /// True if a new target runs nothing before `Runtime.runIfWaitingForDebugger`.
    pub wait_for_debugger_on_start: bool,
    /// True if sessions share the connection and name themselves by `sessionId`.
    pub flatten: bool,
    /// Kinds of targets; the first entry that fits counts. Without it the browser's own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Vec<TargetFilter>>,
}
command!(SetAutoAttach, "Target.setAutoAttach");

/// An entry of a filter of targets.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TargetFilter {
    /// Kind of target that the entry fits; `None` fits all.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// True if these targets are left out.
    pub exclude: bool,
}

/// State of a target.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetInfo {
    /// Id of the target.
    pub target_id: TargetId,
    /// Kind: `page`, `iframe`, `worker`, `service_worker`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the document.
    #[serde(default)]
    pub title: String,
    /// URL of the document.
    #[serde(default)]
    pub url: String,
    /// Page that opened this one, unless it was opened without an opener.
    #[serde(default)]
    pub opener_id: Option<TargetId>,
    /// Frame that opened this page.
    #[serde(default)]
    pub opener_frame_id: Option<FrameId>,
    /// Frame that contains this one, if the target is a frame.
    #[serde(default)]
    pub parent_frame_id: Option<FrameId>,
    /// Context of the target.
    #[serde(default)]
    pub browser_context_id: Option<BrowserContextId>,
}

/// A session was attached to a target.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachedToTarget {
    /// Id of the new session.
    pub session_id: SessionId,
    /// State of the target.
    pub target_info: TargetInfo,
    /// True if the target waits for `Runtime.runIfWaitingForDebugger`.
    #[serde(default)]
    pub waiting_for_debugger: bool,
}
event!(AttachedToTarget, "Target.attachedToTarget");

/// A session has ended, because its target was closed or moved to another process.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetachedFromTarget {
    /// Id of the ended session.
    pub session_id: SessionId,
}
event!(DetachedFromTarget, "Target.detachedFromTarget");
