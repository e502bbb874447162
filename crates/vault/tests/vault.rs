//! Tests of the vault as programs use it: several at once, damaged files, wrong keys.

#![allow(clippy::unwrap_used, reason = "a test program: what goes wrong in it ends it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use vault::{
    Change, ForgeKind, ForgeLogin, HostRule, Keys, RequestPart, RequestParts, SecretBytes, Vault, VaultError,
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const VALUE: &[u8] = b"sk-live-0123456789\n\xc3\xa4\"\\";

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        vault::make_key_file(&folder.path().join("key")).unwrap();
        Self { folder }
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("vault").join(name)
    }

    fn with(&self, keys: Keys) -> Vault {
        Vault::new(self.folder.path().join("vault"), keys)
    }

    /// Opens the vault as another program would.
    fn vault(&self) -> Vault {
        self.with(Keys { key_file: Some(self.key_file()), ..Keys::default() })
    }

    fn with_passphrase(&self, passphrase: &str) -> Vault {
        self.with(Keys { passphrase: Some(SecretBytes::copy_of(passphrase.as_bytes())), ..Keys::default() })
    }
}

fn names(vault: &Vault) -> Vec<String> {
    vault.contents().unwrap().iter().map(|(entry, _)| entry.name.as_str().to_owned()).collect()
}

fn named(name: &str) -> Change {
    Change::named(name).unwrap()
}

fn at(name: &str, host: &str) -> Change {
    Change { hosts: Some(HostRule::parse_all([host]).unwrap()), ..named(name) }
}

#[test]
fn a_secret_is_found_by_every_program_and_goes_where_it_was_bound_to_alone() {
    let world = World::new();
    let vault = world.vault();
    assert!(!vault.exists() && names(&vault).is_empty());
    let change =
        Change { expires_at: Some(NOW + SignedDuration::from_hours(1)), ..at("token", "*.example.com") };
    assert!(!vault.set(&change, VALUE, NOW).unwrap());
    let other = world.vault();
    let asked =
        |host: &str, position, now| other.value_for("token", host, position, now).map(|value| value.to_vec());
    assert_eq!(asked("api.example.com", RequestPart::Header, NOW).unwrap(), VALUE);
    assert!(matches!(asked("example.com", RequestPart::Header, NOW), Err(VaultError::NotForHost)));
    assert!(matches!(asked("api.example.com", RequestPart::Query, NOW), Err(VaultError::NotForPlace { .. })));
    let later = NOW + SignedDuration::from_hours(1);
    assert!(matches!(asked("api.example.com", RequestPart::Header, later), Err(VaultError::Expired)));
    assert!(matches!(
        other.value_for("other", "a.example.com", RequestPart::Header, NOW),
        Err(VaultError::Unknown)
    ));

    // A new value keeps the binding of the old value; a value without a binding goes nowhere.
    assert!(other.set(&named("token"), b"another value", later).unwrap());
    assert_eq!(
        &vault.value_for("token", "api.example.com", RequestPart::Header, later).unwrap()[..],
        b"another value"
    );
    vault.set(&named("unbound"), b"another value", NOW).unwrap();
    assert!(matches!(vault.value_for("unbound", "", RequestPart::Header, NOW), Err(VaultError::NotForHost)));
    let everywhere = RequestParts::of(&[RequestPart::Query, RequestPart::Body]);
    vault.set(&Change { places: Some(everywhere), ..at("q", "h") }, b"another value", NOW).unwrap();
    assert!(other.value_for("q", "h", RequestPart::Body, NOW).is_ok());
    assert!(matches!(
        other.value_for("q", "h", RequestPart::Header, NOW),
        Err(VaultError::NotForPlace { .. })
    ));
    assert!(other.remove("q").unwrap() && !other.remove("q").unwrap());
    assert_eq!(names(&vault), ["token", "unbound"]);
}

#[test]
fn a_new_value_keeps_the_mark_of_a_login() {
    let world = World::new();
    let vault = world.vault();
    let login = ForgeLogin::new(ForgeKind::Gitlab, "me", None).unwrap();
    vault.set(&Change { login: Some(login.clone()), ..at("token", "h") }, VALUE, NOW).unwrap();
    vault.set(&named("token"), b"another value", NOW).unwrap();
    assert_eq!(world.vault().contents().unwrap().get("token").unwrap().0.login, Some(login));
    for wrong in ["", "a b", "a:b", "\u{fc}", "a\n", &"a".repeat(101)] {
        assert!(ForgeLogin::new(ForgeKind::Git, wrong, None).is_err(), "{wrong}");
    }
}

