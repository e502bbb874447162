//! Calls of the protocol's side, and the extension's answers to them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::extension::bridge::{Bridge, DISCONNECTED, HALTED, ask};
use crate::extension::messages::{CallError, RawMessage};
use crate::extension::methods::{self, MethodLevel};
use crate::extension::routes::{CONTEXT, Collection, HeldCall, Pending, Route, State, target_info};
use crate::extension::{NOT_ALLOWED, NOT_CONNECTED, PAUSED, shareable};

/// Method that attaches to the frames in other processes.
const AUTO_ATTACH: &str = "Target.setAutoAttach";

/// Code of the protocol for a session or a target that is not there.
const NOT_FOUND: i64 = -32_001;

/// A call, as the crate `cdp` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    id: u64,
    #[serde(borrow)]
    method: &'a str,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default)]
    session_id: Option<String>,
}

impl Call<'_> {
    /// Returns a text among the parameters.
    fn text(&self, field: &str) -> String {
        let params: Option<Value> = self.params.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let found = params.as_ref().and_then(|params| params.get(field)?.as_str());
        found.unwrap_or_default().to_owned()
    }
}

impl Bridge {
    /// Takes a call of the protocol's side. Every call gets an answer.
    pub(super) fn take_call(&self, message: &[u8]) {
        let Ok(call) = serde_json::from_slice::<Call<'_>>(message) else { return };
        let mut state = self.state.lock();
        match call.session_id.clone() {
            None => self.call_browser(&mut state, &call),
            Some(session) => self.call_tab(&mut state, &call, &session),
        }
    }

    /// Returns false, and answers the call, if the extension cannot take this method now.
    fn may_call(&self, state: &State, id: u64, method: &str) -> bool {
        let Some(socket) = &state.socket else {
            self.refuse(id, NOT_CONNECTED, DISCONNECTED);
            return false;
        };
        let Some(level) = methods::level_of(method) else {
            self.refuse(id, NOT_ALLOWED, &format!("{method} is not used in the user's browser"));
            return false;
        };
        if socket.hello.paused {
            self.refuse(id, PAUSED, HALTED);
            return false;
        }
        if level > socket.hello.level {
            self.refuse(id, NOT_ALLOWED, &above(method, level, socket.hello.level));
            return false;
        }
        true
    }

    fn call_tab(&self, state: &mut State, call: &Call<'_>, session: &str) {
        let Some(route) = state.routes.get(session).cloned() else {
            return self.refuse(call.id, NOT_FOUND, "Session with given id not found.");
        };
        if !self.may_call(state, call.id, call.method) {
            return;
        }
        let pending = match call.method {
            "Page.navigate" => {
                let url = call.text("url");
                if let Some(reason) = shareable::refusal(&url) {
                    return self.refuse(call.id, NOT_ALLOWED, &format!("{url}: {reason}"));
                }
                Pending::Forward { id: call.id }
            }
            "Page.enable" => Pending::PageEvents { id: call.id, session: session.to_owned() },
            // A document that is announced later would take the frames of other processes away.
            AUTO_ATTACH if state.announces(session) => {
                let params = call.params.map(ToOwned::to_owned);
                let session = session.to_owned();
                state.held.push(HeldCall { id: call.id, session, method: AUTO_ATTACH, params });
                return;
            }
            _ => Pending::Forward { id: call.id },
        };
        ask(state, pending, (call.method, Some(&route)), call.params);
    }

