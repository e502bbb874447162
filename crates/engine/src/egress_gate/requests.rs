//! Requests to hosts where a secret of the session is a login at a forge: those that read pass, and
//! those that write need a rule or a human.

use egress::{BegunRequest, Peer, RequestRefusal, RequestVerdict};
use fetch::address::Host;
use forge::{Action, Meaning, RefChange};
use policy::{PushVerdict, PushedRef};
use store_api::Durability;
use tool::Effect;

use super::WayOut;
use crate::approvals::{HostConnection, place};

/// Kind of the row of a request in the audit.
const REQUEST: &str = "request";

impl WayOut {
    /// Decides on a request to a host of a login, and records the decision if the request writes.
    pub(super) async fn judge_at_forge(
        &self,
        host: &Host,
        port: u16,
        peer: Peer,
        request: BegunRequest,
    ) -> RequestVerdict {
        // The body may be large, and its sender may be hostile.
        let permit = self.judging.acquire().await;
        let judged = tokio::task::spawn_blocking(move || meaning(&request)).await;
        drop(permit);
        let action = match judged {
            Ok(Meaning::Reading) => return RequestVerdict::Passed,
            Ok(Meaning::NeedMore(bytes)) => return RequestVerdict::NeedsMore(bytes),
            Ok(Meaning::Writing(action)) => action,
            Err(error) => {
                let reason = format!("the request could not be judged: {error}");
                return RequestVerdict::Refused(RequestRefusal { reason, answer: None });
            }
        };
        let name = host.to_string();
        let text = action.to_string();
        let text = self.around.redactor.text(&text).unwrap_or(text);
        let decided = match self.verdict_on(&action) {
            PushVerdict::Allowed(rule) => Ok(rule),
            PushVerdict::Denied(reason) => Err(reason),
            PushVerdict::Ask => self.ask_about(&name, port, peer, &text).await,
        };
        match self.record(&name, port, &text, decided).await {
            Ok(()) => RequestVerdict::Passed,
            Err(reason) => {
                let answer = match action.as_ref() {
                    Action::Push(push) => push.refusal(&reason),
                    _ => None,
                };
                RequestVerdict::Refused(RequestRefusal { reason, answer })
            }
        }
    }

    /// Returns the verdict of the lists. They are about pushes alone.
    fn verdict_on(&self, action: &Action) -> PushVerdict {
        let Action::Push(push) = action else { return PushVerdict::Ask };
        let refs = push.commands.iter().map(|command| PushedRef {
            name: &command.name,
            is_deleted: command.change == RefChange::Delete,
        });
        match self.around.policy.get().push_verdict(&refs.collect::<Vec<_>>()) {
            // The server interprets the options, which may change more than the refs.
            PushVerdict::Allowed(_) if !push.options.is_empty() => PushVerdict::Ask,
            verdict => verdict,
        }
    }

    /// Asks a human about an action. Returns the reason for which it may be done.
    async fn ask_about(&self, host: &str, port: u16, peer: Peer, action: &str) -> Result<String, String> {
        let at = place(host, port);
        if !self.around.policy.get().asks_about_requests() {
            return Err(format!(
                "at {at}: {action}: this needs an approval, for which this caller may not ask"
            ));
        }
        let Some((call, program)) = self.owners.find(peer).await else {
            // A command that passes as read-only is not registered.
            return Err(format!("at {at}: {action}: a command that passes as read-only may not do this"));
        };
        let (host, action) = (host.to_owned(), Some(action.to_owned()));
        let decided = call.decide(HostConnection { host, port, program, action }).await;
        if let Err(reason) = &decided {
            self.refused.lock().is_told_by_call(reason);
        }
        decided.map(|()| "approved".to_owned())
    }

    /// Records the decision on an action. An action that cannot be recorded is not done.
    async fn record(
        &self,
        host: &str,
        port: u16,
        action: &str,
        decided: Result<String, String>,
    ) -> Result<(), String> {
        let effect = Effect::Act { host: host.to_owned(), what: action.to_owned() };
        let store = self.around.store.audit();
        match decided {
            Ok(rule) => {
                let mut row = self.row(REQUEST, &effect, None, 0);
                row.rule = Some(rule);
                let recorded = store.append(row, Durability::Flushed).await;
                recorded.map(drop).map_err(|error| format!("the request cannot be recorded: {error}"))
            }
            Err(reason) => {
                let repeated = {
                    let mut refused = self.refused.lock();
                    let note = format!("at {}: {action}: {reason}", place(host, port));
                    refused.tell(note, &reason);
                    refused.count(format!("{host}: {action}"), port)
                };
                if let Some(repeated) = repeated {
                    let row = self.row(REQUEST, &effect, Some(&reason), repeated);
                    // A failure to record a refusal does not change it.
                    let _unwritten = store.append(row, Durability::Behind).await;
                }
                Err(reason)
            }
        }
    }
}

/// Finds out what a request would do.
fn meaning(request: &BegunRequest) -> Meaning {
    let BegunRequest { head, body, is_whole } = request;
    let headers: Vec<(&str, &[u8])> =
        head.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    forge::judge(&forge::Request {
        method: &head.method,
        target: &head.target,
        headers: &headers,
        body,
        is_whole: *is_whole,
        length: head.length,
    })
}
