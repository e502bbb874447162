//! The state of logins: cookies, and the local storage of origins, taken out of a session and put into
//! another one.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cdp::protocol::fetch::{Enable, FulfillRequest, HeaderEntry, RequestPattern, RequestPaused};
use cdp::protocol::page;
use cdp::protocol::page::Navigate;
use cdp::protocol::runtime::{Evaluate, RunIfWaitingForDebugger};
use cdp::protocol::storage::{Cookie, SetCookies};
use cdp::{Delivery, Subscription};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::BrowserError;
use crate::frame::World;
use crate::limits;
use crate::page::Page;
use crate::session::{Session, SessionInner, is_sent_to};

/// State of logins. The values are secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredState {
    /// Cookies.
    pub cookies: Vec<Cookie>,
    /// Local storage.
    pub origins: Vec<OriginStorage>,
}

/// Local storage of one origin.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginStorage {
    /// The origin, as scripts see it.
    pub origin: String,
    /// Keys and values.
    pub items: Vec<(String, String)>,
}

impl std::fmt::Debug for StoredState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoredState").field("hosts", &self.hosts()).finish_non_exhaustive()
    }
}

/// Time in which a page is prepared to take the storage of its origin.
const PUTTING: Duration = Duration::from_secs(10);

/// Reads the local storage of a document; the empty list where it has none.
const READ: &str = "function () {
  try { return { origin: location.origin, items: Object.entries(localStorage) }; }
  catch { return { origin: '', items: [] }; }
}";

impl StoredState {
    /// Returns the hosts whose cookies or storage this holds, in order.
    pub fn hosts(&self) -> Vec<String> {
        let cookies = self.cookies.iter().map(|cookie| cookie.domain.trim_start_matches('.').to_owned());
        let origins = self.origins.iter().filter_map(|stored| host_of(&stored.origin));
        cookies.chain(origins).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the origins that get something of this, in order. A cookie that is not for encrypted
    /// connections alone goes to both schemes.
    pub fn origins(&self) -> Vec<String> {
        let of_cookie = |cookie: &Cookie| {
            let host = cookie.domain.trim_start_matches('.').to_owned();
            let schemes = if cookie.secure { &["https"][..] } else { &["http", "https"] };
            schemes.iter().map(move |scheme| format!("{scheme}://{host}")).collect::<Vec<_>>()
        };
        let cookies = self.cookies.iter().flat_map(of_cookie);
        let stored = self.origins.iter().map(|stored| stored.origin.clone());
        cookies.chain(stored).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns true if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty() && self.origins.is_empty()
    }
}

fn host_of(origin: &str) -> Option<String> {
    Some(Url::parse(origin).ok()?.host_str()?.to_owned())
}

/// Returns true if the host is the domain or lies below it. The empty domain contains every host.
fn is_below(host: &str, domain: &str) -> bool {
    domain.is_empty() || host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

impl Session {
    /// Returns the state of the logins of a domain and of those below it, or of all if `domain` is empty.
    /// The local storage is that of the pages which are open.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn stored_state(&self, domain: &str) -> Result<StoredState, BrowserError> {
        let domain = domain.trim_start_matches('.').to_lowercase();
        let mut state = StoredState { cookies: self.cookies("").await?, origins: Vec::new() };
        state.cookies.retain(|cookie| {
            let own = cookie.domain.trim_start_matches('.');
            is_below(own, &domain) || is_sent_to(&cookie.domain, &domain)
        });
        let tabs = self.inner.read(crate::session::tabs::Tabs::all);
        for tab in tabs {
            for frame in Page::new(tab).frames() {
                // A frame that does not answer, or goes meanwhile, has nothing to give.
                let Ok(stored) =
                    frame.handle.evaluate::<OriginStorage>(World::Isolated, READ, Vec::new()).await
                else {
                    continue;
                };
                let is_wanted = host_of(&stored.origin).is_some_and(|host| is_below(&host, &domain));
                let is_known = state.origins.iter().any(|known| known.origin == stored.origin);
                if is_wanted && !is_known && !stored.items.is_empty() {
                    state.origins.push(stored);
                }
            }
        }
        Ok(state)
    }

    /// Puts cookies and local storage into the session, in addition to what is there. No server is asked.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn put_state(&self, state: StoredState) -> Result<(), BrowserError> {
        if !state.cookies.is_empty() {
            let cookies = state.cookies.into_iter().map(Into::into).collect();
            let command = SetCookies { cookies, browser_context_id: self.inner.context() };
            self.inner.connection.run(None, command).await?;
        }
        for stored in state.origins {
            let putting = self.inner.put_storage(&stored);
            let waited = PUTTING;
            tokio::time::timeout(waited, putting)
                .await
                .map_err(|_| BrowserError::NotResponding { tab: 0, waited })??;
        }
        Ok(())
    }
}

