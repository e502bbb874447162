//! The AppArmor profile that permits user namespaces to one program, at its exact path, and does
//! not confine it otherwise.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::about;
use crate::commands::Failure;

/// Folder from which AppArmor loads profiles at the start of the machine.
pub(super) const FOLDER: &str = "/etc/apparmor.d";

/// Characters, besides letters and digits, without a special meaning in the path of a profile.
const PLAIN: &str = "/._-+ ";

/// The profile of one program.
#[derive(Debug)]
pub(super) struct Profile {
    program: String,
    name: String,
}

/// The outcome of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    New,
    AsItWas,
}

impl Profile {
    /// Creates the profile for the program at this absolute path without symbolic links.
    ///
    /// # Errors
    /// If the path contains characters with a special meaning in a profile.
    pub(super) fn for_program(program: &Path) -> Result<Self, String> {
        let text = program.to_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
        if !text.starts_with('/') || !text.chars().all(plain) {
            return Err(format!(
                "cannot write a profile for {}: its path has characters other than letters, digits, \
                 spaces and {PLAIN}; move the program, for example to /usr/local/bin",
                program.display()
            ));
        }
        // Follows the naming convention of distributions: the path, with dots.
        let path = text.trim_start_matches('/').replace(['/', ' '], ".");
        Ok(Self { program: text.to_owned(), name: format!("handfast.{path}") })
    }

    /// Returns the path of the profile's file.
    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }

    /// Returns the text of the profile.
    pub(super) fn text(&self) -> String {
        let Self { program, name } = self;
        format!(
            "# Lets Handfast create the user namespaces of its cells. It confines nothing else.\n\
             # Written by `handfast setup sandbox`; `handfast setup sandbox --remove` removes it.\n\
             abi <abi/4.0>,\n\
             include <tunables/global>\n\
             \n\
             profile \"{name}\" \"{program}\" flags=(unconfined) {{\n  \
               userns,\n\
             \n  \
               include if exists <local/{name}>\n\
             }}\n"
        )
    }

    /// Writes and loads the profile. If the installation is interrupted at any point, running it
    /// again completes it.
    pub(super) fn install(&self, folder: &Path, parser: &Path) -> Result<Written, Failure> {
        let path = self.path(folder);
        let text = self.text();
        let before = fs::read(&path).ok();
        if before.as_deref() == Some(text.as_bytes()) {
            load(parser, "--replace", &path)?;
            return Ok(Written::AsItWas);
        }
        // AppArmor ignores files whose names begin with a dot.
        let half = folder.join(format!(".{}.{}", self.name, std::process::id()));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&half)
            .map_err(about(&half))?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(about(&half))
            // Load the profile before it is in place, so that a profile that AppArmor refuses is
            // never there at the next start.
            .and_then(|()| load(parser, "--replace", &half))
            .and_then(|()| fs::rename(&half, &path).map_err(about(&path)));
        if let Err(failure) = written {
            // The reason for the failed write is the error to report.
            let _left = fs::remove_file(&half);
            return Err(failure);
        }
        Ok(Written::New)
    }

    /// Unloads and removes the profile.
    pub(super) fn remove(&self, folder: &Path, parser: &Path) -> Result<(), Failure> {
        let path = self.path(folder);
        // Remove the file in any case: a profile that is still loaded disappears with the next start.
        let unloaded = load(parser, "--remove", &path);
        fs::remove_file(&path).map_err(about(&path))?;
        unloaded
    }
}

/// Creates a command that an administrator runs, outside of any cell.
#[expect(
    clippy::disallowed_methods,
    reason = "setting the machine up is what its administrator asks for at a terminal"
)]
pub(super) fn command(program: &Path) -> Command {
    Command::new(program)
}

fn load(parser: &Path, how: &str, file: &Path) -> Result<(), Failure> {
    let output = command(parser).arg(how).arg(file).stdin(Stdio::null()).output().map_err(about(parser))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::from(format!("{} {how} failed ({}): {}", parser.display(), output.status, said.trim())))
}

/// Returns who besides root may replace this program, directly or through a folder above it.
pub(super) fn who_may_replace(program: &Path) -> Result<Option<String>, Failure> {
    for path in program.ancestors() {
        let found = fs::metadata(path).map_err(about(path))?;
        if found.uid() != 0 {
            return Ok(Some(format!("user {}", found.uid())));
        }
        // In a folder with the sticky bit, only the owner can remove and rename files.
        let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        if found.mode() & 0o022 != 0 && !sticky {
            return Ok(Some(format!("anybody who may write to {}", path.display())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Writes a stand-in for AppArmor's parser that records its calls, and fails on request.
    fn parser(folder: &Path, fails: bool) -> PathBuf {
        let path = folder.join("parser");
        let script = format!(
            "#!/bin/sh\necho \"$1 $(cat \"$2\" | grep -c userns)\" >> {}/calls\n{}\n",
            folder.display(),
            if fails { "echo no such feature >&2; exit 1" } else { "exit 0" }
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn profile() -> Profile {
        Profile::for_program(Path::new("/usr/local/bin/handfast")).unwrap()
    }

    #[test]
    fn the_profile_is_for_exactly_one_path_and_allows_user_namespaces() {
        let text = profile().text();
        assert!(
            text.contains("\nprofile \"handfast.usr.local.bin.handfast\" \"/usr/local/bin/handfast\" flags=(unconfined) {\n"),
            "{text}"
        );
        assert!(text.contains("\n  userns,\n") && text.ends_with("}\n"), "{text}");
    }

    #[test]
    fn a_path_that_means_something_else_in_a_profile_is_refused() {
        for path in [
            "/a*/handfast",
            "/a{b,c}/handfast",
            "/a\"/handfast",
            "/a@{HOME}/handfast",
            "/a\n/handfast",
            "handfast",
            "/\u{e4}/handfast",
        ] {
            let problem = Profile::for_program(Path::new(path)).unwrap_err();
            assert!(problem.contains("/usr/local/bin"), "{path}: {problem}");
        }
    }

    #[test]
    fn it_is_installed_once_loaded_each_time_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let parser = parser(folder.path(), false);
        let target = folder.path().join("profiles");
        fs::create_dir(&target).unwrap();
        assert_eq!(profile().install(&target, &parser).ok(), Some(Written::New));
        assert_eq!(profile().install(&target, &parser).ok(), Some(Written::AsItWas));
        assert_eq!(fs::read_to_string(profile().path(&target)).unwrap(), profile().text());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
        assert!(profile().remove(&target, &parser).is_ok());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        assert_eq!(
            fs::read_to_string(folder.path().join("calls")).unwrap(),
            "--replace 1\n--replace 1\n--remove 1\n"
        );
    }

    #[test]
    fn what_the_parser_refuses_is_not_installed_and_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let parser = parser(folder.path(), true);
        let target = folder.path().join("profiles");
        fs::create_dir(&target).unwrap();
        fs::write(profile().path(&target), "older").unwrap();
        let failure = profile().install(&target, &parser).err().unwrap();
        assert!(failure.error.to_string().contains("no such feature"), "{}", failure.error);
        assert_eq!(fs::read_to_string(profile().path(&target)).unwrap(), "older");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }

    #[test]
    fn a_program_that_others_may_replace_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("handfast");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(who_may_replace(&program).ok().flatten().is_some());
        assert!(who_may_replace(Path::new("/usr/bin/env")).ok().flatten().is_none());
    }
}
