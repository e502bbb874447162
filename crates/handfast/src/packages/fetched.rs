//! The folder of a package that is to be added: one of this machine, or a copy of a repository.
//!
//! A repository is a stranger's. Git runs without its hooks, filters, submodules, helpers and questions, over
//! encrypted protocols and files alone, and takes one commit within a bound of time and size.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plugins::{LARGEST_FOLDER, MOST_FILES};

use crate::bounded_run::{BoundedRun, run_within};
use crate::failure::Failure;
use crate::packages::content::is_part;

/// Maximum time of a copy.
const LONGEST: Duration = Duration::from_mins(5);
/// Maximum size of one file that git writes, in blocks of 512 bytes: 64 MiB, for the objects of a commit.
const LARGEST_FILE: &str = "131072";

/// Advice after a wrong source.
const WHAT_TO_NAME: &str = "name the folder of a package, or the address of a repository: https://, ssh://, file:/// or user@host:path";

/// Folder that was fetched.
pub(crate) struct Fetched {
    /// Folder with the parts.
    pub(crate) folder: PathBuf,
    /// Folder or address in the form of the record.
    pub(crate) source: String,
    pub(crate) commit: Option<String>,
    /// Name of the folder or the repository.
    pub(crate) name: String,
    _copy: Option<tempfile::TempDir>,
}

/// Returns true if a text is the address of a repository.
fn is_address(source: &str) -> bool {
    source.contains("://") || source.contains("::") || is_of_ssh(source)
}

/// Returns true for the short form of an address: `user@host:path`.
fn is_of_ssh(source: &str) -> bool {
    let Some((host, path)) = source.split_once(':') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@._-".contains(c);
    host.contains('@')
        && !host.starts_with(['-', '@'])
        && host.chars().all(is_plain)
        && !path.starts_with('-')
}

/// Fetches the folder of a package.
///
/// # Errors
/// If there is none, or its repository cannot be copied.
pub(crate) fn fetch(source: &str) -> Result<Fetched, Failure> {
    if is_address(source) {
        return cloned(source);
    }
    let path = std::path::absolute(source)?;
    let folder = path.canonicalize().map_err(|error| {
        let shown = tool::visible(&path.display().to_string());
        Failure::usage(format!("cannot read {shown}: {error}; {WHAT_TO_NAME}"))
    })?;
    if !folder.is_dir() {
        let shown = tool::visible(&folder.display().to_string());
        return Err(Failure::usage(format!("{shown} is no folder; {WHAT_TO_NAME}")));
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source =
        folder.to_str().ok_or_else(|| Failure::usage("the path of a package must be UTF-8"))?.to_owned();
    Ok(Fetched { folder, source, commit: None, name, _copy: None })
}

/// Checks that an address uses a protocol that is allowed. Returns the protocol.
fn protocol(source: &str) -> Result<&'static str, Failure> {
    let known = [("https://", "https"), ("ssh://", "ssh"), ("file:///", "file")];
    let found = known.iter().find(|(begin, _)| source.starts_with(begin)).map(|(_, protocol)| *protocol);
    let found = found.or_else(|| (is_of_ssh(source) && !source.contains("://")).then_some("ssh"));
    let is_plain = !source.chars().any(|c| c.is_control() || c.is_whitespace());
    let has_password = source
        .strip_prefix("https://")
        .and_then(|rest| rest.split('/').next())
        .is_some_and(|host| host.contains('@'));
    match found.filter(|_| is_plain && !source.contains("::")) {
        Some(_) if has_password => {
            Err(Failure::usage("an address with a user or a password would be stored; use one without"))
        }
        Some(found) => Ok(found),
        None => Err(Failure::usage(format!(
            "{} is no address of a package: https://, ssh:// and file:/// are allowed, and user@host:path",
            tool::visible(source)
        ))),
    }
}

fn cloned(source: &str) -> Result<Fetched, Failure> {
    let protocol = protocol(source)?;
    let copy = tempfile::Builder::new().prefix("handfast-package-").tempdir()?;
    let folder = copy.path().join("copy");
    let mut command = git(protocol);
    command.args([
        "clone",
        "--quiet",
        "--no-checkout",
        "--depth=1",
        "--single-branch",
        "--no-tags",
        "--no-recurse-submodules",
    ]);
    command.args(["--template=", "--"]).arg(source).arg(&folder);
    let failed = |said: &str| {
        let said: String = said.trim().chars().take(1_000).collect();
        Failure::from(format!(
            "{} cannot be copied within 64 MiB and five minutes: {}",
            tool::visible(source),
            tool::visible(&said)
        ))
    };
    let run = |command: Command| match run_within(command, b"", LONGEST) {
        Ok(BoundedRun::Ended { output, status }) if status.success() => Ok(output),
        Ok(BoundedRun::Ended { output, .. }) => Err(failed(&output)),
        Ok(BoundedRun::TimedOut) => Err(failed("it took longer than five minutes")),
        Err(error) => Err(failed(&format!("git: {error}"))),
    };
    run(command)?;
    let within = |words: &[&str]| {
        let mut command = git(protocol);
        command.arg("-C").arg(&folder).args(words);
        run(command)
    };
    let commit = within(&["rev-parse", "HEAD"])?.trim().to_owned();
    // Before a file is written, the list of all files tells whether they keep to the bounds.
    let top = within(&["ls-tree", "-z", "HEAD"])?;
    let parts = names(&top).filter(|name| is_part(name));
    let parts: Vec<String> = parts.map(|name| format!(":(top,literal){name}")).collect();
    if !parts.is_empty() {
        let with = |words: &[&'static str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).chain(parts.iter().cloned()).collect()
        };
        let listing = with(&["ls-tree", "-r", "-l", "-z", "HEAD", "--"]);
        let listing: Vec<&str> =
            listing.iter().map(|word| word.strip_prefix(":(top,literal)").unwrap_or(word)).collect();
        check(&within(&listing)?)
            .map_err(|problem| Failure::usage(format!("{}: {problem}", tool::visible(source))))?;
        let words = with(&["checkout", "--quiet", "HEAD", "--"]);
        within(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    let name = source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name).to_owned();
    Ok(Fetched { folder, source: source.to_owned(), commit: Some(commit), name, _copy: Some(copy) })
}

/// Returns the names in a list of a tree.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.split('\0').filter_map(|entry| Some(entry.split_once('\t')?.1))
}

