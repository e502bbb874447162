//! Attachments as files of the workspace. Their senders chose the names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use checkpoint::Draft;
use roots::{LastLink, Roots, RootsError};
use tool::{Code, Context, SnapshotUse, ToolError};

use crate::failure::of_roots;
use crate::gmail::api::{ApiCalls, segment};
use crate::gmail::message::{Attachment, Body, Content, Mail};

/// Maximum number of bytes of a name: the limit of file systems, with room for a number.
const LONGEST_NAME: usize = 200;
/// Maximum number of bytes that one call saves.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Maximum number of attempts for a free name.
const MAX_TRIED: usize = 1_000;

/// Resolves the folder for attachments. The folder must be in the workspace, because drafts are
/// limited to it.
pub(crate) fn folder(context: &Context, given: &str) -> Result<PathBuf, ToolError> {
    let folder = context.place.resolve("save_to", given)?;
    if !folder.starts_with(&context.place.workspace) {
        let message = format!("`save_to`: {given} is outside the workspace");
        return Err(
            ToolError::new(Code::Permission, message).hint("attachments are saved only in the workspace")
        );
    }
    Ok(folder)
}

/// Saves all attachments of these messages in a draft, and returns its use. An existing file is not
/// overwritten: a name that is taken gets a number.
pub(crate) async fn save(
    asking: &ApiCalls<'_>,
    folder: &Path,
    mails: &mut [(String, Mail)],
) -> Result<SnapshotUse, ToolError> {
    let context = asking.context();
    let roots = context.service::<Roots>()?;
    // The draft begins before any check, so that every later change by others is a conflict.
    let draft = context.service::<Draft>()?;
    let covering = tool_support::covering(context)?;
    let relative = real_folder(context, &roots, folder)?;
    let (mut taken, mut total) = (BTreeSet::new(), 0);
    for (message, mail) in mails {
        for attachment in &mut mail.attachments {
            context.stop.check()?;
            let Some(content) = content(asking, message, attachment, MAX_BYTES - total).await? else {
                continue;
            };
            total += u64::try_from(content.len()).unwrap_or(u64::MAX);
            let name = file_name(covering.text(&attachment.name).as_ref().unwrap_or(&attachment.name));
            let name = free(&roots, folder, &name, &mut taken).map_err(of_roots(context))?;
            let content = covering.stream().next(&content, true);
            draft.write(&relative.join(&name), &content, None, None).map_err(|error| {
                ToolError::new(Code::Runtime, format!("{name} could not be saved: {error}")).because(error)
            })?;
            attachment.size_bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
            attachment.saved_to = Some(context.place.show(&folder.join(&name)));
            context.progress.report(total, None, "bytes saved");
        }
    }
    Ok(SnapshotUse::draft(draft.begun()))
}

/// Returns the real path of the folder, relative to the workspace. The folder may be missing.
fn real_folder(context: &Context, roots: &Roots, folder: &Path) -> Result<PathBuf, ToolError> {
    let workspace = &context.place.workspace;
    let real = roots::real_path(folder, LastLink::Follow).map_err(of_roots(context))?;
    match roots.metadata(folder, LastLink::Follow) {
        Ok(found) if found.kind != roots::EntryKind::Folder => {
            return Err(ToolError::validation("save_to", "is not a folder"));
        }
        Ok(_) | Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => {}
        Err(error) => return Err(of_roots(context)(error)),
    }
    real.strip_prefix(workspace).map(Path::to_owned).map_err(|_| {
        ToolError::new(Code::Permission, "`save_to`: leads outside the workspace")
            .hint("attachments are saved only in the workspace")
    })
}

/// Returns the bytes of an attachment, or `None` after it recorded the reason why the attachment is
/// not saved.
async fn content(
    asking: &ApiCalls<'_>,
    message: &str,
    attachment: &mut Attachment,
    left: u64,
) -> Result<Option<Vec<u8>>, ToolError> {
    let found = match std::mem::take(&mut attachment.content) {
        Content::Here(bytes) => Some(bytes),
        Content::At(_) if attachment.size_bytes > left => {
            attachment.not_saved = Some(format!("one call saves at most {MAX_BYTES} bytes"));
            return Ok(None);
        }
        Content::At(id) => {
            let path = format!("messages/{}/attachments/{}", segment(message), segment(&id));
            asking.get::<Body>(&path, &[]).await?.bytes()
        }
        Content::Nowhere => None,
    };
    match found {
        None => attachment.not_saved = Some("Gmail returned no content for it".to_owned()),
        Some(bytes) if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > left => {
            attachment.not_saved = Some(format!("one call saves at most {MAX_BYTES} bytes"));
        }
        Some(bytes) => return Ok(Some(bytes)),
    }
    Ok(None)
}

/// Returns a name that is free in the folder and was not used for an earlier attachment.
fn free(
    roots: &Roots,
    folder: &Path,
    name: &str,
    taken: &mut BTreeSet<String>,
) -> Result<String, RootsError> {
    let dot = name.rfind('.').filter(|dot| *dot > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    let mut tried = name.to_owned();
    for number in 2..MAX_TRIED {
        let is_there = match roots.metadata(&folder.join(&tried), LastLink::Keep) {
            Ok(_) => true,
            Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => false,
            Err(error) => return Err(error),
        };
        // Some file systems treat names that differ in case as equal.
        if !is_there && taken.insert(tried.to_lowercase()) {
            break;
        }
        tried = format!("{stem} ({number}){extension}");
    }
    Ok(tried)
}

/// Returns a safe file name: no folder, not hidden, no file that programs read automatically, no
/// characters that control a terminal.
fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |c: char| if c.is_control() || ":*?\"<>|".contains(c) { '_' } else { c };
    let plain: String = last.chars().filter(|c| !tool::is_invisible(*c)).map(plain).collect();
    let plain = plain.trim_matches(|c: char| c.is_whitespace() || c == '.');
    // A name that begins with a dot is hidden, and programs may read it automatically.
    let hidden = last.trim_start().starts_with('.');
    let mut name = if hidden || plain.is_empty() { format!("_{plain}") } else { plain.to_owned() };
    if name.len() > LONGEST_NAME {
        let dot = name.rfind('.').filter(|dot| name.len() - dot <= 20).unwrap_or(name.len());
        let extension = name.split_off(dot);
        name.truncate(name.floor_char_boundary(LONGEST_NAME - extension.len()));
        name.push_str(&extension);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_folder_and_hides_nothing() {
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("../../.ssh/authorized_keys", "authorized_keys"),
            ("C:\\Users\\x\\evil.exe", "evil.exe"),
            (".envrc", "_envrc"),
            ("..", "_"),
            ("", "_"),
            (" . ", "_"),
            ("a\r\nb\u{1b}[2K.txt", "a__b_[2K.txt"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("aux\u{0}.txt", "aux_.txt"),
            ("Größe – 2026.txt", "Größe – 2026.txt"),
        ] {
            assert_eq!(file_name(name), expected, "{name:?}");
        }
        let long = file_name(&format!("{}.tar.gz", "ü".repeat(300)));
        assert!(long.len() <= LONGEST_NAME && long.get(long.len() - 3..) == Some(".gz"), "{long}");
    }
}
