//! Limits on a command's use of the machine, and the layers that enforce them.
//!
//! The strongest layer that the machine offers enforces each limit: control groups, then the
//! kernel's resource limits, then sampling from outside. Every result reports the layer.

pub(crate) mod machine;
pub(crate) mod space;
mod total;
pub(crate) mod values;
pub(crate) mod watchdog;

use crate::cgroup::{Group, Version};
use crate::child::blueprint::{Bound, Resource};
use crate::outcome::Exit;
use machine::Machine;
use values::Bounds;

pub use total::ProcessTotal;
pub use values::{Layer, Limit, LimitInForce, Limits};

impl Limits {
    /// Returns the built-in values on this machine; limits without a built-in value are `None`.
    pub fn built_in() -> Self {
        let machine = Machine::this();
        let Bounds { memory, processes, open_files, .. } = Bounds::of(&Self::default(), machine);
        let (memory, processes, open_files) = (Some(memory), Some(processes), Some(open_files));
        Self { memory, processes, open_files, ..Self::default() }
    }
}

/// Built-in limit on processes and threads (Design section 7).
const PROCESSES: u64 = 512;

/// Allowance for processes and threads that a user starts elsewhere while a command runs, if the
/// kernel counts them together: those of one or two browsers.
const ELSEWHERE: u64 = 1024;

/// Built-in limit on open files: more than compilers, databases and browsers open, and far below
/// the kernel's limit for one user.
const OPEN_FILES: u64 = 65_536;

impl Bounds {
    pub(crate) fn of(limits: &Limits, machine: &Machine) -> Self {
        Self {
            memory: limits.memory.unwrap_or(machine.memory / 2),
            process_memory: limits.process_memory,
            cpus: limits.cpus.map(|cpus| cpus.max(1)).filter(|cpus| *cpus < machine.processors),
            processes: limits.processes.unwrap_or(PROCESSES),
            process_count: limits.process_count,
            open_files: limits.open_files.unwrap_or(OPEN_FILES).min(machine.open_files.hard),
            file_size: limits.file_size,
            disk: limits.disk,
        }
    }

    /// Returns the limits with the layer that enforces each, in a cell with this control group.
    pub(crate) fn in_force(&self, group: Option<&Group>, machine: &Machine) -> Vec<LimitInForce> {
        let version = group.map(|group| match group.version() {
            Version::One => Layer::CgroupV1,
            Version::Two => Layer::CgroupV2,
        });
        let processes = version.filter(|_| group.is_some_and(Group::limits_processes));
        let by_user = if machine.counts_processes_by_namespace { Layer::Rlimit } else { Layer::Watchdog };
        let mut found = vec![
            (Limit::Memory, Some(self.memory), version.unwrap_or(Layer::Watchdog)),
            (Limit::ProcessMemory, self.process_memory, Layer::Rlimit),
            (Limit::Processes, Some(self.processes), processes.unwrap_or(by_user)),
            (Limit::ProcessCount, self.process_count, Layer::Watchdog),
            (Limit::OpenFiles, Some(self.open_files), Layer::Rlimit),
            (Limit::FileSize, self.file_size, Layer::Rlimit),
            (Limit::Disk, self.disk, Layer::Watchdog),
        ];
        let by_group = group.is_some_and(Group::limits_processors);
        let processors = version.filter(|_| by_group).unwrap_or(Layer::Affinity);
        found.insert(1, (Limit::Cpus, self.cpus, processors));
        found
            .into_iter()
            .filter_map(|(limit, value, layer)| Some(LimitInForce { limit, value: value?, layer }))
            .collect()
    }

    /// Returns the resource limits that the command's process sets for itself before `execve`,
    /// given the other layers in force.
    pub(crate) fn resources(&self, in_force: &[LimitInForce], machine: &Machine) -> Vec<Bound> {
        let mut bounds = vec![Bound {
            resource: Resource::OpenFiles,
            soft: machine.open_files.soft.min(self.open_files),
            hard: self.open_files,
        }];
        let mut both = |resource, value| bounds.push(Bound { resource, soft: value, hard: value });
        // The first process of the cell does not belong to the command.
        let mut processes = self.processes.saturating_add(1);
        if !machine.counts_processes_by_namespace {
            // The kernel counts all processes of the user. This coarse limit bounds the damage
            // between two samples of the watchdog, which enforces the exact limit.
            processes = processes.saturating_add(machine::processes_now()).saturating_add(ELSEWHERE);
        }
        // A process cannot get a higher limit than this process has.
        both(Resource::Processes, processes.min(machine.most_processes));
        if let Some(size) = self.file_size {
            both(Resource::FileSize, size);
        }
        // This limit ensures that a single process cannot outrun the watchdog with private memory.
        let is_watched = in_force.iter().any(|it| it.limit == Limit::Memory && it.layer == Layer::Watchdog);
        let of_all = is_watched.then_some(self.memory);
        if let Some(memory) = self.process_memory.into_iter().chain(of_all).min() {
            both(Resource::Data, memory);
        }
        bounds
    }

