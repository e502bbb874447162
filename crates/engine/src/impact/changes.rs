//! Facts about the code that a command has changed, before its changes are put into the workspace.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use checkpoint::{FoundEntry, Kind, Touch};
use policy::{Impact, Policy};
use tool::{Context, EditedFile, EditedLines, Stop, ToolError};

use super::READY;
use crate::Engine;
use crate::call::Call;
use crate::small_file::read_small;

/// Maximum size of a file whose lines are compared, in bytes. Of a larger one all lines count as changed.
const LARGEST: u64 = 1 << 20;

/// Knowledge of the code as it is in the workspace while the changes of a command are judged.
pub(crate) struct ChangedCode {
    engine: Arc<Engine>,
    rules: Arc<Policy>,
    context: Context,
    over: u64,
    begun: Instant,
}

impl Engine {
    /// Returns the knowledge by which changed code is judged, if a rule asks.
    pub(crate) fn changed_code(self: &Arc<Self>, call: &Call) -> Result<Option<ChangedCode>, ToolError> {
        let rules = call.rules(self);
        let Some(over) = rules.asks_above_callers() else { return Ok(None) };
        let context = self.looking_context(call.reach(self), &call.effects, Stop::default())?;
        Ok(Some(ChangedCode { engine: self.clone(), rules, context, over, begun: Instant::now() }))
    }
}

impl ChangedCode {
    /// Returns the reason why a changed file is asked about. All files together have the time of one lookup.
    pub(crate) fn reason(&self, touch: &Touch<'_>) -> Option<String> {
        let lines = match touch.old.filter(|old| old.entry.kind == Kind::File) {
            Some(old) => match (content(old), touch.new.and_then(content)) {
                (Some(old), Some(new)) => EditedLines::Ranges(edit::changed_lines(&old, &new)),
                _ => EditedLines::All,
            },
            // A new file has no callers. A hidden one may leave files out of the graph.
            None if is_hidden(touch.path) => EditedLines::All,
            None => return None,
        };
        if lines == EditedLines::Ranges(Vec::new()) {
            return None;
        }
        let file = EditedFile { path: self.context.place.workspace.join(touch.path), lines };
        let within = READY.saturating_sub(self.begun.elapsed());
        let found = self.engine.callers(&self.context, &[file], self.over, within);
        let impact = match found {
            Ok(found) => Impact::Known(found.into_iter().flatten().collect()),
            Err(error) => Impact::Unknown(error.message),
        };
        self.rules.impact_reason(&impact)
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn content(found: FoundEntry<'_>) -> Option<Vec<u8>> {
    read_small(found.open_file().ok()?, LARGEST).ok()?
}
