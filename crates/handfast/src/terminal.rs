//! Interaction with the human at the terminal: questions, and a line with the progress of a long
//! call. Results never pass through here.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Answer, Approval, Asker, Scope};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::{BoxFuture, Progress, visible, visible_lines, visible_source};

use crate::report::{covered, note};

/// An asker that uses the controlling terminal, regardless of standard input and output.
pub(crate) struct TerminalAsker {
    line: Option<Arc<ProgressLine>>,
}

impl TerminalAsker {
    /// Returns the asker if somebody looks at a terminal. The progress line pauses while a question
    /// waits for its answer.
    pub(crate) fn open(line: Option<Arc<ProgressLine>>) -> Option<Self> {
        // If standard error is redirected, a script runs the program, and a question would only
        // make it hang.
        if !io::stderr().is_terminal() {
            return None;
        }
        terminal().ok().map(|_| Self { line })
    }
}

/// Maximum time that a question waits.
pub(crate) const WAIT_FOR_ANSWER: Duration = Duration::from_mins(10);

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let approval = approval.clone();
        Box::pin(async move {
            let _still = self.line.as_ref().map(|line| line.still());
            // The read blocks until a line is typed, so it has a thread of its own. Ctrl-C, and an
            // answer from elsewhere, end the wait from outside. After that, the thread must not
            // consume the next typed line.
            let unanswered = Unanswered::default();
            let given_up = unanswered.given_up.clone();
            let asked = tokio::task::spawn_blocking(move || ask(&approval, &given_up));
            let asked = tokio::time::timeout(WAIT_FOR_ANSWER, asked).await;
            let failed = |why: String| Answer::Nobody {
                hint: format!(
                    "cannot ask at the terminal: \
                                                                       {why}"
                ),
            };
            match asked {
                Err(_) => {
                    let minutes = WAIT_FOR_ANSWER.as_secs() / 60;
                    Answer::Unanswered { hint: format!("nobody answered within {minutes} minutes") }
                }
                Ok(answered) => {
                    std::mem::forget(unanswered);
                    match answered {
                        Ok(Ok(answer)) => answer,
                        Ok(Err(error)) => failed(error.to_string()),
                        Err(panic) => failed(panic.to_string()),
                    }
                }
            }
        })
    }
}

/// A guard that withdraws an unanswered question and ends its line, so that later output starts on
/// a new line.
#[derive(Default)]
struct Unanswered {
    given_up: Arc<AtomicBool>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::SeqCst);
        if let Ok(mut terminal) = terminal() {
            let _ = terminal.write_all(b"\n");
        }
    }
}

/// Interval at which a waiting thread checks whether the question was withdrawn.
const LOOK: Duration = Duration::from_millis(100);

/// Reads the next typed line. Returns `None` at the end of input, or if the question was withdrawn.
fn next_line(terminal: &File, given_up: &AtomicBool) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let look = Timespec::try_from(LOOK).map_err(io::Error::other)?;
    while !given_up.load(Ordering::SeqCst) {
        let mut ready = [PollFd::new(terminal, PollFlags::IN)];
        match poll(&mut ready, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 1024];
        // The terminal delivers one line at a time.
        let read = (&*terminal).read(&mut bytes)?;
        line.extend_from_slice(bytes.get(..read).unwrap_or_default());
        if read == 0 {
            return Ok(None);
        }
        if line.ends_with(b"\n") {
            return Ok(Some(String::from_utf8_lossy(&line).trim().to_owned()));
        }
    }
    Ok(None)
}

/// Returns the key for an offer.
pub(crate) fn offer_key(scope: Scope) -> char {
    match scope {
        Scope::Once => 'y',
        Scope::Session => 's',
        Scope::Project => 'p',
        Scope::Always => 'a',
    }
}

/// Formats the question for the terminal. The scope of each approval is shown before it can be given.
pub(crate) fn question(approval: &Approval) -> String {
    let mut text = format!("\n{} asks for approval ({})\n", approval.tool, approval.level);
    for effect in &approval.effects {
        text.push_str(&format!("  {}\n", visible_lines(effect)));
    }
    let show = approval.program.command(&format!("approvals show {}", approval.id));
    text.push_str(&preview(approval, MAX_LINES, &format!(": {show}")));
    text.push_str(&format!("because {}\n", visible(&approval.reason)));
    for offer in &approval.offers {
        let lasts = span(offer.seconds);
        text.push_str(&format!(
            "  [{}] for {lasts}: {}\n",
            offer_key(offer.scope),
            visible(&offer.description())
        ));
    }
    if let Some(suggestion) = &approval.suggestion {
        text.push_str(&format!("{}\n", visible(suggestion)));
    }
    text
}

