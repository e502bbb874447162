//! Selection of the entries for a listing or a search: glob, hidden names, ignore files, and the
//! start of a page.

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

/// A glob. Without a slash it matches names, with a slash paths relative to the folder.
pub(crate) struct NameGlob {
    matcher: GlobMatcher,
    whole_path: bool,
}

impl NameGlob {
    /// Parses the argument `field`.
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

/// The ignore files of a folder and of its parents.
///
/// A rule of a deeper file overrides one of a higher file, and `.ignore` overrides `.gitignore`,
/// with or without a git repository. Rules outside the workspace are not read.
#[derive(Default)]
pub(crate) struct IgnoreRules {
    /// Rules by folder, the outermost first, each with its `.ignore` and its `.gitignore`.
    levels: Vec<[Gitignore; 2]>,
}

const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];
/// Maximum number of bytes of an ignore file; the rest is ignored.
const LONGEST_IGNORE_FILE: u64 = 1 << 20;

impl IgnoreRules {
    /// Adds the rules of a folder within the previous one.
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
    // A missing file has no rules, and neither has one that is denied, unreadable or no regular
    // file.
    let Ok(opened) = folder.open_file(OsStr::new(name)) else { return Gitignore::empty() };
    let mut text = Vec::new();
    if opened.file.take(LONGEST_IGNORE_FILE).read_to_end(&mut text).is_err() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(folder.real());
    for line in String::from_utf8_lossy(&text).lines() {
        // An invalid line is skipped, as git does.
        drop(builder.add_line(None, line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The end of a page: its last path, and a position within that path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
}

impl Cursor {
    /// Encodes the cursor for the caller. The text is Base64, because names need not be UTF-8.
    pub(crate) fn encode(&self) -> String {
        let mut bytes = format!("{}:", self.number).into_bytes();
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Parses the argument `cursor`.
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
            ToolError::validation("cursor", "is not a cursor")
                .hint("repeat the call with the unchanged `next_cursor` of the previous result")
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
