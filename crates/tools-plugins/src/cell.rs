//! The cell of a plugin: that of a command, with less.

use std::ffi::OsString;
use std::path::Path;

use plugins::{LARGEST_ANSWER, WorkspaceUse};
use sandbox::{CellHost, CellSpec, Command, Program, Stopper, Stream};

/// File with the request in the cell's private home.
pub(crate) const REQUEST: &str = ".plugin-request";
/// Maximum number of bytes of standard error that are kept.
const LARGEST_ERROR_OUTPUT: usize = 16 * 1024;
/// Variable with the path of the plugin's files.
const FOLDER_VARIABLE: &str = "PLUGIN_FOLDER";

/// Maximum number of bytes of a request that is a text of the command. The kernel accepts four times as much.
const LONGEST_TEXT: usize = 32 * 1024;

/// Form in which a request gets to the standard input of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestForm {
    /// Text of the command. The cell is then the same for each call, so it can be prepared.
    Text(String),
    /// File in the cell's private home.
    File(String),
}

impl RequestForm {
    /// Chooses the form for a request line.
    pub(crate) fn of(request: String) -> Self {
        if request.len() > LONGEST_TEXT { Self::File(request) } else { Self::Text(request) }
    }
}

/// Returns the cell of a command, met with the declared use of the workspace.
pub(crate) fn met(given: &CellSpec, uses: WorkspaceUse, copy: &Path, request: &RequestForm) -> CellSpec {
    let mut cell = given.clone();
    // Other roots of the profile are not the plugin's. Single files are the certificates of its network.
    cell.read_write.clear();
    cell.read_only.retain(|path| path.is_file());
    // A program of the workspace must not stand in for one of the system.
    cell.search_path.retain(|folder| !folder.starts_with(&given.workspace));
    if let RequestForm::File(request) = request {
        cell.home_files.push((REQUEST.into(), request.clone().into_bytes()));
    }
    cell.environment.insert(FOLDER_VARIABLE.into(), copy.into());
    cell.output_limit = LARGEST_ANSWER as u64;
    cell.terminal = None;
    match uses {
        WorkspaceUse::Write => cell.read_only.push(copy.to_owned()),
        WorkspaceUse::Read => {
            cell.read_only.push(copy.to_owned());
            (cell.overlay, cell.overlay_only, cell.reads_only) = (None, false, true);
        }
        WorkspaceUse::None => {
            copy.clone_into(&mut cell.workspace);
            (cell.overlay, cell.overlay_only, cell.reads_only) = (None, false, true);
            // These are about the workspace, which the cell does not show.
            leave_out_workspace(&mut cell, &given.workspace);
        }
    }
    cell
}

/// Returns the cell of a test, met with the declared use of the workspace. The folder of the test stands in for the
/// workspace, so that no test sees or changes the real one.
pub(crate) fn met_for_test(
    given: &CellSpec,
    uses: WorkspaceUse,
    copy: &Path,
    workspace: &Path,
    request: &RequestForm,
) -> CellSpec {
    let mut apart = given.clone();
    leave_out_workspace(&mut apart, &given.workspace);
    apart.search_path.retain(|folder| !folder.starts_with(&given.workspace));
    (apart.overlay, apart.overlay_only) = (None, false);
    workspace.clone_into(&mut apart.workspace);
    met(&apart, uses, copy, request)
}

/// Returns the cell of a long-lived program, met with the declared use of the workspace. `folder` has the pipes of
/// the program.
pub(crate) fn met_serving(given: &CellSpec, uses: WorkspaceUse, copy: &Path, folder: &Path) -> CellSpec {
    let mut cell = given.clone();
    cell.read_write = vec![folder.to_owned()];
    cell.read_only.retain(|path| path.is_file());
    cell.read_only.push(copy.to_owned());
    cell.search_path.retain(|folder| !folder.starts_with(&given.workspace));
    cell.environment.insert(FOLDER_VARIABLE.into(), copy.into());
    (cell.overlay, cell.overlay_only, cell.terminal) = (None, false, None);
    if uses > WorkspaceUse::None {
        // The process outlives the calls that could undo its changes.
        cell.read_only.push(given.workspace.clone());
    } else {
        folder.clone_into(&mut cell.workspace);
        leave_out_workspace(&mut cell, &given.workspace);
    }
    cell
}

/// Leaves out what is about files of the workspace. Denied files elsewhere stay hidden.
fn leave_out_workspace(cell: &mut CellSpec, workspace: &Path) {
    for paths in [&mut cell.masked, &mut cell.frozen, &mut cell.frozen_where_direct] {
        paths.retain(|path| !path.starts_with(workspace));
    }
    cell.placeholders.clear();
}

/// Returns the live parts of the cell. A plugin has no part in the caches of other commands.
pub(crate) fn host(given: &CellHost, uses: WorkspaceUse) -> CellHost {
    let late_masks = given.late_masks.clone().filter(|_| uses > WorkspaceUse::None);
    CellHost { kept_home: None, late_masks, ..given.clone() }
}

