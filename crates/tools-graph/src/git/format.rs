//! The format of a repository, as its configuration names it (`gitrepository-layout(5)`).

use super::error::{GitError, Result};

/// Checks that the extensions of a repository are ones that its objects and references can be read with.
///
/// # Errors
/// [`GitError::Unsupported`] if its hashes are not SHA-1, or its references are not files.
pub(super) fn check(configuration: &str) -> Result<()> {
    let mut is_extensions = false;
    for line in configuration.lines().map(str::trim) {
        let mut rest = line;
        if let Some(section) = line.strip_prefix('[') {
            let Some((name, after)) = section.split_once(']') else { continue };
            is_extensions = name.trim().eq_ignore_ascii_case("extensions");
            // A value may follow its section on one line.
            rest = after.trim();
        }
        let Some((key, value)) = rest.split_once('=').filter(|_| is_extensions) else { continue };
        let value = value.split(['#', ';']).next().unwrap_or_default().trim().trim_matches('"');
        let is = |wanted: &str| key.trim().eq_ignore_ascii_case(wanted);
        if is("objectFormat") && !value.eq_ignore_ascii_case("sha1") {
            return Err(GitError::Unsupported("a repository with SHA-256"));
        }
        if is("refStorage") && !value.eq_ignore_ascii_case("files") {
            return Err(GitError::Unsupported("a repository whose references are in a reftable"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hashes_and_references_are_refused_in_every_spelling() {
        for known in [
            "",
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha1\n\trefStorage = files\n",
            "[other]\nobjectFormat = sha256\n",
            "[extensions]\nworktreeConfig = true\n[core]\nobjectformat = sha256\n",
            "[extensions]\n# objectFormat = sha256\n",
        ] {
            assert!(check(known).is_ok(), "{known}");
        }
        for unknown in [
            "[extensions]\n\tobjectformat = sha256\n",
            "[Extensions] OBJECTFORMAT=\"sha256\" ; new\n",
            "[extensions]\r\nrefStorage = reftable\r\n",
        ] {
            assert!(matches!(check(unknown), Err(GitError::Unsupported(_))), "{unknown}");
        }
    }
}
