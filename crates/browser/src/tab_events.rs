//! Events of a tab: each session of it has a task that takes them one by one.
//!
//! A task never waits for the page. What an event makes necessary (an answer to a dialog, the setup
//! of a frame) goes to a task of its own.

mod network;

use cdp::protocol::dom::SetFileInputFiles;
use cdp::protocol::inspector::TargetCrashed;
use cdp::protocol::log::EntryAdded;
use cdp::protocol::page::{
    Crash, FileChooserOpened, FrameAttached, FrameClearedScheduledNavigation, FrameDetached, FrameNavigated,
    FrameScheduledNavigation, FrameStartedNavigating, FrameStoppedLoading, GetFrameTree,
    HandleJavaScriptDialog, JavaScriptDialogOpening, LifecycleEvent, Navigate, NavigatedWithinDocument,
    SetInterceptFileChooserDialog,
};
use cdp::protocol::runtime::{
    ConsoleApiCalled, ExceptionThrown, ExecutionContextCreated, ExecutionContextDestroyed,
    ExecutionContextsCleared, RemoteObject,
};
use cdp::protocol::target::AttachedToTarget;
use cdp::{Delivery, Event, EventKind, FrameId, SessionClient, Subscription};

use crate::address;
use crate::dialogs::{DialogAnswer, DialogKind};
use crate::limits::{self, cut};
use crate::report::{DialogReport, Happening};
use crate::tab::Tab;
use crate::tab_setup::set_up;
use crate::tab_state::Phase;

/// Takes the events of the tab's main session until the tab is closed.
pub(crate) async fn follow_page(tab: Tab, mut events: Subscription) {
    let client = tab.client().clone();
    follow(&tab, &client, &mut events).await;
    tab.end();
}

/// Takes the events of a frame that runs in another process, until its session ends.
async fn follow_frame(tab: Tab, client: SessionClient, mut events: Subscription) {
    follow(&tab, &client, &mut events).await;
    tab.change(|state| {
        state.frames.end_session(client.id());
        state.requests.forget_session(client.id());
    });
}

async fn follow(tab: &Tab, client: &SessionClient, events: &mut Subscription) {
    while let Some(delivery) = events.next().await {
        match delivery {
            Delivery::Event(event) => take(tab, client, &event),
            Delivery::Missed(missed) => catch_up(tab, client, missed),
        }
    }
}

/// Brings the state up to date after events were missed.
fn catch_up(tab: &Tab, client: &SessionClient, missed: u64) {
    tab.change(|state| {
        state.requests.forget_all();
        state.frames.forget_worlds(client.id(), None);
        state.refusal(if missed == 0 {
            "the connection to the browser broke and is back: events of the page may be missing".to_owned()
        } else {
            format!("the page was too busy: {missed} of its events were missed")
        });
    });
    // A dialog may be among them, and the page would stand still.
    answer(client, DialogAnswer::Dismiss);
    let (tab, client) = (tab.clone(), client.clone());
    tokio::spawn(async move {
        let Ok(tree) = client.run(GetFrameTree {}).await else { return };
        tab.change(|state| {
            let mut stack = vec![tree.frame_tree];
            while let Some(tree) = stack.pop() {
                state.frames.refresh(&tree.frame, client.id());
                if let Some(frame) = state.frames.get_mut(&tree.frame.id) {
                    // Taken as loaded: nobody shall wait for an event that was missed.
                    frame.has_loaded = true;
                    frame.navigating = None;
                }
                stack.extend(tree.child_frames);
            }
        });
    });
}

/// Takes one event. Events that nothing here needs are ignored.
fn take(tab: &Tab, client: &SessionClient, event: &Event) {
    let domain = event.method.split('.').next().unwrap_or_default();
    match domain {
        "Page" => take_page(tab, client, event),
        "Runtime" => take_runtime(tab, client, event),
        "Network" => network::take(tab, client, event),
        "Log" => {
            if let Some(EntryAdded { entry }) = event.get() {
                let url = entry.url.as_deref().map(address::shown).unwrap_or_default();
                let text = if url.is_empty() {
                    entry.text
                } else {
                    format!("{} ({url})", cut(&entry.text, limits::TEXT))
                };
                tab.change(|state| state.console(entry.timestamp, &entry.level, &text));
            }
        }
        "Inspector" if event.get::<TargetCrashed>().is_some() => take_crash(tab, client),
        "Target" => {
            if let Some(attached) = event.get::<AttachedToTarget>() {
                attach_frame(tab, attached);
            }
        }
        _ => {}
    }
}