    /// Returns the processors on which the command starts; empty for all.
    pub(crate) fn processors(&self, in_force: &[LimitInForce], machine: &Machine) -> Vec<u64> {
        let by_affinity = |it: &LimitInForce| it.limit == Limit::Cpus && it.layer == Layer::Affinity;
        let Some(cpus) = self.cpus.filter(|_| in_force.iter().any(by_affinity)) else { return Vec::new() };
        machine.some_processors(cpus)
    }
}

/// Returns the limit for which the kernel has killed the command or, for memory, any process of the
/// cell.
pub(crate) fn exceeded(group: Option<&Group>, exit: Exit, in_force: &[LimitInForce]) -> Option<LimitInForce> {
    let limit = match exit {
        _ if group.is_some_and(|group| group.killed_for_memory() > 0) => Limit::Memory,
        Exit::Signal(libc::SIGXFSZ) => Limit::FileSize,
        _ => return None,
    };
    in_force.iter().find(|it| it.limit == limit).copied()
}

#[cfg(test)]
mod tests {
    use super::machine::OpenFiles;
    use super::*;

    fn machine() -> Machine {
        Machine {
            memory: 8 << 30,
            processors: 4,
            allowed: vec![0, 1, 2, 3],
            open_files: OpenFiles { soft: 1024, hard: 4096 },
            most_processes: 10_000,
            counts_processes_by_namespace: true,
        }
    }

    #[test]
    fn what_is_not_named_has_the_built_in_value_and_all_cores_are_no_limit() {
        let bounds = Bounds::of(&Limits { cpus: Some(4), ..Limits::default() }, &machine());
        assert_eq!((bounds.memory, bounds.cpus, bounds.processes), (4 << 30, None, 512));
        assert_eq!(bounds.open_files, 4096, "never more than this process may have");
        let named: Vec<_> = bounds.in_force(None, &machine()).iter().map(|it| it.limit).collect();
        assert_eq!(named, [Limit::Memory, Limit::Processes, Limit::OpenFiles]);
    }

    #[test]
    fn without_a_control_group_the_weaker_layers_are_named_and_set() {
        let limits = Limits {
            memory: Some(1 << 20),
            process_memory: Some(1 << 19),
            cpus: Some(1),
            processes: Some(10),
            process_count: Some(9),
            open_files: Some(100),
            file_size: Some(7),
            disk: Some(8),
        };
        let machine = machine();
        let bounds = Bounds::of(&limits, &machine);
        let in_force = bounds.in_force(None, &machine);
        let layers: Vec<_> =
            in_force.iter().map(|it| (it.limit.as_str(), it.value, it.layer.as_str())).collect();
        assert_eq!(
            layers,
            [
                ("memory", 1 << 20, "watchdog"),
                ("cpus", 1, "affinity"),
                ("process_memory", 1 << 19, "rlimit"),
                ("processes", 10, "rlimit"),
                ("process_count", 9, "watchdog"),
                ("open_files", 100, "rlimit"),
                ("file_size", 7, "rlimit"),
                ("disk", 8, "watchdog"),
            ]
        );
        assert_eq!(bounds.processors(&in_force, &machine).len(), 1);
        let set = bounds.resources(&in_force, &machine);
        let of = |resource| set.iter().find(|it| it.resource == resource).map(|it| (it.soft, it.hard));
        assert_eq!(of(Resource::Processes), Some((11, 11)));
        assert_eq!(of(Resource::OpenFiles), Some((100, 100)));
        assert_eq!(of(Resource::FileSize), Some((7, 7)));
        assert_eq!(of(Resource::Data), Some((1 << 19, 1 << 19)));
    }

    #[test]
    fn where_the_kernel_counts_the_processes_of_a_user_the_watchdog_holds_the_limit_and_the_kernel_a_coarser_one()
     {
        let machine = Machine { counts_processes_by_namespace: false, ..machine() };
        let bounds = Bounds::of(&Limits::default(), &machine);
        let in_force = bounds.in_force(None, &machine);
        let processes = in_force.iter().find(|it| it.limit == Limit::Processes).unwrap();
        assert_eq!((processes.value, processes.layer), (512, Layer::Watchdog));
        let resources = bounds.resources(&in_force, &machine);
        let coarse = resources.iter().find(|it| it.resource == Resource::Processes).unwrap();
        // The limit never exceeds that of the process that sets it.
        assert!(coarse.hard > 512 + ELSEWHERE && coarse.hard <= 10_000, "{coarse:?}");
    }
}
