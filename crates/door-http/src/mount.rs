//! Paths that other protocols answer, in the process that composes the server.

use std::sync::Arc;

use engine::Origin;
use hyper::Method;
use hyper::header::HeaderMap;
use tokio::sync::watch;
use tool::BoxFuture;

use crate::body::{BodyBudget, ReadBody, RequestBody};
use crate::mount_point::MountPoint;
use crate::refusal;
use crate::reply::Reply;
use crate::sender::Sender;

/// A path with its handler.
#[derive(Clone)]
pub struct Mount {
    /// The path.
    pub point: &'static MountPoint,
    /// The handler of its requests.
    pub handler: Arc<dyn MountHandler>,
}

/// Handler of the requests of one path.
pub trait MountHandler: Send + Sync + 'static {
    /// Responds to a request. The method is one of the path's, and the sender has one of its roles.
    fn respond(&self, request: MountRequest) -> BoxFuture<'_, Reply>;

    /// Returns gauges for the metrics.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}

/// A gauge of the metrics.
pub struct Gauge {
    /// Name, in the form of Prometheus.
    pub name: &'static str,
    /// Meaning of the value.
    pub help: &'static str,
    /// Current value.
    pub value: usize,
}

/// A request to a mounted path, after all checks of its head.
pub struct MountRequest {
    /// Method.
    pub method: Method,
    /// Headers.
    pub headers: HeaderMap,
    /// Sender.
    pub sender: Sender,
    /// Origin of the calls of this request, for traces. Empty if tracing is off.
    pub origin: Origin,
    /// Body.
    pub body: MountBody,
    /// Becomes true when the server is stopped.
    pub stopping: watch::Receiver<bool>,
}

/// The body of a request, which was not read yet.
pub struct MountBody {
    body: RequestBody,
    budget: BodyBudget,
}

impl MountBody {
    pub(crate) fn new(body: RequestBody, budget: BodyBudget) -> Self {
        Self { body, budget }
    }

    /// Reads the whole body, within the limits of the server on size and time.
    ///
    /// # Errors
    /// The response for a body that exceeds a limit or breaks off.
    pub async fn read(self) -> Result<ReadBody, Reply> {
        self.budget.read(self.body).await.map_err(|error| refusal::unread(&error))
    }
}
