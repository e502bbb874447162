//! Objects of the host that probes need: files, sockets and processes, made for the probes and
//! removed with them.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use super::amount;
use super::attempt::{MARKER, WAIT};
use super::finding::Attempter;
use crate::limits::values::Limits;
use crate::spec::CellSpec;

/// The objects on which attempts are made.
pub(super) struct Scene {
    workspace: TempDir,
    elsewhere: TempDir,
    pub(super) loopback: u16,
    pub(super) abstract_name: OsString,
    /// Processes to attack, one for the attempt and one for its control.
    pub(super) victims: [Victim; 2],
    /// Sockets that listen while the scene exists.
    _listeners: (TcpListener, [UnixListener; 3]),
}

impl Scene {
    pub(super) fn new(attempter: &Attempter) -> io::Result<Self> {
        let (workspace, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (inside, outside) = (workspace.path(), elsewhere.path());
        for folder in ["denied", "moved-in", "moved-out"] {
            fs::create_dir(inside.join(folder))?;
            fs::write(inside.join(folder).join("file"), MARKER)?;
        }
        fs::hard_link(inside.join("denied/file"), inside.join("other-name"))?;
        // Attempts make their files here, away from all denied files.
        fs::create_dir(inside.join("plain"))?;
        fs::write(inside.join("mode"), MARKER)?;
        fs::create_dir(inside.join("mount"))?;
        fs::create_dir(outside.join("shown"))?;
        fs::write(outside.join("file"), MARKER)?;
        let loopback = TcpListener::bind(("127.0.0.1", 0))?;
        // The name of a new folder is unique, so no other probe uses it.
        let unique = outside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let abstract_name = format!("handfast-probe-{unique}");
        let unix = [
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?,
            UnixListener::bind(outside.join("socket"))?,
            UnixListener::bind(inside.join("socket"))?,
        ];
        Ok(Self {
            loopback: loopback.local_addr()?.port(),
            abstract_name: abstract_name.into(),
            victims: [Victim::new(attempter, &unique, "in")?, Victim::new(attempter, &unique, "out")?],
            _listeners: (loopback, unix),
            workspace,
            elsewhere,
        })
    }

    /// Returns a path in the workspace.
    pub(super) fn inside(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    /// Returns a path outside of the workspace.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.elsewhere.path().join(name)
    }

    /// Returns the specification of the cell in which attempts are made.
    pub(super) fn spec(&self, attempter: &Attempter) -> CellSpec {
        CellSpec {
            workspace: self.workspace.path().to_owned(),
            read_only: vec![self.outside("shown"), attempter.program.clone()],
            masked: vec![self.inside("denied/file"), self.inside("moved-in/file"), self.inside("socket")],
            spool_directory: self.elsewhere.path().to_owned(),
            output_limit: 1 << 20,
            limits: Limits {
                memory: Some(amount::MEMORY / 2),
                processes: Some(amount::PROCESSES / 2),
                file_size: Some(amount::FILE / 2),
                ..Limits::default()
            },
            ..CellSpec::default()
        }
    }
}

/// A process of the host.
pub(super) struct Victim {
    process: Child,
    /// Argument that no other process has.
    pub(super) argument: OsString,
}

impl Victim {
    fn new(attempter: &Attempter, unique: &str, name: &str) -> io::Result<Self> {
        let argument = OsString::from(format!("victim-{name}-{unique}"));
        let mut process = attempter
            .outside()
            .args([WAIT.as_ref(), argument.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", attempter.program.display()))
            })?;
        // The output shows that the process has executed the other program.
        let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(output).read_line(&mut String::new())?;
        Ok(Self { process, argument })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The process may have been killed already; then this only reaps it.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Finds one of the usual system programs that run with the rights of their owner.
pub(super) fn set_user_id_program() -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let names = ["su", "passwd", "mount", "newgrp", "chsh", "chfn", "umount"];
    let paths = names.iter().flat_map(|name| ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name)));
    paths.into_iter().find(|path| {
        fs::metadata(path)
            .is_ok_and(|found| found.uid() == 0 && found.mode() & 0o4000 != 0 && found.mode() & 0o5 == 5)
    })
}
