//! Facts about the code that a call would change, for the rule `impact` of the policy: who calls it.
//!
//! The facts are taken before the decision, with the rights that hold before it. Without such a rule nothing
//! is looked up.

mod changes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use policy::{Impact, Part, Policy};
use tool::{
    Access, CodeCallers, Context, EditedFile, EditedLines, EditedSymbol, Effect, Lane, PreparedCall,
    SessionId, Spec, Stop, StopReason, ToolError,
};

pub(crate) use changes::ChangedCode;

use crate::Engine;
use crate::call::Call;
use crate::reach::AccessScope;
use crate::stopping::requested;

/// Time for the code graph to be ready. Afterwards the callers count as not known.
const READY: Duration = Duration::from_secs(5);

/// Time after which a lookup is no longer waited for, although it does not notice that its time is over.
const ABANDONED: Duration = Duration::from_secs(8);

impl Engine {
    /// Adds to the parts of a call who calls the code that it changes, if a rule asks. Returns the call's
    /// own preparation again.
    pub(crate) async fn note_callers(
        self: &Arc<Self>,
        call: &mut Call,
        spec: &Spec,
        prepared: PreparedCall,
    ) -> Result<PreparedCall, ToolError> {
        let rules = call.rules(self);
        let Some(over) = self.callers_matter(&rules, spec, call.changing()) else { return Ok(prepared) };
        let stop = Stop::default();
        let context = self.looking_context(call.reach(self), &call.effects, stop.clone())?;
        let (engine, parts, workspace) =
            (self.clone(), call.changing().to_vec(), self.place.workspace.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let files = edited_files(&prepared.edits(&context), &parts, &workspace);
            (files, context, prepared)
        });
        let (files, context, prepared) = looked
            .await
            .map_err(|panic| ToolError::internal("the call could not be inspected").because(panic))?;
        let known: Vec<EditedFile> = files.iter().map(|(_, file)| file.clone()).collect();
        let asked = tokio::task::spawn_blocking(move || engine.callers(&context, &known, over, READY));
        let found = tokio::select! {
            found = tokio::time::timeout(ABANDONED, asked) => found,
            reason = requested(&call.stop) => {
                stop.request(reason);
                return Err(reason.into());
            }
        };
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(panic)) => Err(ToolError::internal("the code graph failed").because(panic)),
            Err(_) => {
                stop.request(StopReason::Deadline);
                Err(ToolError::new(tool::Code::Timeout, "the code graph does not answer"))
            }
        };
        let parts = call.dry_run.as_mut().map_or(&mut call.effects, |tried| &mut tried.effects);
        note(parts, &files, found);
        Ok(prepared)
    }

    /// Adds the same facts to the parts of a call that is only decided on. Blocks.
    pub(crate) fn note_callers_now(
        &self,
        rules: &Policy,
        spec: &Spec,
        prepared: &PreparedCall,
        parts: &mut [Part],
    ) -> Result<(), ToolError> {
        let Some(over) = self.callers_matter(rules, spec, parts) else { return Ok(()) };
        let context = self.looking_context(&self.reach, parts, Stop::default())?;
        let files = edited_files(&prepared.edits(&context), parts, &self.place.workspace);
        let known: Vec<EditedFile> = files.iter().map(|(_, file)| file.clone()).collect();
        note(parts, &files, self.callers(&context, &known, over, READY));
        Ok(())
    }

    /// Returns the number of callers above which a rule asks, if the call may change code.
    fn callers_matter(&self, rules: &Policy, spec: &Spec, parts: &[Part]) -> Option<u64> {
        let over = rules.asks_above_callers()?;
        let changes = |part: &Part| changed_path(part, &self.place.workspace).is_some();
        (spec.lane != Lane::Command && parts.iter().any(changes)).then_some(over)
    }

    fn callers(
        &self,
        context: &Context,
        files: &[EditedFile],
        over: u64,
        within: Duration,
    ) -> Result<Vec<Vec<EditedSymbol>>, ToolError> {
        let graph = self.services.get::<Arc<dyn CodeCallers>>()?;
        graph.callers(context, files, over, within)
    }

    /// Returns a context that reads what the call may read before any answer.
    fn looking_context(&self, reach: &AccessScope, parts: &[Part], stop: Stop) -> Result<Context, ToolError> {
        let mut services = self.services.clone();
        services.insert(Arc::new(reach.roots(parts, false, None)?));
        let (id, session) = (crate::new_call_id(self.clock.as_ref()), SessionId(String::new()));
        let mut context = Context::new(id, session, self.place.clone(), READY, self.clock.clone(), services);
        context.stop = stop;
        Ok(context)
    }
}

/// Returns the path that the part changes, if it lies below the workspace. The workspace as a whole, which an
/// undo names, is none.
fn changed_path<'a>(part: &'a Part, workspace: &Path) -> Option<&'a Path> {
    let path = match (&part.effect, part.effect.path()) {
        (Effect::Delete { path }, _) => path,
        (_, Some((Access::Write, path))) => path,
        _ => return None,
    };
    let path = part.real.as_deref().unwrap_or(path);
    (path.starts_with(workspace) && path != workspace).then_some(path)
}

