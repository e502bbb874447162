//! Tests of the denied files: marks between calls, and files that appear while a cell runs.

use std::fs;
use std::path::Path;

use super::*;

fn denied(workspace: &Path, profile: &serde_json::Value, keep: WatchMode) -> Arc<DeniedFiles> {
    let policy = testkit::policy_of(workspace, None, profile);
    Arc::new(DeniedFiles::new(
        Arc::new(policy.unwrap()),
        keep,
        None,
        tool::Threads::new(Arc::new(testkit::FixedClock::default())),
    ))
}

fn walks(denied: &DeniedFiles) -> Option<u64> {
    denied.state().watch.as_ref().map(Watch::walks)
}

#[test]
fn what_comes_between_two_calls_is_known_without_a_walk() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap();
    let denied = denied(&workspace, &serde_json::json!({"deny_write_paths": ["lock"]}), WatchMode::Fresh);
    let roots = [workspace.clone()];
    assert_eq!(denied.below(&roots, Writes::Apart).unwrap().marked, MarkedPaths::default());
    for round in 0..3 {
        let below = workspace.join(format!("a{round}/b"));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(".env"), "").unwrap();
        fs::write(below.join("lock"), "").unwrap();
        let marked = denied.below(&roots, Writes::Apart).unwrap().marked;
        assert_eq!((marked.hidden.len(), marked.frozen.len()), (round + 1, round + 1));
        assert_eq!(marked.hidden[round], below.join(".env"));
    }
    assert_eq!(walks(&denied), Some(1));
    // Other roots need another walk.
    let beside = tempfile::tempdir().unwrap();
    fs::write(beside.path().join("x.pem"), "").unwrap();
    let marked = denied.below(&[workspace, beside.path().to_owned()], Writes::Apart).unwrap().marked;
    assert_eq!(marked.hidden.len(), 4);
}

#[test]
fn one_call_alone_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".env"), "").unwrap();
    let denied = denied(folder.path(), &serde_json::json!({}), WatchMode::Once);
    assert_eq!(denied.below(&[folder.path().to_owned()], Writes::Apart).unwrap().marked.hidden.len(), 1);
    assert_eq!(walks(&denied), None);
}

#[test]
fn a_root_behind_a_link_is_judged_by_both_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    fs::create_dir_all(real.join("data/inner")).unwrap();
    fs::write(real.join("data/inner/one"), "").unwrap();
    fs::write(real.join("data/inner/two"), "").unwrap();
    std::os::unix::fs::symlink("data", real.join("link")).unwrap();
    let pattern = |name: &str| real.join(name).to_str().unwrap().to_owned();
    let lists = serde_json::json!({"deny_read_paths": [pattern("link/inner/one"), pattern("data/*/two")]});
    let denied = denied(Path::new("/nowhere"), &lists, WatchMode::Once);
    let marked = denied.below(&[real.join("link")], Writes::Apart).unwrap().marked;
    assert_eq!(marked.hidden, [real.join("link/inner/one"), real.join("link/inner/two")]);
}

/// Runs a command that only waits, and calls `act` when it has begun.
fn while_a_cell_runs(workspace: &Path, hiding: &MaskSet, act: impl Fn() + Send) {
    let spec = sandbox::CellSpec {
        workspace: workspace.to_owned(),
        frozen: hiding.marked.guarded.clone(),
        spool_directory: workspace.to_owned(),
        output_limit: 1 << 20,
        ..sandbox::CellSpec::default()
    };
    let host = sandbox::CellHost { late_masks: hiding.later.clone(), ..sandbox::CellHost::default() };
    let line = "echo begun; exec sleep 600".to_owned();
    let command =
        sandbox::Command { program: sandbox::Program::Shell(line), working_directory: workspace.to_owned() };
    let stopper = sandbox::Stopper::new().unwrap();
    let ended = stopper.clone();
    let outcome = sandbox::run(&spec, &host, &command, None, &stopper, &mut |_, _| {
        act();
        ended.stop();
    });
    assert_eq!(outcome.unwrap().ended, sandbox::EndReason::Stopped);
}

#[test]
fn the_end_of_an_own_change_waits_for_a_walk_on_another_thread_than_that_of_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let denied = denied(folder.path(), &serde_json::json!({}), WatchMode::Fresh);
    denied.begin_own_change(&[]);
    let own = OwnChange(denied.clone());
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let walking = denied.clone();
    // A walk for denied files holds the lock on the state.
    let walk = std::thread::spawn(move || {
        let _state = walking.state();
        locked.send(()).unwrap();
        released.recv_timeout(Duration::from_mins(1)).is_ok()
    });
    is_locked.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let other_call = async { release.send(()).unwrap() };
        tokio::join!(own.end(), other_call);
    });
    assert!(walk.join().unwrap(), "another call had its turn before the walk ended");
    assert_eq!(denied.state().own.under_way, 0);
}

#[test]
fn what_handfast_itself_puts_there_stays_and_what_comes_otherwise_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap().join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join(".bashrc"), "old").unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let store: Arc<dyn store_api::Store> =
        Arc::new(store_sqlite::SqliteStore::open(&folder.path().join("state")).unwrap());
    let (snapshots, _) =
        crate::snapshot::open(Some(&folder.path().join("changes")), &workspace, (&store, None), now).unwrap();
    let mut denied = denied(&workspace, &serde_json::json!({}), WatchMode::Fresh);
    Arc::get_mut(&mut denied).unwrap().area =
        snapshots.as_ref().map(|snapshots| snapshots.change_area().clone());
    let at = |path: &str| workspace.join(path);
    let put = |path: &str| {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), path).unwrap();
    };
    let hiding = denied.below(std::slice::from_ref(&workspace), Writes::Apart).unwrap();
    while_a_cell_runs(&workspace, &hiding, || {
        // Paths that a tool's plan names.
        denied.begin_own_change(&[at(".envrc")]);
        put(".envrc");
        put("sub/.envrc");
        denied.end_own_change(&[]);
        // Paths that only the end of a commit names.
        denied.begin_own_change(&[]);
        put(".vscode/tasks.json");
        put(".idea/run.xml");
        denied.settle();
        assert!(at(".vscode/tasks.json").exists(), "it is not decided yet");
        denied.end_own_change(&[at(".vscode")]);
        // The command cannot have replaced a frozen file, so the new file is not the command's.
        put("next");
        fs::rename(at("next"), at(".bashrc")).unwrap();
        put("sub/.mcp.json");
        put("plain");
        denied.settle();
    });
    for stays in [".envrc", ".vscode/tasks.json", ".bashrc", "plain"] {
        assert!(at(stays).exists(), "{stays}");
    }
    for goes in ["sub/.envrc", ".idea/run.xml", "sub/.mcp.json"] {
        assert!(!at(goes).exists(), "{goes}");
    }
    let kept = snapshots.unwrap().kept().unwrap();
    assert_eq!(kept.len(), 1);
    let notes = hiding.later.unwrap().take_notes();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains(&kept[0].id)), "{notes:?}");
    // After a cell has ended and was inspected, a new file is no command's.
    denied.settle();
    put("sub/.zshrc");
    denied.settle();
    assert!(at("sub/.zshrc").exists());
}
