//! Start of a cell of bwrap.
//!
//! bwrap builds the file system of an ordinary cell's view, and starts this program again in it as
//! the cell's first process. That process verifies that hidden files are hidden, applies Landlock
//! and the filter, and runs the command. Until then it knows nothing of the command.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{getegid, geteuid};

use super::arguments::{self, Arguments};
use super::tool::Tool;
use crate::cgroup::{self, Group, Owner};
use crate::child::report::Report;
use crate::child::request::{self, RequestPart};
use crate::enforcement::{
    Degraded, DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges,
};
use crate::error::SandboxError;
use crate::hint::not_offered;
use crate::home::InUse;
use crate::identity::{Identity, has_further_groups};
use crate::isolation::backend::{Abilities, Backend, StartRequest};
use crate::isolation::cell::Cell;
use crate::isolation::first_process::{CellFacts, CellParts, FirstProcess, ProcessCell};
use crate::landlock;
use crate::limits::machine::Machine;
use crate::limits::values::{Bounds, LimitInForce};
use crate::outcome::Origin;
use crate::overlay;
use crate::process::Process;
use crate::program;
use crate::roots::Roots;
use crate::spec::Entrance;
use crate::streams::above_standard;
use crate::view::{self, ShownParts};

/// Maximum wait for bwrap: a thousand times its usual time.
const TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The backend of the system's bwrap.
#[derive(Debug)]
pub(crate) struct Bubblewrap {
    /// Way into cells that bwrap makes. Without it, bwrap is not used.
    entrance: Option<Entrance>,
}

impl Bubblewrap {
    pub(crate) fn new(entrance: Option<Entrance>) -> Self {
        Self { entrance }
    }
}

impl Backend for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    /// An overlay, a session network and covers for later files need this program's own namespaces.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn Cell>, SandboxError> {
        launch(self.entrance.as_ref(), request).map(|cell| Box::new(cell) as Box<dyn Cell>)
    }
}

/// The parts of a cell of this backend.
struct BubblewrapParts {
    /// The process that made the cell and ends with the cell's first process.
    maker: Process,
}

impl CellParts for BubblewrapParts {
    fn end(self, process: Process, group: Option<Group>, _: bool) -> Result<Option<String>, SandboxError> {
        process.kill();
        process.end().map_err(SandboxError::io("waiting for the end of the cell"))?;
        drop((self.maker, group));
        Ok(None)
    }
}