impl SessionInner {
    /// Puts the storage of one origin, through a page that is no tab and whose document comes from here.
    async fn put_storage(self: &std::sync::Arc<Self>, stored: &OriginStorage) -> Result<(), BrowserError> {
        let mut arrival = self.create().await?;
        let client = arrival.client.clone();
        let put = async {
            let pattern = RequestPattern { url_pattern: "*", resource_type: None, request_stage: "Request" };
            let (on, held, _) = tokio::join!(
                client.run(page::Enable {}),
                client.run(Enable { patterns: vec![pattern] }),
                client.run(RunIfWaitingForDebugger {}),
            );
            on.and(held)?;
            let url = format!("{}/", stored.origin);
            let navigating = client.run_within(Navigate { url, frame_id: None }, PUTTING);
            let answering = answer_all(&mut arrival.events, &client);
            tokio::select! {
                answer = navigating => { answer?; }
                () = answering => {}
            }
            let items = serde_json::to_string(&stored.items)
                .map_err(|error| BrowserError::ScriptAnswer { reason: error.to_string() })?;
            let expression = format!(
                "location.origin === {} && {items}.every(([key, value]) => {{ localStorage.setItem(key, value); return true; }})",
                serde_json::Value::from(stored.origin.as_str())
            );
            let evaluate = Evaluate { expression, return_by_value: true, ..Evaluate::default() };
            let done = client.run_within(evaluate, limits::SCRIPT).await?;
            match done.result.value.as_ref().map(|value| value.get()) {
                Some("true") => Ok(()),
                _ => Err(BrowserError::ScriptAnswer {
                    reason: format!("the storage of {} takes nothing", stored.origin),
                }),
            }
        };
        let done = put.await;
        self.close_target(&arrival);
        done
    }
}

/// Answers every request of a page with an empty document, until the page is closed.
async fn answer_all(events: &mut Subscription, client: &cdp::SessionClient) {
    while let Some(delivery) = events.next().await {
        let Delivery::Event(event) = delivery else { continue };
        if let Some(request) = event.get::<RequestPaused>() {
            client.post(FulfillRequest {
                request_id: request.request_id,
                response_code: 200,
                response_headers: vec![HeaderEntry {
                    name: "Content-Type".into(),
                    value: "text/html".into(),
                }],
                body: STANDARD.encode("<!doctype html>"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_contains_itself_and_what_is_below_it() {
        assert!(is_below("shop.example", "shop.example") && is_below("www.shop.example", "shop.example"));
        assert!(!is_below("workshop.example", "shop.example") && !is_below("example", "shop.example"));
        assert!(is_below("any.example", ""));
    }

    #[test]
    fn a_state_shows_its_hosts_and_no_value() {
        let items = vec![("token".to_owned(), "hidden-value".to_owned())];
        let origins = vec![OriginStorage { origin: "https://a.example:8443".to_owned(), items }];
        let cookie = |domain: &str, secure| Cookie {
            name: "n".to_owned(),
            value: "hidden-cookie".to_owned(),
            domain: domain.to_owned(),
            path: "/".to_owned(),
            expires: -1.0,
            http_only: true,
            secure,
            same_site: None,
        };
        let state =
            StoredState { cookies: vec![cookie(".b.example", false), cookie("c.example", true)], origins };
        assert_eq!(state.hosts(), ["a.example", "b.example", "c.example"]);
        let origins =
            ["http://b.example", "https://a.example:8443", "https://b.example", "https://c.example"];
        assert_eq!(state.origins(), origins);
        let shown = format!("{state:?}");
        assert!(shown.contains("a.example") && !shown.contains("hidden"), "{shown}");
    }
}
