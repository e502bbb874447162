//! The folder of a new plugin, which works from the start.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Language of a new plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Language {
    /// Python 3, with its standard library alone.
    #[default]
    Python,
    /// TypeScript, run by Node without a build.
    TypeScript,
    /// Shell of POSIX.
    Shell,
    /// Rust, with its standard library alone.
    Rust,
}

impl Language {
    /// Returns the files of the language, with their paths, contents and whether they may be executed.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("main.py", include_str!("scaffold/main.py"))],
            Self::TypeScript => &[("main.ts", include_str!("scaffold/main.ts"))],
            Self::Shell => &[("main.sh", include_str!("scaffold/main.sh"))],
            Self::Rust => &[
                ("main.rs", include_str!("scaffold/main.rs.txt")),
                ("run.sh", include_str!("scaffold/run.sh")),
            ],
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Python => "[python3, main.py]",
            Self::TypeScript => "[node, main.ts]",
            Self::Shell => "[sh, main.sh]",
            Self::Rust => "[sh, run.sh]",
        }
    }
}

/// Makes the folder of a new plugin.
///
/// # Errors
/// The error of the system. A folder that exists already is [`io::ErrorKind::AlreadyExists`], and stays as it is.
pub fn scaffold(folder: &Path, name: &str, language: Language) -> io::Result<()> {
    if let Some(around) = folder.parent() {
        std::fs::create_dir_all(around)?;
    }
    std::fs::create_dir(folder)?;
    let manifest =
        include_str!("scaffold/plugin.yaml").replace("{name}", name).replace("{command}", language.command());
    let files = language.files().iter().copied().chain([("plugin.yaml", manifest.as_str())]);
    for (path, content) in files {
        let mut file =
            std::fs::File::options().write(true).create_new(true).mode(0o644).open(folder.join(path))?;
        file.write_all(content.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginFolder;

    #[test]
    fn every_language_gives_a_folder_with_a_valid_manifest() {
        for language in [Language::Python, Language::TypeScript, Language::Shell, Language::Rust] {
            let around = tempfile::tempdir().unwrap();
            let folder = around.path().join("plugins/word_count");
            scaffold(&folder, "word_count", language).unwrap();
            let content = PluginFolder::read(&folder).unwrap();
            let manifest = content.manifest().unwrap();
            assert_eq!(manifest.name, "word_count");
            assert!(content.files.contains_key(&manifest.command[1]), "{language:?}");
            let again = scaffold(&folder, "word_count", language).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        }
    }
}
