//! Servers and models that send what nobody asked for.

use std::sync::Arc;
use std::time::Duration;

use llm::{
    CallFault, Finish, Limits, Model as _, ModelError, Response, Step, StreamFault, WireFormat, known,
};
use serde_json::{Value, json};
use tool::{Stop, StopReason};

use crate::server::{Clock, Notes, Piece, Reply, Server, answer, ask, question, run, stream};
use crate::streams::{self, ALL, chunk, tool};

/// Returns the outcome with these limits.
fn limited(wire: WireFormat, reply: Reply, limits: Limits) -> (Result<Response, ModelError>, Vec<String>) {
    let server = Server::new(wire, vec![reply]);
    let outcome = ask(&server.with(known(wire, "m"), limits, Clock::jumping()), &question());
    assert!(outcome.0.is_ok() || server.cut() <= 1);
    outcome
}

fn fault(outcome: Result<Response, ModelError>) -> StreamFault {
    match outcome {
        Err(ModelError::Broken { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// Returns an event with this text.
fn text_event(wire: WireFormat, text: &str) -> Value {
    match wire {
        WireFormat::OpenAi | WireFormat::OpenAiCompatible => chunk(&json!({"content": text}), None),
        WireFormat::Anthropic => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        }
        WireFormat::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}]}, "index": 0}]}),
        WireFormat::Ollama => {
            json!({"model": "m", "message": {"role": "assistant", "content": text}, "done": false})
        }
    }
}

/// Returns the events before the first text.
fn begin(wire: WireFormat) -> Vec<u8> {
    if wire != WireFormat::Anthropic {
        return Vec::new();
    }
    let block = json!({"type": "text", "text": ""});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    stream(wire, &[streams::answer(wire)[0].clone(), start])
}

/// Returns an event without the mark for the end of a stream of `OpenAI`.
fn event(wire: WireFormat, event: &Value) -> Vec<u8> {
    let mut bytes = stream(wire, std::slice::from_ref(event));
    if bytes.ends_with(b"data: [DONE]\n\n") {
        bytes.truncate(bytes.len() - b"data: [DONE]\n\n".len());
    }
    bytes
}

#[test]
fn an_answer_is_the_same_wherever_its_stream_is_cut() {
    for (wire, name) in ALL {
        let bytes = stream(wire, &streams::answer(wire));
        let whole = answer(wire, name, Reply::bytes(bytes.clone())).unwrap();
        for cut in 0..=bytes.len() {
            let (before, after) = bytes.split_at(cut);
            let pieces = [before, after].map(|piece| Piece::Bytes(piece.to_vec().into()));
            let again = answer(wire, name, Reply::pieces(pieces.to_vec())).unwrap();
            assert_eq!(again, whole, "{wire:?} cut at {cut}");
        }
        let single = bytes.chunks(1).map(|byte| Piece::Bytes(byte.to_vec().into()));
        assert_eq!(answer(wire, name, Reply::pieces(single.collect())).unwrap(), whole);
    }
}

#[test]
fn a_stream_that_stops_midway_is_no_answer() {
    for (wire, name) in ALL {
        let bytes = stream(wire, &streams::answer(wire));
        let whole = answer(wire, name, Reply::bytes(bytes.clone())).unwrap();
        let mut broken = 0;
        for end in 0..bytes.len() {
            let part = bytes[..end].to_vec();
            match answer(wire, name, Reply::bytes(part.clone())) {
                // Everything but the tokens, or the mark for the end, was there.
                Ok(response) => {
                    assert_eq!((response.parts, response.finish), (whole.parts.clone(), Finish::ToolCalls));
                }
                Err(ModelError::Broken { fault: StreamFault::Ended | StreamFault::Malformed(_), usage }) => {
                    broken += 1;
                    assert!(usage.input > 0 && (usage.is_estimate || usage.output == 20), "{wire:?} {end}");
                }
                Err(other) => panic!("{wire:?} {end} {other:?}"),
            }
            let pieces = vec![Piece::Bytes(part.into()), Piece::Break];
            let outcome = answer(wire, name, Reply::pieces(pieces));
            assert!(matches!(fault(outcome), StreamFault::Connection(_)), "{wire:?} {end}");
        }
        assert!(broken > bytes.len() / 2, "{wire:?} {broken}");
    }
}