fn take_page(tab: &Tab, client: &SessionClient, event: &Event) {
    match event.method.as_str() {
        FrameAttached::METHOD => with(event, |event: FrameAttached| {
            tab.change(|state| state.frames.attach(&event.frame_id, &event.parent_frame_id, client.id()));
        }),
        FrameNavigated::METHOD => with(event, |event: FrameNavigated| take_document(tab, client, &event)),
        FrameDetached::METHOD => with(event, |event: FrameDetached| {
            // A frame that is swapped goes on in the session that was attached for it.
            if event.reason != "swap" {
                tab.change(|state| state.frames.detach(&event.frame_id));
            }
        }),
        NavigatedWithinDocument::METHOD => with(event, |event: NavigatedWithinDocument| {
            tab.change(|state| {
                if let Some(frame) = state.frames.get_mut(&event.frame_id) {
                    frame.url = address::shown(&event.url);
                    frame.is_scheduled = false;
                }
            });
        }),
        FrameScheduledNavigation::METHOD => with(event, |event: FrameScheduledNavigation| {
            tab.change(|state| {
                let is_main = *state.frames.main() == event.frame_id;
                let is_script = event.url.starts_with("javascript:");
                if is_main && !is_script && !address::may_be_shown(&event.url) {
                    let url = address::shown(&event.url);
                    state.refusal(format!("the page tried to open {url}: this scheme is refused"));
                }
                // A navigation that is seconds away belongs to no action.
                if let Some(frame) = state.frames.get_mut(&event.frame_id) {
                    frame.is_scheduled = event.delay < 1.0 && !is_script;
                }
            });
        }),
        FrameClearedScheduledNavigation::METHOD => with(event, |event: FrameClearedScheduledNavigation| {
            tab.change(|state| {
                if let Some(frame) = state.frames.get_mut(&event.frame_id) {
                    frame.is_scheduled = false;
                }
            });
        }),
        FrameStartedNavigating::METHOD => with(event, |event: FrameStartedNavigating| {
            if !event.navigation_type.to_lowercase().contains("samedocument") {
                tab.change(|state| {
                    if let Some(frame) = state.frames.get_mut(&event.frame_id) {
                        frame.navigating = Some(event.loader_id.clone());
                        frame.is_scheduled = false;
                    }
                });
            }
        }),
        FrameStoppedLoading::METHOD => with(event, |event: FrameStoppedLoading| {
            tab.change(|state| {
                if let Some(frame) = state.frames.get_mut(&event.frame_id) {
                    frame.navigating = None;
                    frame.has_loaded = true;
                }
            });
        }),
        LifecycleEvent::METHOD => with(event, |event: LifecycleEvent| {
            if event.name == "load" {
                tab.change(|state| {
                    let frame = state.frames.get_mut(&event.frame_id);
                    if let Some(frame) =
                        frame.filter(|frame| frame.loader.as_ref().is_none_or(|own| *own == event.loader_id))
                    {
                        frame.has_loaded = true;
                    }
                });
            }
        }),
        JavaScriptDialogOpening::METHOD => {
            with(event, |event: JavaScriptDialogOpening| take_dialog(tab, client, &event));
        }
        FileChooserOpened::METHOD => {
            with(event, |event: FileChooserOpened| take_chooser(tab, client, &event));
        }
        _ => {}
    }
}

/// Runs something on the parameters of an event, if they have the expected shape.
fn with<E: EventKind>(event: &Event, run: impl FnOnce(E)) {
    if let Some(event) = event.parse() {
        run(event);
    }
}

/// Takes a new document of a frame. A main frame that shows what no tab may show is emptied.
fn take_document(tab: &Tab, client: &SessionClient, event: &FrameNavigated) {
    let frame = &event.frame;
    let is_refused = tab.change(|state| {
        let Some((left, _)) = state.frames.navigated(frame, client.id()) else { return false };
        if let Some(left) = left {
            state.requests.forget_document(&left);
        }
        let is_main = *state.frames.main() == frame.id;
        if is_main {
            state.add_document(frame.loader_id.clone());
        }
        let is_refused = is_main && !address::may_be_shown(&frame.url);
        if is_refused {
            let url = address::shown(&frame.url);
            state.refusal(format!("the page led to {url}: this scheme is refused, and the tab is empty now"));
            // Keeps whoever waits until the empty document is there.
            if let Some(frame) = state.frames.get_mut(&frame.id) {
                frame.is_scheduled = true;
            }
        }
        is_refused
    });
    if is_refused {
        let client = client.clone();
        tokio::spawn(async move {
            // A tab that closes meanwhile shows nothing any more.
            let _ = client.run(Navigate { url: address::BLANK.to_owned(), frame_id: None }).await;
        });
    }
}

fn take_dialog(tab: &Tab, client: &SessionClient, event: &JavaScriptDialogOpening) {
    let kind = DialogKind::of(&event.kind);
    let (reply, is_last) = tab.change(|state| {
        state.dialogs += 1;
        let is_last = state.dialogs > limits::DIALOGS;
        let reply = if is_last { DialogAnswer::Dismiss } else { state.dialog_policy.answer(kind) };
        if state.dialogs == limits::DIALOGS + 1 {
            let most = limits::DIALOGS;
            state.refusal(format!(
                "the page opened more than {most} dialogs and was stopped; the tab is empty now"
            ));
            state.is_stopping = true;
        } else if !is_last {
            let message = cut(&event.message, limits::TEXT);
            state.happenings.push(Happening::Dialog(DialogReport { kind, message, answer: reply.clone() }));
        }
        (reply, is_last)
    });
    if is_last {
        // A loop of dialogs cannot be interrupted: the script goes on when its dialog is answered.
        client.post(Crash {});
        return;
    }
    let reply = match reply {
        DialogAnswer::Accept(None) if kind == DialogKind::Prompt => {
            DialogAnswer::Accept(event.default_prompt.clone())
        }
        reply => reply,
    };
    answer(client, reply);
}