// BOUNDED: one retry, because control groups are given up first.
fn launch(
    entrance: Option<&Entrance>,
    request: &StartRequest<'_>,
) -> Result<ProcessCell<BubblewrapParts>, SandboxError> {
    let StartRequest { spec, host, command, streams } = *request;
    // A host that refuses namespaces to root also refuses them to root's children.
    if geteuid().is_root() {
        return Err(not_offered("bwrap makes no cells for root", "start Handfast as an ordinary user"));
    }
    let entrance = entrance.ok_or_else(|| {
        not_offered("this program cannot enter the cells of bwrap", "start the program `handfast` itself")
    })?;
    let tool = Tool::find().ok_or_else(|| {
        not_offered("bwrap is not installed", "install the package `bubblewrap` of the system")
    })?;
    let roots = Roots::new(spec)?;
    let landlock = landlock::version();
    let mut start = program::prepare(spec, command, streams.announced())?;
    let home = host.shared_home(spec).and_then(|home| home.enter().ok());
    let kept = home.as_ref().map(InUse::kept);
    let shown =
        ShownParts { roots: &roots, identity: Identity::of_this_process()?, landlock, layers: None, kept };
    let view = view::decide(spec, shown)?;
    let arguments = Arguments::of(&view.steps, &roots, &tool, entrance)?;

    let whole = Machine::this();
    let by_namespace = whole.counts_processes_by_namespace && tool.makes_user_namespace();
    let machine = Machine { counts_processes_by_namespace: by_namespace, ..whole.clone() };
    let bounds = Bounds::of(&spec.limits, &machine);
    let mut group = cgroup::hierarchy()
        .zip(Owner::this())
        .and_then(|(hierarchy, owner)| Group::make(hierarchy, &owner, &bounds).map(|(_, group)| group).ok());
    if let Some(group) = group.as_mut().filter(|_| !by_namespace) {
        group.limit_processes(&bounds);
    }
    let limits = bounds.in_force(group.as_ref(), &machine);
    start.bounds = bounds.resources(&limits, &machine);
    start.processors = bounds.processors(&limits, &machine);

    let (control, inner) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(SandboxError::io("making a socket pair"))?;
    let started_at = overlay::now();
    let inner = above_standard(inner)?;
    let maker = tool.start(&arguments.words, &arguments.files, &inner, entrance)?;
    // After this drop, an end of bwrap closes the socket, which the wait below notices.
    drop(inner);
    let process = first_process(&control)?;
    arguments.unmoved.iter().try_for_each(arguments::CoveredFile::check)?;
    if group.as_mut().is_some_and(|group| group.attach(process.pid()).is_err()) {
        drop((process, maker));
        cgroup::give_up();
        return launch(Some(entrance), request);
    }
    let (ends, theirs) = streams.make(spec.terminal, None)?;
    let rules = view.rules.map(landlock::Rules::into_paths).unwrap_or_default();
    let part = RequestPart::Call { start: &start, standard: theirs.standard };
    let message = request::encode(&arguments.checks, &rules, &part, &[]);
    let descriptors: Vec<_> = theirs.descriptors.iter().map(AsFd::as_fd).collect();
    request::transmit(control.as_fd(), &message, &descriptors)
        .map_err(SandboxError::io("telling the cell what to run"))?;
    let enforcement = enforcement(&tool, &roots, landlock, limits, (view.home, view.missing))?;
    let first = FirstProcess { process, control, ends, group };
    let (origin, steps) = (Origin::Made, arguments.checks);
    let facts = CellFacts { enforcement, origin, started_at, steps, home };
    Ok(ProcessCell::new(request, first, facts, BubblewrapParts { maker }))
}

/// Waits for the first process of the cell.
fn first_process(control: &OwnedFd) -> Result<Process, SandboxError> {
    let silent = || {
        not_offered(
            "bwrap makes no cell on this machine",
            "see what `bwrap --unshare-all --ro-bind / / true` reports",
        )
    };
    let mut ready = [PollFd::new(control, PollFlags::IN)];
    if !matches!(poll(&mut ready, Some(&TIMEOUT)), Ok(1)) {
        return Err(silent());
    }
    match Report::receive_with(control.as_fd()) {
        Ok(Some((Report::Ready, Some(descriptor)))) => {
            let pid = id_of(&descriptor)?;
            Ok(Process::adopt(pid, descriptor))
        }
        _ => Err(silent()),
    }
}

/// Returns the id of a process in this process's pid namespace.
fn id_of(process: &OwnedFd) -> Result<i32, SandboxError> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()));
    let id = text
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok()));
    id.filter(|id| *id > 0).ok_or(SandboxError::Io {
        doing: "finding the first process of the cell",
        source: std::io::ErrorKind::NotFound.into(),
    })
}

fn enforcement(
    tool: &Tool,
    roots: &Roots,
    landlock_abi: Option<i32>,
    limits: Vec<LimitInForce>,
    (home, mut missing): (Home, Vec<String>),
) -> Result<Enforcement, SandboxError> {
    if landlock_abi.is_none() {
        missing.push("landlock".to_owned());
    }
    if has_further_groups(getegid().as_raw())? {
        missing.push("dropping the user's further groups".to_owned());
    }
    if !tool.makes_user_namespace() {
        missing.push("a user of its own".to_owned());
        // A set-user-id bwrap takes no sizes.
        missing.push("sizes of the folders in memory".to_owned());
    }
    let writable = roots.workspace().is_some_and(|root| root.writable);
    Ok(Enforcement {
        degraded: Some(Degraded::Bubblewrap),
        namespaces: &[],
        landlock_abi,
        seccomp: true,
        user: UserMapping::Own,
        denied_files: DeniedFiles::AtStart,
        network: NetworkReach::Own,
        workspace: if writable { WorkspaceChanges::Direct } else { WorkspaceChanges::ReadOnly },
        direct: Vec::new(),
        home,
        limits,
        missing,
    })
}
