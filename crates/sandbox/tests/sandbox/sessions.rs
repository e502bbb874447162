//! Tests of commands that run on while their caller does other things.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandbox::{
    CellHost, CellSpec, Command, EndReason, Ending, Exit, Keeper, Lifetime, Phase, Program, SandboxError,
    Session, SessionError, SessionLimits, Sessions, TerminalSize,
};

/// Maximum wait. Reaching it fails a test by the output seen so far; the time itself is never
/// judged.
const TIMEOUT: Duration = Duration::from_mins(1);

const LONG: Lifetime = Lifetime { idle: TIMEOUT, absolute: TIMEOUT };

struct Place {
    folder: tempfile::TempDir,
    spec: CellSpec,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = CellSpec {
            workspace: folder.path().canonicalize().unwrap(),
            spool_directory: std::env::temp_dir(),
            output_limit: 1 << 20,
            ..CellSpec::default()
        };
        Self { folder, spec }
    }

    fn on_terminal() -> Self {
        let mut place = Self::new();
        place.spec.terminal = Some(TerminalSize { columns: 100, rows: 30 });
        place
    }

    fn command(&self, line: &str) -> Command {
        Command { program: Program::Shell(line.to_owned()), working_directory: self.spec.workspace.clone() }
    }

    fn start_for(&self, line: &str, lifetime: Lifetime) -> Session {
        let host = CellHost::default();
        Session::start(self.spec.clone(), host, self.command(line), lifetime, None, |_| Ok("kept".to_owned()))
            .unwrap()
    }

    fn start(&self, line: &str) -> Session {
        self.start_for(line, LONG)
    }
}

fn all(session: &Session) -> String {
    String::from_utf8_lossy(&session.read(0, 1 << 20).unwrap().bytes).into_owned()
}

/// Waits until the output past `from` contains `text`, and returns the offset after it.
#[track_caller]
fn expect(session: &Session, from: u64, text: &str) -> u64 {
    let until = Instant::now() + TIMEOUT;
    let mut seen = from;
    loop {
        let over = matches!(session.status().phase, Phase::Ended(_)) || Instant::now() > until;
        let part = session.read(from, 1 << 20).unwrap();
        let shown = String::from_utf8_lossy(&part.bytes).into_owned();
        if let Some(at) = shown.find(text) {
            return from + (at + text.len()) as u64;
        }
        assert!(!over, "no {text:?} in {shown:?}, {:?}", session.status());
        seen = seen.max(from + part.bytes.len() as u64);
        session.wait_for_output(seen, until, || false);
    }
}

#[track_caller]
fn ending(session: &Session) -> Ending {
    session.wait_for_output(u64::MAX, Instant::now() + TIMEOUT, || false);
    match session.status().phase {
        Phase::Ended(ending) => ending,
        other => panic!("{other:?}: {:?}", all(session)),
    }
}

#[test]
fn input_reaches_the_command_and_its_end_ends_it() {
    let session = Place::new().start("cat; echo to stderr >&2; exit 3");
    session.write(b"one\n".to_vec()).unwrap();
    let at = expect(&session, 0, "one\n");
    session.write(b"two\n".to_vec()).unwrap();
    session.end_input().unwrap();
    assert_eq!(ending(&session), Ending { exit: Exit::Code(3), ended: EndReason::Finished });
    assert_eq!(session.read(at, 100).unwrap().bytes, b"two\nto stderr\n");
    assert!(matches!(session.write(b"x".to_vec()), Err(SessionError::InputClosed | SessionError::Ended)));
    assert_eq!((session.status().bytes, session.status().lines), (18, 3));
}

/// A keeper that records its calls.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, note: String) {
        self.0.lock().push(note);
    }
}

impl Keeper for Notes {
    fn begin(&self, owner: &str, id: &str) -> Option<File> {
        self.note(format!("begun {owner} {id}"));
        None
    }

    fn keep(
        &self,
        owner: &str,
        id: &str,
        session: &Session,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        self.note(format!("kept {owner} {id} {:?}", all(session)));
        Ok(format!("{id}.kept"))
    }

    fn forget(&self, owner: &str, id: &str) {
        self.note(format!("forgotten {owner} {id}"));
    }
}

