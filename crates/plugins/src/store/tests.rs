use super::*;

struct Place {
    store: PluginStore,
    source: tempfile::TempDir,
    _state: tempfile::TempDir,
}

fn place() -> Place {
    let (state, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(source.path().join("main.sh"), "one").unwrap();
    Place { store: PluginStore::at(state.path().join("plugins")), source, _state: state }
}

impl Place {
    fn content(&self) -> PluginFolder {
        PluginFolder::read(self.source.path()).unwrap()
    }

    fn enable(&self) -> PluginFolder {
        let content = self.content();
        self.store.enable("p", &content, Timestamp::UNIX_EPOCH).unwrap();
        content
    }

    fn copies(&self) -> usize {
        std::fs::read_dir(self.store.folder.join("copies")).unwrap().count()
    }
}

#[test]
fn allowed_content_is_copied_and_a_later_change_does_not_reach_the_copy() {
    let place = place();
    let first = place.enable();
    std::fs::write(place.source.path().join("main.sh"), "two").unwrap();
    let copy = PluginFolder::read(&place.store.copy_of(&first.hash)).unwrap();
    assert_eq!(copy.hash, first.hash);
    assert_ne!(place.content().hash, first.hash);
    let second = place.enable();
    assert_eq!(place.store.of(place.source.path()).unwrap().unwrap().hash, second.hash);
    assert_eq!(place.copies(), 1, "the copy of the earlier content is gone");
    place.store.forget(place.source.path()).unwrap();
    assert_eq!((place.store.all().unwrap().len(), place.copies()), (0, 0));
}

#[test]
fn failures_in_a_row_lead_to_quarantine_and_a_success_between_them_does_not() {
    let place = place();
    let (hash, folder) = (place.enable().hash, place.source.path());
    let fail = || place.store.note_failure(folder, &hash, "crash\u{1b}[2J", Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((fail().failures, fail().quarantine), (1, None));
    place.store.note_success(folder, &hash).unwrap();
    assert_eq!((fail().failures, fail().quarantine), (1, None));
    let reason = fail().quarantine.unwrap().reason;
    assert!(reason.contains("crash") && !reason.contains('\u{1b}'), "{reason}");
    place.enable();
    let state = place.store.of(folder).unwrap().unwrap();
    assert_eq!((state.failures, state.quarantine), (0, None));
    let other = place.store.note_failure(folder, "another hash", "x", Timestamp::UNIX_EPOCH);
    assert!(matches!(other, Err(StoreFault::Unknown)), "a call of earlier content says nothing of this one");
}

#[test]
fn a_failure_in_the_first_runs_takes_a_new_plugin_back_and_a_later_one_does_not() {
    let place = place();
    let (content, folder) = (place.content(), place.source.path());
    let fail = || {
        place.store.note_failure(folder, &content.hash, "crash", Timestamp::UNIX_EPOCH).unwrap();
        place.store.of(folder).unwrap().unwrap()
    };
    let begin = || place.store.enable_on_trial("p", &content, Timestamp::UNIX_EPOCH).unwrap();
    begin();
    for _ in 1..FIRST_RUNS {
        place.store.note_success(folder, &content.hash).unwrap();
    }
    let state = fail();
    let reason = state.quarantine.unwrap().reason;
    assert!(!state.is_enabled && reason.contains("taken back") && reason.contains("crash"), "{reason}");
    begin();
    for _ in 0..FIRST_RUNS {
        place.store.note_success(folder, &content.hash).unwrap();
    }
    let state = fail();
    assert_eq!((state.is_enabled, state.failures, state.quarantine), (true, 1, None));
}

#[test]
fn an_allowed_plugin_is_enabled_once_its_files_are_in_place_and_forgotten_without_them() {
    let place = place();
    let content = place.content();
    let folder = place.source.path();
    place.store.intend("p", &content, Timestamp::UNIX_EPOCH).unwrap();
    assert!(
        !place.store.of(folder).unwrap().unwrap().is_enabled,
        "not before its files are known to be there"
    );
    place.store.settle_pending().unwrap();
    let state = place.store.of(folder).unwrap().unwrap();
    assert_eq!((state.is_enabled, state.is_pending, state.first_runs_left), (true, false, Some(FIRST_RUNS)));
    for change in ["other", "none"] {
        place.store.intend("p", &content, Timestamp::UNIX_EPOCH).unwrap();
        match change {
            "other" => std::fs::write(folder.join("main.sh"), "other").unwrap(),
            _ => std::fs::remove_file(folder.join("main.sh")).unwrap(),
        }
        place.store.settle_pending().unwrap();
        assert_eq!(place.store.of(folder).unwrap(), None, "{change}");
    }
}

#[test]
fn what_a_killed_process_leaves_counts_for_nothing() {
    let place = place();
    let first = place.enable();
    let copies = place.store.folder.join("copies");
    std::fs::create_dir(copies.join(".partial-x")).unwrap();
    std::fs::write(copies.join(".partial-x/main.sh"), "half").unwrap();
    std::fs::create_dir(copies.join("a".repeat(64))).unwrap();
    std::fs::write(place.store.folder.join(".partial-y"), "{\"version\":1,\"plu").unwrap();
    assert_eq!(place.store.of(place.source.path()).unwrap().unwrap().hash, first.hash);
    place.enable();
    assert_eq!(place.copies(), 1);
    assert!(!place.store.folder.join(".partial-y").exists());
}

#[test]
fn it_refuses_a_damaged_state() {
    let place = place();
    place.enable();
    for text in ["{", "{\"version\":2,\"plugins\":{}}"] {
        std::fs::write(place.store.folder.join(STATE_FILE), text).unwrap();
        let fault = place.store.all().unwrap_err().to_string();
        assert!(fault.contains("move it away"), "{fault}");
        assert!(place.store.disable(place.source.path()).is_err());
    }
}
