//! The processes of plugins that serve: one for each plugin and owner.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use plugins::WorkspaceUse;
use sandbox::{
    CellRequest, CellSource, FoundProgram, Lifetime, PipedAs, PipedProgram, ProgramFolder, WorkspaceView,
    remove_left_folders,
};
use tool::{Code, Context, Owner, Resource, ResourcePool, ResourceUsage, Retry, ToolError};

use crate::cell;
use crate::conversation::Conversation;

/// Maximum number of processes at once. Each is a cell.
const MOST: usize = 32;
/// Life of a process: ten minutes without a call, and half a day at most.
const LIFETIME: Lifetime = Lifetime { idle: Duration::from_mins(10), absolute: Duration::from_hours(12) };

/// The processes of a runtime.
pub struct PluginProcesses {
    /// Folder, private to the user, with a folder for each process.
    folder: PathBuf,
    owned: Mutex<HashMap<ProcessKey, Arc<OwnedProcess>>>,
    is_closed: AtomicBool,
}

/// Key of a process. Changed content is another process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProcessKey {
    /// Name of the owner of the process's network.
    pub(crate) owner: String,
    /// Folder of the plugin.
    pub(crate) plugin: PathBuf,
    /// Hash of its content.
    pub(crate) hash: String,
}

/// The place of a process, which is started when it is first used.
pub(crate) struct OwnedProcess {
    owner: Owner,
    since: Timestamp,
    name: String,
    /// Calls take turns: the protocol has one answer after each request.
    pub(crate) running: Mutex<Option<ServingProcess>>,
}

/// A process that serves.
pub(crate) struct ServingProcess {
    pub(crate) program: PipedProgram,
    pub(crate) talk: Conversation,
    /// Program that the command names.
    pub(crate) found: FoundProgram,
}

/// Plugin whose process is to start.
pub(crate) struct ServingPlugin<'a> {
    pub(crate) uses: WorkspaceUse,
    /// True if the plugin declares a host.
    pub(crate) connects: bool,
    /// Copy of the plugin's files.
    pub(crate) copy: &'a Path,
    pub(crate) words: Vec<String>,
}

impl PluginProcesses {
    /// Creates the pool, without a process. Removes what a killed runtime has left in the folder.
    pub fn new(folder: PathBuf) -> Self {
        remove_left_folders(&folder);
        Self { folder, owned: Mutex::default(), is_closed: AtomicBool::default() }
    }

    /// Ends the processes of the plugin in this folder, because its content changed or it was disabled.
    pub fn end_of(&self, plugin: &Path) {
        self.owned.lock().retain(|key, _| key.plugin != plugin);
    }

    /// Returns the place of the process with this key.
    pub(crate) fn of(
        &self,
        context: &Context,
        key: ProcessKey,
        name: &str,
    ) -> Result<Arc<OwnedProcess>, ToolError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(ToolError::new(Code::Unavailable, "this runtime is shutting down"));
        }
        let mut owned = self.owned.lock();
        if let Some(known) = owned.get(&key) {
            return Ok(known.clone());
        }
        if owned.len() >= MOST {
            // A place without a process holds nothing.
            owned.retain(|_, process| process.running.try_lock().is_none_or(|running| running.is_some()));
        }
        if owned.len() >= MOST {
            let message = format!("{MOST} processes of plugins run already");
            return Err(ToolError::new(Code::Quota, message)
                .hint("wait until one of them has been idle for ten minutes, or end a session")
                .retry(Retry::AfterMs(60_000)));
        }
        let process = Arc::new(OwnedProcess {
            owner: Owner::Session(context.session.clone()),
            since: context.clock.now(),
            name: name.to_owned(),
            running: Mutex::new(None),
        });
        owned.insert(key, process.clone());
        Ok(process)
    }

    /// Starts a process in a cell of the source. Blocks until it runs.
    pub(crate) fn start(
        &self,
        source: &CellSource,
        plugin: ServingPlugin<'_>,
        workspace: &Path,
    ) -> Result<ServingProcess, ToolError> {
        let folder = ProgramFolder::make(&self.folder).map_err(|error| {
            ToolError::new(Code::Runtime, format!("cannot make a folder for the process: {error}"))
                .because(error)
        })?;
        let request = CellRequest {
            shows: Vec::new(),
            folder: folder.path().to_owned(),
            workspace: WorkspaceView::ReadOnly,
            is_shared: false,
        };
        let (given, mut host) = source.cell(request).map_err(|error| {
            ToolError::new(Code::Unavailable, format!("the cell of the process cannot be made: {error}"))
        })?;
        let spec = cell::met_serving(&given, plugin.uses, plugin.copy, folder.path());
        host.kept_home = None;
        if plugin.uses == WorkspaceUse::None {
            host.late_masks = None;
        }
        if !plugin.connects {
            // Not even the servers of its session are for a plugin without a host.
            (host.spawner, host.network, host.has_egress) = (None, None, false);
        }
        let directory = if plugin.uses == WorkspaceUse::None { plugin.copy } else { workspace };
        let found = plugin.words.first().map_or(FoundProgram::Shown, |word| FoundProgram::of(word, &spec));
        let words: Vec<OsString> = plugin.words.into_iter().map(OsString::from).collect();
        let command = (words, directory.to_owned());
        let (program, pipes) =
            PipedProgram::start(folder, (spec, host), command, PipedAs::Standard, LIFETIME, || {})
                .map_err(crate::outcome::cannot_start)?;
        Ok(ServingProcess { program, talk: Conversation::over(pipes), found })
    }
}

impl ResourcePool for PluginProcesses {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let owned = self.owned.lock();
        let runs = owned
            .values()
            .filter(|process| process.running.try_lock().is_none_or(|running| running.is_some()));
        runs.map(|process| Resource {
            kind: "plugin",
            owner: process.owner.clone(),
            since: process.since,
            description: process.name.clone(),
            usage: ResourceUsage { descriptors: Some(2), ..ResourceUsage::default() },
        })
        .collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.is_closed.store(true, Ordering::Release);
        }
        for process in self.owned.lock().values().filter(|process| owner.includes(&process.owner)) {
            // A process in the middle of a call ends with the stop of that call.
            if let Some(serving) = process.running.try_lock().as_ref().and_then(|running| running.as_ref()) {
                serving.program.begin_to_end();
            }
        }
    }

    fn join(&self, owner: &Owner) {
        let ended: Vec<Arc<OwnedProcess>> = {
            let mut owned = self.owned.lock();
            owned
                .extract_if(|_, process| owner.includes(&process.owner))
                .map(|(_, process)| process)
                .collect()
        };
        for process in ended {
            if let Some(serving) = process.running.lock().take() {
                serving.program.end();
            }
        }
    }
}
