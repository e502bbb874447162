//! Placeholders that a command sees in place of hidden files, and the messages about them.
//!
//! On a snapshot, each hidden file is a placeholder, so that the command can remove it with the
//! folder around it. If git tracks the file, the placeholder is a notice of the same size, and a
//! filter of git returns the content that the index has. Git then takes the file for unchanged. The
//! crate `checkpoint` decides what happens to placeholders when the command has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use checkpoint::{HiddenFile, NOTICE, SeenAs, TrackedFile, Trackers, Workspace};
use parking_lot::Mutex;
use policy::Policy;
use sandbox::{CellSpec, Placeholder};

/// Maximum number of files with placeholders. If there are more, each is covered by a mount, as in
/// cells without a snapshot. Making a placeholder takes a tenth of a millisecond, twice as long as
/// a mount.
const MOST: usize = 2_000;

/// Maximum number of tracked files with a notice. Git starts its filter once for each file that it
/// reads.
const MAX_NOTICES: usize = 200;

/// Largest file, in bytes, that has a notice.
const LARGEST_NOTICE: u64 = 64 * 1024;

/// Maximum number of sessions that are remembered.
const MAX_SESSIONS: usize = 1_000;

/// Maximum number of files that a message names.
const MAX_NAMED: usize = 3;

/// Name of the git filter.
const FILTER: &str = "handfast-hidden";

/// Paths of git's configuration files in a home.
const GIT_CONFIGURATION: &str = ".gitconfig";
const GIT_ATTRIBUTES: &str = ".config/git/attributes";
const GIT_IGNORE: &str = ".config/git/ignore";

/// State about hidden files that lasts from one command to the next.
#[derive(Default)]
pub(crate) struct HiddenFiles {
    trackers: Trackers,
    /// Files that each session was told about.
    told: Mutex<HashMap<String, HashSet<PathBuf>>>,
}

impl HiddenFiles {
    /// Replaces the masked files of a cell on a snapshot with placeholders. `workspace` must
    /// contain no symbolic links.
    pub(crate) fn replace(&self, spec: &mut CellSpec, workspace: &Path) -> Vec<HiddenFile> {
        let mut files: BTreeMap<PathBuf, &PathBuf> = BTreeMap::new();
        for masked in &spec.masked {
            let Ok(real) = fs::canonicalize(masked) else { continue };
            let is_file = fs::symlink_metadata(&real).is_ok_and(|found| found.is_file());
            if is_file && real.starts_with(workspace) {
                files.entry(real).or_insert(masked);
            }
        }
        if files.len() > MOST {
            return Vec::new();
        }
        let reals: Vec<PathBuf> = files.keys().cloned().collect();
        let in_git = self.trackers.of(workspace, &reals);
        let notices = in_git.iter().flatten().filter(|found| found.tracked.is_some()).count();
        let (mut all, mut git) = (Vec::new(), Git::default());
        for ((real, masked), in_git) in files.into_iter().zip(in_git) {
            let Ok(path) = real.strip_prefix(workspace).map(Path::to_owned) else { continue };
            let tracked = in_git.as_ref().and_then(|found| found.tracked).filter(|_| notices <= MAX_NOTICES);
            let seen_as = tracked.and_then(|tracked| notice(&real, tracked)).unwrap_or(SeenAs::Closed);
            if let Some(found) = in_git {
                let patterns = if seen_as == SeenAs::Closed { &mut git.ignored } else { &mut git.filtered };
                patterns.push(pattern(&found.name));
            }
            let hidden = HiddenFile { path, seen_as };
            let (mark, mode) = (HiddenFile::mark(all.len()), hidden.mode());
            spec.placeholders.insert(masked.clone(), Placeholder { mark, content: hidden.content(), mode });
            all.push(hidden);
        }
        git.configure(spec);
        all
    }

