//! Terminal interaction: the screen of approvals, and the question of a call.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::num::NonZeroU16;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::harness::{Fixture, program};

/// Longest wait of these tests. No step takes this long, and a failing test must end.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program on its own terminal, seen through a terminal emulator.
pub(crate) struct Terminal {
    process: Child,
    keys: File,
    seen: Arc<(Mutex<vt100::Parser>, Condvar)>,
    is_closing: Arc<AtomicBool>,
}

impl Terminal {
    pub(crate) fn start(fixture: &Fixture, size: (u16, u16), arguments: &[&str]) -> Self {
        Self::start_with(fixture, size, &[], arguments)
    }

    /// Starts the program with these environment variables.
    pub(crate) fn start_with(
        fixture: &Fixture,
        size: (u16, u16),
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let keys = File::from(controller);
        resize(&keys, size);
        let flags = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
        let end = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(flags).open(name.to_str().unwrap()).unwrap()
        };
        // `setsid --ctty` makes the terminal the controlling one, which delivers Ctrl-C and resize
        // signals.
        let process = Command::new("setsid")
            .arg("--ctty")
            .arg(program())
            .args(["--workspace".as_ref(), fixture.workspace().as_os_str()])
            .args(["--state".as_ref(), fixture.state().as_os_str()])
            .args(arguments)
            .env_clear()
            .env("HOME", fixture.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let seen = Arc::new((Mutex::new(vt100::Parser::new(some(size.0), some(size.1), 0)), Condvar::new()));
        let is_closing = Arc::new(AtomicBool::new(false));
        let (mut output, into, closing) = (keys.try_clone().unwrap(), seen.clone(), is_closing.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the last process on the terminal has ended.
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                into.0.lock().process(&bytes[..read]);
                into.1.notify_all();
                if closing.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        Self { process, keys, seen, is_closing }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows the text. Returns all that it shows.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(text, |shown| shown.contains(text))
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let (seen, changed) = &*self.seen;
        let mut seen = seen.lock();
        let ended = changed.wait_while_for(&mut seen, |seen| !is_so(&seen.screen().contents()), PATIENCE);
        let shown = seen.screen().contents();
        assert!(!ended.timed_out(), "never came: {what}\n{shown}");
        shown
    }

    fn resize(&self, size: (u16, u16)) {
        self.seen.0.lock().screen_mut().set_size(some(size.0), some(size.1));
        resize(&self.keys, size);
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    /// Closes the terminal as soon as the program writes to it again, and returns the exit code.
    pub(crate) fn closes(self) -> i32 {
        let Self { mut process, keys, seen: _, is_closing } = self;
        is_closing.store(true, Ordering::SeqCst);
        drop(keys);
        process.wait().unwrap().code().unwrap_or(-1)
    }

    /// Waits for the end of the program, and returns its exit code.
    pub(crate) fn ends(mut self) -> i32 {
        self.process.wait().unwrap().code().unwrap_or(-1)
    }
}

fn some(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).unwrap()
}

fn resize(terminal: &File, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// Starts a call without a terminal, which waits while an approvals screen is open.
fn waiting_call(fixture: &Fixture, path: &str) -> Child {
    let arguments = json!({"path": path, "content": "new\n", "backup": false}).to_string();
    fixture
        .command()
        .args(["call", "file_write", &arguments])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn result(call: Child) -> serde_json::Value {
    serde_json::from_slice(&call.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_question_appears_on_the_screen_and_its_call_goes_on_with_the_answer() {
    let fixture = Fixture::new().asking();
    let mut screen = Terminal::start(&fixture, (24, 80), &["approvals"]);
    screen.shows("Nothing waits for an approval");
    let call = waiting_call(&fixture, "a.txt");
    screen.until("the question with its keys", |shown| {
        ["write a.txt", "Waiting (1)", "[y] once", "[p] project"].iter().all(|text| shown.contains(text))
    });
    screen.press("y");
    screen.shows("is approved: the call continues");
    let result_of_yes = result(call);
    assert_eq!(result_of_yes["ok"], true, "{result_of_yes:#}");
    assert_eq!(result_of_yes["meta"]["approved_by"], "the user, at the approvals screen");

    let call = waiting_call(&fixture, "b.txt");
    screen.shows("write b.txt");
    screen.press("n");
    screen.shows("Message to the agent");
    screen.press("use c.txt\r");
    screen.shows("is denied");
    let result = result(call);
    assert_eq!(result["error"]["code"], "EPERMISSION", "{result:#}");
    assert!(result["error"]["message"].as_str().unwrap().contains("use c.txt"), "{result:#}");
    assert!(!fixture.workspace().join("b.txt").exists());
    screen.press("q");
    assert_eq!(screen.ends(), 0);
    // Without an open screen, no call waits.
    assert_eq!(self::result(waiting_call(&fixture, "d.txt"))["error"]["code"], "EAPPROVAL");
}

#[test]
fn a_call_without_a_terminal_says_at_once_what_it_waits_for_and_goes_on_with_the_answer() {
    let fixture = Fixture::new().asking();
    let mut screen = Terminal::start(&fixture, (24, 80), &["approvals"]);
    screen.shows("Nothing waits for an approval");
    let mut call = fixture
        .command()
        .args(["call", "file_write", r#"{"path": "a.txt", "content": "new"}"#])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    std::io::BufReader::new(call.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("write a.txt waits for an answer, for at most 10 minutes"), "{said}");
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["caller_waits"]),
        (&json!("waiting"), &json!(true)),
        "{listed:#}"
    );
    let id = listed[0]["id"].as_str().unwrap();
    assert!(said.contains(&format!("approvals approve {id}")) && said.contains("approvals deny"), "{said}");
    screen.shows("the call waits, and continues");
    let approved = fixture.run(&["approvals", "approve", id]);
    assert!(approved.stderr.contains("is approved: the call continues"), "{}", approved.stderr);
    assert_eq!(result(call)["ok"], true);
    screen.press("q");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn a_wider_yes_shows_what_it_covers_before_the_second_key_and_is_taken_back_on_the_next_page() {
    let fixture = Fixture::new().asking();
    fixture.run(&["call", "file_write", r#"{"path": "a.txt", "content": ""}"#]);
    let mut screen = Terminal::start(&fixture, (30, 100), &["approvals"]);
    screen.shows("write a.txt");
    screen.press("p");
    screen.until("what it would cover", |shown| {
        shown.contains("Allow for 30 days: `file_write` again with exactly these effects")
            && shown.contains("[p] or [Enter] confirms")
    });
    screen.press("z");
    screen.shows("nothing was done");
    assert_eq!(fixture.run(&["approvals", "leases", "--json"]).json(), json!([]));
    screen.press("pp");
    screen.shows("revokes");
    screen.press("\t");
    screen.shows("used 0 times: `file_write` again");
    screen.press("xx");
    screen.shows("is revoked");
    assert_eq!(fixture.run(&["approvals", "leases", "--json"]).json(), json!([]));
    screen.press("\u{3}");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn the_lists_of_the_users_configuration_are_edited_on_the_screen() {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.yaml");
    std::fs::write(
        &file,
        "# mine\nsandbox_config:\n  normal:\n    deny_exec_command:\n      - git rm # never\n",
    )
    .unwrap();
    let mut screen = Terminal::start(&fixture, (24, 80), &["approvals"]);
    screen.shows("Nothing waits");
    screen.press("\t\t");
    screen.shows("git rm");
    screen.press("+");
    screen.shows("Add to deny_exec_command");
    screen.press("npm publish\r");
    screen.shows("npm publish");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(
        written.starts_with("# mine\n") && written.contains("- git rm # never\n      - \"npm publish\"\n"),
        "{written}"
    );
    let check = |command: &str| {
        let arguments = json!({"command": command}).to_string();
        fixture.run(&["check", "shell_execute", &arguments]).json()["decision"].clone()
    };
    assert_eq!(check("npm publish"), "deny");
    screen.press("x");
    screen.shows("Remove git rm from deny_exec_command");
    screen.press("x");
    screen.until("the entry goes", |shown| shown.contains("Lists (1)"));
    assert_eq!((check("git rm x"), check("npm publish")), (json!("pass"), json!("deny")));
    screen.press("q");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn the_screen_follows_the_size_of_its_terminal_and_leaves_it_as_it_was() {
    let fixture = Fixture::new().asking();
    for name in ["a.txt", "b.txt"] {
        fixture.run(&["call", "file_write", &json!({"path": name, "content": ""}).to_string()]);
    }
    let mut screen = Terminal::start(&fixture, (24, 80), &["approvals"]);
    screen.shows("Waiting (2)");
    for size in [(8, 36), (3, 20), (2, 8), (50, 200)] {
        screen.resize(size);
    }
    screen.resize((10, 40));
    screen.until("the small screen", |shown| shown.contains("1 of 2") && shown.contains("[y] once"));
    screen.press("j");
    screen.shows("2 of 2");
    {
        let seen = screen.seen.0.lock();
        let seen = seen.screen();
        assert!(seen.alternate_screen());
        let colours = (0..10).flat_map(|row| (0..40).filter_map(move |column| seen.cell(row, column)));
        assert!(colours.into_iter().all(|cell| cell.fgcolor() == vt100::Color::Default), "NO_COLOR");
    }
    screen.press("\u{3}");
    let seen = screen.seen.clone();
    assert_eq!(screen.ends(), 0);
    let (seen, changed) = &*seen;
    let restored = |seen: &mut vt100::Parser| seen.screen().alternate_screen() || seen.screen().hide_cursor();
    let ended = changed.wait_while_for(&mut seen.lock(), restored, PATIENCE);
    assert!(!ended.timed_out(), "the terminal is not as it was");
}

#[test]
fn the_question_of_a_call_is_answered_on_its_terminal_or_from_elsewhere() {
    let fixture = Fixture::new().asking();
    let call = |path: &str| json!({"path": path, "content": "new\n", "backup": false}).to_string();
    let mut terminal = Terminal::start(&fixture, (24, 100), &["call", "file_write", &call("a.txt")]);
    let shown = terminal.shows("Allow it? [y] yes, once  [p] project  [n] no");
    assert!(shown.contains("[p] for 30 days: `file_write` again with exactly these effects"), "{shown}");
    terminal.press("y\r");
    terminal.shows("\"approved_by\": \"the user at the terminal\"");
    assert_eq!(terminal.ends(), 0);

    let terminal = Terminal::start(&fixture, (24, 100), &["call", "file_write", &call("b.txt")]);
    terminal.shows("Allow it?");
    let asked = fixture.run(&["approvals", "list", "--json"]).json();
    let id = asked[0]["id"].as_str().unwrap();
    assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
    terminal.shows("\"approved_by\": \"the user, with handfast approvals\"");
    assert_eq!(terminal.ends(), 0);
    assert_eq!((fixture.read("a.txt"), fixture.read("b.txt")), ("new\n".to_owned(), "new\n".to_owned()));

    let mut terminal = Terminal::start(&fixture, (24, 100), &["call", "file_write", &call("c.txt")]);
    terminal.shows("Allow it?");
    terminal.press("write d.txt instead\r");
    terminal.shows("the user at the terminal said no: write d.txt instead");
    assert_eq!(terminal.ends(), 3);
}

#[test]
fn the_screen_ends_with_its_terminal() {
    let fixture = Fixture::new();
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let mut controller = File::from(controller);
    resize(&controller, (24, 80));
    // The terminal controls no session, so no signal reaches the program when the terminal closes.
    let terminal = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut process = Command::new(program())
        .args(["--workspace".as_ref(), fixture.workspace().as_os_str()])
        .args(["--state".as_ref(), fixture.state().as_os_str()])
        .arg("approvals")
        .env("TERM", "xterm")
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .spawn()
        .unwrap();
    let mut drawn = [0; 1024];
    assert_ne!(controller.read(&mut drawn).unwrap(), 0);
    assert!(process.try_wait().unwrap().is_none());
    drop(controller);
    let id = rustix::process::Pid::from_child(&process);
    let (sender, ended) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || sender.send(process.wait().unwrap()));
    let Ok(status) = ended.recv_timeout(PATIENCE) else {
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        panic!("it goes on without its terminal");
    };
    waiting.join().unwrap().unwrap();
    assert_eq!(status.code(), Some(129));
}