/// Returns the changed lines for each part that changes a file, with the position of the part. All lines
/// count if the tool does not know them.
fn edited_files(edits: &[EditedFile], parts: &[Part], workspace: &Path) -> Vec<(usize, EditedFile)> {
    let edited = |(at, part): (usize, &Part)| {
        let path = changed_path(part, workspace)?;
        let named = part.effect.path().map(|(_, path)| path);
        let is_it = |edit: &&EditedFile| edit.path == path || Some(edit.path.as_path()) == named;
        let is_removed = matches!(part.effect, Effect::Delete { .. });
        let known = edits.iter().find(is_it).filter(|_| !is_removed);
        let lines = known.map_or(EditedLines::All, |edit| edit.lines.clone());
        Some((at, EditedFile { path: path.to_owned(), lines }))
    };
    parts.iter().enumerate().filter_map(edited).collect()
}

/// Puts what was found into the parts.
fn note(parts: &mut [Part], files: &[(usize, EditedFile)], found: Result<Vec<Vec<EditedSymbol>>, ToolError>) {
    match found {
        Ok(found) => {
            for ((at, _), symbols) in files.iter().zip(found) {
                if let Some(part) = parts.get_mut(*at) {
                    part.impact = Impact::Known(symbols);
                }
            }
        }
        Err(error) => {
            for (at, _) in files {
                if let Some(part) = parts.get_mut(*at) {
                    part.impact = Impact::Unknown(error.message.clone());
                }
            }
        }
    }
}

/// Returns the callers of what the parts change, for a human who is asked; `None` if there are none.
pub(crate) fn shown_callers(parts: &[Part]) -> Option<String> {
    let mut shown = String::new();
    for part in parts {
        let Impact::Known(symbols) = &part.impact else { continue };
        for EditedSymbol { name, file, line, callers, first } in symbols {
            shown.push_str(&format!(
                "{} ({}:{line}) has {callers} callers:\n",
                tool::visible(name),
                tool::visible(file)
            ));
            for caller in first {
                let (file, name) = (tool::visible(&caller.file), tool::visible(&caller.name));
                shown.push_str(&format!("  {file}:{} {name}\n", caller.line));
            }
            let more = callers.saturating_sub(first.len() as u64);
            if more > 0 {
                shown.push_str(&format!("  and {more} more\n"));
            }
        }
    }
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of ranges is meant")]
mod tests {
    use std::path::PathBuf;

    use tool::CodeCaller;

    use super::*;

    fn paths(files: &[(usize, EditedFile)]) -> Vec<(usize, PathBuf, bool)> {
        let all = |lines: &EditedLines| *lines == EditedLines::All;
        files.iter().map(|(at, file)| (*at, file.path.clone(), all(&file.lines))).collect()
    }

    fn write(path: &str) -> Part {
        Part::from(Effect::Write { path: path.into() })
    }

    #[test]
    fn lines_go_to_the_part_of_their_file_and_unknown_ones_are_all() {
        let edits = [EditedFile { path: "/w/link".into(), lines: EditedLines::Ranges(vec![1..2]) }];
        let linked = Part { real: Some("/w/real".into()), ..write("/w/link") };
        let parts = [
            Part::from(Effect::Read { path: "/w/link".into() }),
            linked,
            write("/w/other"),
            write("/w"),
            write("/elsewhere/link"),
            Part::from(Effect::Delete { path: "/w/link".into() }),
        ];
        let files = edited_files(&edits, &parts, Path::new("/w"));
        let expected = [(1, "/w/real", false), (2, "/w/other", true), (5, "/w/link", true)];
        assert_eq!(paths(&files), expected.map(|(at, path, all)| (at, PathBuf::from(path), all)));
    }

    #[test]
    fn a_failure_is_unknown_and_never_no_callers() {
        let mut parts = vec![write("/w/a.py"), write("/elsewhere/b.py")];
        let files = edited_files(&[], &parts, Path::new("/w"));
        note(&mut parts, &files, Err(ToolError::new(tool::Code::Timeout, "late")));
        assert_eq!(parts[0].impact, Impact::Unknown("late".to_owned()));
        assert_eq!(parts[1].impact, Impact::Unasked);
        assert_eq!(shown_callers(&parts), None);
    }

    #[test]
    fn the_callers_are_shown_with_their_places_and_the_rest_is_counted() {
        let first = vec![CodeCaller { file: "b.py".to_owned(), line: 4, name: "main".to_owned() }];
        let symbol =
            EditedSymbol { name: "load".to_owned(), file: "a.py".to_owned(), line: 1, callers: 3, first };
        let part = Part { impact: Impact::Known(vec![symbol]), ..write("/w/a.py") };
        assert_eq!(
            shown_callers(&[part]).unwrap(),
            "load (a.py:1) has 3 callers:\n  b.py:4 main\n  and 2 more\n"
        );
    }
}