/// Returns the command. Its standard input is the request.
pub(crate) fn command(words: &[String], directory: &Path, request: RequestForm) -> Command {
    const FEED_FILE: &str = "exec \"$@\" < \"$HOME/.plugin-request\"";
    // A shell expands nothing within the value of a variable.
    const FEED_TEXT: &str = "request=$1; shift\nexec \"$@\" <<END\n$request\nEND\n";
    let (feed, text) = match request {
        RequestForm::File(_) => (FEED_FILE, None),
        RequestForm::Text(mut text) => {
            text.truncate(text.trim_end_matches('\n').len());
            (FEED_TEXT, Some(text))
        }
    };
    let shell = ["/bin/sh", "-c", feed, "plugin"].into_iter().map(OsString::from);
    let words = words.iter().map(OsString::from);
    Command {
        program: Program::Argv(shell.chain(text.map(OsString::from)).chain(words).collect()),
        working_directory: directory.to_owned(),
    }
}

/// Collects the output of a plugin, and stops a plugin that writes too much.
pub(crate) struct Collector {
    stopper: Stopper,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Collector {
    pub(crate) fn new(stopper: Stopper) -> Self {
        Self { stopper, stdout: Vec::new(), stderr: Vec::new() }
    }

    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => {
                // One byte beyond the limit is enough to know that there is more.
                let room = (LARGEST_ANSWER + 1).saturating_sub(self.stdout.len());
                self.stdout.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
                if self.is_too_much() {
                    self.stopper.stop();
                }
            }
            Stream::Stderr => {
                self.stderr.extend_from_slice(bytes);
                // The end of error output tells the most.
                let excess = self.stderr.len().saturating_sub(LARGEST_ERROR_OUTPUT);
                self.stderr.drain(..excess);
            }
        }
    }

    pub(crate) fn is_too_much(&self) -> bool {
        self.stdout.len() > LARGEST_ANSWER
    }
}

#[cfg(test)]
mod tests {
    use sandbox::Overlay;

    use super::*;

    fn given() -> CellSpec {
        CellSpec {
            workspace: "/w".into(),
            read_only: vec!["/other".into()],
            read_write: vec!["/more".into()],
            search_path: vec!["/usr/bin".into(), "/w/node_modules/.bin".into()],
            overlay: Some(Overlay { upper: "/u".into(), work: "/v".into() }),
            ..CellSpec::default()
        }
    }

    #[test]
    fn a_plugin_has_no_more_than_it_declares() {
        let request = RequestForm::of(String::new());
        let met = |uses| met(&given(), uses, Path::new("/copy"), &request);
        let none = met(WorkspaceUse::None);
        assert_eq!(
            (none.workspace.as_path(), none.reads_only, none.overlay),
            (Path::new("/copy"), true, None)
        );
        let read = met(WorkspaceUse::Read);
        assert_eq!((read.workspace.as_path(), read.reads_only, read.overlay), (Path::new("/w"), true, None));
        let write = met(WorkspaceUse::Write);
        assert_eq!((write.reads_only, &write.overlay), (false, &given().overlay));
        for cell in [met(WorkspaceUse::None), met(WorkspaceUse::Read), write] {
            assert!(cell.read_write.is_empty() && !cell.read_only.contains(&"/other".into()), "{cell:?}");
            assert_eq!(cell.search_path, [Path::new("/usr/bin")]);
        }
    }

    #[test]
    fn a_test_never_has_the_real_workspace() {
        for uses in [WorkspaceUse::None, WorkspaceUse::Read, WorkspaceUse::Write] {
            let given = CellSpec { masked: vec!["/w/secret".into(), "/etc/x".into()], ..given() };
            let request = RequestForm::of(String::new());
            let cell = met_for_test(&given, uses, Path::new("/copy"), Path::new("/test"), &request);
            let text = format!("{cell:?}");
            assert!(!text.contains("/w\"") && !text.contains("/w/"), "{text}");
            assert_eq!((cell.overlay, cell.masked.len()), (None, 1));
        }
    }

    #[test]
    fn a_request_is_the_input_unchanged_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let hostile = "{\"a\":\"$HOME `id` $(id) \\\\ \\n 'x' END\"}".to_owned();
        let long = format!("{{\"a\":\"{}\"}}", "$x".repeat(LONGEST_TEXT));
        for request in [hostile, long] {
            let form = RequestForm::of(format!("{request}\n"));
            if let RequestForm::File(line) = &form {
                std::fs::write(folder.path().join(REQUEST), line).unwrap();
            }
            let command = command(&["cat".to_owned()], Path::new("/"), form);
            let Program::Argv(words) = command.program else { panic!("no words") };
            #[expect(clippy::disallowed_methods, reason = "the test runs the shell without a cell")]
            let mut shell = std::process::Command::new(&words[0]);
            let ran = shell.args(&words[1..]).env("HOME", folder.path()).output().unwrap();
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{request}\n"));
        }
    }

    #[test]
    fn output_beyond_the_limit_is_refused_and_takes_no_memory() {
        let mut collector = Collector::new(Stopper::new().unwrap());
        for _ in 0..100 {
            collector.take(Stream::Stdout, &vec![b'x'; 64 * 1024]);
            collector.take(Stream::Stderr, &vec![b'y'; 64 * 1024]);
        }
        assert!(collector.is_too_much());
        assert_eq!(
            (collector.stdout.len(), collector.stderr.len()),
            (LARGEST_ANSWER + 1, LARGEST_ERROR_OUTPUT)
        );
    }
}