#[test]
fn the_last_use_is_noted_to_the_minute() {
    let world = World::new();
    let vault = world.vault();
    vault.set(&at("token", "h"), VALUE, NOW).unwrap();
    let last = || world.vault().contents().unwrap().get("token").unwrap().0.last_used_at;
    assert_eq!(last(), None);
    vault.value_for("token", "h", RequestPart::Header, NOW).unwrap();
    assert_eq!(last(), Some(NOW));
    vault.value_for("token", "h", RequestPart::Header, NOW + SignedDuration::from_secs(59)).unwrap();
    assert_eq!(last(), Some(NOW));
    let later = NOW + SignedDuration::from_secs(60);
    vault.value_for("token", "h", RequestPart::Header, later).unwrap();
    assert_eq!(last(), Some(later));
}

#[test]
fn values_that_could_not_be_covered_are_refused() {
    let world = World::new();
    let vault = world.vault();
    for short in [&b""[..], b"01234567890", "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}".as_bytes()] {
        assert!(matches!(vault.set(&named("x"), short, NOW), Err(VaultError::Short)));
    }
    assert!(matches!(vault.set(&named("x"), &vec![b'x'; vault::MAX_BYTES + 1], NOW), Err(VaultError::Long)));
    assert!(matches!(vault.set(&named("x"), &[0xff; 20], NOW), Err(VaultError::NoText)));
    assert!(!vault.exists());
    vault.set(&named("x"), b"012345678901", NOW).unwrap();
    vault.set(&named("y"), &vec![b'x'; vault::MAX_BYTES], NOW).unwrap();
    assert_eq!(names(&vault), ["x", "y"]);
}

/// Lists every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn nothing_that_is_stored_holds_a_value_or_can_be_read_by_others() {
    let world = World::new();
    let vault = world.vault();
    vault.set(&at("token", "h"), b"needle-in-a-haystack", NOW).unwrap();
    vault.set(&at("token", "h"), b"needle-in-a-haystack-2", NOW).unwrap();
    vault.rotate(None).unwrap();
    let looked_at = files(&world.folder.path().join("vault"));
    assert!(looked_at.len() >= 3, "{looked_at:?}");
    for path in looked_at {
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"needle"), "{}", path.display());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
    }
    assert!(!format!("{vault:?} {:?}", vault.contents().unwrap()).contains("needle"));
    assert!(vault.contents().unwrap().is_locked_in_memory());
}

#[test]
fn a_damaged_vault_is_found_out_and_the_generation_before_is_kept_and_put_back() {
    let world = World::new();
    world.vault().set(&named("first"), VALUE, NOW).unwrap();
    world.vault().set(&named("second"), VALUE, NOW).unwrap();
    let (path, previous) = (world.path("vault.age"), world.path("vault.previous.age"));
    let (whole, before) = (fs::read(&path).unwrap(), fs::read(&previous).unwrap());
    let mut damages: Vec<Vec<u8>> = (0..whole.len())
        .step_by(3)
        .map(|at| {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            damaged
        })
        .collect();
    damages.extend((0..whole.len()).step_by(7).map(|length| whole[..length].to_vec()));
    for damaged in damages {
        fs::write(&path, &damaged).unwrap();
        let vault = world.vault();
        assert!(vault.contents().is_err());
        assert!(vault.set(&named("third"), VALUE, NOW).is_err());
        assert_eq!(fs::read(&previous).unwrap(), before);
    }
    let vault = world.vault();
    vault.restore().unwrap();
    assert_eq!(names(&vault), ["first"]);
    // A vault that was opened before sees the change too.
    fs::write(&path, &whole).unwrap();
    assert_eq!(names(&vault), ["first", "second"]);
}

