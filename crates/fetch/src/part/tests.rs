use super::*;

fn body() -> Body {
    Body { validator: "\"one\"".to_owned(), total: Some(10), place: "there".to_owned() }
}

struct World {
    folder: tempfile::TempDir,
    parts: Parts,
    name: Name,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::in_folder(folder.path().join("inner"));
        Self { folder, parts, name: Name::of(["a", "b"]) }
    }

    fn hold(&self) -> Part {
        self.parts.hold(&self.name, &|| true).unwrap().unwrap()
    }

    fn begun(&self, content: &[u8]) -> Part {
        let mut part = self.hold();
        part.begin(body()).unwrap();
        part.add(content, content.len() as u64).unwrap();
        part
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.parts.path(self.name.as_str(), extension)
    }

    fn names(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("inner")).unwrap().count()
    }
}

fn content(part: &mut Part) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    part.copy_to(&mut file, &|| true).unwrap();
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_let_go_is_gone_on_with_and_what_is_whole_leaves_nothing() {
    let world = World::new();
    drop(world.begun(b"one "));
    let mut part = world.hold();
    assert_eq!((part.body(), part.received()), (Some(&body()), 4));
    part.add(b"two", 7).unwrap();
    drop(part);
    let mut part = world.hold();
    assert_eq!(content(&mut part), b"one two");
    part.end();
    assert_eq!(world.names(), 0);
    // Nothing that was never begun stays either.
    drop(world.hold());
    assert_eq!(world.names(), 0);
}

#[test]
fn what_a_killed_program_wrote_counts_up_to_its_last_note() {
    let world = World::new();
    let mut part = world.begun(&vec![1; 5 * 1024 * 1024]);
    part.add(&[2; 100], 5 * 1024 * 1024 + 100).unwrap();
    // What is there in the moment in which it is killed.
    let copies = [BYTES, NOTE].map(|extension| (world.path(extension), std::fs::read(world.path(extension))));
    part.end();
    for (path, bytes) in copies {
        std::fs::write(path, bytes.unwrap()).unwrap();
    }
    let mut part = world.hold();
    assert_eq!(part.received(), 5 * 1024 * 1024);
    assert!(content(&mut part) == vec![1; 5 * 1024 * 1024]);
}

#[test]
fn what_was_changed_cut_or_has_no_note_is_not_used() {
    for spoil in [
        |world: &World| std::fs::write(world.path(BYTES), b"onE two").unwrap(),
        |world: &World| std::fs::write(world.path(BYTES), b"one").unwrap(),
        |world: &World| std::fs::remove_file(world.path(BYTES)).unwrap(),
        |world: &World| std::fs::remove_file(world.path(NOTE)).unwrap(),
        |world: &World| std::fs::write(world.path(NOTE), b"{\"bytes\": 4}").unwrap(),
        // As a version wrote it that covered nothing.
        |world: &World| {
            let note = std::fs::read_to_string(world.path(NOTE)).unwrap();
            let mut note: serde_json::Value = serde_json::from_str(&note).unwrap();
            note.as_object_mut().unwrap().remove("received");
            std::fs::write(world.path(NOTE), note.to_string()).unwrap();
        },
    ] {
        let world = World::new();
        drop(world.begun(b"one two"));
        spoil(&world);
        let part = world.hold();
        assert_eq!((part.body(), part.received()), (None, 0));
    }
    let world = World::new();
    drop(world.begun(b"one two"));
    // What nobody vouches for behind it is let go.
    OpenOptions::new().append(true).open(world.path(BYTES)).unwrap().write_all(b" more").unwrap();
    assert_eq!(content(&mut world.hold()), b"one two");
}

#[test]
fn one_at_a_time_holds_a_part_and_another_name_is_another() {
    let world = World::new();
    let part = world.begun(b"one");
    assert!(world.parts.hold(&world.name, &|| true).unwrap().is_none());
    world.parts.sweep(SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 200));
    assert_eq!(part.received(), 3);
    drop(part);
    assert_eq!(world.hold().received(), 3);
    // A list is not its texts joined.
    let other = Name::of(["ab", ""]);
    assert_ne!(other, world.name);
    assert_eq!(world.parts.hold(&other, &|| true).unwrap().unwrap().received(), 0);
    let stopped = world.parts.hold(&world.name, &|| false).unwrap_err();
    assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
    assert_eq!(world.hold().received(), 3, "it was kept all the same");
}

#[test]
fn what_is_old_and_what_is_too_much_goes() {
    let world = World::new();
    drop(world.begun(b"one"));
    let changed = std::fs::metadata(world.path(BYTES)).unwrap().modified().unwrap();
    world.parts.sweep(changed + KEPT - Duration::from_secs(1));
    assert_eq!(world.names(), 2);
    world.parts.sweep(changed + KEPT + Duration::from_secs(1));
    assert_eq!(world.names(), 0);
    for number in 0..u64::try_from(MOST).unwrap() + 3 {
        let mut part = world.parts.hold(&Name::of([number.to_string()]), &|| true).unwrap().unwrap();
        part.begin(body()).unwrap();
        part.add(b"one", 3).unwrap();
        part.file.set_modified(changed + Duration::from_secs(number)).unwrap();
    }
    world.parts.sweep(changed);
    assert_eq!(world.names(), 2 * MOST);
    assert!(!world.parts.path(Name::of(["0"]).as_str(), BYTES).exists());
}
