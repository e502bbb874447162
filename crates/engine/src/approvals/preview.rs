//! What a human is shown of a call beside its effects: the command as it was read, the difference that it makes.
//!
//! Secrets are covered and the text is bounded here, once, for everybody who shows it. Characters that hide or move something are
//! escaped by whoever shows it, because each place has its own way.

use std::sync::Arc;
use std::time::SystemTime;

use policy::{Part, Policy};
use tool::{CommandLine, Context, Effect, Plan, Prepared, SessionId, Stop, ToolError};

use crate::Engine;
use crate::reach::Reach;
use crate::snapshot::Preview as Changes;

/// Lines of a preview. A human who wants more opens the file.
const MOST_LINES: usize = 400;
/// Characters of a preview.
const MOST_CHARACTERS: usize = 20_000;
/// Characters of one line.
const LONGEST_LINE: usize = 500;
/// Characters of a command in the name of its dry run.
const LONGEST_NAME: usize = 80;

/// What there is to see of a call, covered and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) text: String,
    /// How many lines were left out at the end.
    pub(crate) more_lines: u64,
}

/// A call as it is looked at before its answer.
pub(crate) struct Asking<'a> {
    pub(crate) parts: &'a [Part],
    pub(crate) reach: &'a Reach,
    pub(crate) rules: Arc<Policy>,
    pub(crate) stop: Stop,
}

/// Where the text comes from.
pub(crate) enum Source {
    /// A command: what it runs, and under what an earlier dry run of it has kept its changes.
    Command {
        read: Option<String>,
        dry_run: String,
        rules: Arc<Policy>,
    },
    Tool(Box<Context>),
    KeptChanges(String, Arc<Policy>),
}

impl Engine {
    /// Where the preview of a call comes from. Reads no file.
    ///
    /// # Errors
    /// Where the roots of the call cannot be opened.
    pub(crate) fn preview_source(&self, asking: &Asking<'_>, plan: &Plan) -> Result<Source, ToolError> {
        if let Some(id) = &plan.applies {
            return Ok(Source::KeptChanges(id.clone(), asking.rules.clone()));
        }
        if let Some((command, effect)) = command_of(asking.parts) {
            let (dry_run, rules) = (self.dry_run_of(command, effect), asking.rules.clone());
            return Ok(Source::Command { read: as_read(command), dry_run, rules });
        }
        let mut services = self.services.clone();
        // Without the answer, so that nothing is shown which may not be read before it.
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
        Ok(Source::Tool(Box::new(context)))
    }

    /// The preview. Blocks while files are read and compared.
    ///
    /// # Errors
    /// `ENOTFOUND` where changes are to be applied that do not lie aside.
    pub(crate) fn preview(&self, source: Source, prepared: &Prepared) -> Result<Option<Preview>, ToolError> {
        let text = match source {
            Source::Command { read, dry_run, rules } => {
                let tried = self.preview_of_dry_run(&dry_run, &rules);
                let texts: Vec<String> = [read, tried].into_iter().flatten().collect();
                if texts.is_empty() { None } else { Some(texts.join("\n")) }
            }
            Source::Tool(context) => prepared.preview(&context),
            Source::KeptChanges(id, rules) => Some(self.preview_of_kept(&id, &rules)?),
        };
        Ok(text.map(|text| self.cut(text)))
    }

    /// The difference that a dry run has made, as applying it would make it now.
    fn preview_of_kept(&self, id: &str, rules: &Policy) -> Result<String, ToolError> {
        let snapshots = self
            .snapshots
            .as_ref()
            .ok_or_else(|| ToolError::new(tool::Code::Unavailable, "this runtime keeps no changes apart"))?;
        let snapshot = snapshots.take_up(id)?;
        let since = snapshot.since(SystemTime::UNIX_EPOCH.into());
        let Changes { diff, held, conflicts, .. } =
            snapshot.preview(rules, &self.denied, &self.store, since)?;
        let mut text: String =
            conflicts.iter().map(|line| format!("changed since by others: {line}\n")).collect();
        text.extend(held.iter().map(|line| format!("held: {line}\n")));
        text.push_str(&diff);
        Ok(text)
    }

    /// Why the changes of a dry run lie aside. It names the command for people, and exactly that command in that directory, so that
    /// a later question about it finds them.
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
        let digest = crate::record::digest(effect);
        format!("a dry run of `{shown}` ({})", digest.get(..16).unwrap_or(&digest))
    }

    /// What the last dry run of this command came to. None where there was none, or where others have changed since what it
    /// changed: then it says nothing of what the command would do now.
    fn preview_of_dry_run(&self, reason: &str, rules: &Policy) -> Option<String> {
        let snapshots = self.snapshots.as_ref()?;
        // A question is asked all the same where they cannot be listed.
        let kept = snapshots.kept().ok()?;
        let last =
            kept.into_iter().find(|kept| kept.reason == reason && kept.workspace == self.place.workspace)?;
        let snapshot = snapshots.take_up(&last.id).ok()?;
        let since = snapshot.since(SystemTime::UNIX_EPOCH.into());
        let changes = snapshot.preview(rules, &self.denied, &self.store, since).ok()?;
        if !changes.conflicts.is_empty() || changes.diff.is_empty() {
            return None;
        }
        let Changes { diff, .. } = changes;
        Some(format!("a dry run of it ({}, {}) made this difference:\n{diff}", last.id, last.since))
    }

    /// The text with its secrets covered, cut where it is long.
    pub(crate) fn cut(&self, text: String) -> Preview {
        bounded(&self.covered(text))
    }
}

/// The command that a call runs.
fn command_of(parts: &[Part]) -> Option<(&CommandLine, &Effect)> {
    parts.iter().find_map(|part| match &part.effect {
        Effect::Run { command: command @ (CommandLine::Shell(_) | CommandLine::Argv(_)), .. } => {
            Some((command, &part.effect))
        }
        _ => None,
    })
}

/// What a command runs, where that is not plain from the line itself.
fn as_read(command: &CommandLine) -> Option<String> {
    match policy::as_read(command) {
        Ok(commands) if commands.len() > 1 => Some(format!("as read, it runs:\n  {}", commands.join("\n  "))),
        Ok(_) => None,
        Err(why) => Some(format!("what it runs cannot be told for certain: {why}")),
    }
}

fn bounded(text: &str) -> Preview {
    let mut kept = String::new();
    let mut characters = 0;
    // A line keeps its carriage return, which may be all that changes.
    let mut lines = text.split_terminator('\n');
    let mut shown = 0;
    while shown < MOST_LINES && characters < MOST_CHARACTERS {
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
        let many = bounded(&"x\n".repeat(MOST_LINES + 7));
        assert_eq!((many.text.lines().count(), many.more_lines), (MOST_LINES, 7));
        let wide = bounded(&format!("{}\n", "ä".repeat(LONGEST_LINE)).repeat(100));
        let shown = MOST_CHARACTERS / LONGEST_LINE;
        assert_eq!((wide.text.lines().count(), wide.more_lines), (shown, 100 - shown as u64));
        let long = bounded(&format!("{}\nnext", "ä".repeat(1_000_000)));
        assert!(long.text.ends_with("ä[... 999500 more characters]\nnext\n"));
        assert!(long.text.len() < 4 * LONGEST_LINE);
    }
}
