//! Selection of the entries for a listing or a search: glob, and the start of a page.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use globset::{GlobBuilder, GlobMatcher};
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
