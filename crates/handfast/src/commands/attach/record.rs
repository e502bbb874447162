//! Record of what `attach` changed, so that `detach` takes back exactly that.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use config_edit::{Edit, EditError, Format, Key, get};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::COPIES;
use super::clients::ENTRY;
use crate::places::create_private;

/// Name of the record's file within the state folder.
const FILE: &str = "attached.json";

/// A change that `attach` made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum RecordedChange {
    /// A value was set.
    Value {
        path: Vec<Key>,
        /// Value before, if there was one.
        before: Option<Value>,
        ours: Value,
    },
    /// Texts were added to a list.
    Texts { path: Vec<Key>, texts: Vec<String> },
}

/// Changes that `attach` made in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AttachedFile {
    pub(super) client: String,
    pub(super) scope: String,
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// True if `attach` created the file.
    pub(super) is_new: bool,
    pub(super) made: Vec<RecordedChange>,
}

/// All changes that `attach` made, by file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) files: Vec<AttachedFile>,
}

impl Record {
    /// Reads the record. A missing record is empty.
    ///
    /// # Errors
    /// The reason why an existing record cannot be read, and what to do. A later
    /// [`write`](Self::write) would lose what the record says.
    pub(super) fn read(state: &Path) -> Result<Self, String> {
        let path = state.join(FILE);
        let failed = |reason: String| {
            let path = path.display();
            format!(
                "nothing was changed: cannot read {path}, the record of what `attach` changed: {reason}. Correct \
                 the file, or move it away; without it, `detach` removes Handfast's entry alone, and earlier \
                 contents are in {}",
                state.join(COPIES).display()
            )
        };
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// If the state folder cannot be written.
    pub(super) fn write(&self, state: &Path) -> std::io::Result<()> {
        create_private(state)?;
        let mut draft = tempfile::NamedTempFile::new_in(state)?;
        draft.write_all(&serde_json::to_vec_pretty(self)?)?;
        draft.persist(state.join(FILE)).map(drop).map_err(|error| error.error)
    }

    /// Takes the changes in a file out of the record.
    pub(super) fn take(&mut self, client: &str, scope: &str, path: &Path) -> Option<AttachedFile> {
        let is_meant =
            |file: &AttachedFile| file.client == client && file.scope == scope && file.path == path;
        self.files.iter().position(is_meant).map(|index| self.files.remove(index))
    }

    /// Takes all changes for a client out of the record.
    pub(super) fn take_all(&mut self, client: &str, scope: &str) -> Vec<AttachedFile> {
        let is_meant = |file: &mut AttachedFile| file.client == client && file.scope == scope;
        self.files.extract_if(.., is_meant).collect()
    }
}

impl AttachedFile {
    /// Takes the changes back in a text. A value that was changed since stays; the entry of
    /// Handfast goes whatever it contains.
    ///
    /// # Errors
    /// If the text cannot be edited.
    pub(super) fn undo(&self, text: &str) -> Result<String, EditError> {
        let present = self.format.read(text)?;
        let edits: Vec<Edit> = self.made.iter().rev().filter_map(|made| made.undoing(&present)).collect();
        self.format.edit(text, &edits)
    }
}

impl RecordedChange {
    /// Lists the changes that the edits make to the text.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub(super) fn by(format: Format, text: &str, edits: &[Edit]) -> Result<Vec<Self>, EditError> {
        let before = format.read(text)?;
        let made = edits.iter().filter_map(|edit| match edit {
            Edit::Set { path, value } => {
                let before = get(&before, path).cloned();
                (before.as_ref() != Some(value)).then(|| Self::Value {
                    path: path.clone(),
                    before,
                    ours: value.clone(),
                })
            }
            Edit::Add { path, texts } => {
                let present = get(&before, path).and_then(Value::as_array).cloned().unwrap_or_default();
                let new = texts.iter().filter(|text| !present.iter().any(|item| item.as_str() == Some(text)));
                let texts: Vec<String> = new.cloned().collect();
                (!texts.is_empty()).then(|| Self::Texts { path: path.clone(), texts })
            }
            Edit::Remove { .. } | Edit::TakeOut { .. } => None,
        });
        Ok(made.collect())
    }

    fn undoing(&self, present: &Value) -> Option<Edit> {
        match self {
            Self::Texts { path, texts } => Some(Edit::TakeOut { path: path.clone(), texts: texts.clone() }),
            Self::Value { path, before, ours } => {
                let is_entry = path.last().is_some_and(|key| key.as_str() == ENTRY);
                let is_ours = get(present, path) == Some(ours);
                if !is_ours && !is_entry {
                    return None;
                }
                Some(match before {
                    Some(value) if !is_entry => Edit::Set { path: path.clone(), value: value.clone() },
                    _ => Edit::Remove { path: path.clone() },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use config_edit::{Edit, Format, Key};
    use serde_json::json;

    use super::{AttachedFile, RecordedChange};

    #[test]
    fn detach_takes_back_what_attach_made_and_leaves_what_the_user_changed() {
        let before = "sandbox_mode = \"workspace-write\"\n\n[features]\nshell_tool = true\n";
        let edits = [
            Edit::Set { path: Key::fields(&["mcp_servers", "handfast"]), value: json!({"command": "x"}) },
            Edit::Set { path: Key::fields(&["sandbox_mode"]), value: json!("read-only") },
            Edit::Set { path: Key::fields(&["features", "shell_tool"]), value: json!(false) },
        ];
        let made = RecordedChange::by(Format::Toml, before, &edits).unwrap();
        let file = AttachedFile {
            client: "codex".to_owned(),
            scope: "user".to_owned(),
            path: "/config.toml".into(),
            format: Format::Toml,
            is_new: false,
            made,
        };
        let attached = Format::Toml.edit(before, &edits).unwrap();
        assert_eq!(file.undo(&attached).unwrap(), before);
        let changed = attached.replace("\"read-only\"", "\"danger-full-access\"").replace("\"x\"", "\"y\"");
        let detached = Format::Toml.read(&file.undo(&changed).unwrap()).unwrap();
        assert_eq!(detached, json!({"sandbox_mode": "danger-full-access", "features": {"shell_tool": true}}));
    }
}
