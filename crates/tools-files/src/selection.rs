//! Which entries of a folder a listing or a search is about: glob, hidden names, ignore files, and where a page goes on.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use roots::Folder;
use tool::ToolError;

/// A glob: without a slash it is about names, with one about paths relative to the folder.
pub(crate) struct NameGlob {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl NameGlob {
    /// Reads the argument `field`.
    pub(crate) fn parse(field: &str, glob: Option<&str>) -> Result<Option<Self>, ToolError> {
        let Some(glob) = glob else { return Ok(None) };
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        let matcher = built.map_err(|error| ToolError::validation(field, error.kind()))?.compile_matcher();
        Ok(Some(Self { matcher, whole_path: glob.contains('/') }))
    }

    pub(crate) fn matches(&self, relative: &Path) -> bool {
        let name = relative.file_name().map_or(relative, Path::new);
        self.matcher.is_match(if self.whole_path { relative } else { name })
    }
}

pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// The ignore files of a folder and of those around it.
///
/// A line of a deeper file beats one of a higher file, and `.ignore` beats `.gitignore`, whether or not this is a git repository.
/// Rules from outside of the workspace are not read.
#[derive(Default)]
pub(crate) struct IgnoreRules {
    /// From the outermost folder on, each with its `.ignore` and its `.gitignore`.
    levels: Vec<[Gitignore; 2]>,
}

const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];
/// The rest of a longer ignore file is not looked at.
const LONGEST_IGNORE_FILE: u64 = 1 << 20;

impl IgnoreRules {
    /// Takes in the rules of a folder that lies in the last one.
    pub(crate) fn enter(&mut self, folder: &Folder) {
        self.levels.push(IGNORE_FILES.map(|name| rules_of(folder, name)));
    }

    pub(crate) fn leave(&mut self) {
        self.levels.pop();
    }

    pub(crate) fn ignores(&self, real: &Path, is_folder: bool) -> bool {
        for kind in 0..IGNORE_FILES.len() {
            for level in self.levels.iter().rev() {
                let found = level[kind].matched(real, is_folder);
                if !found.is_none() {
                    return found.is_ignore();
                }
            }
        }
        false
    }
}

fn rules_of(folder: &Folder, name: &str) -> Gitignore {
    // A missing file has no rules, and neither has one that is denied, unreadable or no regular file.
    let Ok(opened) = folder.open_file(OsStr::new(name)) else { return Gitignore::empty() };
    let mut text = Vec::new();
    if opened.file.take(LONGEST_IGNORE_FILE).read_to_end(&mut text).is_err() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(folder.real());
    for line in String::from_utf8_lossy(&text).lines() {
        // As git does, a line that is no pattern is passed over.
        drop(builder.add_line(None, line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Where a page ended: the last path in it, and a number that says how far into that path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
}

impl Cursor {
    /// The text for the caller. Names need not be UTF-8, so it is Base64.
    pub(crate) fn encode(&self) -> String {
        let mut bytes = format!("{}:", self.number).into_bytes();
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads the argument `cursor`.
    pub(crate) fn decode(text: &str) -> Result<Self, ToolError> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let colon = memchr::memchr(b':', &bytes)?;
            let number = std::str::from_utf8(bytes.get(..colon)?).ok()?.parse().ok()?;
            let path = PathBuf::from(OsString::from_vec(bytes.get(colon + 1..)?.to_vec()));
            let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
            (inside && !path.as_os_str().as_bytes().contains(&0)).then_some(Self { path, number })
        };
        read().ok_or_else(|| {
            ToolError::validation("cursor", "this is no cursor")
                .hint("take `next_cursor` of the answer before as it is, with the same other arguments")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_without_a_slash_is_about_names() {
        let matches =
            |glob, path| NameGlob::parse("pattern", Some(glob)).unwrap().unwrap().matches(Path::new(path));
        assert!(matches("*.rs", "src/a/lib.rs"));
        assert!(!matches("*.rs", "src/lib.rs.txt"));
        assert!(matches("src/**/*.rs", "src/a/b/lib.rs"));
        assert!(!matches("src/*.rs", "src/a/lib.rs"));
        let error = NameGlob::parse("pattern", Some("a[")).map(|_| ()).unwrap_err();
        assert!(error.message.starts_with("`pattern`: "), "{}", error.message);
    }

    #[test]
    fn a_cursor_keeps_any_name_and_refuses_what_is_none() {
        let odd = Cursor { path: PathBuf::from(OsString::from_vec(b"a/\xff:b".to_vec())), number: 7 };
        assert_eq!(Cursor::decode(&odd.encode()).unwrap(), odd);
        for bad in ["", "%", "YWJj", &URL_SAFE_NO_PAD.encode("1:../x"), &URL_SAFE_NO_PAD.encode("1:/etc")] {
            assert_eq!(Cursor::decode(bad).unwrap_err().code, tool::Code::Validation, "{bad}");
        }
    }
}
