//! Servers on this machine that speak the interface of `OpenAI`, and some that do not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program: what goes wrong in it ends it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use embed_http::{Remote, Settings};
use retrieval::embedder::{Embedder, Failure};
use serde_json::{Value, json};
use testkit::web::{Reply, Request, Server};

/// Answers with one vector for each text: the length of the text, and 1.
fn answer(request: &Request) -> Reply {
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    let texts = asked["input"].as_array().unwrap();
    let entry = |(index, text): (usize, &Value)| json!({"index": index, "embedding": [text.as_str().unwrap().len(), 1]});
    // The order is reversed, as a server may do.
    let data: Vec<Value> = texts.iter().enumerate().rev().map(entry).collect();
    Reply::json(&json!({"object": "list", "data": data, "model": "m"}).to_string())
}

fn settings(server: &Server) -> Settings {
    Settings {
        url: server.url("/v1/embeddings"),
        model: "m".to_owned(),
        dimensions: None,
        key: Some("sk-hush".to_owned()),
    }
}

fn open(settings: Settings) -> Result<Remote, Failure> {
    Remote::open(settings, &|| false)
}

fn failure<T>(told: Result<T, Failure>) -> String {
    match told {
        Err(Failure::Failed(why)) => why,
        Err(Failure::Stopped) => panic!("it was stopped"),
        Ok(_) => panic!("it worked"),
    }
}

#[test]
fn texts_go_in_batches_and_vectors_come_back_in_their_order() {
    let server = Server::http(answer);
    let remote = open(settings(&server)).unwrap();
    assert_eq!((remote.model().name.as_str(), remote.model().dimensions), ("m", 2));
    let texts: Vec<String> = (0..70).map(|length| "x".repeat(length)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = remote.embed(&texts, &|| false).unwrap();
    for (length, vector) in vectors.iter().enumerate().skip(1) {
        let told = f64::from(vector[0] / vector[1]);
        assert!((told - f64::from(u32::try_from(length).unwrap())).abs() < 0.01, "{length}: {told}");
        assert!((vector[0].hypot(vector[1]) - 1.0).abs() < 1e-6);
    }
    let seen = server.seen();
    let sizes: Vec<usize> = seen
        .iter()
        .map(|request| {
            let asked: Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!((&asked["model"], asked.get("dimensions")), (&json!("m"), None));
            asked["input"].as_array().unwrap().len()
        })
        .collect();
    assert_eq!(sizes, [1, 32, 32, 6]);
    assert!(seen.iter().all(|request| request.method == "POST" && request.path == "/v1/embeddings"));
    assert!(seen.iter().all(|request| request.header("authorization") == "Bearer sk-hush"));
    assert!(remote.embed(&[], &|| false).unwrap().is_empty());
}

#[test]
fn a_long_text_is_cut_between_its_characters_and_an_empty_one_is_sent_as_a_space() {
    let server = Server::http(answer);
    let remote = open(settings(&server)).unwrap();
    let long = format!("x{}", "ä".repeat(10_000));
    let is_cut = |text: &str| remote.extent(text).is_cut;
    assert_eq!([is_cut(&long), is_cut(&long[..7_999]), is_cut("")], [true, false, false]);
    remote.embed(&["", &long], &|| false).unwrap();
    let asked: Value = serde_json::from_slice(&server.seen()[1].body).unwrap();
    assert_eq!(asked["input"][0], " ");
    assert_eq!(asked["input"][1].as_str().unwrap(), format!("x{}", "ä".repeat(3_999)));
}

#[test]
fn models_that_could_differ_have_different_hashes() {
    let server = Server::http(answer);
    let here = settings(&server);
    let hash = |settings: Settings| open(settings).unwrap().model().hash;
    let first = hash(here.clone());
    assert_eq!(hash(Settings { key: None, ..here.clone() }), first);
    assert_ne!(hash(Settings { model: "n".to_owned(), ..here.clone() }), first);
    assert_ne!(hash(Settings { dimensions: Some(3), ..here.clone() }), first);
    assert_ne!(hash(Settings { url: server.url("/other"), ..here }), first);
}

#[test]
fn a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let busy_first = Server::http(move |request| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::of(429, &[("retry-after", "0")], "{}"),
        1 => Reply::of(503, &[("retry-after", "0")], "{}"),
        _ => answer(request),
    });
    assert_eq!(open(settings(&busy_first)).unwrap().model().dimensions, 2);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let always = Server::http(|_| Reply::of(429, &[("retry-after", "0")], "{}"));
    assert!(failure(open(settings(&always))).contains("429"));
    assert_eq!(always.seen().len(), 5);
    for (status, said) in [(401, "check the key"), (404, "the model name"), (500, "500"), (307, "redirects")]
    {
        let refuses = Server::http(move |_| {
            Reply::of(
                status,
                &[("location", "/elsewhere")],
                r#"{"error": {"message": "key sk-hush is bad"}}"#,
            )
        });
        let told = failure(open(settings(&refuses)));
        assert!(told.contains(said) && told.contains("key *** is bad"), "{told}");
        assert_eq!(refuses.seen().len(), 1);
    }
}