/// Returns the first lines of the preview, indented. `elsewhere` names the place of the rest.
pub(crate) fn preview(approval: &Approval, most: usize, elsewhere: &str) -> String {
    let (lines, more) = approval.preview_lines(most, usize::MAX);
    let mut text: String = lines.into_iter().map(|line| format!("    {}\n", visible_source(line))).collect();
    if more > 0 {
        let noun = if more == 1 { "line" } else { "lines" };
        text.push_str(&format!("    ... {more} more {noun}{elsewhere}\n"));
    }
    text
}

/// Maximum number of preview lines above a question.
const MAX_LINES: usize = 40;

fn choices(approval: &Approval) -> String {
    let offered: String = approval
        .offers
        .iter()
        .map(|offer| format!("  [{}] {}", offer_key(offer.scope), offer.scope))
        .collect();
    format!("Allow it? [y] yes, once{offered}  [n] no  (or type a reason for no) ")
}

/// Formats a duration in the largest unit that divides it.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit))
        .unwrap_or((1, "second"));
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// Discards typed input that has not been read. The user had not seen the question that it would answer.
pub(crate) fn forget_typed(terminal: impl AsFd) -> io::Result<()> {
    Ok(rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush)?)
}

fn ask(approval: &Approval, given_up: &AtomicBool) -> io::Result<Answer> {
    let mut terminal = terminal()?;
    forget_typed(&terminal)?;
    let mut shown = question(approval);
    let by = || "the user at the terminal".to_owned();
    loop {
        write!(terminal, "{}{}", covered(&shown), choices(approval))?;
        terminal.flush()?;
        shown.clear();
        let Some(line) = next_line(&terminal, given_up)? else {
            return Ok(Answer::Nobody { hint: "the terminal was closed before an answer came".to_owned() });
        };
        match line.as_str() {
            "y" | "Y" | "yes" | "once" => return Ok(Answer::Once { by: by() }),
            "n" | "N" | "no" => return Ok(Answer::Denied { by: by(), message: None }),
            "" => {}
            typed => {
                let named = |offer: &&engine::Offer| {
                    typed.eq_ignore_ascii_case(offer.scope.as_str())
                        || typed.eq_ignore_ascii_case(&offer_key(offer.scope).to_string())
                };
                if let Some(offer) = approval.offers.iter().find(named) {
                    return Ok(Answer::Lease { offer: offer.clone(), by: by() });
                }
                // A single letter is not a reason, but a key that this question does not have.
                if typed.chars().count() > 1 {
                    return Ok(Answer::Denied { by: by(), message: Some(typed.to_owned()) });
                }
            }
        }
    }
}

/// An asker that asks nobody, and reports on standard error what the call waits for.
pub(crate) struct NoTerminalAsker;

impl Asker for NoTerminalAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let hint = "there is no terminal to ask at; --yes answers the questions of this call, and \
                    `handfast check` names the rule";
        Box::pin(async { Answer::Nobody { hint: hint.to_owned() } })
    }

    fn can_ask(&self) -> bool {
        false
    }

    fn waits_for_others(&self, approval: &Approval, most: Duration) {
        note(&format!(
            "{} waits for an answer, for at most {}: on the open screen of `handfast approvals`, or \
             by `handfast approvals approve {id}` or `handfast approvals deny {id}`; Ctrl-C cancels \
             the call",
            approval.headline(),
            span(most.as_secs()),
            id = approval.id,
        ));
    }
}

/// An asker that approves every question: `--yes`.
pub(crate) struct YesAsker;

impl Asker for YesAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Once { by: "--yes on the command line".to_owned() } })
    }

    fn knows_the_answer(&self) -> bool {
        true
    }
}

/// A line on standard error with the progress of a long call. Absent if standard error is no terminal.
pub(crate) struct ProgressLine {
    started: Instant,
    state: Mutex<LineState>,
    still: AtomicBool,
}

#[derive(Default)]
struct LineState {
    drawn: Option<Instant>,
    /// Last message of the call itself.
    said: String,
}

/// A guard that pauses the line until dropped.
pub(crate) struct Still<'a>(&'a ProgressLine);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.still.store(false, Ordering::SeqCst);
    }
}

/// Delay before the first display, so that short calls show nothing.
const TIMEOUT: Duration = Duration::from_millis(700);
/// Minimum interval between two updates of the line.
const PACE: Duration = Duration::from_millis(120);
/// Maximum number of message characters on the line.
const MESSAGE: usize = 60;

impl ProgressLine {
    /// Creates the line if standard error is a terminal.
    pub(crate) fn new() -> Option<Arc<Self>> {
        io::stderr().is_terminal().then(|| {
            Arc::new(Self { started: Instant::now(), state: Mutex::default(), still: AtomicBool::new(false) })
        })
    }

