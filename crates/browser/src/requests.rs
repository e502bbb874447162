//! Requests in flight of a tab.

use std::collections::BTreeMap;

use cdp::{LoaderId, RequestId, SessionId};

use crate::limits;

/// Kinds of requests that stay open for as long as they like, or that nobody waits for.
const NOT_WAITED_FOR: [&str; 6] =
    ["EventSource", "WebSocket", "Media", "Ping", "Prefetch", "CSPViolationReport"];

/// A request in flight.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) session: SessionId,
    pub(crate) loader: Option<LoaderId>,
    pub(crate) resource: String,
    /// Seconds of the browser's clock at its begin.
    pub(crate) began: f64,
    /// Number of its entry in the log.
    pub(crate) entry: u64,
}

/// The requests in flight, numbered in the order of their begin.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    in_flight: BTreeMap<u64, Request>,
    last: u64,
}

impl Requests {
    /// Adds a request. The oldest makes room if there are too many.
    pub(crate) fn begin(&mut self, request: Request) {
        self.last += 1;
        self.in_flight.insert(self.last, request);
        if self.in_flight.len() > limits::REQUESTS {
            self.in_flight.pop_first();
        }
    }

    /// Removes a request.
    pub(crate) fn end(&mut self, id: &RequestId) -> Option<Request> {
        let number = *self.in_flight.iter().rev().find(|(_, request)| request.id == *id)?.0;
        self.in_flight.remove(&number)
    }

    /// Returns a request in flight.
    pub(crate) fn get(&self, id: &RequestId) -> Option<&Request> {
        self.in_flight.values().rev().find(|request| request.id == *id)
    }

    /// Sets the begin of a request, and returns the number of its entry.
    pub(crate) fn begun(&mut self, id: &RequestId, began: f64) -> Option<u64> {
        let request = self.in_flight.values_mut().rev().find(|request| request.id == *id)?;
        request.began = began;
        Some(request.entry)
    }

    /// Returns the number of the newest request; 0 if there was none.
    pub(crate) fn mark(&self) -> u64 {
        self.last
    }

    /// Returns true if a request that began after the mark is in flight and worth waiting for.
    pub(crate) fn are_in_flight(&self, mark: u64) -> bool {
        let began = self.in_flight.range(mark + 1..);
        began.into_iter().any(|(_, request)| !NOT_WAITED_FOR.contains(&request.resource.as_str()))
    }

    /// Forgets the requests of a session that has ended.
    pub(crate) fn forget_session(&mut self, session: &SessionId) {
        self.in_flight.retain(|_, request| request.session != *session);
    }

    /// Forgets the requests of a document that was left.
    pub(crate) fn forget_document(&mut self, loader: &LoaderId) {
        self.in_flight.retain(|_, request| request.loader.as_ref() != Some(loader));
    }

    /// Forgets all requests, because some events were missed.
    pub(crate) fn forget_all(&mut self) {
        self.in_flight.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str, resource: &str) -> Request {
        Request {
            id: RequestId::from(id),
            session: SessionId::from("S"),
            loader: Some(LoaderId::from("L")),
            resource: resource.to_owned(),
            began: 0.0,
            entry: 0,
        }
    }

    #[test]
    fn a_wait_covers_what_began_after_its_mark_and_ends() {
        let mut requests = Requests::default();
        requests.begin(request("old", "Fetch"));
        let mark = requests.mark();
        assert!(!requests.are_in_flight(mark));
        requests.begin(request("stream", "EventSource"));
        assert!(!requests.are_in_flight(mark));
        requests.begin(request("new", "Fetch"));
        assert!(requests.are_in_flight(mark));
        assert!(requests.end(&RequestId::from("new")).is_some());
        assert!(!requests.are_in_flight(mark));
        assert!(requests.are_in_flight(0));
        requests.forget_document(&LoaderId::from("L"));
        assert!(!requests.are_in_flight(0));
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let mut requests = Requests::default();
        for number in 0..limits::REQUESTS + 10 {
            requests.begin(request(&number.to_string(), "Fetch"));
        }
        assert_eq!(requests.in_flight.len(), limits::REQUESTS);
        assert!(requests.get(&RequestId::from("0")).is_none());
    }
}