    /// Returns a message about the files that are hidden from the commands of a session, without
    /// those that the session was told about before.
    pub(crate) fn tell(
        &self,
        session: &str,
        spec: &CellSpec,
        policy: &Policy,
        workspace: &Path,
    ) -> Option<String> {
        let denied = policy.denied_reads();
        let below = spec.masked.iter().filter(|path| path.starts_with(workspace));
        let by_rule = below.filter(|path| denied.rule_at(&policy.spot(path), path.is_dir()).is_some());
        let paths = by_rule.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.to_owned()));
        let mut news: Vec<PathBuf> = {
            let mut told = self.told.lock();
            if told.len() >= MAX_SESSIONS && !told.contains_key(session) {
                told.clear();
            }
            let told = told.entry(session.to_owned()).or_default();
            paths.filter(|path| told.insert(path.clone())).collect()
        };
        // Test files of an installed package are of no interest to a command.
        if let Ok(workspace) = Workspace::open(workspace) {
            news = workspace.without_made_again(news);
        }
        news.sort_by_cached_key(|path| (path.components().count(), path.clone()));
        (!news.is_empty())
            .then(|| format!("hidden here, because a rule denies reading it: {}", listed(&news)))
    }
}

/// Builds the notice for a tracked file, if the file may have one.
fn notice(real: &Path, tracked: TrackedFile) -> Option<SeenAs> {
    let size_bytes = match tracked.size_bytes {
        Some(size) => size,
        None => fs::symlink_metadata(real).ok()?.len(),
    };
    let executable = tracked.executable;
    (size_bytes <= LARGEST_NOTICE).then_some(SeenAs::Notice { size_bytes, executable })
}

/// Patterns for git in the cell, each for one hidden file.
#[derive(Default)]
struct Git {
    /// Patterns of tracked files: the filter has their content.
    filtered: Vec<Vec<u8>>,
    /// Patterns of files that git cannot read. Git leaves these alone, as if they were ignored.
    ignored: Vec<Vec<u8>>,
}

impl Git {
    /// Writes the patterns to the files that git reads by default, so that no setting of the caller
    /// is replaced.
    fn configure(self, spec: &mut CellSpec) {
        let mut add = |file: &str, content: &[u8]| match spec
            .home_files
            .iter_mut()
            .find(|(path, _)| path == Path::new(file))
        {
            Some((_, there)) => there.extend_from_slice(content),
            None => spec.home_files.push((file.into(), content.to_vec())),
        };
        // A line cannot contain a line break.
        let lines = self.ignored.iter().filter(|pattern| !pattern.contains(&b'\n'));
        let ignored: Vec<u8> = lines.flat_map(|pattern| [pattern, &b"\n"[..]].concat()).collect();
        if !ignored.is_empty() {
            add(GIT_IGNORE, &ignored);
        }
        if self.filtered.is_empty() {
            return;
        }
        // The first line of the file distinguishes a notice from content that the command has
        // written or checked out. A small file may contain only the beginning of a notice.
        let filter = format!(
            "IFS= read -r line <%f; case \\\"$line\\\" in '{NOTICE}'*) exec git cat-file blob :%f;; esac; \
             [ -n \\\"$line\\\" ] && case '{NOTICE}' in \\\"$line\\\"*) exec git cat-file blob :%f;; esac; exec cat"
        );
        // If the filter fails, git must not take the notice for the content.
        let section =
            format!("[filter \"{FILTER}\"]\n\tclean = \"{filter}\"\n\tsmudge = cat\n\trequired = true\n");
        add(GIT_CONFIGURATION, section.as_bytes());
        let attribute = format!(" filter={FILTER}\n").into_bytes();
        let lines = self.filtered.iter().flat_map(|pattern| [quoted(pattern), attribute.clone()].concat());
        add(GIT_ATTRIBUTES, &lines.collect::<Vec<u8>>());
    }
}

/// Builds the pattern that matches exactly the file of this name from the top of its repository.
fn pattern(name: &Path) -> Vec<u8> {
    let mut pattern = b"/".to_vec();
    for &byte in name.as_os_str().as_bytes() {
        pattern.extend(br"*?[\ ".contains(&byte).then_some(b'\\'));
        pattern.push(byte);
    }
    pattern
}

/// Quotes a pattern as a string of C, which can hold any character in a line of attributes.
fn quoted(pattern: &[u8]) -> Vec<u8> {
    let mut quoted = b"\"".to_vec();
    for &byte in pattern {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', byte]),
            b' '..=b'~' => quoted.push(byte),
            _ => quoted.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Formats some of the files for the answer.
pub(crate) fn listed(paths: &[PathBuf]) -> String {
    let named: Vec<String> = paths.iter().take(MAX_NAMED).map(|path| tool::path_text(path)).collect();
    let more = paths.len() - named.len();
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}