#[test]
fn an_answer_that_is_none_or_of_another_length_is_refused() {
    for body in ["<html>", "{}", r#"{"data": []}"#] {
        let odd = Server::http(move |_| Reply::json(body));
        let told = failure(open(settings(&odd)));
        assert!(told.starts_with(&odd.url("")), "{told}");
    }
    let server = Server::http(answer);
    let longer = open(Settings { dimensions: Some(3), ..settings(&server) }).unwrap();
    let told = failure(longer.embed(&["x"], &|| false));
    assert!(told.contains("2 numbers instead of 3"), "{told}");
    let asked: Value = serde_json::from_slice(&server.seen()[0].body).unwrap();
    assert_eq!(asked["dimensions"], 3);
}

#[test]
fn an_answer_without_end_is_ended() {
    let endless = Server::http(|_| Reply::endless("content-type: application/json\r\n"));
    failure(open(settings(&endless)));
}

#[test]
fn who_stops_waits_for_no_server_and_the_next_request_is_answered() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let hangs_once = Server::http(move |request| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::hanging("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"),
        _ => answer(request),
    });
    let remote = open(Settings { dimensions: Some(2), ..settings(&hangs_once) }).unwrap();
    let stop = || asked.load(Ordering::SeqCst) > 0;
    assert_eq!(remote.embed(&["x"], &stop), Err(Failure::Stopped));
    assert_eq!(remote.embed(&["x"], &|| true), Err(Failure::Stopped));
    assert_eq!(remote.embed(&["x"], &|| false).unwrap().len(), 1);
}

#[test]
fn it_works_inside_an_async_runtime_and_without_one() {
    let server = Server::http(answer);
    let remote = open(settings(&server)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let inside = runtime.block_on(async { remote.embed(&["x"], &|| false) });
    assert_eq!(inside, remote.embed(&["x"], &|| false));
}

#[test]
fn a_key_leaves_this_machine_over_tls_alone() {
    for (url, said) in [
        ("http://embeddings.example/v1/embeddings", "unencrypted"),
        ("http://192.0.2.1/v1/embeddings", "unencrypted"),
        ("ftp://localhost/", "neither"),
        ("v1/embeddings", ""),
        ("", ""),
    ] {
        let settings = Settings {
            url: url.to_owned(),
            model: "m".to_owned(),
            dimensions: Some(2),
            key: Some("k".to_owned()),
        };
        let told = failure(open(settings));
        assert!(told.contains(said), "{url}: {told}");
    }
    for (url, key) in [
        ("https://embeddings.example/v1/embeddings", Some("k")),
        ("http://localhost:9/v1/embeddings", Some("k")),
        ("http://[::1]:9/v1/embeddings", Some("k")),
        ("http://192.0.2.1/v1/embeddings", None),
    ] {
        let key = key.map(str::to_owned);
        open(Settings { url: url.to_owned(), model: "m".to_owned(), dimensions: Some(2), key }).unwrap();
    }
    let unfit = Settings {
        url: "https://embeddings.example".to_owned(),
        model: "m".to_owned(),
        dimensions: Some(2),
        key: Some("two\nlines".to_owned()),
    };
    assert!(failure(open(unfit)).contains("the key"));
}