#[test]
fn a_start_that_fails_says_why_and_leaves_no_session() {
    let place = Place::new();
    let keeper = Arc::new(Notes::default());
    let sessions = Sessions::new(SessionLimits::default(), keeper.clone());
    let mine = sessions.of("me");
    let missing = Command { working_directory: "/no/such/folder".into(), ..place.command("true") };
    let failed = mine.start("a", "true", place.spec.clone(), CellHost::default(), missing, None).unwrap_err();
    assert!(matches!(failed, SessionError::Start(SandboxError::WorkingDirectory { .. })), "{failed:?}");
    let program = Program::Argv(vec!["no-such-program".into()]);
    let missing = Command { program, working_directory: place.spec.workspace.clone() };
    let failed = mine.start("b", "x", place.spec.clone(), CellHost::default(), missing, None).unwrap_err();
    assert!(matches!(failed, SessionError::Start(SandboxError::ProgramNotFound { .. })), "{failed:?}");
    assert!(mine.list().is_empty());
    let noted = keeper.0.lock().clone();
    assert_eq!(noted, ["begun me a", "forgotten me a", "begun me b", "forgotten me b"]);
}

#[test]
fn output_stays_readable_by_offset_also_where_it_outgrew_memory() {
    let session = Place::new().start("seq 1 100000");
    assert_eq!(ending(&session).exit, Exit::Code(0));
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut session.output(), &mut all).unwrap();
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(all == whole.as_bytes(), "{} bytes", all.len());
    assert_eq!(session.read(30_000, 500_000).unwrap().bytes, &whole.as_bytes()[30_000..530_000]);
    for offset in [0, 31_000, 33_000, 300_000, 588_890, 588_895, u64::MAX] {
        let part = session.read(offset, 20).unwrap();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
        assert_eq!(part.bytes, &whole.as_bytes()[from..(from + 20).min(whole.len())], "{offset}");
    }
}

#[test]
fn output_past_the_limit_of_the_disk_is_a_gap_and_never_makes_the_command_wait() {
    let mut place = Place::new();
    place.spec.output_limit = 200_000;
    let session = place.start("seq 1 100000");
    assert_eq!(ending(&session).exit, Exit::Code(0));
    let part = session.read(300_000, 8).unwrap();
    assert_eq!(part.offset, 588_895 - 96 * 1024, "what is left begins with the last bytes");
    assert_eq!(session.read(588_888, 100).unwrap().bytes, b"100000\n");
}

#[test]
fn a_terminal_is_the_cells_own_and_has_the_size_asked_for() {
    let place = Place::on_terminal();
    let session = place.start("tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; ls /dev/pts");
    assert_eq!(ending(&session).exit, Exit::Code(0));
    assert_eq!(all(&session), "/dev/pts/0\r\n30 100\r\nall\r\n0  ptmx\r\n");
}

#[test]
fn nothing_can_be_typed_into_a_terminal_from_inside() {
    let program = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))\nprint('looks')\n\
        try:\n    fcntl.ioctl(0, termios.TIOCSTI, b'x')\n    print('typed')\nexcept PermissionError as e:\n    print(e.errno)";
    let place = Place::on_terminal();
    std::fs::write(place.folder.path().join("type.py"), program).unwrap();
    let session = place.start("python3 type.py");
    assert_eq!(ending(&session).exit, Exit::Code(0));
    assert_eq!(all(&session), "looks\r\n1\r\n");
}

#[test]
fn a_resize_is_seen_and_told() {
    let place = Place::on_terminal();
    let session = place.start("trap 'echo told; stty size' WINCH; echo ready; while :; do sleep 0.05; done");
    expect(&session, 0, "ready");
    session.resize(TerminalSize { columns: 132, rows: 43 }).unwrap();
    expect(&session, 0, "told\r\n43 132");
    session.close();
    let piped = Place::new().start("cat");
    assert!(matches!(piped.resize(TerminalSize::default()), Err(SessionError::NoTerminal)));
    piped.close();
}

#[test]
fn an_interpreter_is_driven_by_keys() {
    let place = Place::on_terminal();
    let session = place.start("exec python3 -q -i");
    let at = expect(&session, 0, ">>> ");
    session.write(b"print(6 * 7)\r".to_vec()).unwrap();
    let at = expect(&session, at, "42");
    let at = expect(&session, at, ">>> ");
    // The arrow key brings the line back.
    session.write(b"\x1b[A\r".to_vec()).unwrap();
    let at = expect(&session, at, "42\r\n");
    let at = expect(&session, at, ">>> ");
    session.write(b"import time; print('asleep'); time.sleep(1000)\r".to_vec()).unwrap();
    let at = expect(&session, at, "asleep\r\n");
    session.write(vec![3]).unwrap();
    let at = expect(&session, at, "KeyboardInterrupt");
    expect(&session, at, ">>> ");
    session.write(b"exit(7)\r".to_vec()).unwrap();
    assert_eq!(ending(&session).exit, Exit::Code(7));
}

