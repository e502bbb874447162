//! The key of a vault in the key ring of a desktop, which is a real one.

#![allow(clippy::unwrap_used, reason = "a test program: what goes wrong in it ends it")]

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use jiff::Timestamp;
use tempfile::TempDir;
use testkit::desktop::Desktop;
use vault::{Change, Keys, Vault, VaultError};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const VALUE: &[u8] = b"sk-live-0123456789";

/// A vault with a secret in it, and a key file.
struct World(TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        vault::make_key_file(&world.key_file()).unwrap();
        world.with_key_file(None).set(&Change::named("x").unwrap(), VALUE, NOW).unwrap();
        world
    }

    fn key_file(&self) -> PathBuf {
        self.0.path().join("key")
    }

    fn with_key_file(&self, session_bus: Option<&str>) -> Vault {
        let session_bus = session_bus.map(str::to_owned);
        let keys = Keys { key_file: Some(self.key_file()), session_bus, ..Keys::default() };
        Vault::new(self.0.path().join("vault"), keys)
    }

    /// As a program opens it that has nothing but the desktop.
    fn on(&self, session_bus: &str) -> Vault {
        let keys = Keys { session_bus: Some(session_bus.to_owned()), ..Keys::default() };
        Vault::new(self.0.path().join("vault"), keys)
    }
}

fn opens(vault: &Vault) -> bool {
    vault.contents().is_ok_and(|contents| contents.get("x").unwrap().1 == VALUE)
}

#[test]
fn a_key_on_the_desktop_opens_the_vault_for_every_program_until_it_is_locked() {
    let (world, desktop) = (World::new(), Desktop::with_key_ring());
    assert!(matches!(world.on(desktop.address()).contents(), Err(VaultError::Locked)));
    world.with_key_file(Some(desktop.address())).keep_on_desktop().unwrap();
    let another = world.on(desktop.address());
    assert!(opens(&another) && opens(&world.on(desktop.address())));
    // The key of another vault is another item.
    let other = World::new();
    assert!(!opens(&other.on(desktop.address())));
    other.with_key_file(Some(desktop.address())).keep_on_desktop().unwrap();
    assert!(opens(&other.on(desktop.address())));

    // Also the one that has it already forgets it.
    assert!(world.on(desktop.address()).lock().unwrap());
    assert!(matches!(another.contents(), Err(VaultError::Locked)));
    assert!(!world.on(desktop.address()).lock().unwrap());
    assert!(opens(&other.on(desktop.address())));
}

#[test]
fn a_ring_that_is_locked_is_said_to_be_and_opens_no_dialog() {
    let (world, desktop) = (World::new(), Desktop::with_key_ring());
    world.with_key_file(Some(desktop.address())).keep_on_desktop().unwrap();
    desktop.lock();
    let said = |error: VaultError| {
        assert!(
            matches!(&error, VaultError::DesktopRing { problem } if problem.contains("locked")),
            "{error}"
        );
    };
    said(world.on(desktop.address()).contents().unwrap_err());
    said(world.with_key_file(Some(desktop.address())).keep_on_desktop().unwrap_err());
    // What the ring keeps cannot be taken out of it, and that is no lie.
    said(world.on(desktop.address()).lock().unwrap_err());
    // Nobody is asked again for each call.
    let vault = world.on(desktop.address());
    said(vault.contents().unwrap_err());
    drop(desktop);
    said(vault.contents().unwrap_err());
}

#[test]
fn after_rotation_the_desktop_keeps_no_old_key() {
    let (world, desktop) = (World::new(), Desktop::with_key_ring());
    let vault = world.with_key_file(Some(desktop.address()));
    vault.keep_on_desktop().unwrap();
    // Through a link, which stays one.
    let link = world.0.path().join("link");
    std::os::unix::fs::symlink(world.key_file(), &link).unwrap();
    let keys = Keys {
        key_file: Some(link.clone()),
        session_bus: Some(desktop.address().to_owned()),
        ..Keys::default()
    };
    Vault::new(world.0.path().join("vault"), keys).rotate(None).unwrap();
    assert!(link.is_symlink() && opens(&world.with_key_file(None)));
    assert!(matches!(world.on(desktop.address()).contents(), Err(VaultError::Locked)));
    vault.keep_on_desktop().unwrap();
    assert!(opens(&world.on(desktop.address())));
}

#[test]
fn without_a_ring_or_a_bus_it_stays_locked_and_says_why() {
    let world = World::new();
    let desktop = Desktop::without_key_ring();
    for (address, said) in [
        (desktop.address(), "nobody serves one"),
        ("unix:path=/nonexistent/bus", "session bus"),
        ("unix:abstract=handfast-nobody-is-here;tcp:host=localhost,port=1", "session bus"),
    ] {
        assert!(matches!(world.on(address).contents(), Err(VaultError::Locked)), "{address}");
        assert!(!world.on(address).lock().unwrap(), "{address}");
        let error = world.with_key_file(Some(address)).keep_on_desktop().unwrap_err();
        assert!(error.to_string().contains(said), "{address}: {error}");
    }
    let error = world.with_key_file(None).keep_on_desktop().unwrap_err();
    assert!(matches!(error, VaultError::DesktopRing { .. }));
}

#[test]
fn a_bus_that_talks_nonsense_opens_nothing() {
    let world = World::new();
    let nonsense: [&[u8]; 4] = [
        b"",
        b"REJECTED\r\n",
        b"OK 0\r\nl\x02\x01\x01\xff\xff\xff\xff\x01\0\0\0\xff\xff\xff\xff",
        b"OK 0\r\nl\x02\x01\x01\0\0\0\0\x01\0\0\0\x08\0\0\0\x05\x01u\0\x01\0\0\0\x01",
    ];
    for (number, said) in nonsense.into_iter().enumerate() {
        let path = world.0.path().join(format!("bus{number}"));
        let listening = UnixListener::bind(&path).unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listening.accept().unwrap();
            std::io::Write::write_all(&mut stream, said).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut asked = Vec::new();
            let _ = stream.read_to_end(&mut asked);
            // No more than who it is was told.
            assert!(!String::from_utf8_lossy(&asked).contains("AGE-SECRET-KEY"));
        });
        let address = format!("unix:path={}", path.display());
        assert!(matches!(world.on(&address).contents(), Err(VaultError::Locked)), "{number}");
        serving.join().unwrap();
    }
}
