//! The control group of one cell.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags, open};

use super::{Hierarchy, Owner, Version};
use crate::limits::values::Bounds;

/// First number of a cell's group.
const FIRST: u32 = 2;

/// Period over which processor time is measured, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;

/// The control group of one cell. Dropping it removes its folders; drop it after the end of the
/// cell.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    folder: PathBuf,
    /// Group of the same name under the processor controller; in version two, the same group.
    processors: Option<PathBuf>,
    limits_processors: bool,
    /// Group of the same name under version one's controller for the number of processes.
    processes: Option<PathBuf>,
    limits_processes: bool,
}

impl Group {
    /// Makes a group with the limits, and returns its number with it.
    pub(crate) fn make(hierarchy: &Hierarchy, owner: &Owner, bounds: &Bounds) -> io::Result<(u32, Self)> {
        static NEXT: AtomicU32 = AtomicU32::new(FIRST);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut group = Self::of(hierarchy, owner, number);
        fs::create_dir(&group.folder)?;
        group.limit(bounds)?;
        Ok((number, group))
    }

    /// Returns the existing group of this number.
    pub(crate) fn of(hierarchy: &Hierarchy, owner: &Owner, number: u32) -> Self {
        let name = owner.name(number);
        Self {
            version: hierarchy.version,
            folder: hierarchy.folder.join(&name),
            processors: hierarchy.processors.as_ref().map(|folder| folder.join(&name)),
            limits_processors: false,
            processes: hierarchy.processes.as_ref().map(|folder| folder.join(&name)),
            limits_processes: hierarchy.version == Version::Two,
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns true if the group enforces the limit on processors.
    pub(crate) fn limits_processors(&self) -> bool {
        self.limits_processors
    }

    /// Returns true if the group enforces the limit on processes.
    pub(crate) fn limits_processes(&self) -> bool {
        self.limits_processes
    }

    /// Enforces the limit on processes too, in version one, for a cell in which no other layer
    /// does. Must come before any process is attached. On failure, another layer has to enforce the
    /// limit.
    ///
    /// Two processes of a cell like this do not belong to the command.
    pub(crate) fn limit_processes(&mut self, bounds: &Bounds) {
        let Some(folder) = &self.processes else { return };
        let most = bounds.processes.saturating_add(2).to_string();
        self.limits_processes = fs::create_dir(folder).is_ok()
            && fs::write(folder.join("pids.max"), most)
                .inspect_err(|_| super::remove(folder.clone()))
                .is_ok();
    }

    /// Sets all limits, replacing earlier ones. If the limit on processors cannot be set, another
    /// layer has to enforce it.
    pub(crate) fn limit(&mut self, bounds: &Bounds) -> io::Result<()> {
        if let (Some(folder), Some(cpus)) = (&self.processors, bounds.cpus) {
            self.limits_processors = self.measure_out(folder, cpus).is_ok();
        }
        let set = |file: &str, value: &str| fs::write(self.folder.join(file), value);
        let optional = |result: io::Result<()>| match result {
            // A kernel that does not account for swap lacks this file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let memory = bounds.memory.to_string();
        match self.version {
            Version::One => {
                // The kernel requires the limit on memory plus swap to be at least the limit on
                // memory, so raise the former first. Equal limits mean that no memory is swapped
                // out to stay within the limit.
                optional(set("memory.memsw.limit_in_bytes", "-1"))?;
                set("memory.limit_in_bytes", &memory)?;
                optional(set("memory.memsw.limit_in_bytes", &memory))
            }
            Version::Two => {
                set("memory.max", &memory)?;
                optional(set("memory.swap.max", "0"))?;
                // The first process of the cell does not belong to the command.
                set("pids.max", &bounds.processes.saturating_add(1).to_string())
            }
        }
    }

    /// Limits the processor time of `folder`. In version one that is a separate group, made only
    /// for cells with this limit, because attaching a process to each further group costs time.
    fn measure_out(&self, folder: &Path, cpus: u64) -> io::Result<()> {
        let quota = cpus.saturating_mul(PERIOD).to_string();
        match self.version {
            Version::One => {
                match fs::create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
                fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())
                    .and_then(|()| fs::write(folder.join("cpu.cfs_quota_us"), quota))
                    .inspect_err(|_| super::remove(folder.to_owned()))
            }
            Version::Two => fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}")),
        }
    }

    /// Moves a process that has not started any child process into the group.
    pub(crate) fn attach(&mut self, pid: i32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())?;
        if let Some(folder) = self.processes.as_ref().filter(|_| self.limits_processes) {
            fs::write(folder.join("cgroup.procs"), pid.to_string())?;
        }
        self.attach_to_processors(pid)
    }

