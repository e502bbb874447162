//! The human at the terminal: questions, and a line that shows how far a long call is. Results never pass through here.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Answer, Approval, Asker};
use tool::{BoxFuture, Progress, visible, visible_lines};

/// Asks on the controlling terminal, whatever standard input and output are.
pub(crate) struct TerminalAsker {
    line: Option<Arc<ProgressLine>>,
}

impl TerminalAsker {
    /// The asker, where somebody looks at a terminal. The line is still while a question waits for its answer.
    pub(crate) fn open(line: Option<Arc<ProgressLine>>) -> Option<Self> {
        // Where standard error goes elsewhere, a script runs the program, and a question would only make it hang.
        if !io::stderr().is_terminal() {
            return None;
        }
        terminal().ok().map(|_| Self { line })
    }
}

/// How long a question waits: never for ever.
const WAIT_FOR_ANSWER: Duration = Duration::from_mins(10);

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let approval = approval.clone();
        Box::pin(async move {
            let _still = self.line.as_ref().map(|line| line.still());
            // The read blocks until a line is typed, so it has a thread of its own; Ctrl-C ends the wait from outside.
            let unanswered = Unanswered;
            let asked = tokio::task::spawn_blocking(move || ask(&approval));
            let asked = tokio::time::timeout(WAIT_FOR_ANSWER, asked).await;
            let failed =
                |why: String| Answer::Nobody { hint: format!("the terminal could not be asked: {why}") };
            match asked {
                Err(_) => {
                    let minutes = WAIT_FOR_ANSWER.as_secs() / 60;
                    Answer::Nobody {
                        hint: format!("nobody answered within {minutes} minutes; make the call again"),
                    }
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

/// Ends the line of a question that is given up, so that what follows stands on a line of its own.
struct Unanswered;

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Ok(mut terminal) = terminal() {
            let _ = terminal.write_all(b"\n");
        }
    }
}

fn ask(approval: &Approval) -> io::Result<Answer> {
    let mut terminal = terminal()?;
    let mut question = format!("\n{} asks for approval ({})\n", approval.tool, approval.level);
    for effect in &approval.effects {
        question.push_str(&format!("  {}\n", visible_lines(effect)));
    }
    question.push_str(&format!("because {}\n", visible(&approval.reason)));
    let by = || "the user at the terminal".to_owned();
    let mut lines = BufReader::new(terminal.try_clone()?).lines();
    loop {
        write!(terminal, "{question}Allow it? [y] yes, once  [n] no  (or type a reason for no) ")?;
        terminal.flush()?;
        question.clear();
        let Some(line) = lines.next().transpose()? else {
            return Ok(Answer::Nobody { hint: "the terminal was closed before an answer came".to_owned() });
        };
        match line.trim() {
            "y" | "Y" | "yes" => return Ok(Answer::Once { by: by() }),
            "n" | "N" | "no" => return Ok(Answer::Denied { by: by(), message: None }),
            "" => {}
            reason => return Ok(Answer::Denied { by: by(), message: Some(reason.to_owned()) }),
        }
    }
}

/// Says yes to every question: `--yes`.
pub(crate) struct YesAsker;

impl Asker for YesAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Once { by: "--yes on the command line".to_owned() } })
    }
}

/// A line on standard error that shows what a long call does. Nothing where that is no terminal.
pub(crate) struct ProgressLine {
    started: Instant,
    state: Mutex<LineState>,
    still: AtomicBool,
}

#[derive(Default)]
struct LineState {
    drawn: Option<Instant>,
    /// What the call itself said last.
    said: String,
}

/// Keeps the line from being drawn.
pub(crate) struct Still<'a>(&'a ProgressLine);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.still.store(false, Ordering::SeqCst);
    }
}

/// A call that is done sooner shows nothing.
const PATIENCE: Duration = Duration::from_millis(700);
/// Between two changes of the line.
const PACE: Duration = Duration::from_millis(120);
/// Characters of a message on the line.
const MESSAGE: usize = 60;

impl ProgressLine {
    /// The line, where standard error is a terminal.
    pub(crate) fn new() -> Option<Arc<Self>> {
        io::stderr().is_terminal().then(|| {
            Arc::new(Self { started: Instant::now(), state: Mutex::default(), still: AtomicBool::new(false) })
        })
    }

    /// Shows the time that has passed, also where the call itself reports nothing.
    pub(crate) fn tick(&self) {
        self.draw(|_| ());
    }

    fn draw(&self, change: impl FnOnce(&mut String)) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.said);
        let early = now.duration_since(self.started) < PATIENCE;
        let soon = state.drawn.is_some_and(|last| now.duration_since(last) < PACE);
        if early || soon || self.still.load(Ordering::SeqCst) {
            return;
        }
        state.drawn = Some(now);
        let seconds = now.duration_since(self.started).as_secs();
        // The line is a courtesy: where it cannot be drawn, the call goes on.
        let _ = write!(io::stderr(), "\r\x1b[K{seconds} s  {}", state.said);
        let _ = io::stderr().flush();
    }

    /// Removes the line until the value returned is gone.
    fn still(&self) -> Still<'_> {
        self.still.store(true, Ordering::SeqCst);
        self.clear();
        Still(self)
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.state.lock().unwrap_or_else(PoisonError::into_inner).drawn.take().is_some() {
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
