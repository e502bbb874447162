//! A trace: what was done in a browser, with pictures, and what its pages wrote to the console and
//! requested meanwhile, as a page that opens without a network.
//!
//! The texts of a trace are those of pages. Whoever writes a trace into a file covers the secrets in it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::event_log::{LogEntry, LogEvent};

/// Maximum number of steps; later ones are counted only.
const STEPS: usize = 500;
/// Maximum number of bytes of all pictures; later steps have none.
const PICTURE_BYTES: usize = 40 * 1024 * 1024;
/// Maximum number of entries of logs.
const LOG_ENTRIES: usize = 5_000;

/// A trace that is being recorded.
#[derive(Debug)]
pub struct Trace {
    began: Timestamp,
    steps: Vec<Step>,
    left_out: usize,
    picture_bytes: usize,
}

/// Something that was done.
#[derive(Debug, Clone)]
pub struct Step {
    /// Description of what was done, in a line.
    pub title: String,
    /// URL of the page afterwards; empty if there was none.
    pub url: String,
    /// Time at which it began.
    pub began: Timestamp,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Error that it ended with.
    pub error: Option<String>,
    /// JPEG of the page afterwards, or the reason why there is none.
    pub picture: Result<Vec<u8>, String>,
}

/// A line of the timeline.
enum Line<'a> {
    Step(usize, &'a Step),
    Log(u32, &'a LogEntry),
}

impl Trace {
    /// Begins a trace.
    pub fn begin(now: Timestamp) -> Self {
        Self { began: now, steps: Vec::new(), left_out: 0, picture_bytes: 0 }
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len() + self.left_out
    }

    /// Adds a step.
    pub fn add(&mut self, mut step: Step) {
        if self.steps.len() == STEPS {
            self.left_out += 1;
            return;
        }
        if let Ok(picture) = &step.picture {
            if self.picture_bytes + picture.len() > PICTURE_BYTES {
                step.picture = Err("the trace has too many pictures".to_owned());
            } else {
                self.picture_bytes += picture.len();
            }
        }
        self.steps.push(step);
    }

    /// Returns the trace as an HTML page without scripts that needs no other file. `logs` has the entries
    /// of the tabs, each with its tab. `cover` covers the secrets of a text.
    pub fn page(&self, logs: &[(u32, LogEntry)], cover: &dyn Fn(&str) -> String) -> String {
        let began = milliseconds(self.began);
        let steps = self
            .steps
            .iter()
            .enumerate()
            .map(|(number, step)| (milliseconds(step.began), Line::Step(number + 1, step)));
        let is_of_trace = |entry: &&(u32, LogEntry)| entry.1.time_ms >= began;
        let logs = logs.iter().filter(is_of_trace).take(LOG_ENTRIES);
        let logs = logs.map(|(tab, entry)| (entry.time_ms, Line::Log(*tab, entry)));
        let mut lines: Vec<(f64, Line<'_>)> = steps.chain(logs).collect();
        lines.sort_by(|one, other| one.0.total_cmp(&other.0));
        let end = lines.iter().map(|(time, line)| time + line.duration()).fold(began + 1.0, f64::max);
        let mut body = String::new();
        for (time, line) in &lines {
            let (left, width) =
                (100.0 * (time - began) / (end - began), 100.0 * line.duration() / (end - began));
            // Writing to a string cannot fail.
            let _ = write!(
                body,
                "<li class={}><div class=bar><i style=\"left:{:.2}%;width:max(2px,{:.2}%)\"></i></div><time>+{:.2} s</time> ",
                line.class(),
                left.clamp(0.0, 100.0),
                width.clamp(0.0, 100.0),
                (time - began) / 1_000.0
            );
            line.write(&mut body, cover);
            body.push_str("</li>\n");
        }
        if self.left_out > 0 {
            let _ = writeln!(body, "<li class=log>{} further steps are left out</li>", self.left_out);
        }
        let (began, steps) = (self.began.strftime("%Y-%m-%d %H:%M:%S UTC"), self.steps());
        format!(
            "<!doctype html>\n<html lang=en><meta charset=utf-8>\n\
             <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
             <title>Browser trace</title>\n<style>{STYLE}</style>\n\
             <h1>Browser trace</h1>\n<p>{began}, {steps} steps, {:.1} s. Texts are those of pages and are not to be trusted.</p>\n<ol>\n{body}</ol>\n</html>\n",
            (end - milliseconds(self.began)) / 1_000.0
        )
    }
}

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}\
ol{list-style:none;padding:0}li{border-top:1px solid #ddd;padding:.4em 0;overflow-wrap:anywhere}\
.bar{position:relative;height:4px;background:#f2f2f2}.bar i{position:absolute;height:4px;background:#888}\
.step .bar i{background:#06c}.failed .bar i{background:#c00}.failed b,.bad{color:#b00}time{color:#666}\
.log{font:12px/1.4 ui-monospace,monospace}img{display:block;max-width:100%;border:1px solid #ccc;margin:.4em 0}summary{cursor:pointer;color:#06c}";

impl Line<'_> {
    /// Returns the duration in milliseconds.
    fn duration(&self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a step")]
            Self::Step(_, step) => step.duration_ms as f64,
            Self::Log(_, entry) => match &entry.event {
                LogEvent::Request(request) => request.duration_ms.unwrap_or(0.0),
                _ => 0.0,
            },
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Step(_, step) if step.error.is_some() => "\"step failed\"",
            Self::Step(..) => "step",
            Self::Log(..) => "log",
        }
    }

    fn write(&self, body: &mut String, cover: &dyn Fn(&str) -> String) {
        let text = |text: &str| escaped(&cover(text));
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Step(number, step) => {
                let _ = write!(
                    body,
                    "<b>{number}. {}</b> <small>{} ms</small>",
                    text(&step.title),
                    step.duration_ms
                );
                if let Some(error) = &step.error {
                    let _ = write!(body, "<div class=bad>{}</div>", text(error));
                }
                let _ = write!(body, "<div>{}</div>", text(&step.url));
                match &step.picture {
                    Ok(picture) => write!(
                        body,
                        "<details><summary>picture</summary><img alt=\"the page after step {number}\" src=\"data:image/jpeg;base64,{}\"></details>",
                        STANDARD.encode(picture)
                    ),
                    Err(reason) => write!(body, "<small>no picture: {}</small>", text(reason)),
                }
            }
            Self::Log(tab, entry) => write!(body, "tab {tab} {}", text(&entry.line())),
        };
    }
}

fn milliseconds(time: Timestamp) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    let milliseconds = time.as_millisecond() as f64;
    milliseconds
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Characters that hide or turn text around.
            _ if character != '\n' && (character.is_control() || tool::is_invisible(character)) => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(title: &str, at: i64, picture: Result<Vec<u8>, String>) -> Step {
        Step {
            title: title.to_owned(),
            url: "http://a.test/".to_owned(),
            began: Timestamp::from_millisecond(at).unwrap(),
            duration_ms: 10,
            error: None,
            picture,
        }
    }

    #[test]
    fn a_trace_is_in_the_order_of_time_covered_and_without_anything_that_runs() {
        let mut trace = Trace::begin(Timestamp::from_millisecond(1_000).unwrap());
        trace.add(step("open <script>alert(1)</script>", 1_100, Ok(vec![255, 216])));
        trace
            .add(Step { error: Some("late".to_owned()), ..step("click", 3_000, Err("it hides".to_owned())) });
        let entry = |time_ms, text: &str| {
            let event = LogEvent::Console { level: "log".to_owned(), text: text.to_owned() };
            (1, LogEntry { number: 1, time_ms, event })
        };
        let logs = [entry(2_000.0, "the password is hunter2-hunter2"), entry(500.0, "before the trace")];
        let page = trace.page(&logs, &|text| text.replace("hunter2-hunter2", "[SECRET]"));
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}: {page}"));
        assert!(at("1. open &lt;script&gt;") < at("the password is [SECRET]"));
        assert!(at("the password is") < at("2. click") && at("late") > at("2. click"));
        assert!(page.contains("data:image/jpeg;base64,/9g=") && page.contains("no picture: it hides"));
        assert!(!page.contains("<script") && !page.contains("before the trace") && !page.contains("hunter2"));
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn steps_and_pictures_are_bounded() {
        let mut trace = Trace::begin(Timestamp::UNIX_EPOCH);
        for number in 0..STEPS + 3 {
            trace.add(step("x", 0, Ok(vec![0; if number < 4 { PICTURE_BYTES / 3 } else { 1 }])));
        }
        assert_eq!((trace.steps(), trace.steps.len()), (STEPS + 3, STEPS));
        assert!(trace.picture_bytes <= PICTURE_BYTES && trace.steps[3].picture.is_err());
        assert!(trace.page(&[], &str::to_owned).contains("3 further steps are left out"));
    }
}