    /// Answers a call to the browser itself, or makes a command of the extension of it.
    fn call_browser(&self, state: &mut State, call: &Call<'_>) {
        let id = call.id;
        match call.method {
            "Browser.getVersion" => {
                let Some(socket) = &state.socket else {
                    return self.refuse(id, NOT_CONNECTED, DISCONNECTED);
                };
                let version = json!({
                    "protocolVersion": "1.3", "product": socket.hello.browser, "revision": "",
                    "userAgent": "", "jsVersion": "",
                });
                self.answer(id, &version.to_string());
            }
            "Target.createBrowserContext" => {
                self.answer(id, &json!({"browserContextId": CONTEXT}).to_string());
            }
            // The tabs are the user's: they stay when the session ends. Downloads are the browser's own.
            "Target.setAutoAttach"
            | "Target.disposeBrowserContext"
            | "Browser.setDownloadBehavior"
            | "Browser.cancelDownload" => self.answer(id, "{}"),
            "Target.createTarget" => {
                let url = call.text("url");
                if let Some(reason) = shareable::refusal(&url) {
                    return self.refuse(id, NOT_ALLOWED, &format!("{url}: {reason}"));
                }
                if self.may_call(state, id, "tabs.create") {
                    let params = raw(&json!({"url": url}));
                    ask(state, Pending::Create { id }, ("tabs.create", None), params.as_deref());
                }
            }
            "Target.closeTarget" => {
                self.command(state, call, "tabs.close", |_| Pending::Forward { id });
            }
            "Target.activateTarget" => {
                self.command(state, call, "tabs.activate", |_| Pending::Forward { id });
            }
            "Target.getTargetInfo" => {
                self.command(state, call, "tabs.get", |target| Pending::Get { id, target });
            }
            "Storage.getCookies" => self.collect_cookies(state, id),
            method => self.refuse(id, NOT_ALLOWED, &format!("{method} is not used in the user's browser")),
        }
    }

    /// Makes a command of the extension about one tab.
    fn command(
        &self,
        state: &mut State,
        call: &Call<'_>,
        method: &str,
        pending: impl FnOnce(String) -> Pending,
    ) {
        let target = call.text("targetId");
        let Some(tab) = state.by_target(&target) else {
            return self.refuse(call.id, NOT_FOUND, "No target with given id found");
        };
        if self.may_call(state, call.id, method) {
            ask(state, pending(target), (method, Some(&Route { tab, frame: None })), None);
        }
    }

