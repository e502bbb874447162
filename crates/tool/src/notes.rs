//! Notes for a model besides the data of a response.

use crate::{Changes, ChangesState, KeptOutput, Meta};

/// Names of the tools that notes refer to, in the caller's dialect. `None` if the caller has no
/// such tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoteTools<'a> {
    /// Name of the tool that undoes a checkpoint.
    pub restore: Option<&'a str>,
    /// Name of the tool that reads a kept output.
    pub read: Option<&'a str>,
}

impl Meta {
    /// Returns the facts that a model must know besides the data, one line each: warnings, the
    /// state of changes, the checkpoint, and the references to full outputs.
    ///
    /// Doors add these lines to the text that models read.
    pub fn notes(&self, tools: NoteTools<'_>) -> Vec<String> {
        let warnings = self.warnings.iter().map(|warning| format!("warning: {}", one_line(warning)));
        let changes = self.changes.iter().flat_map(Changes::notes);
        let checkpoint = self.checkpoint.iter().map(|id| match tools.restore {
            Some(tool) => format!("checkpoint {id}: {tool} undoes this call"),
            None => format!("checkpoint {id}"),
        });
        let whole = |kept: &KeptOutput| Some(of_output(kept, tools.read?));
        let outputs = self.outputs.iter().take(MAX_OUTPUTS).filter_map(whole);
        warnings.chain(changes).chain(checkpoint).chain(outputs).collect()
    }
}

/// Maximum number of shortened texts in one response that get a line each.
const MAX_OUTPUTS: usize = 4;

/// Maximum number of unsaved paths of one call that are named.
const MAX_UNSAVED: usize = 10;

impl Changes {
    /// Returns the facts that a model must know about the changes, one line each: their location if
    /// they are not in the workspace, and the paths that undoing does not restore.
    pub fn notes(&self) -> Vec<String> {
        let paths = if self.paths == 1 {
            "1 changed path".to_owned()
        } else {
            format!("{} changed paths", self.paths)
        };
        let elsewhere = match (self.state, &self.id) {
            (ChangesState::Committed, _) => None,
            (ChangesState::Discarded, _) => Some("discarded".to_owned()),
            (ChangesState::Kept, Some(id)) => Some(format!("kept aside as {id}")),
            (ChangesState::Kept, None) => Some("kept aside".to_owned()),
        };
        let elsewhere = elsewhere.map(|place| format!("{place}: {paths}; the workspace is unchanged"));
        let unsaved = (!self.unsaved.is_empty()).then(|| {
            let named: Vec<String> =
                self.unsaved.iter().take(MAX_UNSAVED).map(|path| one_line(path)).collect();
            let more = self.unsaved.len() - named.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("not saved, so undo does not restore it: {}{more}", named.join(", "))
        });
        elsewhere.into_iter().chain(unsaved).collect()
    }
}

fn of_output(kept: &KeptOutput, reader: &str) -> String {
    let KeptOutput { field, output_ref, bytes, lines, kept_bytes } = kept;
    let (what, size) = if kept_bytes < bytes {
        (format!("the first {kept_bytes} bytes of {field}"), format!("{bytes} bytes in all"))
    } else {
        (format!("the whole {field}"), format!("{bytes} bytes, {lines} lines"))
    };
    format!("{what}: {reader} {{\"output_ref\":\"{output_ref}\"}} ({size})")
}

/// Joins the lines of a text into one line.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::CallId;

    fn meta() -> Meta {
        Meta::arrived(CallId("c1".to_owned()), Timestamp::UNIX_EPOCH)
    }

    const TOOLS: NoteTools<'_> = NoteTools { restore: Some("checkpoint_restore"), read: Some("output_read") };

    #[test]
    fn a_call_without_anything_beside_its_data_has_no_notes() {
        assert!(meta().notes(TOOLS).is_empty());
    }

    #[test]
    fn each_note_is_one_line_and_names_the_tool_that_helps() {
        let mut meta = meta();
        meta.warnings = vec!["the disk\nis  nearly\r\n full ".to_owned()];
        meta.checkpoint = Some("k1".to_owned());
        meta.changes = Some(Changes {
            state: ChangesState::Committed,
            paths: 2,
            id: None,
            unsaved: (0..12).map(|number| format!("f{number}")).collect(),
        });
        let kept = |field: &str, bytes, kept_bytes| KeptOutput {
            field: field.to_owned(),
            output_ref: format!("c1.{field}"),
            bytes,
            lines: 3,
            kept_bytes,
        };
        meta.outputs = vec![kept("stdout", 90_000, 90_000), kept("stderr", 90_000, 50_000)];
        assert_eq!(
            meta.notes(TOOLS),
            [
                "warning: the disk is  nearly full",
                "not saved, so undo does not restore it: f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 and 2 more",
                "checkpoint k1: checkpoint_restore undoes this call",
                "the whole stdout: output_read {\"output_ref\":\"c1.stdout\"} (90000 bytes, 3 lines)",
                "the first 50000 bytes of stderr: output_read {\"output_ref\":\"c1.stderr\"} (90000 bytes in all)",
            ]
        );
        assert_eq!(meta.notes(NoteTools::default()).last().unwrap(), "checkpoint k1");
    }

    #[test]
    fn changes_that_are_not_in_the_workspace_are_told() {
        let note = |state, id: Option<&str>| {
            let mut meta = meta();
            let id = id.map(str::to_owned);
            meta.changes = Some(Changes { state, paths: 1, id, unsaved: Vec::new() });
            meta.notes(TOOLS).join("\n")
        };
        assert_eq!(
            note(ChangesState::Kept, Some("h1")),
            "kept aside as h1: 1 changed path; the workspace is unchanged"
        );
        assert_eq!(
            note(ChangesState::Discarded, None),
            "discarded: 1 changed path; the workspace is unchanged"
        );
        assert_eq!(note(ChangesState::Committed, None), "");
    }
}