/// Checks the list of all files: their kinds, their number and their sizes.
fn check(tree: &str) -> Result<(), String> {
    let (mut files, mut bytes) = (0, 0_u64);
    for entry in tree.split('\0').filter(|entry| !entry.is_empty()) {
        let (facts, path) = entry.split_once('\t').ok_or("the list of its files cannot be read")?;
        let mut facts = facts.split_ascii_whitespace();
        let (mode, size) = (facts.next().unwrap_or_default(), facts.nth(2).unwrap_or_default());
        if !["100644", "100755"].contains(&mode) {
            let path = tool::visible(path);
            return Err(format!("{path} is a link or another repository; a package has regular files alone"));
        }
        files += 1;
        bytes = bytes.saturating_add(size.parse().map_err(|_| "the size of a file cannot be read")?);
        if files > MOST_FILES || bytes > LARGEST_FOLDER {
            return Err(format!("it has more than {MOST_FILES} files or {LARGEST_FOLDER} bytes"));
        }
    }
    Ok(())
}

/// Returns git, with a bound on the files that it writes and without anything that others could have configured.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command fetches a repository, outside of any call"
)]
fn git(protocol: &str) -> Command {
    let bounded = format!("ulimit -f {LARGEST_FILE} && exec git \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &bounded, "git"]);
    let allowed = format!("protocol.{protocol}.allow=always");
    let settings = [
        "protocol.allow=never",
        &allowed,
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.askPass=",
        "credential.helper=",
        "submodule.recurse=false",
        "fetch.recurseSubmodules=false",
        "transfer.fsckObjects=true",
        "gc.auto=0",
        "maintenance.auto=false",
        "uploadpack.packObjectsHook=",
    ];
    for setting in settings {
        command.args(["-c", setting]);
    }
    command
        .envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", ""),
            ("SSH_ASKPASS", ""),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
            ("GIT_PROTOCOL_FROM_USER", "0"),
            ("LC_ALL", "C"),
        ])
        .current_dir("/");
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_EXEC_PATH",
        "GIT_TEMPLATE_DIR",
        "GIT_ALLOW_PROTOCOL",
        "GIT_PROXY_COMMAND",
        "GIT_SSH",
        "GIT_EXTERNAL_DIFF",
        "GIT_TRACE",
    ] {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_links_or_beyond_the_bounds_is_refused() {
        let entry = |mode: &str, size: u64, path: &str| format!("{mode} blob 0123 {size:>7}\t{path}\0");
        assert_eq!(check(&entry("100644", 5, "skills/a/SKILL.md")), Ok(()));
        assert_eq!(names("040000 tree 0123\tskills\0").collect::<Vec<_>>(), ["skills"]);
        for mode in ["120000", "160000"] {
            assert!(check(&entry(mode, 5, "skills/a")).unwrap_err().contains("regular files"), "{mode}");
        }
        assert!(check(&entry("100644", LARGEST_FOLDER + 1, "a")).is_err());
        assert!(check(&entry("100644", 0, "a").repeat(MOST_FILES + 1)).is_err());
    }

    #[test]
    fn only_plain_addresses_of_known_protocols_are_allowed_and_others_refused() {
        for (address, expected) in [
            ("https://example.com/a.git", Some("https")),
            ("ssh://git@example.com/a", Some("ssh")),
            ("git@example.com:a/b.git", Some("ssh")),
            ("file:///tmp/a", Some("file")),
            ("ext::sh -c id", None),
            ("https://ext::x", None),
            ("http://example.com/a", None),
            ("git://example.com/a", None),
            ("https://ann:pw@example.com/a", None),
            ("https://example.com/a b", None),
            ("-u@host:x", None),
            ("file://host/x", None),
        ] {
            assert_eq!(protocol(address).ok(), expected, "{address}");
        }
        assert!(is_address("ext::sh -c id") && !is_address("./a") && !is_address("a:b"));
    }
}
