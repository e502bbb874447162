//! A download that is killed with the program.

use std::fs;

use serde_json::json;
use testkit::web::{Reply, Server};

use crate::harness::Fixture;
use crate::{eventually, signal};

#[test]
fn kill_9_in_the_middle_of_a_download_leaves_no_file_and_a_part_that_the_next_call_goes_on_with() {
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let served = content.clone();
    let server = Server::http(move |request| {
        let from = request.header("range").strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
        match from.map(|from| from.parse::<usize>().unwrap()) {
            None => {
                let head =
                    format!("HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: {}\r\n\r\n", served.len());
                Reply::hanging([head.as_bytes(), &served[..10_000_000]].concat())
            }
            Some(from) => {
                let range = format!("bytes {from}-{}/{}", served.len() - 1, served.len());
                Reply::of(206, &[("content-range", &range)], &served[from..])
            }
        }
    });
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "sandbox_config:\n  normal:\n    allowed_hosts: [localhost]\n")
        .unwrap();
    let arguments = json!({"url": server.url("/f"), "save_to": "d/f", "timeout": 600});
    let mut child =
        fixture.command().args(["call", "--yes", "fetch_url", &arguments.to_string()]).spawn().unwrap();
    let downloads = fixture.state().join("downloads");
    let kept = || fs::read_dir(&downloads).into_iter().flatten().flatten().map(|entry| entry.path());
    eventually("a note of what is there", || kept().any(|path| path.extension().unwrap() == "note"));
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert!(!fixture.workspace().join("d/f").exists());
    let saved = fixture.data("fetch_url", arguments);
    assert!(saved["resumed_from"].as_u64() >= Some(4 * 1024 * 1024), "{saved:#}");
    assert!(fs::read(fixture.workspace().join("d/f")).unwrap() == content);
    assert_eq!(kept().count(), 0, "nothing of it is kept beside");
    assert_eq!(server.seen().len(), 2);
}
