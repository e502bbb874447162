//! Descriptions of the paths that other protocols answer.

use std::fmt;

use serde_json::Value;

use crate::credential::Role;

/// A path for the requests of another protocol.
pub struct MountPoint {
    /// Path, without parameters.
    pub path: &'static str,
    /// Roles that may use the path. None of them may answer questions.
    pub roles: &'static [Role],
    /// Methods, in the form of the `Allow` header.
    pub methods: &'static str,
    /// Descriptions of the methods for the `OpenAPI` document.
    pub operations: fn() -> Vec<Operation>,
}

impl fmt::Debug for MountPoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.path)
    }
}

impl PartialEq for MountPoint {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for MountPoint {}

/// Description of one method of a path.
pub struct Operation {
    /// Method, in lower case.
    pub method: &'static str,
    /// Purpose of the method.
    pub summary: &'static str,
    /// Body of the request.
    pub body: Option<Content>,
    /// Meaning of the response.
    pub answer_summary: &'static str,
    /// Body of the response.
    pub answer: Content,
}

/// Description of a body.
pub struct Content {
    /// Content type.
    pub kind: &'static str,
    /// JSON Schema.
    pub schema: Value,
    /// Example that fits the schema.
    pub example: Value,
}