/// Answers the open dialog.
fn answer(client: &SessionClient, answer: DialogAnswer) {
    let (accept, prompt_text) = match answer {
        DialogAnswer::Accept(text) => (true, text),
        DialogAnswer::Dismiss => (false, None),
    };
    let client = client.clone();
    tokio::spawn(async move {
        // A dialog that is gone already needs no answer.
        let _ = client.run(HandleJavaScriptDialog { accept, prompt_text }).await;
    });
}

fn take_chooser(tab: &Tab, client: &SessionClient, event: &FileChooserOpened) {
    let files = tab.change(|state| match (state.files.take(), event.backend_node_id) {
        (Some(files), Some(node)) => {
            state.happenings.push(Happening::FilesChosen(files.len()));
            Some((files, node))
        }
        _ => {
            state.refusal("the page asked for files and got none");
            None
        }
    });
    if let Some((files, node)) = files {
        let (tab, client) = (tab.clone(), client.clone());
        tokio::spawn(async move {
            let given = client.run(SetFileInputFiles { files, node: node.into() }).await;
            if let Err(error) = given {
                tab.change(|state| state.refusal(format!("the page did not get the files: {error}")));
            }
            client.post(SetInterceptFileChooserDialog { enabled: true, cancel: true });
        });
    }
}

fn take_runtime(tab: &Tab, client: &SessionClient, event: &Event) {
    match event.method.as_str() {
        ConsoleApiCalled::METHOD => with(event, |event: ConsoleApiCalled| {
            let mut text = String::new();
            for argument in &event.args {
                if text.len() > limits::TEXT {
                    break;
                }
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(&shown(argument));
            }
            tab.change(|state| state.console(event.timestamp, &event.kind, &text));
        }),
        ExceptionThrown::METHOD => with(event, |event: ExceptionThrown| {
            let text = event.exception_details.message();
            tab.change(|state| state.page_error(event.timestamp, &text));
        }),
        ExecutionContextCreated::METHOD => with(event, |event: ExecutionContextCreated| {
            let context = event.context;
            if let Some(frame) = context.aux_data.frame_id.filter(|_| context.aux_data.is_default) {
                tab.change(|state| {
                    let own = |frame: &&mut crate::frame_tree::FrameState| frame.session == *client.id();
                    if let Some(frame) = state.frames.get_mut(&frame).filter(own) {
                        frame.page_context = Some(context.id);
                    }
                });
            }
        }),
        ExecutionContextDestroyed::METHOD => with(event, |event: ExecutionContextDestroyed| {
            tab.change(|state| state.frames.forget_worlds(client.id(), Some(event.execution_context_id)));
        }),
        ExecutionContextsCleared::METHOD => tab.change(|state| state.frames.forget_worlds(client.id(), None)),
        _ => {}
    }
}

/// Returns a value as a console shows it, cut.
fn shown(value: &RemoteObject) -> String {
    if value.subtype.as_deref() == Some("null") {
        return "null".to_owned();
    }
    let text = value
        .value
        .as_ref()
        .map(|raw| serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()));
    let text = text.or_else(|| value.unserializable_value.clone()).or_else(|| value.description.clone());
    cut(&text.unwrap_or_else(|| value.kind.clone()), limits::TEXT)
}

fn take_crash(tab: &Tab, client: &SessionClient) {
    tab.change(|state| {
        state.requests.forget_session(client.id());
        if client.id() != tab.client().id() {
            state.frames.end_session(client.id());
            state.refusal("the process of a frame has crashed");
            return;
        }
        state.requests.forget_all();
        state.frames.crash();
        state.happenings.push(Happening::Crash);
        // A page that was stopped because of its dialogs is not to open them again.
        let was_stopped = std::mem::take(&mut state.is_stopping);
        if state.phase != Phase::Closed {
            let reopen = if was_stopped { address::BLANK.to_owned() } else { state.url() };
            state.phase = Phase::Crashed { reopen };
        }
    });
}

/// Follows a frame that runs in another process from now on.
fn attach_frame(tab: &Tab, attached: AttachedToTarget) {
    let client = SessionClient::new(tab.client().connection().clone(), attached.session_id);
    let events = client.subscribe();
    let frame = FrameId::from(attached.target_info.target_id.as_str());
    let parent = attached.target_info.parent_frame_id;
    tab.change(|state| state.frames.enter_session(&frame, parent.as_ref(), client.id()));
    let (tab, settings_of) = (tab.clone(), tab.clone());
    tokio::spawn(follow_frame(tab, client.clone(), events));
    tokio::spawn(async move {
        // A frame that is gone meanwhile needs no setup.
        let _ = set_up(&client, settings_of.settings(), false).await;
    });
}
