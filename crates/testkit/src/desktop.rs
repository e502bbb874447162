//! A desktop's session bus with GNOME's key ring on it, in a folder of its own: the real programs, and no screen.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs a desktop's own programs, which are no command of a call"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The collection that the ring keeps its items in.
const COLLECTION: &str = "/org/freedesktop/secrets/collection/login";

/// The session bus of somebody who is logged in. It ends with the value, and the ring with it.
pub struct Desktop {
    bus: Child,
    address: String,
    folder: TempDir,
}

impl Desktop {
    /// With a key ring, which is open.
    pub fn with_key_ring() -> Self {
        let desktop = tempfile::tempdir().expect("a folder");
        let services = desktop.path().join("services");
        fs::create_dir(&services).expect("a folder for services");
        let home = desktop.path().display();
        // The ring is started by the bus when it is first asked, so that nobody has to wait for it.
        let start =
            format!("printf a-login-password | HOME={home} XDG_RUNTIME_DIR={home} exec gnome-keyring-daemon");
        let service = format!(
            "[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/sh -c \"{start} --unlock --foreground --components=secrets\"\n"
        );
        fs::write(services.join("org.freedesktop.secrets.service"), service).expect("its service");
        Self::start(desktop)
    }

    /// Without one.
    pub fn without_key_ring() -> Self {
        let desktop = tempfile::tempdir().expect("a folder");
        fs::create_dir(desktop.path().join("services")).expect("a folder for services");
        Self::start(desktop)
    }

    fn start(folder: TempDir) -> Self {
        let configuration = folder.path().join("bus.conf");
        fs::write(&configuration, bus_configuration(folder.path())).expect("the bus's configuration");
        let mut bus = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", configuration.display()))
            .args(["--nofork", "--print-address"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon: `cargo xtask test` installs it");
        let mut address = String::new();
        let printed = bus.stdout.take().expect("its output");
        BufReader::new(printed).read_line(&mut address).expect("its address");
        Self { bus, address: address.trim().to_owned(), folder }
    }

    /// What `DBUS_SESSION_BUS_ADDRESS` is there.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Locks the ring, as its own program does.
    pub fn lock(&self) {
        let locked = Command::new("dbus-send")
            .arg(format!("--bus={}", self.address))
            .args(["--dest=org.freedesktop.secrets", "--print-reply", "/org/freedesktop/secrets"])
            .arg("org.freedesktop.Secret.Service.Lock")
            .arg(format!("array:objpath:{COLLECTION}"))
            .output()
            .expect("dbus-send");
        assert!(locked.status.success(), "{}", String::from_utf8_lossy(&locked.stderr));
    }

    /// What the ring has written down.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

fn bus_configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
         \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n\
         <busconfig><type>session</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>\
         <servicedir>{folder}/services</servicedir><policy context=\"default\"><allow send_destination=\"*\" \
         eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>\n"
    )
}
