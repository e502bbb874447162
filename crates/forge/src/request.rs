//! A request, and its meaning.

use crate::action::Action;

/// Maximum number of bytes of a body that a judgement needs: the commands of 10,000 refs.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// A request, with its body as far as it has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Method, in the case in which it is sent.
    pub method: &'a str,
    /// Path and query, as they are sent.
    pub target: &'a str,
    /// Headers, in any case and order.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// First bytes of the body, without the transfer coding.
    pub body: &'a [u8],
    /// True if `body` is the whole body.
    pub is_whole: bool,
    /// Length of the whole body, if the request states one.
    pub length: Option<u64>,
}

/// Meaning of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// The request changes nothing at the forge.
    Reading,
    /// The request may change something at the forge.
    Writing(Box<Action>),
    /// The judgement needs this many bytes of the body, or the whole body if it is shorter. The
    /// number is greater than that of the bytes at hand, and at most [`MAX_BODY`].
    NeedMore(usize),
}

impl Meaning {
    pub(crate) fn writing(action: Action) -> Self {
        Self::Writing(Box::new(action))
    }
}

/// Returns the meaning of a request that would read if it were understood.
pub(crate) fn unclear(request: &Request<'_>, why: &str) -> Meaning {
    let action = Action::request(request.method, request.target);
    Meaning::writing(Action::Unclear { request: action, why: why.to_owned() })
}

/// Returns the meaning of a request by its method alone.
pub(crate) fn rest(request: &Request<'_>) -> Meaning {
    Meaning::writing(Action::Request(Action::request(request.method, request.target)))
}
