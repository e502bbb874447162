//! Turns with a model that follows a script.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use llm::{
    ChatRequest, Delta, Finish, Message, Part, Response, Role, Sink, ToolCall, ToolDefinition, Usage, Usd,
};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tool::{BoxFuture, Stop, StopReason};

use crate::*;

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Result<Response, ModelFailure>>>,
    seen: Mutex<Vec<ChatRequest>>,
    context: Option<u32>,
}

impl Script {
    fn of(answers: impl IntoIterator<Item = Response>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().map(Ok).collect()), ..Self::default() }
    }
}

impl AgentModel for Script {
    fn context(&self) -> Option<u32> {
        self.context
    }

    fn chat<'a>(
        &'a self,
        request: ChatRequest,
        mut sink: Box<dyn Sink>,
        _stop: &'a Stop,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelFailure>> {
        Box::pin(async move {
            self.seen.lock().push(request);
            // The last answer is given for ever.
            let mut answers = self.answers.lock();
            let answer = if answers.len() > 1 {
                answers.pop_front().unwrap()
            } else {
                answers.front().unwrap().clone()
            };
            let response = answer?;
            sink.take(Delta::Text(&response.text()));
            let cost = Some(Usd::from_trillionths(1));
            Ok(ModelAnswer { response, model: "script".to_owned(), cost, tried: Vec::new() })
        })
    }
}

fn answer(parts: Vec<Part>, finish: Finish) -> Response {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    Response { model: "script".to_owned(), parts, finish, usage, omitted: Vec::new() }
}

fn says(text: &str) -> Response {
    answer(vec![Part::Text(text.to_owned())], Finish::Complete)
}

fn calls(wanted: &[(&str, &str)]) -> Response {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let parts = wanted.iter().map(|(name, arguments)| {
        Part::ToolCall(ToolCall {
            id: format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
            signature: None,
            model: "script".to_owned(),
        })
    });
    answer(parts.collect(), Finish::ToolCalls)
}

#[derive(Default)]
struct Tools {
    made: Mutex<Vec<String>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    long: bool,
    stops: bool,
}

impl AgentTools for Tools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        ["read", "write"]
            .map(|name| ToolDefinition {
                name: name.to_owned(),
                description: String::new(),
                schema: Map::new(),
            })
            .into()
    }

    fn reads_only(&self, name: &str) -> bool {
        name == "read"
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        stop: &'a Stop,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.made.lock().push(format!("{name} {}", Value::Object(arguments.clone())));
            if self.stops {
                stop.request(StopReason::Cancelled);
            }
            let text = if self.long { "x".repeat(30_000) } else { format!("did {}", arguments.len()) };
            ToolOutput { text, ..ToolOutput::default() }
        })
    }
}

/// Storage in memory, as another process would find it.
#[derive(Default)]
struct Stored(Mutex<Vec<StoredMessage>>);

impl History for Stored {
    fn append<'a>(&'a self, messages: &'a [StoredMessage]) -> BoxFuture<'a, Result<(), HistoryError>> {
        // A store keeps JSON.
        let messages: Vec<StoredMessage> =
            serde_json::from_str(&serde_json::to_string(messages).unwrap()).unwrap();
        self.0.lock().extend(messages);
        Box::pin(std::future::ready(Ok(())))
    }

    fn summarise<'a>(
        &'a self,
        up_to: u64,
        summary: &'a StoredMessage,
    ) -> BoxFuture<'a, Result<(), HistoryError>> {
        let mut stored = self.0.lock();
        stored.retain(|message| message.number > up_to);
        stored.insert(0, summary.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Ran {
    report: TurnReport,
    conversation: Conversation,
    stored: Vec<StoredMessage>,
    events: Vec<String>,
}

fn run_with(model: &Script, tools: &Tools, bounds: Bounds, stop: &Stop, conversation: Conversation) -> Ran {
    let mut conversation = conversation;
    let history = Stored::default();
    *history.0.lock() = conversation.stored().to_vec();
    let events = Arc::new(Mutex::new(Vec::new()));
    let taken = events.clone();
    let observer = move |event: AgentEvent<'_>| {
        taken.lock().push(match event {
            AgentEvent::Delta(delta) => format!("{delta:?}"),
            AgentEvent::Answered { .. } => "answered".to_owned(),
            AgentEvent::CallBegins { name, .. } => format!("begins {name}"),
            AgentEvent::CallEnds { name, output, .. } => format!("ends {name} {}", output.is_error),
            AgentEvent::Received(text) => format!("received {text}"),
            AgentEvent::Summarised { messages } => format!("summarised {messages}"),
        });
    };
    let turn = Turn {
        system: "Be brief.".to_owned(),
        temperature: None,
        bounds,
        model,
        tools,
        history: &history,
        inbox: &NoInbox,
        observer: Arc::new(observer),
        stop: stop.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let report = runtime.block_on(turn.run(&mut conversation, Some(Message::user("Do it."))));
    let stored = history.0.lock().clone();
    let events = events.lock().clone();
    Ran { report, conversation, stored, events }
}

fn run(model: &Script, tools: &Tools) -> Ran {
    run_with(model, tools, Bounds::default(), &Stop::default(), Conversation::default())
}

/// Returns the results that a request contains.
fn results(request: &ChatRequest) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| if let Part::ToolResult(result) = part { Some(result.text.clone()) } else { None })
        .collect()
}

