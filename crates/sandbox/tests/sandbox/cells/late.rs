//! Files that must be hidden and appear while the command runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{CellHost, Command, Exit, LateMasks, Outcome, Overlay, Program, Stopper};

use super::run;
use super::support::{Place, TIMEOUT, stdout};

const SECRET: &str = "s3cr3t-text";

/// Runs a line after printing `begun` and waiting for a sign. Once it has begun, applies `change`
/// to the workspace and covers `covered`.
fn while_it_runs(place: &Place, line: &str, change: impl Fn(&Path), covered: &[&str]) -> Outcome {
    let paths: Vec<PathBuf> = covered.iter().map(|path| place.spec.workspace.join(path)).collect();
    when_it_has_begun(place, line, |workspace, masks| {
        change(workspace);
        masks.cover(&paths).unwrap();
    })
}

/// Runs a line in the same way, with any action while it runs.
fn when_it_has_begun(place: &Place, line: &str, act: impl Fn(&Path, &LateMasks)) -> Outcome {
    let masks = Arc::new(LateMasks::default());
    let mut spec = place.spec.clone();
    let host = CellHost { late_masks: Some(masks.clone()), ..place.host.clone() };
    let workspace = spec.workspace.clone();
    // The sign is in a separate root: an overlay does not show a name that was looked up before it
    // existed.
    let signs = tempfile::tempdir().unwrap();
    let sign = signs.path().canonicalize().unwrap().join("go");
    spec.read_write.push(sign.parent().unwrap().to_owned());
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", sign.display());
    let line = format!("echo begun; {wait}; {line}; echo end");
    let command = Command { program: Program::Shell(line), working_directory: workspace.clone() };
    let mut changed = false;
    let mut on_output = |_: sandbox::Stream, _: &[u8]| {
        if !std::mem::replace(&mut changed, true) {
            act(&workspace, &masks);
            fs::write(&sign, "").unwrap();
        }
    };
    let outcome =
        run(&spec, &host, &command, Some(TIMEOUT), &Stopper::new().unwrap(), &mut on_output).unwrap();
    assert_eq!(outcome.exit, Exit::Code(0), "{}", stdout(&outcome));
    assert!(stdout(&outcome).ends_with("end\n"));
    assert!(!masks.have_failed());
    outcome
}

/// Tests that `covered` is hidden after `change`, with an uncovered run as the control.
fn hidden(make: impl Fn() -> Place, line: &str, change: impl Fn(&Path) + Copy, covered: &[&str]) {
    let seen = stdout(&while_it_runs(&make(), line, change, covered));
    assert!(!seen.contains(SECRET), "{line}: {seen}");
    let seen = stdout(&while_it_runs(&make(), line, change, &[]));
    assert!(seen.contains(SECRET), "the control saw nothing, {line}: {seen}");
}

fn place() -> Place {
    let mut place = Place::new();
    place.write(".env", "old");
    place.write("deep/er/plain", "plain");
    place.spec.masked.push(place.path(".env"));
    place
}

/// Makes a place whose changes go to an overlay.
fn overlaid(layers: &tempfile::TempDir) -> Place {
    use std::os::unix::fs::PermissionsExt;
    let mut place = place();
    let folder = tempfile::tempdir_in(layers.path()).unwrap().keep();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
    fs::create_dir(&overlay.upper).unwrap();
    fs::create_dir(&overlay.work).unwrap();
    place.spec.overlay = Some(overlay);
    place
}

fn replace(workspace: &Path) {
    fs::write(workspace.join("new"), SECRET).unwrap();
    fs::rename(workspace.join("new"), workspace.join(".env")).unwrap();
}

fn add(workspace: &Path) {
    fs::write(workspace.join("deep/er/.env"), SECRET).unwrap();
    fs::create_dir_all(workspace.join("keys/inner")).unwrap();
    fs::write(workspace.join("keys/inner/one"), SECRET).unwrap();
}

#[test]
fn a_hidden_file_that_is_replaced_is_hidden_again() {
    hidden(place, "cat .env 2>&1", replace, &[".env"]);
}

#[test]
fn files_and_folders_that_come_are_hidden_and_stay_so() {
    let covered = ["deep/er/.env", "keys", "missing"];
    hidden(place, "cat deep/er/.env keys/inner/one 2>&1", add, &covered);
    hidden(place, "mv deep/er x; cat x/.env deep/er/.env 2>&1", add, &covered);
    hidden(place, "ln deep/er/.env l; mv deep/er/.env m; cat l m deep/er/.env 2>&1", add, &covered);
    let seen = stdout(&while_it_runs(&place(), "cat deep/er/plain", add, &covered));
    assert!(seen.contains("plain"), "{seen}");
}

