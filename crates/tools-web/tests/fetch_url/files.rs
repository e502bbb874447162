//! Bodies that are saved to files.

use std::sync::Arc;

use serde_json::json;
use testkit::web::{Reply, Server};
use testkit::{DenyNames, Workspace};
use tool::Code;

use crate::{Fixture, echo};

#[test]
fn a_file_is_whole_or_not_there_and_goes_on_where_it_broke_off() {
    let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let served = content.clone();
    let server = Server::http(move |request| {
        let tagged = |head: &str| format!("HTTP/1.1 {head}\r\netag: \"one\"\r\ncontent-length: ");
        match (request.path.as_str(), request.header("range")) {
            ("/missing", _) => Reply::of(404, &[], "no such file"),
            ("/breaks", "") => {
                let mut bytes = format!("{}{}\r\n\r\n", tagged("200 OK"), served.len()).into_bytes();
                bytes.extend(&served[..300_000]);
                Reply::raw(bytes)
            }
            ("/breaks", range) => {
                assert_eq!(request.header("if-range"), "\"one\"");
                let from: usize = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
                let range = format!("bytes {from}-{}/{}", served.len() - 1, served.len());
                Reply::of(206, &[("content-range", range.as_str())], &served[from..])
            }
            ("/cut", _) => Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc"),
            _ => Reply::of(200, &[], &served),
        }
    });
    let fixture = Fixture::new();
    fixture.workspace.write("kept", "old");
    let save =
        |path: &str, to: &str| fixture.fetch(json!({"url": server.url(path), "save_to": to, "timeout": 20}));
    for (path, to) in [("/whole", "d/e/whole"), ("/breaks", "resumed")] {
        let saved = save(path, to).unwrap();
        assert_eq!((&saved["saved_to"], &saved["size_bytes"]), (&json!(to), &json!(content.len())));
        assert!(saved.get("data").is_none());
        assert!(std::fs::read(fixture.workspace.at(to)).unwrap() == content, "{path}");
    }
    assert!(server.seen().iter().all(|request| request.header("accept-encoding") == "identity"));
    let missing = save("/missing", "kept").unwrap();
    assert_eq!((&missing["status"], &missing["data"]), (&json!(404), &json!("no such file")));
    assert_eq!(save("/cut", "kept").unwrap_err().code, Code::Runtime);
    assert_eq!(save("/cut", "new/folder/f").unwrap_err().code, Code::Runtime);
    let small = json!({"url": server.url("/whole"), "save_to": "kept", "max_bytes": 1000});
    assert_eq!(fixture.fetch(small).unwrap_err().code, Code::Quota);
    assert_eq!((fixture.workspace.read("kept"), fixture.workspace.exists("new")), ("old".to_owned(), false));
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let server = Server::http(echo);
    let fixture = Fixture::new();
    let guarded = Workspace::new().guarded(DenyNames { write: &["locked"], read: &[] });
    let mut context = fixture.workspace.context();
    context.place = guarded.place();
    context.services.insert(Arc::new(guarded.roots()));
    for to in ["locked", "../outside/f"] {
        let arguments = json!({"url": server.url("/"), "save_to": to});
        assert_eq!(fixture.fetch_in(&context, arguments).unwrap_err().code, Code::Permission, "{to}");
    }
    assert!(!guarded.exists("locked"));
}