#[test]
fn a_huge_delta_is_refused_before_it_is_whole() {
    for (wire, _) in ALL {
        let mut bytes = begin(wire);
        bytes.extend(event(wire, &text_event(wire, &"x".repeat(2 * 1024 * 1024))));
        let pieces: Vec<Piece> =
            bytes.chunks(4_096).map(|piece| Piece::Bytes(piece.to_vec().into())).collect();
        let too_large = StreamFault::TooLarge { what: "event", limit: 1024 * 1024 };
        let (outcome, deltas) = limited(wire, Reply::pieces(pieces.clone()), Limits::default());
        assert_eq!((fault(outcome), deltas.len()), (too_large.clone(), 0), "{wire:?}");
        let (outcome, _) = limited(wire, Reply::bytes(bytes), Limits::default());
        assert_eq!(fault(outcome), too_large, "{wire:?}");
        // With another limit it is an answer.
        let limits = Limits { event: 4 * 1024 * 1024, ..Limits::default() };
        let (outcome, deltas) = limited(wire, Reply::pieces(pieces), limits);
        assert_eq!((fault(outcome), deltas.len()), (StreamFault::Ended, 1), "{wire:?}");
    }
}

#[test]
fn a_stream_without_end_ends_at_a_limit() {
    let limits = Limits { content: 65_536, stream: 1_048_576, ..Limits::default() };
    for (wire, _) in ALL {
        let endless = |bytes: Vec<u8>| {
            Reply::pieces(vec![Piece::Bytes(begin(wire).into()), Piece::Endless(bytes.into())])
        };
        let text = event(wire, &text_event(wire, "over and over "));
        let (outcome, deltas) = limited(wire, endless(text), limits.clone());
        assert_eq!(fault(outcome), StreamFault::TooLarge { what: "content", limit: 65_536 }, "{wire:?}");
        assert!(deltas.iter().map(String::len).sum::<usize>() < 200_000);
        // Signs of life have no content.
        let nothing = if wire == WireFormat::Ollama { "\n\r\n" } else { ": ping\n\n\n" };
        let (outcome, _) = limited(wire, endless(nothing.into()), limits.clone());
        let too_large = StreamFault::TooLarge { what: "stream", limit: 1_048_576 };
        assert_eq!(fault(outcome), too_large, "{wire:?}");
    }
}

#[test]
fn calls_without_end_end_at_a_limit() {
    let calls: Vec<Value> = (0..1_000)
        .map(|index| json!({"tool_calls": [{"index": index, "id": "c", "function": {"name": "t", "arguments": "{}"}}]}))
        .map(|delta| chunk(&delta, None))
        .collect();
    let outcome = answer(WireFormat::OpenAi, "gpt-5.4", Reply::bytes(stream(WireFormat::OpenAi, &calls)));
    assert_eq!(fault(outcome), StreamFault::TooManyCalls { limit: 256 });
    let call = json!({"functionCall": {"name": "t"}});
    let chunk = json!({"candidates": [{"content": {"parts": vec![call; 300]}, "finishReason": "STOP"}]});
    let outcome =
        answer(WireFormat::Gemini, "gemini-3.5-flash", Reply::bytes(stream(WireFormat::Gemini, &[chunk])));
    assert_eq!(fault(outcome), StreamFault::TooManyCalls { limit: 256 });
}

#[test]
fn silence_and_slowness_end_at_a_limit() {
    for (wire, _) in ALL {
        let reply = || Reply::pieces(vec![Piece::Bytes(begin(wire).into()), Piece::Silence]);
        let idle = Duration::from_secs(7);
        let (outcome, _) = limited(wire, reply(), Limits { idle, ..Limits::default() });
        assert_eq!(fault(outcome), StreamFault::Idle(idle));
        let server = Server::new(wire, vec![]);
        server.then_silent();
        let model = server.with(known(wire, "m"), Limits { idle, ..Limits::default() }, Clock::jumping());
        let error = ask(&model, &question()).0.unwrap_err();
        assert!(error.usage().is_some_and(|usage| usage.input > 1_000 && usage.is_estimate), "{error:?}");
        assert_eq!(fault(Err(error)), StreamFault::Idle(idle));
        let whole = Duration::from_secs(9);
        let (outcome, _) = limited(wire, reply(), Limits { idle: Duration::MAX, whole, ..Limits::default() });
        assert_eq!(fault(outcome), StreamFault::Late(whole));
    }
}