    /// Asks for the cookies of the pages in the shared tabs. Others never leave the browser.
    fn collect_cookies(&self, state: &mut State, id: u64) {
        const METHOD: &str = "Network.getCookies";
        if !self.may_call(state, id, METHOD) {
            return;
        }
        let tabs: Vec<i64> = state.tabs.keys().copied().collect();
        if tabs.is_empty() {
            return self.answer(id, r#"{"cookies":[]}"#);
        }
        let collection = state.next();
        state.collections.insert(collection, Collection { left: tabs.len(), cookies: Vec::new() });
        for tab in tabs {
            let route = Route { tab, frame: None };
            ask(state, Pending::Cookies { id, collection }, (METHOD, Some(&route)), None);
        }
    }

    /// Takes the answer to a call.
    pub(super) fn take_answer(&self, state: &mut State, carried: &RawMessage<'_>) {
        let Some(pending) = carried.id.and_then(|id| state.pending.remove(&id)) else { return };
        let announced = match &pending {
            Pending::PageEvents { session, .. } | Pending::Frames { session, .. } => Some(session.clone()),
            _ => None,
        };
        self.take_outcome(state, pending, carried);
        if let Some(session) = announced.filter(|session| !state.announces(session)) {
            let released: Vec<_> = state.held.extract_if(.., |held| held.session == session).collect();
            for held in released {
                match state.routes.get(&session).cloned() {
                    Some(route) => {
                        let pending = Pending::Forward { id: held.id };
                        ask(state, pending, (held.method, Some(&route)), held.params.as_deref());
                    }
                    None => self.refuse(held.id, NOT_FOUND, "Session with given id not found."),
                }
            }
        }
    }

    fn take_outcome(&self, state: &mut State, pending: Pending, carried: &RawMessage<'_>) {
        let result = carried.result.map_or("{}", |result| result.get());
        let refused = carried.error.as_ref();
        match (pending, refused) {
            (Pending::Cookies { id, collection }, _) => {
                self.add_cookies(state, (id, collection), result, refused);
            }
            // The documents that are there stay unknown until a navigation.
            (Pending::Frames { id, answer, .. }, Some(_)) => self.answer(id, &answer),
            (pending, Some(error)) => self.refuse_as(pending.id(), error),
            (Pending::Forward { id }, None) => self.answer(id, result),
            (Pending::Create { id }, None) => {
                let target: Option<NewTab> = serde_json::from_str(result).ok();
                match target {
                    Some(created) => self.answer(id, &json!({"targetId": created.target}).to_string()),
                    None => self.refuse(id, NOT_FOUND, "the extension opened no tab"),
                }
            }
            (Pending::Get { id, target }, None) => {
                let tab = state.by_target(&target).and_then(|tab| state.tabs.get_mut(&tab));
                let Some(shown) = tab else {
                    return self.refuse(id, NOT_FOUND, "No target with given id found");
                };
                if let Ok(found) = serde_json::from_str::<TabState>(result) {
                    shown.title = found.title;
                }
                self.answer(id, &json!({"targetInfo": target_info(shown, None)}).to_string());
            }
            (Pending::PageEvents { id, session }, None) => {
                let Some(route) = state.routes.get(&session).cloned() else { return self.answer(id, result) };
                let pending = Pending::Frames { id, session, answer: result.to_owned() };
                ask(state, pending, ("Page.getFrameTree", Some(&route)), None);
            }
            (Pending::Frames { id, session, answer }, None) => {
                if let Ok(tree) = serde_json::from_str::<Value>(result) {
                    self.announce_frames(&session, tree.get("frameTree"));
                }
                self.answer(id, &answer);
            }
        }
    }

    /// Announces the documents that a page shows already, as if they had just been opened.
    fn announce_frames(&self, session: &str, tree: Option<&Value>) {
        let mut trees: Vec<&Value> = tree.into_iter().collect();
        while let Some(tree) = trees.pop() {
            let Some(frame) = tree.get("frame") else { continue };
            self.event(Some(session), "Page.frameNavigated", &json!({"frame": frame}));
            let loaded = json!({
                "frameId": frame.get("id"), "loaderId": frame.get("loaderId"), "name": "load", "timestamp": 0.0,
            });
            self.event(Some(session), "Page.lifecycleEvent", &loaded);
            trees.extend(tree.get("childFrames").and_then(Value::as_array).into_iter().flatten().rev());
        }
    }

    fn add_cookies(
        &self,
        state: &mut State,
        (id, collection): (u64, u64),
        result: &str,
        refused: Option<&CallError>,
    ) {
        let Some(collected) = state.collections.get_mut(&collection) else { return };
        if let Some(error) = refused {
            state.collections.remove(&collection);
            return self.refuse_as(id, error);
        }
        if let Ok(answer) = serde_json::from_str::<cdp::protocol::storage::CookiesAnswer>(result) {
            for cookie in answer.cookies {
                if !collected.cookies.contains(&cookie) {
                    collected.cookies.push(cookie);
                }
            }
        }
        collected.left -= 1;
        if collected.left == 0
            && let Some(collected) = state.collections.remove(&collection)
        {
            self.answer(id, &json!({"cookies": collected.cookies}).to_string());
        }
    }

    fn refuse_as(&self, id: u64, error: &CallError) {
        self.refuse(id, error.code, &error.message);
    }
}

/// Answer to `tabs.create`.
#[derive(Deserialize)]
struct NewTab {
    target: String,
}

/// Answer to `tabs.get`.
#[derive(Deserialize)]
struct TabState {
    #[serde(default)]
    title: String,
}

/// Returns the sentence for a method above the level that the user has set.
fn above(method: &str, level: MethodLevel, limit: MethodLevel) -> String {
    format!(
        "{method} is {}, and the user's extension lets {} pass: only the user can change this, in the options of the extension",
        level.as_str(),
        limit.as_str()
    )
}

fn raw(value: &Value) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}