#[test]
fn signals_reach_the_group_and_what_is_in_the_foreground() {
    let piped = Place::new().start("trap 'echo got usr1' USR1; echo ready; while :; do sleep 0.05; done");
    expect(&piped, 0, "ready");
    piped.signal(10).unwrap();
    expect(&piped, 0, "got usr1");
    piped.close();
    // Job control gives the foreground job a separate group, which is not the command's.
    let job =
        "set -m; (trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.05; done); echo after";
    let shell = Place::on_terminal().start(job);
    expect(&shell, 0, "ready");
    shell.signal(2).unwrap();
    expect(&shell, 0, "interrupted\r\nafter");
    assert_eq!(ending(&shell).exit, Exit::Code(0));
}

#[test]
fn who_waits_for_input_is_told_apart_from_who_works() {
    for (line, waits) in [
        ("echo ready; read line", true),
        ("echo ready; exec python3 -q -i", true),
        ("echo ready; python3 -c 'import select, sys; select.select([sys.stdin], [], [])'", true),
        ("echo ready; python3 -c 'import select, sys; e = select.epoll(); e.register(0, 1); e.poll()'", true),
        ("echo ready; sleep 1000", false),
        ("echo ready; while :; do :; done", false),
        ("echo ready; sleep 1000 | cat", false),
    ] {
        let session = Place::on_terminal().start(line);
        expect(&session, 0, "ready");
        if waits {
            let until = Instant::now() + TIMEOUT;
            while !session.waits_for_input() {
                assert!(Instant::now() < until, "{line}");
                std::thread::yield_now();
            }
        } else {
            for _ in 0..20 {
                assert!(!session.waits_for_input(), "{line}");
            }
        }
        session.close();
    }
}

#[test]
fn closing_ends_everything_also_what_left_its_group() {
    let place = Place::new();
    let session =
        place.start("setsid sh -c 'while :; do date +%N > beat; done' & trap '' TERM; echo ready; wait");
    expect(&session, 0, "ready");
    let beat = place.folder.path().join("beat");
    while !beat.exists() {
        std::thread::yield_now();
    }
    session.close();
    let Phase::Ended(ending) = session.status().phase else { panic!("{:?}", session.status()) };
    assert_eq!(ending.ended, EndReason::Stopped);
    std::fs::remove_file(&beat).unwrap();
    for _ in 0..1000 {
        std::thread::yield_now();
        assert!(!beat.exists());
    }
    session.close();
}

#[test]
fn what_a_command_leaves_behind_runs_on_until_the_session_ends() {
    let place = Place::new();
    let session = place.start("mkfifo fifo; (read line < fifo; echo got $line) & echo left; exit 5");
    expect(&session, 0, "left");
    loop {
        match session.status().phase {
            Phase::Running => std::thread::yield_now(),
            Phase::Left(Exit::Code(5)) => break,
            other => panic!("{other:?}"),
        }
    }
    std::fs::write(place.folder.path().join("fifo"), "word\n").unwrap();
    expect(&session, 0, "got word");
    assert_eq!(ending(&session), Ending { exit: Exit::Code(5), ended: EndReason::Finished });
}

