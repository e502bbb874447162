//! A place with a workspace, a state and plugins, in which calls run in real cells.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plugins::{PluginFolder, PluginStore};
use sandbox::{CellHost, CellSource, CellSpec};
use serde_json::{Value, json};
use tool::{
    AnyTool, CallId, Clock, Context, Data, Place as ToolPlace, Services, SessionId, StopReason, ToolError,
    dynamic_tool,
};
use tools_plugins::{PluginProcesses, PluginTool};

pub(crate) struct Place {
    around: tempfile::TempDir,
    pub(crate) store: PluginStore,
    processes: Arc<PluginProcesses>,
}

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        for folder in ["workspace", "state"] {
            std::fs::create_dir(around.path().join(folder)).unwrap();
        }
        let store = PluginStore::at(around.path().join("state/plugins"));
        let processes = Arc::new(PluginProcesses::new(around.path().join("state/processes")));
        Self { around, store, processes }
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.around.path().join(inside)
    }

    /// Writes a plugin that is a script for the shell, with further lines of its manifest.
    pub(crate) fn write(&self, script: &str, more: &str) -> PathBuf {
        let folder = self.path("plugin");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("main.sh"), script).unwrap();
        let manifest = format!(
            "name: tried\ndescription: A plugin of a test.\ncommand: [sh, main.sh]\n\
             input_schema: {{type: object, properties: {{text: {{type: string, description: Text.}}}}}}\n\
             output_schema: {{type: object, properties: {{n: {{type: integer}}, seen: {{type: string}}}}}}\n\
             example: {{arguments: {{}}, result: {{}}}}\n{more}\n"
        );
        std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
        folder
    }

    /// Writes and enables a plugin.
    pub(crate) fn plugin(&self, script: &str, more: &str) -> Arc<dyn AnyTool> {
        let folder = self.write(script, more);
        self.enable(&folder);
        self.tool().unwrap()
    }

    pub(crate) fn enable(&self, folder: &Path) {
        let content = PluginFolder::read(folder).unwrap();
        content.manifest().unwrap();
        self.store.enable("tried", &content, Timestamp::UNIX_EPOCH).unwrap();
    }

    pub(crate) fn tool(&self) -> Result<Arc<dyn AnyTool>, String> {
        let stored = self.store.all().unwrap().pop().unwrap();
        PluginTool::of(&self.store, &stored).map(dynamic_tool).map_err(|unusable| unusable.0)
    }

    fn spec(&self) -> CellSpec {
        CellSpec {
            workspace: self.path("workspace"),
            spool_directory: std::env::temp_dir(),
            output_limit: 1 << 20,
            ..CellSpec::default()
        }
    }

    fn context(&self) -> Context {
        let mut services = Services::default();
        services.insert(Arc::new(self.spec()));
        services.insert(Arc::new(CellHost::default()));
        services.insert(self.processes.clone());
        let spec = self.spec();
        services.insert(Arc::new(CellSource::new("owner".to_owned(), move |_| {
            Ok((spec.clone(), CellHost::default()))
        })));
        let (call, session) = (CallId("c1".to_owned()), SessionId("s".to_owned()));
        let place = ToolPlace::at(self.path("workspace"));
        Context::new(call, session, place, Duration::from_secs(30), Arc::new(Epoch), services)
    }

    pub(crate) fn processes(&self) -> &PluginProcesses {
        &self.processes
    }

    /// Makes a call.
    pub(crate) fn call(&self, tool: &Arc<dyn AnyTool>) -> Result<Value, ToolError> {
        call_with(tool, &self.context())
    }

    /// Makes a call whose deadline passes while it runs.
    pub(crate) fn call_too_long(
        &self,
        tool: &Arc<dyn AnyTool>,
        reason: StopReason,
    ) -> Result<Value, ToolError> {
        let context = self.context();
        let stop = context.stop.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || stop.request(reason));
            call_with(tool, &context)
        })
    }
}

fn call_with(tool: &Arc<dyn AnyTool>, context: &Context) -> Result<Value, ToolError> {
    let prepared = tool.prepare(json!({}), &context.place)?;
    let mut run = pin!(prepared.run(context));
    let mut task = std::task::Context::from_waker(Waker::noop());
    let Poll::Ready(result) = run.as_mut().poll(&mut task) else { panic!("it has to block") };
    match result.output? {
        Data::Value(value) => Ok(value),
        Data::Written(_) => panic!(),
    }
}

/// Waits for the state of another program, which sends no event.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what} never came about");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