#[test]
fn on_an_overlay_what_was_hidden_stays_so_and_what_comes_is_hidden() {
    let layers = tempfile::tempdir().unwrap();
    // The cover lies on the overlay, so a file replaced below it is not visible at all.
    let seen = stdout(&while_it_runs(&overlaid(&layers), "cat .env 2>&1", replace, &[]));
    assert!(!seen.contains(SECRET), "{seen}");
    let covered = ["deep/er/.env", "keys"];
    hidden(|| overlaid(&layers), "cat deep/er/.env keys/inner/one 2>&1", add, &covered);
    hidden(|| overlaid(&layers), "mv deep x; cat x/er/.env deep/er/.env 2>&1", add, &covered);
}

#[test]
fn what_the_command_does_to_its_own_kind_does_not_keep_a_file_from_being_hidden() {
    // Stops and kills every process within reach, and keeps the namespaces open that it can find.
    let line = "exec 9</proc/self/ns/mnt; kill -STOP -1; kill -KILL -1; cat deep/er/.env 2>&1";
    let seen = stdout(&while_it_runs(&place(), line, add, &["deep/er/.env"]));
    assert!(!seen.contains(SECRET), "{seen}");
}

#[test]
fn what_is_to_be_hidden_before_the_command_starts_is_hidden_when_it_has() {
    let place = place();
    let masks = Arc::new(LateMasks::default());
    let (spec, late_masks) = (place.spec.clone(), Some(masks.clone()));
    let host = CellHost { late_masks, ..place.host.clone() };
    add(&spec.workspace);
    masks.cover(&[place.path("deep/er/.env")]).unwrap();
    // The first reading may come a moment too early; the content is no secret yet.
    let line = "for i in $(seq 500); do cat deep/er/.env >/dev/null 2>&1 || { echo hidden; exit; }; sleep 0.01; done";
    let command =
        Command { program: Program::Shell(line.to_owned()), working_directory: spec.workspace.clone() };
    let outcome =
        run(&spec, &host, &command, Some(TIMEOUT), &Stopper::new().unwrap(), &mut |_, _| {}).unwrap();
    assert_eq!(stdout(&outcome), "hidden\n");
    assert!(outcome.enforcement.summary().contains(&"denied_files:watched".to_owned()));
    // After the end of the command no file is left to cover.
    masks.cover(&[place.path(".env")]).unwrap();
    assert!(!masks.have_failed());
}

#[test]
fn what_is_frozen_while_the_command_runs_can_be_read_and_not_changed() {
    let line = "echo evil > deep/er/lock; rm -f deep/er/lock; mv deep/er/lock x; echo y > b; mv b deep/er/lock; \
        echo z > locks/new; cat deep/er/lock; mv deep moved; cat moved/er/lock; echo evil >> moved/er/lock; cat moved/er/lock";
    let change = |workspace: &Path| {
        fs::write(workspace.join("deep/er/lock"), "kept\n").unwrap();
        fs::create_dir(workspace.join("locks")).unwrap();
        for path in ["deep/er/lock", "locks"] {
            std::os::unix::fs::lchown(workspace.join(path), Some(owner(workspace)), None).unwrap();
        }
    };
    let place = place();
    let seen = stdout(&when_it_has_begun(&place, line, |workspace, masks| {
        change(workspace);
        let paths = ["deep/er/lock", "locks", "missing"].map(|path| workspace.join(path));
        masks.freeze(&paths).unwrap();
        // A second freeze has no effect, and hiding goes over it.
        masks.freeze(&paths).unwrap();
        assert!(
            masks.write_directly(&workspace.join("new")) && !masks.write_directly(Path::new("/etc/passwd"))
        );
    }));
    assert_eq!(seen, "begun\nkept\nkept\nkept\nend\n");
    assert!(!place.path("locks/new").exists());
    let control = self::place();
    let seen =
        stdout(&when_it_has_begun(&control, "echo evil > deep/er/lock; cat deep/er/lock", |workspace, _| {
            change(workspace);
        }));
    assert_eq!(seen, "begun\nevil\nend\n");
}

/// Returns the user of the command in the workspace.
fn owner(workspace: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(workspace).unwrap())
}
