//! `llm_call` through the real program, with a scripted server of chat completions.

use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use crate::harness::Fixture;

/// Returns the answer of a server with chat completions, in its documented order of events.
pub(crate) fn hello() -> Reply {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let events = [
        chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null),
        chunk(delta(json!({"content": "Hello."}), Value::Null), Value::Null),
        chunk(delta(json!({}), json!("stop")), Value::Null),
        chunk(json!([]), json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15})),
        "data: [DONE]\n\n".to_owned(),
    ];
    Reply::of(200, &[("content-type", "text/event-stream")], events.concat())
}

/// Configures a server as the provider `local` of all tasks, and lists its host.
pub(crate) fn configure(fixture: &Fixture, server: &Server, more: &str) {
    fixture.configure(&format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"{more}}}}}, routes: {{usual: [local/small]}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost]}}}}\n",
        server.url("")
    ));
}

#[test]
fn a_model_gets_the_key_of_the_vault_and_nobody_else_sees_it() {
    const KEY: &str = "sk-model-0123456789";
    let server = Server::http(|_| hello());
    let fixture = Fixture::new().with_vault();
    configure(&fixture, &server, ", key: model_key");
    let set = ["vault", "set", "model_key", "--host", "localhost"];
    assert_eq!(fixture.run_with_input(&set, KEY.as_bytes()).code, 0);
    // The source has this tool as safe, so a call with the user's own provider asks nobody.
    let run = fixture.run(&["call", "llm_call", r#"{"prompt": "Say hello."}"#]);
    let answer = run.json();
    assert_eq!(answer["data"]["response"], "Hello.", "{answer:#}");
    assert_eq!(answer["data"]["tokens_used"], json!({"input": 12, "output": 3}));
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].header("authorization")), (1, format!("Bearer {KEY}").as_str()));
    assert!(!run.stdout.contains(KEY) && !fixture.run(&["audit", "export"]).stdout.contains(KEY));
}

#[test]
fn what_leads_to_no_model_says_what_to_do() {
    let fixture = Fixture::new();
    let ask = |arguments: Value| fixture.error("llm_call", arguments);
    let missing = ask(json!({"prompt": "a"}));
    assert_eq!(missing["code"], "EUNAVAILABLE", "{missing}");
    assert!(missing["hint"].as_str().unwrap().contains("docs/MODELS.md"), "{missing}");
    let server = Server::http(|_| Reply::of(401, &[], r#"{"error": {"message": "wrong key"}}"#));
    configure(&fixture, &server, "");
    let refused = ask(json!({"prompt": "a"}));
    assert_eq!(refused["code"], "EPERMISSION", "{refused}");
    // A provider whose host no list names is asked about.
    let elsewhere = Fixture::new();
    elsewhere.configure("models: {providers: {a: {api: anthropic}}, routes: {usual: [a/claude-sonnet-5]}}\nsandbox_config: {normal: {unlisted_hosts: deny}}\n");
    let asked = elsewhere.run(&["call", "llm_call", r#"{"prompt": "a"}"#]).json();
    assert_eq!(asked["error"]["code"], "EAPPROVAL", "{asked}");
    // A workspace names no provider: its file could send prompts and keys anywhere.
    let fixture = Fixture::with_files(&[("handfast.yaml", "models: {providers: {a: {api: ollama}}}\n")]);
    let ignored = fixture.run(&["call", "--yes", "llm_call", r#"{"prompt": "a"}"#]);
    assert_eq!(ignored.json()["error"]["code"], "EUNAVAILABLE", "{}", ignored.stdout);
    assert!(ignored.stderr.contains("`models`"), "{}", ignored.stderr);
}
