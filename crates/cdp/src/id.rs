//! Ids that the browser assigns, each as a type of its own.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the id as the browser wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )*};
}

text_ids! {
    /// Id of a session: one attachment to one target.
    SessionId;
    /// Id of a target: a page, an out-of-process frame, a worker.
    TargetId;
    /// Id of a browser context: a set of pages with cookies of its own.
    BrowserContextId;
    /// Id of a frame. The main frame of a page has the id of its target.
    FrameId;
    /// Id of one load of a document into a frame.
    LoaderId;
    /// Id of a request. Redirects keep it; the request of a document has the id of its loader.
    RequestId;
    /// Id of an object of JavaScript that is kept alive for this client.
    ObjectId;
}

/// Id of a node of the DOM, valid for the life of its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackendNodeId(pub i64);

/// Id of a context in which JavaScript runs, unique within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionContextId(pub i64);