    /// Shows the elapsed time, even if the call reports nothing.
    pub(crate) fn tick(&self) {
        self.draw(|_| ());
    }

    fn draw(&self, change: impl FnOnce(&mut String)) {
        let now = Instant::now();
        let mut state = self.state.lock();
        change(&mut state.said);
        let early = now.duration_since(self.started) < TIMEOUT;
        let soon = state.drawn.is_some_and(|last| now.duration_since(last) < PACE);
        if early || soon || self.still.load(Ordering::SeqCst) {
            return;
        }
        state.drawn = Some(now);
        let seconds = now.duration_since(self.started).as_secs();
        // The line is a convenience: if it cannot be drawn, the call continues.
        let _ = write!(io::stderr(), "\r\x1b[K{seconds} s  {}", covered(&state.said));
        let _ = io::stderr().flush();
    }

    /// Removes the line until the returned value is dropped.
    fn still(&self) -> Still<'_> {
        self.still.store(true, Ordering::SeqCst);
        self.clear();
        Still(self)
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.state.lock().drawn.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Progress for ProgressLine {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        self.draw(|said| {
            let message: String = visible(message).chars().take(MESSAGE).collect();
            *said = match total {
                None => format!("{done} bytes  {message}"),
                Some(total) => format!("{done} of {total}  {message}"),
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use engine::Offer;
    use tool::{CallId, Level};

    use super::*;

    fn approval() -> Approval {
        let offer = |scope, pattern: Option<&str>, covers: &str, seconds| Offer {
            scope,
            pattern: pattern.map(str::to_owned),
            covers: covers.to_owned(),
            seconds,
            past: None,
        };
        Approval {
            id: "a1".to_owned(),
            call: CallId("c1".to_owned()),
            tool: "shell_execute".to_owned(),
            level: Level::Destructive,
            effects: vec!["run in .: cd api && protoc lint \u{202e}a.proto".to_owned()],
            preview: Some("parsed, it runs:\n  cd api\n  protoc lint a.proto".to_owned()),
            preview_more_lines: 0,
            reason: "in mode smart_auto, calls of level destructive are asked about".to_owned(),
            rule: "mode: smart_auto".to_owned(),
            once_only: false,
            patterns_in_the_cell: false,
            terminal_only: false,
            offers: vec![
                offer(Scope::Project, None, "exactly this in this workspace", 30 * 86_400),
                offer(
                    Scope::Always,
                    Some("protoc lint"),
                    "every command that begins with `protoc lint`",
                    8 * 3_600,
                ),
            ],
            pattern_kind: None,
            suggestion: Some("calls like this were allowed 3 times".to_owned()),
            digest: String::new(),
            effects_digest: String::new(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
            program: engine::Program::default(),
        }
    }

    #[test]
    fn a_question_shows_what_would_run_and_what_each_yes_covers() {
        let text = question(&approval()) + &choices(&approval());
        insta::assert_snapshot!(text.trim(), @r"
        shell_execute asks for approval (destructive)
          run in .: cd api && protoc lint \u{202e}a.proto
            parsed, it runs:
              cd api
              protoc lint a.proto
        because in mode smart_auto, calls of level destructive are asked about
          [p] for 30 days: exactly this in this workspace
          [a] for 8 hours: every command that begins with `protoc lint`
        calls like this were allowed 3 times
        Allow it? [y] yes, once  [p] project  [a] always  [n] no  (or type a reason for no)
        ");
    }

    #[test]
    fn a_long_difference_is_cut_and_what_hides_in_it_is_seen() {
        let lines: Vec<String> = (0..60).map(|line| format!("+\t{line}\u{202e}\u{1b}[8m\r\n")).collect();
        let approval = Approval { preview: Some(lines.concat()), preview_more_lines: 1_000, ..approval() };
        let text = question(&approval);
        assert!(text.contains("\n    +\u{2192}   39\\u{202e}\\u{1b}[8m\\r\n"), "{text}");
        assert!(text.contains("\n    ... 1020 more lines: handfast approvals show a1\n"), "{text}");
        assert!(!text.contains("40\\u{202e}"), "{text}");
    }

    #[test]
    fn a_question_that_is_asked_every_time_offers_one_yes() {
        let approval = Approval { offers: Vec::new(), suggestion: None, preview: None, ..approval() };
        insta::assert_snapshot!(
            choices(&approval).trim(),
            @"Allow it? [y] yes, once  [n] no  (or type a reason for no)"
        );
    }

    #[test]
    fn a_time_is_shown_in_the_largest_unit_that_fits() {
        let shown = [1, 60, 90, 3_600, 8 * 3_600, 86_400, 30 * 86_400].map(span);
        assert_eq!(shown.join(", "), "1 second, 1 minute, 90 seconds, 1 hour, 8 hours, 1 day, 30 days");
    }
}