/// Asserts that each call has exactly one result right after it, as every provider demands.
fn assert_is_valid(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        assert!(place == 0 || messages[place - 1].role != message.role, "two messages of one author");
        for part in &message.parts {
            match part {
                Part::ToolCall(call) => open.push(&call.id),
                Part::ToolResult(result) => {
                    let found = open.iter().position(|id| *id == result.call_id);
                    open.remove(found.expect("a result without its call"));
                }
                _ => {}
            }
        }
        assert!(message.role == Role::Assistant || open.is_empty(), "a call without its result");
    }
}

#[test]
fn a_turn_makes_calls_until_the_model_answers_and_everything_is_stored() {
    let model = Script::of([calls(&[("write", r#"{"a": 1}"#)]), calls(&[("read", "")]), says("done")]);
    let tools = Tools::default();
    let ran = run(&model, &tools);
    assert_eq!(ran.report.end, TurnEnd::Answer("done".to_owned()));
    assert_eq!((ran.report.steps, ran.report.usage.tokens()), (3, 45));
    assert_eq!(*tools.made.lock(), [r#"write {"a":1}"#, "read {}"]);
    assert_eq!(results(&model.seen.lock()[2]), ["did 1", "did 0"]);
    assert_is_valid(&model.seen.lock()[2].messages);
    assert_eq!(ran.events.last().unwrap(), "answered");
    let (restored, added) = Conversation::restored(ran.stored);
    assert_eq!((&restored, added.len()), (&ran.conversation, 0));
}

#[test]
fn calls_that_cannot_be_made_are_told_to_the_model_and_end_the_turn_when_nothing_else_comes() {
    let bad = [("raed", "{}"), ("read", "{\"a\": "), ("read", "[1]")];
    let model = Script::of([calls(&bad), says("sorry")]);
    let tools = Tools::default();
    let ran = run(&model, &tools);
    assert_eq!(ran.report.end, TurnEnd::Answer("sorry".to_owned()));
    let told = results(&model.seen.lock()[1]);
    assert!(told[0].contains("did you mean `read`") && told[1].contains("JSON"), "{told:?}");
    assert!(told[2].contains("object") && tools.made.lock().is_empty(), "{told:?}");
    let ran = run(&Script::of([calls(&bad)]), &tools);
    assert!(matches!(&ran.report.end, TurnEnd::Failed(why) if why.contains("cannot be made")));
    assert_eq!(ran.report.steps, 6);
}

#[test]
fn a_model_that_never_ends_is_ended() {
    let model = Script::of([calls(&[("write", "{}")])]);
    let ran = run(&model, &Tools::default());
    assert!(
        matches!(&ran.report.end, TurnEnd::Limit(why) if why.contains("same calls 8 times")),
        "{:?}",
        ran.report
    );
    let last = model.seen.lock().last().unwrap().clone();
    assert!(format!("{:?}", last.messages).contains("several times with the same results"));
    // Calls that differ are ended by the number of steps.
    let model = Script::of((0..99).map(|number| calls(&[("write", &format!("{{\"n\": {number}}}"))])));
    let bounds = Bounds { steps: 20, ..Bounds::default() };
    let ran = run_with(&model, &Tools::default(), bounds, &Stop::default(), Conversation::default());
    assert!(matches!(&ran.report.end, TurnEnd::Limit(why) if why.contains("20 times")), "{:?}", ran.report);
    assert_is_valid(&ran.conversation.messages());
}

#[test]
fn many_calls_at_once_are_bounded_and_only_reading_ones_run_in_parallel() {
    let many: Vec<_> = (0..40).map(|_| ("read", "{}")).collect();
    let model = Script::of([calls(&many), calls(&[("write", "{}"), ("write", "{}")]), says("done")]);
    let tools = Tools::default();
    let ran = run(&model, &tools);
    assert_eq!((tools.most_running.load(Ordering::SeqCst), tools.made.lock().len()), (8, 34));
    assert_eq!(results(&model.seen.lock()[1]).iter().filter(|text| text.contains("at most 32")).count(), 8);
    assert_eq!(ran.report.end, TurnEnd::Answer("done".to_owned()));
    let model = Script::of([calls(&[("write", "{}"), ("write", "{}")]), says("done")]);
    let tools = Tools::default();
    run(&model, &tools);
    assert_eq!(tools.most_running.load(Ordering::SeqCst), 1, "writing calls run one after another");
}

#[test]
fn the_results_of_one_step_are_bounded_together() {
    let model = Script::of([calls(&[("read", "{}"); 20]), says("done")]);
    run(&model, &Tools { long: true, ..Tools::default() });
    let length: usize = results(&model.seen.lock()[1]).iter().map(String::len).sum();
    assert!((190_000..202_000).contains(&length), "{length}");
}

#[test]
fn empty_and_cut_answers_are_asked_about_a_few_times() {
    let cut = || answer(vec![Part::Text("half".to_owned())], Finish::MaxTokens);
    let model = Script::of([answer(Vec::new(), Finish::Complete), cut(), says(" whole")]);
    assert_eq!(run(&model, &Tools::default()).report.end, TurnEnd::Answer(" whole".to_owned()));
    let ran =
        run(&Script::of([answer(vec![Part::Text(" \n".to_owned())], Finish::Complete)]), &Tools::default());
    assert!(matches!(ran.report.end, TurnEnd::Failed(_)), "{:?}", ran.report);
    assert_eq!(run(&Script::of([cut()]), &Tools::default()).report.steps, 4);
}

#[test]
fn a_stop_ends_the_turn_and_leaves_a_conversation_that_goes_on() {
    let model = Script::of([calls(&[("write", "{}"), ("write", "{}"), ("write", "{}")]), says("never")]);
    let (tools, stop) = (Tools { stops: true, ..Tools::default() }, Stop::default());
    let ran = run_with(&model, &tools, Bounds::default(), &stop, Conversation::default());
    assert_eq!(ran.report.end, TurnEnd::Stopped(StopReason::Cancelled));
    assert_eq!(tools.made.lock().len(), 1, "later calls are not made");
    assert_is_valid(&ran.conversation.messages());
    let model = Script::of([says("again")]);
    let ran = run_with(&model, &Tools::default(), Bounds::default(), &Stop::default(), ran.conversation);
    assert_eq!(ran.report.end, TurnEnd::Answer("again".to_owned()));
    assert_is_valid(&model.seen.lock()[0].messages);
}

#[test]
fn what_a_killed_program_left_open_is_closed() {
    let model = Script::of([calls(&[("write", "{}"), ("read", "{}")]), says("done")]);
    let ran = run(&model, &Tools::default());
    // Killed before the results, and before the answer.
    for left in 1..ran.stored.len() {
        let (restored, added) = Conversation::restored(ran.stored[..left].to_vec());
        assert_eq!(added.len(), usize::from(left == 2), "{left}");
        let model = Script::of([says("done")]);
        run_with(&model, &Tools::default(), Bounds::default(), &Stop::default(), restored);
        assert_is_valid(&model.seen.lock()[0].messages);
    }
}

#[test]
fn a_conversation_that_no_longer_fits_is_summarised_and_keeps_its_newest_part() {
    let long = "y".repeat(6_000);
    let step = |number: usize| calls(&[("write", &format!(r#"{{"n": {number}, "text": "{long}"}}"#))]);
    let mut answers: Vec<Response> = (0..40).map(step).collect();
    answers.push(says("done"));
    // The summary is the answer that comes when the model is asked for it.
    let model = Script { context: Some(16_000), ..Script::of(answers) };
    let ran = run(&model, &Tools::default());
    let summaries = ran.events.iter().filter(|event| event.starts_with("summarised")).count();
    assert!(summaries >= 1, "{:?}", ran.events);
    let seen = model.seen.lock();
    assert!(seen.iter().any(|request| request.system.as_deref() == Some(compaction::INSTRUCTIONS)));
    for request in seen.iter() {
        assert_is_valid(&request.messages);
        let size: usize = format!("{:?}", request.messages).len();
        assert!(size < 120_000, "a request of {size} bytes");
    }
    let (restored, _) = Conversation::restored(ran.stored);
    assert_eq!(restored, ran.conversation, "what is stored is what the model sees");
}

#[test]
fn a_request_that_is_too_long_is_made_again_with_a_summary_and_fails_if_that_does_not_help() {
    let failure = ModelFailure { kind: ModelFailureKind::TooLong, message: "too long".to_owned() };
    let first: Vec<_> = (0..4).map(|_| Ok(calls(&[("write", "{}")]))).collect();
    let script = Script::default();
    *script.answers.lock() =
        first.into_iter().chain([Err(failure.clone()), Ok(says("the summary")), Ok(says("done"))]).collect();
    let ran = run(&script, &Tools::default());
    assert_eq!(ran.report.end, TurnEnd::Answer("done".to_owned()), "{:?}", ran.events);
    assert!(format!("{:?}", ran.conversation).contains("the summary"));
    let script = Script::default();
    *script.answers.lock() = [Err(failure)].into();
    let ran = run(&script, &Tools::default());
    assert_eq!(ran.report.end, TurnEnd::Failed("too long".to_owned()));
}
