//! `llm_call` through the real program, with a scripted server of chat completions.

use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use crate::harness::Fixture;

/// Returns the answer of a server with chat completions, in its documented order of events.
pub(crate) fn hello() -> Reply {
    saying("Hello.")
}

/// Returns the answer of such a server with this text.
pub(crate) fn saying(text: &str) -> Reply {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let events = [
        chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null),
        chunk(delta(json!({"content": text}), Value::Null), Value::Null),
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

/// Makes a server the only provider of the configuration, under a budget.
fn limited(fixture: &Fixture, server: &Server, budget: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let lines = format!(
        "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}, budget: {{{budget}}}}}\n\
         sandbox_config: {{normal: {{allowed_hosts: [localhost]}}}}\n",
        server.url("")
    );
    std::fs::write(folder.join("config.yaml"), lines).unwrap();
}

fn budgets(fixture: &Fixture) -> Value {
    fixture.run(&["status", "--json"]).json()["model_budgets"].clone()
}

#[test]
fn processes_share_the_budget_of_a_day_and_of_a_project() {
    let server = Server::http(|_| hello());
    let fixture = Fixture::new();
    let ask = || fixture.run(&["call", "llm_call", r#"{"prompt": "Hello?", "max_tokens": 1000}"#]).json();
    limited(&fixture, &server, "session_tokens: 5000");
    assert_eq!(ask()["ok"], true);
    // Without a limit of the day or the project, nothing is shown and nothing is kept.
    assert_eq!(budgets(&fixture), Value::Null);
    limited(&fixture, &server, "day_tokens: 2150");
    let mut asked = 0;
    let refused = loop {
        let answer = ask();
        if answer["ok"] != true {
            break answer["error"].clone();
        }
        asked += 1;
        assert!(asked < 200, "{answer:#}");
    };
    // Each of the processes took 15 tokens, and the next must have room for its worst case.
    assert!(asked > 1, "{refused}");
    assert_eq!((&refused["code"], server.seen().len()), (&json!("EQUOTA"), asked + 1));
    let told = refused["message"].as_str().unwrap();
    let shown = budgets(&fixture);
    let [day, project] = [&shown[0], &shown[1]];
    let name = day["of"].as_str().unwrap();
    assert!(name.starts_with("day 20") && told.contains(&format!("the budget of the {name} has ")), "{told}");
    assert_eq!((&day["spent_tokens"], &day["limit_tokens"]), (&json!(asked * 15), &json!(2150)));
    assert_eq!((&day["reserved_tokens"], &project["spent_tokens"]), (&json!(0), &day["spent_tokens"]));
    let status = fixture.run(&["status"]).stdout;
    assert!(
        status.contains(&format!("models     {name}: $0.00, {} of 2150 tokens\n", asked * 15)),
        "{status}"
    );
    // The project has spent that too, although only the day had a limit.
    limited(&fixture, &server, &format!("project_tokens: {}", asked * 15 + 500));
    let refused = ask()["error"].clone();
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("the budget of the project /") && told.contains(" has 500 left"), "{told}");
    // A model without a price is refused where money is limited.
    limited(&fixture, &server, "day_usd: 100");
    let refused = ask()["error"].clone();
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("the price of the model is unknown") && told.contains("day 20"), "{told}");
    assert_eq!((&refused["code"], server.seen().len()), (&json!("EQUOTA"), asked + 1));
}

#[test]
fn a_request_of_a_process_that_is_killed_keeps_its_worst_case() {
    let server = Server::http(|request| {
        let waits = String::from_utf8_lossy(&request.body).contains("Wait");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        if waits { Reply::hanging(head) } else { hello() }
    });
    let fixture = Fixture::new();
    limited(&fixture, &server, "day_tokens: 9000");
    let mut command = fixture.command();
    command.args(["call", "llm_call", r#"{"prompt": "Wait.", "max_tokens": 5000}"#]);
    let mut killed =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::harness::eventually("the request", || server.seen().len() == 1);
    let ask = |most: u32| {
        let arguments = json!({"prompt": "Hello?", "max_tokens": most}).to_string();
        fixture.run(&["call", "llm_call", &arguments]).json()
    };
    // Another process has what is left beside the request that is on its way, and no more.
    let refused = ask(5000);
    assert_eq!(refused["error"]["code"], "EQUOTA", "{refused:#}");
    assert_eq!(ask(100)["ok"], true);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let day = budgets(&fixture)[0].clone();
    let reserved = day["reserved_tokens"].as_u64().unwrap();
    assert!(reserved >= 5000 && day["spent_tokens"] == 15, "{day}");
    let refused = ask(5000);
    let told = refused["error"]["message"].as_str().unwrap();
    assert!(told.contains(&format!(" has {} left", 9000 - 15 - reserved)), "{told}");
    assert_eq!((ask(100)["ok"].clone(), server.seen().len()), (json!(true), 3));
}

#[test]
fn an_embedding_is_the_vector_of_the_model_that_searches() {
    let fixture = Fixture::new();
    let ask = |prompt: &str| {
        let arguments = json!({"prompt": prompt, "task_type": "embedding"}).to_string();
        fixture.run(&["call", "llm_call", &arguments]).json()
    };
    let missing = ask("a ship")["error"].clone();
    assert_eq!(missing["code"], "EUNAVAILABLE", "{missing}");
    assert!(missing["hint"].as_str().unwrap().contains(" setup embeddings"), "{missing}");
    let server = Server::http(super::knowledge::by_subject);
    let place = format!("embeddings: {{endpoint: \"{}\", model: m}}\n", server.url("/v1/embeddings"));
    fixture.configure(&place);
    let answer = ask("a ship");
    let vector: Vec<f64> = serde_json::from_str(answer["data"]["response"].as_str().unwrap()).unwrap();
    assert!(vector.len() == 2 && vector[0] > 0.9 && vector[1] < 0.2, "{answer:#}");
    assert_eq!((&answer["data"]["model_used"], answer["data"].get("cost_estimate")), (&json!("m"), None));
    assert!(answer["meta"]["warnings"].to_string().contains("is an estimate"), "{answer:#}");
    let long = ask(&"ship ".repeat(2_000));
    assert_eq!(long["data"]["truncated"], true, "{long:#}");
    assert!(long["meta"]["warnings"].to_string().contains("longer than m reads"), "{long:#}");
}
