//! Domain `Page`: documents, frames, dialogs, pictures.

use serde::{Deserialize, Serialize};

use crate::id::{BackendNodeId, ExecutionContextId, FrameId, LoaderId};
use crate::protocol::is_false;

bare_command!(
    /// Turns on the events of the domain.
    Enable,
    "Page.enable"
);
bare_command!(
    /// Stops loading.
    StopLoading,
    "Page.stopLoading"
);
bare_command!(
    /// Crashes the process of the page, whatever it does. The answer may never come.
    Crash,
    "Page.crash"
);
bare_command!(
    /// Brings the page to the front of its window.
    BringToFront,
    "Page.bringToFront"
);

/// Loads a URL into a frame. Answers once the document is there or has failed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Navigate {
    /// URL to load.
    pub url: String,
    /// Frame; `None` for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_id: Option<FrameId>,
}
command!(Navigate, "Page.navigate", NavigateAnswer);

/// Outcome of a navigation.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NavigateAnswer {
    /// Frame that was navigated.
    pub frame_id: FrameId,
    /// Id of the load; `None` if the document stayed the same.
    #[serde(default)]
    pub loader_id: Option<LoaderId>,
    /// Error of the network, for example `net::ERR_CONNECTION_REFUSED`.
    #[serde(default)]
    pub error_text: Option<String>,
}

/// Loads the document again.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reload {
    /// True if the cache is left out.
    pub ignore_cache: bool,
}
command!(Reload, "Page.reload");

/// Asks for the tree of the frames of this session.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct GetFrameTree {}
command!(GetFrameTree, "Page.getFrameTree", FrameTreeAnswer);

/// Tree of frames.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameTreeAnswer {
    /// Root of the tree.
    pub frame_tree: FrameTree,
}

/// A frame and the frames in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameTree {
    /// The frame.
    pub frame: Frame,
    /// Frames in it that run in the same process.
    #[serde(default)]
    pub child_frames: Vec<FrameTree>,
}

/// A frame and its document.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// Id of the frame.
    pub id: FrameId,
    /// Frame that contains it; `None` for a main frame.
    #[serde(default)]
    pub parent_id: Option<FrameId>,
    /// Id of the load of the document.
    pub loader_id: LoaderId,
    /// Attribute `name` of the frame's element.
    #[serde(default)]
    pub name: Option<String>,
    /// URL of the document, without its fragment.
    pub url: String,
    /// Fragment of the URL, with the `#`.
    #[serde(default)]
    pub url_fragment: Option<String>,
    /// URL that could not be loaded, if the document says so.
    #[serde(default)]
    pub unreachable_url: Option<String>,
}

/// Turns the events of a document's life on or off.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SetLifecycleEventsEnabled {
    /// True if the events come.
    pub enabled: bool,
}
command!(SetLifecycleEventsEnabled, "Page.setLifecycleEventsEnabled");

/// Creates a context for scripts that shares the DOM of a frame with the page, and no variables.
/// Contexts of one document with one name are the same context.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateIsolatedWorld {
    /// Frame of the context.
    pub frame_id: FrameId,
    /// Name of the context.
    pub world_name: String,
}
command!(CreateIsolatedWorld, "Page.createIsolatedWorld", IsolatedWorldAnswer);

/// A context for scripts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IsolatedWorldAnswer {
    /// Id of the context.
    pub execution_context_id: ExecutionContextId,
}

/// Takes a picture.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptureScreenshot {
    /// Kind of picture: `png`, `jpeg` or `webp`.
    pub format: &'static str,
    /// Quality from 0 to 100, not for PNG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<u8>,
    /// Part of the page; `None` for what the viewport shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<Viewport>,
    /// True if the picture may go beyond the viewport.
    #[serde(skip_serializing_if = "is_false")]
    pub capture_beyond_viewport: bool,
    /// True if the picture is made quickly and larger.
    #[serde(skip_serializing_if = "is_false")]
    pub optimize_for_speed: bool,
}
command!(CaptureScreenshot, "Page.captureScreenshot", DataAnswer);

/// Part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Viewport {
    /// Left edge, from that of the page.
    pub x: f64,
    /// Upper edge, from that of the page.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Number of pixels of the picture for one of the page.
    pub scale: f64,
}

/// A file in base64.
#[derive(Debug, Clone, Deserialize)]
pub struct DataAnswer {
    /// The file.
    pub data: String,
}

/// Prints the page.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrintToPdf {
    /// True if backgrounds are printed.
    pub print_background: bool,
}
command!(PrintToPdf, "Page.printToPDF", DataAnswer);