    /// Moves a process of the group into the separate processor group, if there is one.
    pub(crate) fn attach_to_processors(&mut self, pid: i32) -> io::Result<()> {
        match &self.processors {
            Some(folder) if self.version == Version::One && self.limits_processors => {
                fs::write(folder.join("cgroup.procs"), pid.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Opens the group for starting a process directly in it, if the kernel supports that.
    pub(crate) fn door(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match self.version {
            Version::One => None,
            Version::Two => open(&self.folder, flags, Mode::empty()).ok(),
        }
    }

    /// Returns the number of processes that the kernel killed because the group's memory was used
    /// up.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        counted(&self.folder.join(file), "oom_kill")
    }
}

/// Reads a counter from a file with one name and number a line; returns 0 if it is missing.
fn counted(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let number = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.version == Version::One
            && self.limits_processors
            && let Some(folder) = self.processors.take()
        {
            super::remove(folder);
        }
        if self.limits_processes
            && let Some(folder) = self.processes.take()
        {
            super::remove(folder);
        }
        super::remove(std::mem::take(&mut self.folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::machine::Machine;
    use crate::limits::values::Limits;

    fn bounds() -> Bounds {
        let machine = Machine { processors: 4, ..Machine::this().clone() };
        let (memory, processes, cpus) = (Some(1 << 20), Some(7), Some(2));
        Bounds::of(&Limits { memory, cpus, processes, ..Limits::default() }, &machine)
    }

    /// Uses a plain folder as the hierarchy, because this machine may have given the controllers to
    /// another hierarchy. The written files are the same.
    #[test]
    fn in_version_two_every_limit_is_written_into_the_one_group() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy {
            version: Version::Two,
            folder: folder.path().to_owned(),
            processors: Some(folder.path().to_owned()),
            processes: None,
        };
        let owner = Owner::this().unwrap();
        let (number, group) = Group::make(&hierarchy, &owner, &bounds()).unwrap();
        let own = folder.path().join(owner.name(number));
        let written = |name: &str| fs::read_to_string(own.join(name)).unwrap();
        let names = ["memory.max", "memory.swap.max", "pids.max", "cpu.max"];
        assert_eq!(names.map(written), ["1048576", "0", "8", "200000 100000"]);
        assert!(group.limits_processors() && group.limits_processes() && group.door().is_some());
        fs::write(own.join("memory.events"), "low 0\noom 1\noom_kill 2\n").unwrap();
        assert_eq!(group.killed_for_memory(), 2);
    }

    /// Tests the feature of version two that needs no controller: a process begins in a group.
    #[test]
    fn in_version_two_a_process_begins_in_its_group() {
        let own = super::super::place::OwnGroups::read();
        let Some(place) = own.and_then(|own| own.unified()) else { return };
        let owner = Owner::this().unwrap();
        let folder = place.folder.join(owner.name(u32::MAX));
        if fs::create_dir(&folder).is_err() {
            // This user may not make groups.
            return;
        }
        let group = Group {
            version: Version::Two,
            folder: folder.clone(),
            processors: None,
            limits_processors: false,
            processes: None,
            limits_processes: false,
        };
        let door = group.door().unwrap();
        let (here, there) = rustix::pipe::pipe().unwrap();
        let process = crate::process::start_in(Some(std::os::fd::AsFd::as_fd(&door)), 0, || {
            let _until_closed = rustix::io::read(&here, &mut [0_u8; 1]);
        });
        let process = process.unwrap();
        let inhabitants = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        assert_eq!(inhabitants.trim(), process.pid().to_string());
        assert!(fs::remove_dir(&folder).is_err(), "a group with a process in it is left alone");
        process.kill();
        process.end().unwrap();
        drop((there, group));
        // The kernel may count the process for a moment longer.
        while folder.exists() {
            let _not_yet = fs::remove_dir(&folder);
        }
    }

    #[test]
    fn a_count_is_found_by_its_whole_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
        assert_eq!(counted(file.path(), "oom_kill"), 3);
        assert_eq!(counted(file.path(), "oom"), 0);
        assert_eq!(counted(Path::new("/nonexistent"), "oom_kill"), 0);
    }
}
