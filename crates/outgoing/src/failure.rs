//! Conversion of request failures to tool errors.

use fetch::dial::DialError;
use fetch::web::WebError;
use tool::{Code, ToolError};

/// Converts a failed request to the error that callers see. The tool itself sets the effect and the
/// retry advice.
pub fn failure(error: WebError) -> ToolError {
    let message = match &error {
        WebError::Dial(DialError::Unreachable { source, .. } | DialError::Unknown { source, .. }) => {
            format!("{error}: {source}")
        }
        error => error.to_string(),
    };
    let (code, hint) = match &error {
        WebError::Dial(DialError::NotPublic { .. }) => (
            Code::Permission,
            "an address that is not of the public internet is reached where `allowed_hosts` names the address itself",
        ),
        WebError::Dial(DialError::Readable { .. }) => {
            (Code::Permission, "write https: a secret goes to a public host over TLS alone")
        }
        WebError::Dial(DialError::Unknown { .. }) => (Code::Unavailable, "look at the name of the host"),
        WebError::Dial(DialError::Unreachable { .. }) => (Code::Unavailable, "the server may be back later"),
        WebError::Dial(DialError::Late { .. }) | WebError::Late { .. } => {
            (Code::Timeout, "`timeout` gives it more time")
        }
        WebError::Tls { .. } => (
            Code::Unavailable,
            "the server has to show a certificate for this host that the system trusts; nothing was sent",
        ),
        WebError::Authorities { .. } => {
            (Code::Unavailable, "install the certificates of the system, or name them in SSL_CERT_FILE")
        }
        WebError::Broken { .. } => (Code::Runtime, "the server may answer later"),
    };
    ToolError::new(code, message).hint(hint).because(error)
}
