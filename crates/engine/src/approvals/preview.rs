//! Preview of a call for a human: the command as it was parsed, or the difference that the call
//! makes.
//!
//! Secrets are covered and the text is bounded here, once, for every display. Each display escapes
//! characters that hide or move text, because each has its own way of escaping.

use std::sync::Arc;

use policy::{Part, Policy};
use tool::{CommandLine, Context, Effect, Plan, PreparedCall, SessionId, Stop, ToolError};

use crate::Engine;
use crate::impact::shown_callers;
use crate::reach::AccessScope;
use crate::snapshot::Preview as Changes;

/// Maximum number of lines of a preview. A human who wants more opens the file.
const MAX_LINES: usize = 400;
/// Maximum number of characters of a preview.
const MAX_CHARACTERS: usize = 20_000;
/// Maximum number of characters of one line.
const LONGEST_LINE: usize = 500;
/// Maximum number of characters of a command in the name of its dry run.
const LONGEST_NAME: usize = 80;

/// A preview, with secrets covered and its length bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) text: String,
    /// Number of lines that were left out at the end.
    pub(crate) more_lines: u64,
}

/// A call that a preview is made of, before its answer.
pub(crate) struct PreviewedCall<'a> {
    pub(crate) parts: &'a [Part],
    pub(crate) reach: &'a AccessScope,
    pub(crate) rules: Arc<Policy>,
    pub(crate) stop: Stop,
}

/// Source of the preview's text.
pub(crate) enum Source {
    /// A command: its parsed form, and the name under which an earlier dry run of it has stored its
    /// changes.
    Command {
        read: Option<String>,
        dry_run: String,
        rules: Arc<Policy>,
    },
    /// A tool, and the callers of what the call changes.
    Tool(Box<Context>, Option<String>),
    KeptChanges(String, Arc<Policy>),
}

impl Engine {
    /// Returns the source of a call's preview. Reads no file.
    ///
    /// # Errors
    /// Fails if the roots of the call cannot be opened.
    pub(crate) fn preview_source(
        &self,
        asking: &PreviewedCall<'_>,
        plan: &Plan,
    ) -> Result<Source, ToolError> {
        if let Some(id) = &plan.applies {
            return Ok(Source::KeptChanges(id.clone(), asking.rules.clone()));
        }
        if let Some((command, effect)) = command_of(asking.parts) {
            let (dry_run, rules) = (self.dry_run_of(command, effect), asking.rules.clone());
            return Ok(Source::Command { read: as_read(command), dry_run, rules });
        }
        let mut services = self.services.clone();
        // These roots do not include what the answer may allow, so that the preview shows nothing
        // that may not be read before it.
        services.insert(Arc::new(asking.reach.roots(asking.parts, false, None)?));
        services.insert::<Arc<dyn tool::Checkpoints>>(Arc::new(Arc::new(crate::undo::ForCall {
            undo: crate::undo::Undo { policy: asking.rules.clone(), ..self.undo_parts() },
            draft: None,
            undoes: Arc::default(),
            data: Arc::default(),
        })));
        let call = crate::new_call_id(self.clock.as_ref());
        let session = SessionId(String::new());
        let mut context = Context::new(
            call,
            session,
            self.place.clone(),
            std::time::Duration::ZERO,
            self.clock.clone(),
            services,
        );
        context.stop = asking.stop.clone();
        Ok(Source::Tool(Box::new(context), shown_callers(asking.parts)))
    }

    /// Builds the preview. Blocks while files are read and compared.
    ///
    /// # Errors
    /// `ENOTFOUND` if the changes to apply do not exist.
    pub(crate) fn preview(
        &self,
        source: Source,
        prepared: &PreparedCall,
    ) -> Result<Option<Preview>, ToolError> {
        let text = match source {
            Source::Command { read, dry_run, rules } => {
                let tried = self.preview_of_dry_run(&dry_run, &rules);
                let texts: Vec<String> = [read, tried].into_iter().flatten().collect();
                if texts.is_empty() { None } else { Some(texts.join("\n")) }
            }
            Source::Tool(context, callers) => {
                let texts: Vec<String> = callers.into_iter().chain(prepared.preview(&context)).collect();
                if texts.is_empty() { None } else { Some(texts.join("\n")) }
            }
            Source::KeptChanges(id, rules) => Some(self.preview_of_kept(&id, &rules)?),
        };
        Ok(text.map(|text| self.cut(text)))
    }

    /// Returns the difference of a dry run's changes, as applying them would make it now.
    fn preview_of_kept(&self, id: &str, rules: &Policy) -> Result<String, ToolError> {
        let snapshots = self.snapshots.as_ref().ok_or_else(|| {
            ToolError::new(tool::Code::Unavailable, "this runtime does not isolate changes")
        })?;
        let Changes { diff, held, conflicts, .. } =
            snapshots.take_up(id)?.preview(rules, &self.denied, self.store.as_ref())?;
        let mut text: String =
            conflicts.iter().map(|line| format!("changed by others since: {line}\n")).collect();
        text.extend(held.iter().map(|line| format!("held: {line}\n")));
        text.push_str(&diff);
        Ok(text)
    }

