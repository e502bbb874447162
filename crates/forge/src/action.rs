//! Actions, as questions and the audit describe them.

use std::fmt;

use crate::push::Push;
use crate::shown::{list, shown};

/// Maximum number of characters of the path of a request in a description.
const PATH: usize = 120;
/// Maximum number of names in a description.
const NAMES: usize = 10;

/// An action that a request would perform. Its text is in printable ASCII and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A push of refs.
    Push(Push),
    /// An operation of GraphQL that is not a query.
    GraphQl {
        /// Type of the operation: `mutation` or `subscription`.
        operation: &'static str,
        /// Fields of the operation, each in printable ASCII.
        fields: Vec<String>,
    },
    /// The publication of an npm package.
    Publish {
        /// Name of the package, in printable ASCII.
        package: String,
    },
    /// Another request, as method and path.
    Request(String),
    /// A request that is not understood.
    Unclear {
        /// Method and path.
        request: String,
        /// Reason, as a clause about the request.
        why: String,
    },
}

impl Action {
    /// Returns the method and the path of a request. The query may contain a secret, so it is left
    /// out.
    pub(crate) fn request(method: &str, target: &str) -> String {
        let path = target.split('?').next().unwrap_or_default();
        format!("{} {}", shown(method, 20), shown(path, PATH))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(push) => push.fmt(formatter),
            Self::GraphQl { operation, fields } => {
                write!(formatter, "GraphQL {operation} {}", list(fields.iter().map(String::as_str), NAMES))
            }
            Self::Publish { package } => write!(formatter, "publish the package {package}"),
            Self::Request(request) => formatter.write_str(request),
            Self::Unclear { request, why } => write!(formatter, "{request} (not understood: {why})"),
        }
    }
}
