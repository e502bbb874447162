//! `handfast doctor`: tests what this machine really enforces.

mod browser;
mod calls;
mod search_path;
mod toolchains;
mod way_out;

pub(crate) use browser::try_browser;

use std::process::ExitCode;

use sandbox::{Attempter, Probe, Verdict};
use serde::Serialize;
use store_api::CheckResult;
use tool::visible;

use super::{Failure, print, print_json, serving};
use crate::cli::Global;
use crate::compose::{Composed, RuntimeOptions, compose, entrance};
use crate::host_environment::HostEnvironment;
use crate::languages::LanguagesProgram;
use crate::places::open_store;

/// The result of one test.
#[derive(Debug, Serialize)]
struct Finding {
    /// Name of the test.
    name: &'static str,
    /// Name of the tested line in `docs/GUARANTEES.md`, or `None` if nothing is promised.
    promise: Option<&'static str>,
    /// Verdict on the promise.
    verdict: Verdict,
    /// Mechanism that enforces the promise.
    enforced_by: String,
    /// Observation.
    detail: String,
    /// Advice if the promise does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(super) fn run(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let mut findings = vec![state(global, &host_environment), saved(global, &host_environment)];
    let composed = compose(RuntimeOptions::once(global));
    findings.push(configuration(&composed));
    let attempter = attempter()?;
    findings.extend(sandbox::probe(&attempter).into_iter().map(Finding::from));
    findings.push(toolchains::finding(&attempter));
    findings.extend(composed.as_ref().ok().map(search_path::finding));
    findings.extend(way_out::findings(&attempter));
    findings.extend(composed.as_ref().ok().map(browser::finding));
    findings.extend(composed.as_ref().ok().map(languages));
    findings.extend(embeddings(composed.as_ref().ok()));
    let broken = findings.iter().any(Finding::breaks_a_promise);
    if as_json {
        print_json(&findings)?;
    } else {
        print(&report(&findings))?;
    }
    Ok(ExitCode::from(u8::from(broken)))
}

/// Tests by subject, in the order of the report.
const SUBJECTS: [(&str, &[&str]); 6] = [
    ("State and configuration", &["audit-log", "saved-files", "configuration"]),
    ("Files", &["file-outside", "write-", "denied-", "workspace", "snapshot", "home-", "toolchain-keys"]),
    (
        "Network",
        &[
            "host-listed",
            "host-not-listed",
            "host-loopback",
            "host-abstract",
            "name-",
            "host-socket",
            "socket-",
        ],
    ),
    (
        "Isolation of commands",
        &["cell", "namespace", "privileges", "landlock", "host-process", "mount", "trace", "set-user-id"],
    ),
    ("Limits", &["memory", "processes", "file-size", "deadline", "output"]),
    ("Programs and knowledge", &["search-path", "browser", "languages", "embeddings"]),
];

/// Width of the report in columns.
const WIDTH: usize = 100;

/// Returns the report: the verdict, what to do about each failed test, and all tests by subject.
fn report(findings: &[Finding]) -> String {
    let broken: Vec<&Finding> = findings.iter().filter(|finding| finding.breaks_a_promise()).collect();
    let mut text = match broken.as_slice() {
        [] => {
            let promised = findings.iter().filter(|finding| finding.promise.is_some()).count();
            format!("Everything that Handfast promises holds here: {promised} tests.\n")
        }
        broken => {
            let names: Vec<&str> = broken.iter().map(|finding| finding.name).collect();
            let do_not =
                if broken.len() == 1 { "1 promise does" } else { &format!("{} promises do", broken.len()) };
            wrapped(&format!("{do_not} not hold here, or could not be tested: {}.", names.join(", ")), "")
        }
    };
    for (hint, names) in hints(findings) {
        text.push('\n');
        text.push_str(&wrapped(&format!("{}: {hint}", names.join(", ")), "    "));
    }
    let mut left: Vec<&Finding> = findings.iter().collect();
    for (subject, prefixes) in SUBJECTS {
        let is_of = |finding: &&Finding| prefixes.iter().any(|prefix| finding.name.starts_with(prefix));
        let (of, others) = left.into_iter().partition(is_of);
        left = others;
        text.push_str(&section(subject, &of));
    }
    text.push_str(&section("Further tests", &left));
    text
}

fn section(subject: &str, findings: &[&Finding]) -> String {
    let Some(widest) = findings.iter().map(|finding| finding.name.len()).max() else { return String::new() };
    let mut text = format!("\n{subject}\n");
    for finding in findings {
        let line =
            format!("  {:<7}  {:<widest$}  {}", finding.holds(), finding.name, visible(&finding.detail));
        if finding.breaks_a_promise() {
            text.push_str(&wrapped(
                &format!("{line} (enforced by {})", finding.enforced_by),
                &" ".repeat(widest + 13),
            ));
        } else {
            text.push_str(&format!("{}\n", cut(&line)));
        }
    }
    text
}

/// Cuts a line to the width of the report, with a marker if it was longer.
fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.trim_end().to_owned();
    }
    let shown: String = line.chars().take(WIDTH - 4).collect();
    format!("{} ...", shown.trim_end())
}