#[test]
fn a_stop_drops_the_connection() {
    for (wire, name) in ALL {
        let stop = Stop::default();
        let bytes = [begin(wire), event(wire, &text_event(wire, "begin"))].concat();
        let reply = Reply::pieces(vec![Piece::Bytes(bytes.into()), Piece::StopOf(stop.clone())]);
        let server = Server::new(wire, vec![reply]);
        let mut notes = Notes::default();
        let error = run(server.model(name).chat(&question(), &mut notes, &stop)).unwrap_err();
        let ModelError::Cancelled { reason: StopReason::Cancelled, usage } = error else {
            panic!("{error:?}")
        };
        assert!(usage.input > 0 && usage.output >= 5 && usage.is_estimate, "{usage:?}");
        assert_eq!((server.cut(), notes.0), (1, vec!["text begin".to_owned()]));
        // A request that was stopped before it began is not sent.
        let error = run(server.model(name).chat(&question(), &mut Notes::default(), &stop)).unwrap_err();
        assert!(matches!(error, ModelError::Cancelled { .. }), "{error:?}");
        assert_eq!(server.bodies().len(), 1);
    }
}

#[test]
fn a_stop_from_elsewhere_wakes_the_request() {
    run(async {
        let reply = Reply::pieces(vec![Piece::Silence]);
        let server = Server::new(WireFormat::OpenAi, vec![reply]);
        let model =
            Arc::new(server.with(known(WireFormat::OpenAi, "m"), Limits::default(), Clock::standing()));
        let stop = Stop::default();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { model.chat(&question(), &mut Notes::default(), &stop).await }
        });
        while server.bodies().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.request(StopReason::Deadline);
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, ModelError::Cancelled { reason: StopReason::Deadline, .. }), "{error:?}");
        assert_eq!(server.cut(), 1);
    });
}

#[test]
fn the_connection_of_a_whole_answer_is_kept_and_not_waited_for() {
    for (wire, name) in ALL {
        let bytes = || Piece::Bytes(stream(wire, &streams::answer(wire)).into());
        // The end comes a moment later than the answer.
        let server = Server::new(wire, vec![Reply::pieces(vec![bytes(), Piece::Moment])]);
        let model = server.with(known(wire, name), Limits::default(), Clock::standing());
        ask(&model, &question()).0.unwrap();
        assert_eq!(server.cut(), 0, "{wire:?}");
    }
    // The end never comes.
    let wire = WireFormat::OpenAi;
    let bytes = Piece::Bytes(stream(wire, &streams::answer(wire)).into());
    let server = Server::new(wire, vec![Reply::pieces(vec![bytes, Piece::Silence])]);
    let clock = Clock::jumping();
    ask(&server.with(known(wire, "gpt-5.4"), Limits::default(), clock.clone()), &question()).0.unwrap();
    assert_eq!((server.cut(), clock.elapsed()), (1, Duration::from_millis(20)));
}

