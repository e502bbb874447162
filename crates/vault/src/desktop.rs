//! The key ring of the user's desktop, which keeps the key for as long as the user is logged in: that of GNOME, of KDE,
//! or whatever else serves the [Secret Service](https://specifications.freedesktop.org/secret-service-spec/latest/) on the session bus.
//!
//! It is asked for what it has, and nothing else: no dialog is ever opened by this, because nobody may be there to see one, and
//! what waits for nobody hangs. A ring that is locked is the user's to open.
//!
//! The key goes over the user's own socket as it is (the algorithm `plain`): who could listen there could as well ask for it.

mod bus;
mod wire;

use std::time::{Duration, Instant};

use self::bus::{Answer, Bus, Call, Failure};
use self::wire::{Reader, Writer};
use crate::{Locked, Result, VaultError};

/// For all that is asked of it at a time. A service that has to be started first is started in this time too.
const PATIENCE: Duration = Duration::from_secs(5);

const SERVICE: &str = "org.freedesktop.secrets";
const SERVICE_PATH: &str = "/org/freedesktop/secrets";
/// The path of nothing, where an object could be.
const NOTHING: &str = "/";

/// What is wrong with a ring, as [`VaultError::DesktopRing`] says it.
pub(crate) const LOCKED: &str =
    "it is locked; open it in its own program, or log in to the desktop, and try again";
const NONE: &str =
    "nobody serves one on the session bus; this needs a desktop with GNOME Keyring, KWallet or the like";
const NO_COLLECTION: &str = "it has no collection that is the default one; make one in its own program";
const GARBLED: &str = "its answer is none that its interface has";

/// A ring, and under which name this vault's key is kept in it.
pub(crate) struct Ring {
    bus: Bus,
    vault: String,
}

/// The key, or why there is none.
pub(crate) enum Kept {
    Key(Locked),
    /// There is one, in a collection that is locked.
    Locked,
    None,
}

impl Ring {
    /// The ring at this bus, for the vault of this name.
    pub(crate) fn at(address: &str, vault: String) -> Result<Self> {
        Ok(Self { bus: Bus::connect(address, Instant::now() + PATIENCE).map_err(failed)?, vault })
    }

    /// Keeps the key, in place of another one.
    pub(crate) fn keep(&mut self, key: &[u8]) -> Result<()> {
        let alias = self.ask("ReadAlias", "s", |arguments| arguments.text("default"))?;
        let collection = alias.read().text().ok_or_else(garbled)?.to_owned();
        if collection == NOTHING {
            return Err(problem(NO_COLLECTION));
        }
        let session = self.session()?;
        let mut arguments = Writer::new(1024 + self.vault.len() + key.len());
        arguments.array(8, |writer| {
            writer.align(8);
            writer.text("org.freedesktop.Secret.Item.Label");
            writer.signature("s");
            writer.text("Handfast: key of the vault");
            writer.align(8);
            writer.text("org.freedesktop.Secret.Item.Attributes");
            writer.signature("a{ss}");
            writer.texts(&self.attributes());
        });
        writer_of_secret(&mut arguments, &session, key);
        arguments.yes();
        let made = self
            .call(&collection, "Collection", "CreateItem", "a{sv}(oayays)b", arguments)
            .map_err(failed)?;
        let mut made = made.read();
        let _item = made.text().ok_or_else(garbled)?;
        let prompt = made.text().ok_or_else(garbled)?.to_owned();
        self.no_dialog(&prompt)
    }

    /// The key that is kept.
    pub(crate) fn get(&mut self) -> Result<Kept> {
        let (open, locked) = self.items().map_err(failed)?;
        let Some(item) = open.first() else {
            return Ok(if locked.is_empty() { Kept::None } else { Kept::Locked });
        };
        let session = self.session()?;
        let mut arguments = Writer::new(64);
        arguments.text(&session);
        let secret = self.call(item, "Item", "GetSecret", "o", arguments).map_err(failed)?;
        let mut secret = secret.read();
        let _session = secret.text().ok_or_else(garbled)?;
        let _parameters = secret.bytes().ok_or_else(garbled)?;
        Ok(Kept::Key(Locked::copy_of(secret.bytes().ok_or_else(garbled)?)))
    }