/// Breaks a text at spaces into lines of the report's width. Lines after the first are indented.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > indent.len() && last + word.trim_end().chars().count() > WIDTH {
            lines.push(indent.to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns each hint once, with the names of its findings.
fn hints(findings: &[Finding]) -> Vec<(&str, Vec<&str>)> {
    let mut hints: Vec<(&str, Vec<&str>)> = Vec::new();
    for finding in findings {
        let Some(hint) = finding.hint.as_deref() else { continue };
        match hints.iter_mut().find(|(known, _)| *known == hint) {
            Some((_, names)) => names.push(finding.name),
            None => hints.push((hint, vec![finding.name])),
        }
    }
    hints
}

/// Returns this program as the attempter, so that the attempts need no other program on the machine.
pub(super) fn attempter() -> Result<Attempter, Failure> {
    let program = std::env::current_exe()?.canonicalize()?;
    let arguments = vec!["probe-attempt".into(), "--".into()];
    Ok(Attempter { program, arguments, entrance: entrance() })
}

impl Finding {
    fn breaks_a_promise(&self) -> bool {
        self.promise.is_some() && self.verdict != Verdict::Holds
    }

    fn holds(&self) -> &'static str {
        match (self.verdict, self.promise) {
            (Verdict::Holds, _) => "ok",
            (Verdict::Fails, Some(_)) => "NO",
            (Verdict::Fails, None) => "no",
            (Verdict::Unknown, _) => "UNKNOWN",
        }
    }
}

impl From<Probe> for Finding {
    fn from(probe: Probe) -> Self {
        let Probe { name, promise, verdict, enforced_by, detail, hint } = probe;
        Self { name, promise, verdict, enforced_by, detail, hint }
    }
}

/// Checks that the state folder is usable and its audit log is intact.
fn state(global: &Global, host_environment: &HostEnvironment) -> Finding {
    let checked = open_store(&global.run_options(), host_environment)
        .and_then(|store| Ok(store.audit().verify(None)?));
    let (verdict, detail, hint) = match checked {
        Ok(found) => match &found.fault {
            None => (Verdict::Holds, format!("{} rows, chain intact", found.rows), None),
            Some(fault) => (
                Verdict::Fails,
                fault.to_string(),
                Some("keep a copy of the state folder; someone or something changed the log"),
            ),
        },
        Err(failure) => (
            Verdict::Fails,
            failure.error.to_string(),
            Some(
                "no call is made without its audit row: repair the state folder, or name another \
                 one with --state",
            ),
        ),
    };
    Finding {
        name: "audit-log",
        promise: Some("audit-tampering-found"),
        verdict,
        enforced_by: "hash chain".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}

/// Reads back the saved content, so that every change can be undone completely.
fn saved(global: &Global, host_environment: &HostEnvironment) -> Finding {
    let checked = open_store(&global.run_options(), host_environment)
        .and_then(|store| Ok(store.blobs().check(&|_| true)?));
    let (verdict, detail, hint) = match checked.map(Option::unwrap_or_default) {
        Ok(CheckResult { whole, bytes, damaged }) if damaged.is_empty() => {
            (Verdict::Holds, format!("{whole} saved files are intact, {bytes} bytes"), None)
        }
        Ok(checked) => (
            Verdict::Fails,
            serving::damaged(&checked.damaged),
            Some(
                "check the disk of the state folder; `handfast undo ID --path PATH` restores the \
                 intact files of such a change",
            ),
        ),
        Err(failure) => (
            Verdict::Fails,
            failure.error.to_string(),
            Some("repair the state folder, or name another one with --state"),
        ),
    };
    Finding {
        name: "saved-files",
        promise: Some("undo-read-back"),
        verdict,
        enforced_by: "content hashes".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}

/// Checks that texts can be found by meaning, by opening the model.
fn embeddings(composed: Option<&Composed>) -> Option<Finding> {
    let (verdict, detail, hint) = match composed?.embeddings.as_ref().map(|opens| opens()) {
        Some(Ok(model)) => {
            let model = model.model();
            (Verdict::Holds, format!("{}, {} dimensions", model.name, model.dimensions), None)
        }
        Some(Err(why)) => (
            Verdict::Fails,
            why,
            Some("correct `embeddings` in the configuration, or run `handfast setup embeddings`"),
        ),
        None => (
            Verdict::Fails,
            "no model: search uses words only".to_owned(),
            Some("`handfast setup embeddings` installs one"),
        ),
    };
    Some(Finding {
        name: "embeddings",
        promise: None,
        verdict,
        enforced_by: "Handfast".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    })
}

/// Checks which languages the code graph has beyond those of this program.
fn languages(composed: &Composed) -> Finding {
    let (verdict, detail, hint) = match LanguagesProgram::of_state(&composed.state).state() {
        Some((_, Ok(languages))) => {
            let titles: Vec<&str> = languages.iter().map(|language| language.title()).collect();
            (Verdict::Holds, format!("the code graph also has {}", titles.join(" and ")), None)
        }
        Some((_, Err(why))) => {
            (Verdict::Fails, why, Some("`handfast setup languages` installs the right program"))
        }
        None => (
            Verdict::Fails,
            "files of C++ and C# are not in the code graph".to_owned(),
            Some("`handfast setup languages` installs these languages"),
        ),
    };
    Finding {
        name: "languages",
        promise: None,
        verdict,
        enforced_by: "Handfast".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}

/// Checks that the configuration files can be read and the workspace opened.
fn configuration(composed: &Result<Composed, Failure>) -> Finding {
    let (verdict, detail, hint) = match composed {
        Ok(composed) => (Verdict::Holds, format!("workspace {}", composed.workspace.display()), None),
        Err(failure) => (
            Verdict::Fails,
            failure.error.to_string(),
            Some("correct the named file; `handfast init` writes one with every setting explained"),
        ),
    };
    Finding {
        name: "configuration",
        promise: Some("call-decided"),
        verdict,
        enforced_by: "Handfast".to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}