#[test]
fn a_dropped_request_drops_the_connection() {
    run(async {
        let server = Server::new(WireFormat::Anthropic, vec![Reply::pieces(vec![Piece::Silence])]);
        let model = server.with(known(WireFormat::Anthropic, "m"), Limits::default(), Clock::standing());
        let (request, mut notes, stop) = (question(), Notes::default(), Stop::default());
        tokio::select! {
            biased;
            outcome = model.chat(&request, &mut notes, &stop) => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!((server.bodies().len(), server.cut()), (1, 1));
    });
}

#[test]
fn nonsense_is_no_answer() {
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    let nonsense = [
        "",
        "\n\n\n",
        "<html><body>It works!</body></html>",
        "data: nonsense\n\n",
        "data: []\n\n",
        "data: 7\n\n",
        "data: null\n\n",
        "null\n",
        "[]\n",
        "{}\n",
        "data: {}\n\n",
        "data: {\"error\": null}\n\n",
        "\u{0}\u{0}\u{0}",
        "data: {\"choices\": 5}\n\n",
        "data: {\"choices\": [{\"delta\": {\"content\": 5}}]}\n\n",
        "data: {\"type\": 5}\n\n",
        "data: {\"type\": \"message_start\"}\n\n",
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": {}}]}}]}\n\n",
        "data: {\"usage\": {\"prompt_tokens\": -1}}\n\n",
        "data: {\"usage\": {\"prompt_tokens\": 1e300}}\n\n",
        "{\"message\": {\"content\": []}}\n",
        "{\"done\": 1}\n",
        "{\"message\": {\"tool_calls\": [{}]}}\n",
        &deep,
        "data: [DONE]\n\n",
    ];
    for (wire, name) in ALL {
        for text in nonsense {
            let outcome = answer(wire, name, Reply::bytes(text.as_bytes().to_vec()));
            let fault = fault(outcome);
            let is_named =
                matches!(fault, StreamFault::Ended | StreamFault::Malformed(_) | StreamFault::Order(_));
            assert!(is_named, "{wire:?} {text:.40} {fault:?}");
            let error = ModelError::Broken { fault, usage: llm::Usage::default() };
            assert!(error.to_string().len() < 1_000);
        }
        let outcome = answer(wire, name, Reply::bytes(b"data: \xff\xfe\n\n\xff\n".to_vec()));
        assert!(matches!(fault(outcome), StreamFault::Malformed(_)));
    }
}

#[test]
fn a_call_of_nonsense_is_told_to_the_model() {
    let call = |name: &str, arguments: &str| {
        let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}]});
        let events = [chunk(&call, None), chunk(&json!({}), Some("tool_calls"))];
        let response =
            answer(WireFormat::OpenAi, "gpt-5.4", Reply::bytes(stream(WireFormat::OpenAi, &events))).unwrap();
        response.calls().next().unwrap().check(&[tool("file_read"), tool("file_list")])
    };
    assert_eq!(call("file_read", "{\"path\": \"a\"}").unwrap()["path"], "a");
    assert_eq!(call("file_read", "").unwrap().len(), 0);
    for text in ["{\"path\": ", "{path: 1}", "call it", &"[".repeat(10_000), "{\"a\":1}{\"b\":2}"] {
        let fault = call("file_read", text).unwrap_err();
        assert!(matches!(fault, CallFault::NotJson { .. }), "{fault:?}");
    }
    assert_eq!(call("file_read", "[1]"), Err(CallFault::NotAnObject));
    let fault = call("file_raed", "{}").unwrap_err();
    assert_eq!(fault.to_string(), "there is no tool `file_raed`; did you mean `file_read`?");
    let fault = call(&"x".repeat(100_000), "{}").unwrap_err();
    assert!(fault.to_string().len() < 1_000);
}

#[test]
fn a_call_with_a_name_of_nonsense_does_not_spoil_the_conversation() {
    for (wire, name) in ALL {
        let server = Server::new(wire, vec![Reply::bytes(stream(wire, &streams::answer(wire)))]);
        let mut request = streams::conversation(name);
        (request.temperature, request.tool_choice) = (None, llm::ToolChoice::Auto);
        for part in request.messages.iter_mut().flat_map(|message| &mut message.parts) {
            match part {
                llm::Part::ToolCall(call) => {
                    (call.name, call.id) = ("rm -rf / \u{e9}".repeat(50), "functions.x:0".into());
                }
                llm::Part::ToolResult(result) => {
                    (result.name, result.call_id) = (String::new(), "functions.x:0".into());
                }
                _ => {}
            }
        }
        // The server of the test refuses what the provider would.
        ask(&server.model(name), &request).0.unwrap();
        let sent = server.bodies()[0].to_string();
        assert!(sent.contains("rm_-rf__") && !sent.contains("rm -rf"), "{wire:?}");
        assert_eq!(sent.contains("functions_x_0"), wire == WireFormat::Anthropic);
    }
}

