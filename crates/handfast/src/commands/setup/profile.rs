//! The AppArmor profile that lets one program, at its exact path, use user namespaces, and confines it in nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::about;
use crate::commands::Failure;

/// Where AppArmor loads profiles from when the machine starts.
pub(super) const FOLDER: &str = "/etc/apparmor.d";

/// What may stand in a path of a profile without a meaning of its own.
const PLAIN: &str = "/._-+ ";

/// The profile of one program.
#[derive(Debug)]
pub(super) struct Profile {
    program: String,
    name: String,
}

/// What installing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    New,
    AsItWas,
}

impl Profile {
    /// The profile for the program at this absolute path, which has no link in it.
    ///
    /// # Errors
    /// Where the path holds what would mean something else in a profile.
    pub(super) fn for_program(program: &Path) -> Result<Self, String> {
        let text = program.to_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
        if !text.starts_with('/') || !text.chars().all(plain) {
            return Err(format!(
                "no profile can be written for {}: its path holds other characters than letters, digits, spaces and \
                 {PLAIN}; move the program, to /usr/local/bin for one",
                program.display()
            ));
        }
        // As the profiles of distributions are named: by the path, with dots.
        let path = text.trim_start_matches('/').replace(['/', ' '], ".");
        Ok(Self { program: text.to_owned(), name: format!("handfast.{path}") })
    }

    /// The file that it belongs into.
    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.name)
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        let Self { program, name } = self;
        format!(
            "# Lets Handfast make the user namespaces that its cells are built with. It is confined in nothing else.\n\
             # Written by `handfast setup sandbox`; `handfast setup sandbox --remove` takes it away.\n\
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

    /// Writes it and loads it. Interrupted at any place, running it again completes it.
    pub(super) fn install(&self, folder: &Path, parser: &Path) -> Result<Written, Failure> {
        let path = self.path(folder);
        let text = self.text();
        let before = fs::read(&path).ok();
        if before.as_deref() == Some(text.as_bytes()) {
            load(parser, "--replace", &path)?;
            return Ok(Written::AsItWas);
        }
        // AppArmor leaves out files whose names begin with a dot.
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
            // Loaded before it is in its place, so that what AppArmor refuses is never there at the next start.
            .and_then(|()| load(parser, "--replace", &half))
            .and_then(|()| fs::rename(&half, &path).map_err(about(&path)));
        if let Err(failure) = written {
            // What is to be said is why it was not written.
            let _left = fs::remove_file(&half);
            return Err(failure);
        }
        Ok(Written::New)
    }

    /// Unloads it and removes it.
    pub(super) fn remove(&self, folder: &Path, parser: &Path) -> Result<(), Failure> {
        let path = self.path(folder);
        // The file goes in any case: what is still loaded is gone with the next start.
        let unloaded = load(parser, "--remove", &path);
        fs::remove_file(&path).map_err(about(&path))?;
        unloaded
    }
}

/// A program that an administrator runs, outside of any cell.
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

/// Who beside root may put another program into this one's place, by itself or by a folder above it.
pub(super) fn who_may_replace(program: &Path) -> Result<Option<String>, Failure> {
    for path in program.ancestors() {
        let found = fs::metadata(path).map_err(about(path))?;
        if found.uid() != 0 {
            return Ok(Some(format!("user {}", found.uid())));
        }
        // In a folder with the sticky bit only the owner removes and renames.
        let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        if found.mode() & 0o022 != 0 && !sticky {
            return Ok(Some(format!("whoever may write to {}", path.display())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A stand-in for AppArmor's parser that notes how it was called, and fails if told to.
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