/// Asks for the sizes of the page.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct GetLayoutMetrics {}
command!(GetLayoutMetrics, "Page.getLayoutMetrics", LayoutMetrics);

/// Sizes of a page.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayoutMetrics {
    /// Part of the page that is laid out.
    pub css_layout_viewport: LayoutViewport,
    /// Size of the whole page.
    pub css_content_size: Rectangle,
}

/// Part of a page that is laid out.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayoutViewport {
    /// Horizontal scroll position.
    pub page_x: f64,
    /// Vertical scroll position.
    pub page_y: f64,
    /// Width.
    pub client_width: f64,
    /// Height.
    pub client_height: f64,
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Rectangle {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Answers the open dialog.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandleJavaScriptDialog {
    /// True if the dialog is accepted.
    pub accept: bool,
    /// Text for a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_text: Option<String>,
}
command!(HandleJavaScriptDialog, "Page.handleJavaScriptDialog");

/// Turns the choice of files into events, instead of a dialog of the system.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SetInterceptFileChooserDialog {
    /// True if events come instead.
    pub enabled: bool,
    /// True if the page is told that the user has chosen nothing.
    pub cancel: bool,
}
command!(SetInterceptFileChooserDialog, "Page.setInterceptFileChooserDialog");

/// A frame was added to the tree.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameAttached {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// Frame that contains it.
    pub parent_frame_id: FrameId,
}
event!(FrameAttached, "Page.frameAttached");

/// A frame has a new document.
#[derive(Debug, Clone, Deserialize)]
pub struct FrameNavigated {
    /// The frame with its new document.
    pub frame: Frame,
}
event!(FrameNavigated, "Page.frameNavigated");

/// A frame was removed from the tree.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameDetached {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// Reason: `remove`, or `swap` if the frame goes on in another process.
    #[serde(default)]
    pub reason: String,
}
event!(FrameDetached, "Page.frameDetached");

/// The URL of a document has changed, by its fragment or by the history interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NavigatedWithinDocument {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// New URL.
    pub url: String,
}
event!(NavigatedWithinDocument, "Page.navigatedWithinDocument");

/// A frame has begun to navigate.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameStartedNavigating {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// URL of the new document.
    pub url: String,
    /// Id of the load.
    pub loader_id: LoaderId,
    /// Kind: `differentDocument`, `sameDocument`, `reload`, ...
    #[serde(default)]
    pub navigation_type: String,
}
event!(FrameStartedNavigating, "Page.frameStartedNavigating");

/// A script or a link of the page is about to navigate a frame. A destination that the browser
/// forbids is named here, and nothing follows.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameScheduledNavigation {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// Seconds until the navigation.
    pub delay: f64,
    /// Destination.
    pub url: String,
}
event!(FrameScheduledNavigation, "Page.frameScheduledNavigation");

/// The announced navigation of a frame has begun or was given up.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameClearedScheduledNavigation {
    /// Id of the frame.
    pub frame_id: FrameId,
}
event!(FrameClearedScheduledNavigation, "Page.frameClearedScheduledNavigation");

/// A frame has stopped loading.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameStoppedLoading {
    /// Id of the frame.
    pub frame_id: FrameId,
}
event!(FrameStoppedLoading, "Page.frameStoppedLoading");

/// A document has reached a point of its life.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleEvent {
    /// Id of the frame.
    pub frame_id: FrameId,
    /// Id of the load of the document.
    pub loader_id: LoaderId,
    /// Point: `init`, `DOMContentLoaded`, `load`, `networkIdle`, ...
    pub name: String,
}
event!(LifecycleEvent, "Page.lifecycleEvent");

/// A dialog has opened. The page stands still until it is answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JavaScriptDialogOpening {
    /// URL of the frame.
    #[serde(default)]
    pub url: String,
    /// Text of the dialog.
    pub message: String,
    /// Kind: `alert`, `confirm`, `prompt` or `beforeunload`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text that a prompt begins with.
    #[serde(default)]
    pub default_prompt: Option<String>,
}
event!(JavaScriptDialogOpening, "Page.javascriptDialogOpening");

/// A page wants files.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChooserOpened {
    /// Frame with the element.
    pub frame_id: FrameId,
    /// `selectSingle` or `selectMultiple`.
    pub mode: String,
    /// Element that gets the files; `None` for choosers that scripts open.
    #[serde(default)]
    pub backend_node_id: Option<BackendNodeId>,
}
event!(FileChooserOpened, "Page.fileChooserOpened");