#[test]
fn a_session_that_nobody_asks_about_ends_and_one_that_is_too_old() {
    let short = Duration::from_millis(50);
    let idle = Place::new().start_for("sleep 1000", Lifetime { idle: short, absolute: TIMEOUT });
    let old = Place::new().start_for("sleep 1000", Lifetime { idle: TIMEOUT, absolute: short });
    let until = Instant::now() + TIMEOUT;
    for (session, ended) in [(idle, EndReason::Idle), (old, EndReason::Deadline)] {
        loop {
            if let Phase::Ended(ending) = session.status().phase {
                assert_eq!(ending.ended, ended);
                break;
            }
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    }
}

#[test]
fn owners_see_their_own_sessions_within_their_limit_and_ended_ones_are_kept_once() {
    let place = Place::new();
    let keeper = Arc::new(Notes::default());
    let kept = || {
        let all = keeper.0.lock();
        all.iter().filter_map(|note| note.strip_prefix("kept ").map(str::to_owned)).collect::<Vec<_>>()
    };
    let limits = SessionLimits { running: 2, lifetime: LONG };
    let sessions = Sessions::new(limits, keeper.clone());
    let (one, two) = (sessions.of("one"), sessions.of("two"));
    let start = |owner: &sandbox::OwnedSessions, id: &str| {
        owner.start(
            id,
            "cat",
            place.spec.clone(),
            CellHost::default(),
            place.command("echo hello; cat"),
            None,
        )
    };
    let first = start(&one, "a").unwrap();
    start(&one, "b").unwrap();
    assert!(matches!(start(&one, "c"), Err(SessionError::TooMany { running: 2, limit: 2 })));
    start(&two, "d").unwrap();
    assert!(matches!(two.find("a"), Err(SessionError::Unknown { .. })));
    assert_eq!(one.list().iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    expect(&first, 0, "hello\n");
    first.close();
    assert_eq!(first.status().kept, Some(Ok("a.kept".to_owned())));
    start(&one, "c").unwrap();
    assert_eq!(kept(), ["one a \"hello\\n\""]);
    sessions.close_all_of("one");
    assert!(matches!(two.find("d").unwrap().session.status().phase, Phase::Running));
    sessions.close_all();
    let mut kept = kept().iter().map(|line| line[..5].to_owned()).collect::<Vec<_>>();
    kept.sort();
    assert_eq!(kept, ["one a", "one b", "one c", "two d"]);
}

/// Counts the open eventfds and removed files of this process.
fn events_and_removed_files() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let leads_to = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    leads_to
        .filter(|to| to.ends_with("anon_inode:[eventfd]") || to.to_string_lossy().ends_with(" (deleted)"))
        .count()
}

/// Waits until `count` of them are open: the threads of sessions end after their sessions.
#[track_caller]
fn await_open(count: usize) {
    let until = Instant::now() + TIMEOUT;
    while events_and_removed_files() != count {
        assert!(Instant::now() < until, "{} are open, and {count} should be", events_and_removed_files());
        std::thread::yield_now();
    }
}

#[test]
fn what_background_commands_of_a_closed_owner_held_is_given_back() {
    // Runs in a separate process, so that no other test opens files in it.
    if std::env::var_os("ALONE").is_none() {
        let name = "sessions::what_background_commands_of_a_closed_owner_held_is_given_back";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let status = alone.args(["--exact", name]).env("ALONE", "1").status().unwrap();
        assert!(status.success());
        return;
    }
    let place = Place::new();
    let sessions = Sessions::new(SessionLimits { running: 4, lifetime: LONG }, Arc::new(Notes::default()));
    let before = events_and_removed_files();
    let mut spec = place.spec.clone();
    spec.output_limit = 64 << 20;
    for owner in ["one", "two"] {
        for id in ["ended", "running"] {
            let line = format!("head -c 8388608 /dev/zero; [ {id} = ended ] || sleep 1000");
            let owned = sessions.of(owner);
            let started = owned
                .start(
                    &format!("{owner} {id}"),
                    "zeros",
                    spec.clone(),
                    CellHost::default(),
                    place.command(&line),
                    None,
                )
                .unwrap();
            // All output has arrived, and the part that exceeds the memory buffers lies in a file.
            started.wait_for_output((8 << 20) - 1, Instant::now() + TIMEOUT, || false);
        }
    }
    assert!(events_and_removed_files() >= before + 8, "the control: an event and a file for each");
    sessions.close_all_of("one");
    await_open(before + 4);
    assert!(sessions.of("one").list().is_empty());
    assert_eq!(sessions.of("two").list().len(), 2);
    sessions.close_all();
    await_open(before);
}

#[test]
fn input_that_nobody_reads_is_refused_in_the_end_and_does_not_block() {
    let session = Place::new().start("sleep 1000");
    let mut written = 0;
    let refused = loop {
        match session.write(vec![b'x'; 100_000]) {
            Ok(()) => written += 100_000,
            Err(error) => break error,
        }
        assert!(written <= 2_000_000);
    };
    assert!(matches!(refused, SessionError::InputFull { .. }), "{refused:?}");
    session.close();
}
