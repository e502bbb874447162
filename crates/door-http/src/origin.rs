//! Origin of a request, for traces: its parent span (W3C Trace Context), and the attributes of the
//! semantic conventions for HTTP.

use engine::{Origin, Parent};
use hyper::header::HeaderMap;

use crate::state::ServerState;

/// Returns the origin of the calls of a `POST` to this path. Empty if tracing is off.
pub(crate) fn of(shared: &ServerState, headers: &HeaderMap, path: &'static str) -> Origin {
    if !shared.engine.is_traced() {
        return Origin::default();
    }
    let facts = vec![("http.request.method", "POST".to_owned()), ("http.route", path.to_owned())];
    Origin { parent: parent(headers), facts, ..Origin::default() }
}

/// Returns the parent span of the sender. Several `traceparent` headers are ambiguous and yield
/// `None`; `tracestate` headers are joined.
pub(crate) fn parent(headers: &HeaderMap) -> Option<Parent> {
    let mut named = headers.get_all("traceparent").iter();
    let (Some(named), None) = (named.next(), named.next()) else { return None };
    let states = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok());
    let state = states.collect::<Vec<_>>().join(",");
    Parent::read(named.to_str().ok()?.trim(), Some(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_stands_there_once_and_its_states_are_one() {
        let (one, other) = (
            format!("00-{}-{}-01", "a".repeat(32), "b".repeat(16)),
            format!("00-{}-{}-01", "c".repeat(32), "b".repeat(16)),
        );
        let mut headers = HeaderMap::new();
        assert_eq!(parent(&headers), None);
        headers.append("traceparent", one.parse().unwrap());
        headers.append("tracestate", "a=1".parse().unwrap());
        headers.append("tracestate", "b=2".parse().unwrap());
        let found = parent(&headers).unwrap();
        assert_eq!((found.trace, found.state.as_deref()), ([0xaa; 16], Some("a=1,b=2")));
        headers.append("traceparent", other.parse().unwrap());
        assert_eq!(parent(&headers), None);
    }
}