    /// Lets the key go. Whether there was one.
    pub(crate) fn forget(&mut self) -> Result<bool> {
        let (open, locked) = match self.items() {
            // Nobody who is not there has it.
            Err(failure) if failure.is_absence() => return Ok(false),
            found => found.map_err(failed)?,
        };
        for item in open.iter().chain(&locked) {
            let removed = self.call(item, "Item", "Delete", "", Writer::new(0)).map_err(failed)?;
            let prompt = removed.read().text().ok_or_else(garbled)?.to_owned();
            self.no_dialog(&prompt)?;
        }
        Ok(!open.is_empty() || !locked.is_empty())
    }

    fn attributes(&self) -> [(&str, &str); 2] {
        [("application", "handfast"), ("vault", &self.vault)]
    }

    /// The items that are this vault's: those that are open, and those that are locked.
    fn items(&mut self) -> Result<(Vec<String>, Vec<String>), Failure> {
        let mut arguments = Writer::new(64 + self.vault.len());
        arguments.texts(&self.attributes());
        let found = self.call(SERVICE_PATH, "Service", "SearchItems", "a{ss}", arguments)?;
        let mut found = found.read();
        let mut next = || {
            let paths = found.texts()?;
            Some(paths.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        next().zip(next()).ok_or(Failure::Garbled)
    }

    /// A session in which keys are sent as they are.
    fn session(&mut self) -> Result<String> {
        let opened = self.ask("OpenSession", "sv", |arguments| {
            arguments.text("plain");
            arguments.signature("s");
            arguments.text("");
        })?;
        let mut opened = opened.read();
        let session = |reader: &mut Reader<'_>| {
            (reader.signature()? == "s").then_some(())?;
            reader.text()?;
            reader.text().map(str::to_owned)
        };
        session(&mut opened).ok_or_else(garbled)
    }

    /// What would open a dialog is given up.
    fn no_dialog(&mut self, prompt: &str) -> Result<()> {
        if prompt == NOTHING {
            return Ok(());
        }
        // It stands for a dialog that was not opened yet; where that cannot be said any more, it ends with this connection.
        let _ = self.call(prompt, "Prompt", "Dismiss", "", Writer::new(0));
        Err(problem(LOCKED))
    }

    fn ask(&mut self, member: &str, signature: &str, write: impl FnOnce(&mut Writer)) -> Result<Answer> {
        let mut arguments = Writer::new(64);
        write(&mut arguments);
        self.call(SERVICE_PATH, "Service", member, signature, arguments).map_err(failed)
    }

    fn call(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        signature: &str,
        arguments: Writer,
    ) -> Result<Answer, Failure> {
        let interface = format!("org.freedesktop.Secret.{interface}");
        self.bus.call(&Call {
            destination: SERVICE,
            path,
            interface: &interface,
            member,
            signature,
            arguments,
        })
    }
}

/// A secret: its session, no parameters, the value, and what it is.
fn writer_of_secret(writer: &mut Writer, session: &str, key: &[u8]) {
    writer.align(8);
    writer.text(session);
    writer.array(1, |_| {});
    writer.array(1, |writer| writer.raw(key));
    writer.text("text/plain; charset=utf8");
}

fn problem(problem: &str) -> VaultError {
    VaultError::DesktopRing { problem: problem.to_owned() }
}

fn garbled() -> VaultError {
    problem(GARBLED)
}

fn failed(failure: Failure) -> VaultError {
    match failure {
        Failure::Unreachable(error) => {
            VaultError::DesktopRing { problem: format!("the session bus: {error}") }
        }
        Failure::Refused(name) if name.ends_with(".IsLocked") => problem(LOCKED),
        failure if failure.is_absence() => problem(NONE),
        Failure::Refused(name) => VaultError::DesktopRing { problem: format!("it says {name}") },
        Failure::Garbled => garbled(),
    }
}