#[test]
fn failures_of_a_server_are_told_apart() {
    let wire = WireFormat::Anthropic;
    let report =
        |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "m"}, "request_id": "r"});
    let failure = |status: u16, kind: &str| Reply::failure(wire, status, &report(kind));
    let of = |reply: Reply| answer(wire, "claude-sonnet-4-5", reply).unwrap_err();
    let message = || "m".to_owned();

    let wrong_key = of(failure(401, "authentication_error"));
    assert_eq!(wrong_key, ModelError::Auth { message: message() });
    let limited = of(failure(429, "rate_limit_error"));
    assert_eq!(limited, ModelError::RateLimited { retry_after: None, message: message() });
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let limited = of(failure(429, "rate_limit_error").header("Retry-After", "17"));
    assert_eq!(limited, ModelError::RateLimited { retry_after: seconds(17), message: message() });
    assert_eq!(limited.step(), Step::Retry { after: seconds(17) });
    for (status, kind) in [(500, "api_error"), (529, "overloaded_error"), (504, "timeout_error")] {
        let overloaded = of(failure(status, kind).header("retry-after", "2"));
        assert_eq!(
            overloaded,
            ModelError::Overloaded { status, retry_after: seconds(2), message: message() }
        );
    }
    assert_eq!(of(failure(402, "billing_error")), ModelError::NoCredit { message: message() });
    assert_eq!(of(failure(404, "not_found_error")), ModelError::Invalid { message: message() });
    assert_eq!(of(failure(413, "request_too_large")), ModelError::ContextTooLong { message: message() });
    for error in [wrong_key, of(failure(400, "invalid_request_error"))] {
        assert_eq!((error.step(), error.usage()), (Step::End, None));
    }
    let page = Reply { status: 413, ..Reply::bytes("<h1>Request Entity Too Large</h1>") };
    assert!(matches!(of(page), ModelError::ContextTooLong { .. }));
    let redirection =
        Reply { status: 302, ..Reply::bytes("") }.header("location", "https://elsewhere.example");
    assert!(matches!(of(redirection), ModelError::Invalid { .. }));
    let server = Server::new(wire, vec![]);
    server.then_unreachable();
    let error = ask(&server.model("claude-sonnet-4-5"), &question()).0.unwrap_err();
    assert_eq!(error, ModelError::Unreachable { message: "no route to host".into() });
}

#[test]
fn the_body_of_a_failure_has_a_bound_and_may_break_off() {
    let of = |pieces: Vec<Piece>| {
        let reply = Reply { status: 500, ..Reply::pieces(pieces) };
        answer(WireFormat::OpenAi, "gpt-5.4", reply).unwrap_err()
    };
    let report = r#"{"error":{"message":"m","type":"insufficient_quota","param":null,"code":null}}"#;
    let single = report.bytes().map(|byte| Piece::Bytes(vec![byte].into()));
    assert_eq!(of(single.collect()), ModelError::NoCredit { message: "m".into() });
    let endless = of(vec![Piece::Endless(vec![b'x'; 10_000].into())]);
    let ModelError::Overloaded { message, .. } = endless else { panic!("{endless:?}") };
    assert_eq!(message.len(), 603);
    for end in [Piece::Break, Piece::Silence] {
        let error = of(vec![Piece::Bytes("Internal".into()), end]);
        let message = "Internal".to_owned();
        assert_eq!(error, ModelError::Overloaded { status: 500, retry_after: None, message });
    }
    let stop = Stop::default();
    let reply = Reply { status: 500, ..Reply::pieces(vec![Piece::StopOf(stop.clone())]) };
    let model = Server::new(WireFormat::OpenAi, vec![reply]).model("gpt-5.4");
    let error = run(model.chat(&question(), &mut Notes::default(), &stop)).unwrap_err();
    assert!(matches!(error, ModelError::Cancelled { .. }), "{error:?}");
}
