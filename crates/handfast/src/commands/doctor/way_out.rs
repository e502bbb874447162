//! A test of the way out of a cell by real calls, in a temporary workspace and state, under a
//! profile that lists one host: this process.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use sandbox::{Attempter, Isolation, Verdict};
use serde_json::json;

use super::Finding;
use super::calls::{Places, make_calls};
use crate::commands::Failure;
use crate::config::USER_FILE;

/// Names that resolve to this machine (RFC 6761): one is listed, the other is not.
const LISTED: &str = "listed.localhost";
const OTHER: &str = "other.localhost";

/// Names of the tests, each with the name of its line in `docs/GUARANTEES.md`.
const TRIED: [(&str, &str); 3] =
    [("host-listed", "hosts-listed"), ("host-not-listed", "hosts-listed"), ("name-not-listed", "names-stay")];

pub(super) fn findings(attempter: &Attempter) -> Vec<Finding> {
    let offered = Isolation::default().can_give_network();
    let finding = |index: usize, verdict, detail: String| {
        let (name, promise) = TRIED.get(index).copied().unwrap_or_default();
        Finding {
            name,
            promise: offered.then_some(promise),
            verdict,
            enforced_by: "network namespace, proxy".to_owned(),
            detail,
            hint: None,
        }
    };
    if !offered {
        let detail = "this machine refuses namespaces, so commands reach no host: nothing else \
                      would restrict a program to the listed hosts";
        let hint = "see the hint of `namespaces`; `fetch_url` reaches listed hosts even here".to_owned();
        let failing = finding(0, Verdict::Fails, detail.to_owned());
        return vec![Finding { hint: Some(hint), ..failing }];
    }
    let answers = match attempts(attempter) {
        Ok(answers) => answers,
        Err(failure) => return vec![finding(0, Verdict::Unknown, failure.error.to_string())],
    };
    // The listed host is the control: a host that is unreachable for everybody proves nothing about
    // the others.
    let works = answers.first().is_some_and(|answer| answer.starts_with("done "));
    let judged = answers.into_iter().enumerate().map(|(index, answer)| {
        let done = answer.starts_with("done ");
        let refused = answer.starts_with("refused ");
        let verdict = match index {
            0 if done => Verdict::Holds,
            0 => Verdict::Fails,
            _ if done => Verdict::Fails,
            _ if refused && works => Verdict::Holds,
            _ => Verdict::Unknown,
        };
        finding(index, verdict, answer.trim_end().replace(|letter: char| letter.is_control(), " "))
    });
    judged.collect()
}

/// Returns the result of each attempt as one line.
fn attempts(attempter: &Attempter) -> Result<Vec<String>, Failure> {
    let folder = tempfile::tempdir()?;
    let configuration = folder.path().join("configuration");
    std::fs::create_dir(&configuration)?;
    let port = serve()?;
    let program = attempter.program.display().to_string();
    // JSON is YAML.
    let profile = json!({ "sandbox_config": { "normal": {
        "allowed_hosts": [format!("{LISTED}:{port}")],
        "allowed_read_paths": [".", program],
    } } });
    std::fs::write(configuration.join(USER_FILE), profile.to_string())?;
    let asked = [
        vec!["ask-proxy".to_owned(), format!("{LISTED}:{port}")],
        vec!["ask-proxy".to_owned(), format!("{OTHER}:{port}")],
        vec!["look-up".to_owned(), OTHER.to_owned()],
    ];
    let own = attempter.arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let own: Vec<String> = own.collect();
    let commands = asked.map(|words| (program.clone(), [own.clone(), words].concat()));
    make_calls(folder.path(), Places { configuration: Some(configuration), ..Places::default() }, &commands)
}

/// Answers requests until this process ends.
fn serve() -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head = stream.try_clone().map(|stream| BufReader::new(stream).lines());
            for line in head.into_iter().flatten() {
                if line.is_ok_and(|line| line.is_empty()) {
                    break;
                }
            }
            // The client may be gone. In that case nobody needs the answer.
            let _gone = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    Ok(port)
}