    /// Returns the reason under which the changes of a dry run are set aside. The reason names the
    /// command for people. A digest of the command and its directory follows, so that a later
    /// question about the command finds the changes.
    pub(crate) fn why_tried(&self, parts: &[Part]) -> String {
        command_of(parts).map_or("a dry run".to_owned(), |(command, effect)| self.dry_run_of(command, effect))
    }

    fn dry_run_of(&self, command: &CommandLine, effect: &Effect) -> String {
        let line = match command {
            CommandLine::Shell(line) => line.clone(),
            CommandLine::Argv(words) => words.join(" "),
            CommandLine::Typed { text, .. } => text.clone(),
        };
        let shown: String = tool::visible(&self.covered(line)).chars().take(LONGEST_NAME).collect();
        let digest = crate::digest::digest(effect);
        format!("a dry run of `{shown}` ({})", digest.get(..16).unwrap_or(&digest))
    }

    /// Returns the difference that the last dry run of this command made. Returns `None` if there
    /// was no dry run. Also returns `None` if others have since changed what it changed, because
    /// the difference then no longer shows what the command would do.
    fn preview_of_dry_run(&self, reason: &str, rules: &Policy) -> Option<String> {
        let snapshots = self.snapshots.as_ref()?;
        // The question is asked even if the changes cannot be listed.
        let kept = snapshots.kept().ok()?;
        let last =
            kept.into_iter().find(|kept| kept.reason == reason && kept.workspace == self.place.workspace)?;
        let changes = snapshots.take_up(&last.id).ok()?;
        let changes = changes.preview(rules, &self.denied, self.store.as_ref()).ok()?;
        if !changes.conflicts.is_empty() || changes.diff.is_empty() {
            return None;
        }
        let Changes { diff, .. } = changes;
        Some(format!("its dry run ({}, {}) made these changes:\n{diff}", last.id, last.since))
    }

    /// Covers the secrets of the text and cuts it to the limits.
    pub(crate) fn cut(&self, text: String) -> Preview {
        bounded(&self.covered(text))
    }
}

/// Returns the command that a call runs.
fn command_of(parts: &[Part]) -> Option<(&CommandLine, &Effect)> {
    parts.iter().find_map(|part| match &part.effect {
        Effect::Run { command: command @ (CommandLine::Shell(_) | CommandLine::Argv(_)), .. } => {
            Some((command, &part.effect))
        }
        _ => None,
    })
}

/// Returns a description of what a command runs, if the line itself does not make that plain.
fn as_read(command: &CommandLine) -> Option<String> {
    match policy::as_read(command) {
        Ok(commands) if commands.len() > 1 => Some(format!("parsed, it runs:\n  {}", commands.join("\n  "))),
        Ok(_) => None,
        Err(why) => Some(format!("the commands that it runs cannot be determined: {why}")),
    }
}

fn bounded(text: &str) -> Preview {
    let mut kept = String::new();
    let mut characters = 0;
    // A line keeps its carriage return, which may be the only change.
    let mut lines = text.split_terminator('\n');
    let mut shown = 0;
    while shown < MAX_LINES && characters < MAX_CHARACTERS {
        let Some(line) = lines.next() else { break };
        let length = line.chars().count();
        match line.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => {
                kept.push_str(&format!("{}[... {} more characters]", &line[..end], length - LONGEST_LINE));
            }
            None => kept.push_str(line),
        }
        kept.push('\n');
        characters += length.min(LONGEST_LINE);
        shown += 1;
    }
    Preview { text: kept, more_lines: lines.count() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_cut_in_lines_and_characters_and_says_by_how_much() {
        let short = bounded("a\nb");
        assert_eq!((short.text.as_str(), short.more_lines), ("a\nb\n", 0));
        let many = bounded(&"x\n".repeat(MAX_LINES + 7));
        assert_eq!((many.text.lines().count(), many.more_lines), (MAX_LINES, 7));
        let wide = bounded(&format!("{}\n", "ä".repeat(LONGEST_LINE)).repeat(100));
        let shown = MAX_CHARACTERS / LONGEST_LINE;
        assert_eq!((wide.text.lines().count(), wide.more_lines), (shown, 100 - shown as u64));
        let long = bounded(&format!("{}\nnext", "ä".repeat(1_000_000)));
        assert!(long.text.ends_with("ä[... 999500 more characters]\nnext\n"));
        assert!(long.text.len() < 4 * LONGEST_LINE);
    }
}
