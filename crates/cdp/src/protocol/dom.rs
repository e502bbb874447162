//! Domain `DOM`: nodes as the browser names them.

use serde::{Deserialize, Serialize};

use crate::id::{BackendNodeId, ExecutionContextId, FrameId, ObjectId};
use crate::protocol::is_false;

/// Description of a node by one of its names.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeName {
    /// Id of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_node_id: Option<BackendNodeId>,
    /// Id of the object of JavaScript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_id: Option<ObjectId>,
}

impl From<ObjectId> for NodeName {
    fn from(object: ObjectId) -> Self {
        Self { object_id: Some(object), ..Self::default() }
    }
}

impl From<BackendNodeId> for NodeName {
    fn from(node: BackendNodeId) -> Self {
        Self { backend_node_id: Some(node), ..Self::default() }
    }
}

/// Asks for a node's ids.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribeNode {
    /// The node.
    #[serde(flatten)]
    pub node: NodeName,
    /// True if the search goes into shadow roots and frames.
    #[serde(skip_serializing_if = "is_false")]
    pub pierce: bool,
}
command!(DescribeNode, "DOM.describeNode", NodeAnswer);

/// A node.
#[derive(Debug, Clone, Deserialize)]
pub struct NodeAnswer {
    /// The node.
    pub node: Node,
}

/// A node.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Id of the node.
    pub backend_node_id: BackendNodeId,
    /// Name of the element, in lower case for HTML.
    #[serde(default)]
    pub local_name: String,
    /// Frame in the element, if it is one.
    #[serde(default)]
    pub frame_id: Option<FrameId>,
}

/// Asks for the object of JavaScript of a node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolveNode {
    /// Id of the node.
    pub backend_node_id: BackendNodeId,
    /// Context of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_context_id: Option<ExecutionContextId>,
}
command!(ResolveNode, "DOM.resolveNode", ObjectAnswer);

/// An object of JavaScript.
#[derive(Debug, Clone, Deserialize)]
pub struct ObjectAnswer {
    /// The object.
    pub object: crate::protocol::runtime::RemoteObject,
}

/// Asks for the boxes of an element.
#[derive(Debug, Clone, Serialize)]
pub struct GetBoxModel {
    /// The element.
    #[serde(flatten)]
    pub node: NodeName,
}
command!(GetBoxModel, "DOM.getBoxModel", BoxModelAnswer);

/// Boxes of an element.
#[derive(Debug, Clone, Deserialize)]
pub struct BoxModelAnswer {
    /// The boxes.
    pub model: BoxModel,
}

/// Boxes of an element, each as the x and y of its four corners, clockwise from the upper left.
/// They are relative to the viewport of the outermost frame in the same process.
#[derive(Debug, Clone, Deserialize)]
pub struct BoxModel {
    /// Box of the content, without padding and border.
    pub content: [f64; 8],
    /// Box with padding and border.
    pub border: [f64; 8],
}

/// Asks for the quadrangles that an element's content covers: several for text over several lines.
#[derive(Debug, Clone, Serialize)]
pub struct GetContentQuads {
    /// The element.
    #[serde(flatten)]
    pub node: NodeName,
}
command!(GetContentQuads, "DOM.getContentQuads", QuadsAnswer);

/// Quadrangles, each as the x and y of its four corners.
#[derive(Debug, Clone, Deserialize)]
pub struct QuadsAnswer {
    /// The quadrangles.
    pub quads: Vec<[f64; 8]>,
}

/// Scrolls an element into view, if it is not.
#[derive(Debug, Clone, Serialize)]
pub struct ScrollIntoViewIfNeeded {
    /// The element.
    #[serde(flatten)]
    pub node: NodeName,
}
command!(ScrollIntoViewIfNeeded, "DOM.scrollIntoViewIfNeeded");

/// Gives files to an input element.
#[derive(Debug, Clone, Serialize)]
pub struct SetFileInputFiles {
    /// Absolute paths, as the browser sees them.
    pub files: Vec<String>,
    /// The element.
    #[serde(flatten)]
    pub node: NodeName,
}
command!(SetFileInputFiles, "DOM.setFileInputFiles");

/// Asks for the element that contains a frame.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetFrameOwner {
    /// Id of the frame.
    pub frame_id: FrameId,
}
command!(GetFrameOwner, "DOM.getFrameOwner", FrameOwnerAnswer);

/// Element that contains a frame.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameOwnerAnswer {
    /// Id of the element.
    pub backend_node_id: BackendNodeId,
}
