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
            "to reach a non-public address, the user lists the address itself in `allowed_hosts`",
        ),
        WebError::Dial(DialError::Readable { .. }) => {
            (Code::Permission, "use https: a secret is sent to a public host only over TLS")
        }
        WebError::Dial(DialError::Unknown { .. }) => (Code::Unavailable, "check the host name"),
        WebError::Dial(DialError::Unreachable { .. }) => (Code::Unavailable, "the server may be back later"),
        WebError::Dial(DialError::Late { .. }) | WebError::Late { .. } => (Code::Timeout, "raise `timeout`"),
        WebError::Tls { .. } => (
            Code::Unavailable,
            "the server must have a certificate for this host that the system trusts; nothing was sent",
        ),
        WebError::Authorities { .. } => {
            (Code::Unavailable, "install the certificates of the system, or set SSL_CERT_FILE")
        }
        WebError::Broken { .. } => (Code::Runtime, "the server may answer later"),
    };
    ToolError::new(code, message).hint(hint).because(error)
}