#[test]
fn of_writers_at_once_none_loses_what_another_has_stored() {
    let world = World::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let world = &world;
            scope.spawn(move || {
                let vault = world.vault();
                for number in 0..10 {
                    vault.set(&named(&format!("w{writer}-{number}")), VALUE, NOW).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&world.vault()).len(), 40);
    let (_, value) = world.vault().contents().map(|all| (0, all.get("w3-9").unwrap().1.to_vec())).unwrap();
    assert_eq!(value, VALUE);
}

#[test]
fn without_its_key_it_stays_shut_and_another_key_is_said_to_be_one() {
    let world = World::new();
    assert!(matches!(world.with(Keys::default()).set(&named("x"), VALUE, NOW), Err(VaultError::NoVault)));
    world.vault().set(&named("x"), VALUE, NOW).unwrap();
    assert!(matches!(world.with(Keys::default()).contents(), Err(VaultError::Locked)));
    let other = world.folder.path().join("other");
    vault::make_key_file(&other).unwrap();
    assert!(matches!(vault::make_key_file(&other), Err(VaultError::KeyFile { .. })));
    let with_other = world.with(Keys { key_file: Some(other.clone()), ..Keys::default() });
    assert!(matches!(with_other.contents(), Err(VaultError::Key { path }) if path == other));
    for (content, mode) in [("no key", 0o600), ("", 0o600)] {
        fs::write(&other, content).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(with_other.contents(), Err(VaultError::KeyFile { .. })));
    }
    fs::copy(world.key_file(), &other).unwrap();
    assert_eq!(names(&with_other), ["x"]);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o640)).unwrap();
    let again = world.with(Keys { key_file: Some(other), ..Keys::default() });
    assert!(
        matches!(again.contents(), Err(VaultError::KeyFile { problem, .. }) if problem.contains("chmod"))
    );
}

#[test]
fn a_key_file_that_is_none_is_said_to_be_what_it_is_and_a_link_to_one_is_one() {
    let world = World::new();
    world.vault().set(&named("x"), VALUE, NOW).unwrap();
    let at = |name: &str| world.folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    let private = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, private, 0).unwrap();
    for (link, to) in [("dangling", "nowhere"), ("loop", "loop"), ("to-folder", "folder"), ("good", "key")] {
        std::os::unix::fs::symlink(at(to), at(link)).unwrap();
    }
    for (name, said) in [
        ("missing", "it does not exist; `handfast vault make-key"),
        ("key/below", "it does not exist"),
        ("folder", "it is a folder"),
        ("to-folder", "it is a folder"),
        ("dangling", "a link to a missing file"),
        ("loop", "leads back to itself"),
        // A pipe without a writer: a blocking open would wait for ever.
        ("pipe", "it is not a file"),
    ] {
        let error = world.with(Keys { key_file: Some(at(name)), ..Keys::default() }).contents().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, VaultError::KeyFile { .. }) && text.contains(said), "{name}: {text}");
    }
    assert_eq!(names(&world.with(Keys { key_file: Some(at("good")), ..Keys::default() })), ["x"]);
}

#[test]
fn a_passphrase_opens_it_another_does_not_and_after_rotation_only_the_new_one() {
    let world = World::new();
    let vault = world.with_passphrase("correct horse");
    vault.set(&named("x"), VALUE, NOW).unwrap();
    assert!(vault.has_passphrase());
    assert_eq!(names(&world.with_passphrase("correct horse")), ["x"]);
    assert!(matches!(world.with_passphrase("battery staple").contents(), Err(VaultError::Passphrase)));
    let old = (fs::read(world.path("vault.age")).unwrap(), fs::read(world.path("identity.age")).unwrap());
    vault.rotate(Some(b"battery staple")).unwrap();
    assert!(matches!(world.with_passphrase("correct horse").contents(), Err(VaultError::Passphrase)));
    let rotated = world.with_passphrase("battery staple");
    assert_eq!((names(&rotated), names(&vault)), (vec!["x".to_owned()], vec!["x".to_owned()]));
    // The old key opens neither generation.
    fs::write(world.path("identity.age"), &old.1).unwrap();
    for name in ["vault.age", "vault.previous.age"] {
        let bytes = fs::read(world.path(name)).unwrap();
        fs::write(world.path("vault.age"), bytes).unwrap();
        assert!(
            matches!(world.with_passphrase("correct horse").contents(), Err(VaultError::Locked)),
            "{name}"
        );
    }
}

#[test]
fn a_key_in_the_ring_opens_it_until_it_is_locked_again() {
    let world = World::new();
    world.vault().set(&named("x"), VALUE, NOW).unwrap();
    let ring = || world.with(Keys { key_ring: true, ..Keys::default() });
    let another = ring();
    assert!(matches!(another.contents(), Err(VaultError::Locked)));
    match world.vault().unlock(Duration::from_mins(10)) {
        // Some containers' filters refuse key rings; then the vault reports that, and there is no
        // more to test.
        Err(VaultError::KeyRing { problem }) => {
            eprintln!("no key ring here: {problem}");
            return;
        }
        other => other.unwrap(),
    }
    assert_eq!(names(&another), ["x"]);
    assert!(ring().lock().unwrap());
    assert!(matches!(another.contents(), Err(VaultError::Locked)));
    assert!(!ring().lock().unwrap());
}
