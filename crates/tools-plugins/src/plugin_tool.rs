//! The tool of one plugin.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plugins::{Manifest, PluginStore, PluginTest, RunMode, StoredPlugin, TestOutcome, WorkspaceUse};
use sandbox::{CellHost, CellSource, CellSpec, FoundProgram, SandboxError, Stopper};
use serde_json::Value;
use tool::{
    BoxFuture, Class, Code, CommandLine, Context, Data, DynamicTool, Effect, Example, Lane, NetworkLimit,
    Owner, Place, Plan, Presentation, Retry, RunResult, Spec, TextCap, Threads, Timeout, ToolError,
    static_name,
};

use crate::cell::{self, Collector};
use crate::conversation::{Broken, StopEvent};
use crate::outcome::{self, Failed};
use crate::processes::{PluginProcesses, ProcessKey, ServingPlugin};
use crate::provider_schema::check_provider_schema;

/// Maximum size of a response, by which a call is admitted.
const ANSWER_BYTES: u64 = plugins::LARGEST_ANSWER as u64;

/// Number of characters of a hash that texts show.
const SHORT_HASH: usize = 12;

/// Time between two looks at the stop of a call that waits for its turn.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Reason why a plugin has no tool, with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(pub String);

/// Plugin as a tool.
pub struct PluginTool {
    spec: Spec,
    description: String,
    manifest: Manifest,
    /// Folder in which the user keeps the plugin.
    folder: PathBuf,
    hash: String,
    /// Copy of the allowed content, which calls run.
    copy: PathBuf,
    store: PluginStore,
    output: jsonschema::Validator,
}

impl PluginTool {
    /// Makes the tool of an enabled plugin, if its folder still has the allowed content. Reads the folder.
    ///
    /// # Errors
    /// [`Unusable`], with the reason.
    pub fn of(store: &PluginStore, stored: &StoredPlugin) -> Result<Self, Unusable> {
        let (folder, hash) = (&stored.folder, &stored.state.hash);
        // Commands name a plugin by its folder.
        let name = name_of(folder);
        let wrong = |what: &dyn std::fmt::Display| Unusable(format!("the plugin {name} is not used: {what}"));
        let present = store.hash_of(folder).map_err(|error| wrong(&error))?;
        if present != *hash {
            return Err(wrong(&format_args!(
                "its files have changed since they were allowed; `handfast plugin enable {name}` shows the difference and asks"
            )));
        }
        let copy = store.copy_of(hash);
        let copied = store.hash_of(&copy).map_err(|error| wrong(&error))?;
        if copied != *hash {
            return Err(wrong(&"the copy of its files is damaged; enable it again"));
        }
        let manifest = Manifest::of_folder(&copy).map_err(|error| wrong(&error))?;
        check_provider_schema(&manifest).map_err(|error| wrong(&error))?;
        let output = jsonschema::validator_for(&manifest.output_schema).map_err(|error| wrong(&error))?;
        let spec =
            spec(&manifest).ok_or_else(|| wrong(&"this process has had too many tools; start it again"))?;
        let description = tool::visible(manifest.description.trim());
        let (folder, hash, store) = (folder.clone(), hash.clone(), store.clone());
        Ok(Self { spec, description, manifest, folder, hash, copy, store, output })
    }

    /// Returns the words of the command. A word that names a file of the plugin becomes the path of its copy.
    fn words(&self) -> Vec<String> {
        let word = |word: &String| {
            let inside = word.strip_prefix("./").unwrap_or(word);
            let file = self.copy.join(inside);
            let is_relative =
                Path::new(inside).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if is_relative && file.is_file() { tool::path_text(&file) } else { word.clone() }
        };
        self.manifest.command.iter().map(word).collect()
    }

    /// Checks that the plugin may run now.
    fn check_state(&self) -> Result<(), ToolError> {
        let name = &self.manifest.name;
        let refused = |message: String| {
            let hint =
                format!("a human decides about it: `handfast plugin enable {}`", name_of(&self.folder));
            Err(ToolError::new(Code::Unavailable, message).hint(hint).retry(Retry::Never))
        };
        let state = self
            .store
            .of(&self.folder)
            .map_err(|fault| ToolError::new(Code::Runtime, fault.to_string()).because(fault))?;
        match state.filter(|state| state.is_enabled && state.hash == self.hash) {
            None => refused(format!("the plugin {name} was disabled or changed")),
            Some(state) => match state.quarantine {
                Some(quarantine) => refused(format!(
                    "the plugin {name} is quarantined since {}, because it failed {} times in a row: {}",
                    quarantine.since, state.failures, quarantine.reason
                )),
                None => Ok(()),
            },
        }
    }

    fn call(&self, context: &Context, arguments: &Value) -> RunResult<Data> {
        if let Err(refused) = self.check_state() {
            return Err(refused).into();
        }
        let made = match self.manifest.mode {
            RunMode::Once => self.run_in_cell(context, arguments),
            RunMode::Serve => self.ask_process(context, arguments),
        };
        made.unwrap_or_else(|error| Err(error).into())
    }

    /// Sends the request to the process of the plugin, which is started if it does not run.
    fn ask_process(&self, context: &Context, arguments: &Value) -> Result<RunResult<Data>, ToolError> {
        let (processes, source) = (context.service::<PluginProcesses>()?, context.service::<CellSource>()?);
        let name = &self.manifest.name;
        let key = ProcessKey {
            owner: source.owner().to_owned(),
            plugin: self.folder.clone(),
            hash: self.hash.clone(),
        };
        let uses = self.manifest.effects.workspace;
        let place = &context.place.workspace;
        let seen = (uses > WorkspaceUse::None).then(|| tool::path_text(place));
        let request = plugins::request_line(arguments, &context.call.0, seen.as_deref());
        let stop = StopEvent::of(&context.stop).map_err(|errno| {
            ToolError::new(Code::Runtime, format!("the call cannot wait for {name}: {errno}")).because(errno)
        })?;
        let owned = processes.of(context, key, name)?;
        let mut running = loop {
            if let Some(running) = owned.running.try_lock_for(LOOK_EVERY) {
                break running;
            }
            // Another call has its turn.
            context.stop.check()?;
        };
        let mut is_second = false;
        let output = loop {
            let serving = match running.as_mut() {
                Some(serving) => serving,
                None => {
                    let plugin = ServingPlugin {
                        uses,
                        connects: !self.manifest.effects.hosts.is_empty(),
                        copy: &self.copy,
                        words: self.words(),
                    };
                    is_second = true;
                    running.insert(processes.start(&source, plugin, place)?)
                }
            };
            serving.program.touch();
            let answer = match serving.talk.ask(request.as_bytes(), &stop) {
                // A process that waited for long may have ended, which says nothing of this call. Nothing was sent, so
                // nothing is done twice.
                Err(Broken::EndedBefore) if !is_second => {
                    *running = None;
                    continue;
                }
                Ok(line) => plugins::read_answer(&line, &self.output).map_err(|fault| Failed::by(&fault)),
                Err(Broken::Ended | Broken::EndedBefore) => {
                    Err(outcome::ended(&serving.program, serving.found, !is_second))
                }
                Err(broken) => Err(outcome::broken(context, broken)),
            };
            break answer.map_err(|failed| failed.with_stderr(&serving.program.last_words()));
        };
        let output = match output {
            Ok(plugins::Answer::Data(data)) => {
                self.note_success(context);
                Ok(Data::Value(data))
            }
            Ok(plugins::Answer::Refusal(error)) => {
                self.note_success(context);
                Err(error)
            }
            Err(failed) => {
                // The next answer of the process could be about anything.
                *running = None;
                Err(self.failed(context, failed))
            }
        };
        Ok(output.into())
    }

    fn run_in_cell(&self, context: &Context, arguments: &Value) -> Result<RunResult<Data>, ToolError> {
        let (given, host) = (context.service::<CellSpec>()?, context.service::<CellHost>()?);
        let uses = self.manifest.effects.workspace;
        let place = &context.place.workspace;
        let seen = (uses > WorkspaceUse::None).then(|| tool::path_text(place));
        let request = plugins::request_line(arguments, &context.call.0, seen.as_deref());
        let request = cell::RequestForm::of(request);
        let cell = cell::met(&given, uses, &self.copy, &request);
        let host = cell::host(&host, uses);
        let command = cell::command(&self.words(), if seen.is_some() { place } else { &self.copy }, request);
        let stopper = Stopper::new().map_err(outcome::cannot_start)?;
        let at_request = stopper.clone();
        context.stop.on_request(move |_| at_request.stop());
        let mut collector = Collector::new(stopper.clone());
        let mut run = |cell: &CellSpec| {
            let mut report = |stream, bytes: &[u8]| collector.take(stream, bytes);
            sandbox::run(cell, &host, &command, None, &stopper, &mut report)
        };
        let ended = match run(&cell) {
            // Not started yet: an isolation that has no overlay here runs the program without one.
            Err(SandboxError::Overlay { .. } | SandboxError::Unavailable { .. })
                if cell.overlay.is_some() && !cell.strict && !cell.overlay_only =>
            {
                let ended = run(&CellSpec { overlay: None, ..cell.clone() });
                if ended.is_ok() {
                    context.warn(
                        "the plugin ran on the workspace itself, so its changes cannot be undone".to_owned(),
                    );
                }
                ended
            }
            other => other,
        };
        let ended = ended.map_err(outcome::cannot_start)?;
        self.prepare_next(context, &cell, &host);
        let facts = outcome::Facts::of(&ended, uses);
        let output = outcome::read(context, &ended, &collector, &self.output, || {
            self.manifest.command.first().map_or(FoundProgram::Shown, |word| FoundProgram::of(word, &cell))
        });
        let (output, changes) = match output {
            Ok(plugins::Answer::Data(data)) => {
                self.note_success(context);
                (Ok(Data::Value(data)), tool::ChangeTreatment::Commit)
            }
            Ok(plugins::Answer::Refusal(error)) => {
                self.note_success(context);
                (Err(error.effect(facts.effect_of_failure())), tool::ChangeTreatment::Discard)
            }
            Err(failed) => {
                let error = self.failed(context, failed).effect(facts.effect_of_failure());
                (Err(error), tool::ChangeTreatment::Discard)
            }
        };
        Ok(facts.result(output, changes))
    }

    /// Prepares a cell for the next call, if the plugin has a network of its own: no other program's cell waits there.
    /// The answer does not wait for this. The changes of each call that writes have a place of their own, so such a
    /// cell is not prepared.
    fn prepare_next(&self, context: &Context, cell: &CellSpec, host: &CellHost) {
        let declared = &self.manifest.effects;
        let is_alone = declared.hosts.is_empty() && host.spawner.is_some();
        if !is_alone || declared.workspace == WorkspaceUse::Write {
            return;
        }
        let Ok(threads) = context.service::<Threads>() else { return };
        let mut cell = cell.clone();
        cell.home_files.retain(|(path, _)| path != Path::new(cell::REQUEST));
        // A cell is covered when its call comes, with the masks of that call.
        let host = CellHost { late_masks: None, ..host.clone() };
        // Without a prepared cell, the next call makes its own and reports errors.
        let _later = threads.start("next-plugin", Owner::Session(context.session.clone()), move |stop| {
            if stop.requested().is_some() {
                return;
            }
            let _made = host.make_ready(&cell);
            if let Some(spawner) = &host.spawner {
                spawner.look_after_the_ended();
            }
        });
    }

    fn note_success(&self, context: &Context) {
        if let Err(fault) = self.store.note_success(&self.folder, &self.hash) {
            context.warn(fault.to_string());
        }
    }

    /// Records a failure and makes its error. The end of the call by its caller is none.
    fn failed(&self, context: &Context, failed: Failed) -> ToolError {
        let name = &self.manifest.name;
        let Failed { code, reason, stderr, is_fault } = failed;
        let mut error = ToolError::new(code, format!("the plugin {name} failed: {reason}"));
        if !stderr.is_empty() {
            error = error.data(serde_json::json!({"stderr": stderr}));
        }
        if !is_fault {
            return error;
        }
        match self.store.note_failure(&self.folder, &self.hash, &reason, context.clock.now()) {
            Ok(state) if !state.is_enabled => error.hint(format!(
                "the plugin was taken back, because one of its first {} runs failed; a human decides about it: \
                 `handfast plugin enable {name}`",
                plugins::FIRST_RUNS
            )),
            Ok(state) if state.quarantine.is_some() => error.hint(format!(
                "the plugin is quarantined, because it failed {} times in a row; a human decides about it: \
                 `handfast plugin enable {}`",
                state.failures,
                name_of(&self.folder)
            )),
            Ok(state) => error.hint(format!(
                "this was failure {} in a row; after {} the plugin is quarantined",
                state.failures,
                plugins::FAILURES_BEFORE_QUARANTINE
            )),
            Err(fault) => {
                context.warn(fault.to_string());
                error
            }
        }
    }
}

impl DynamicTool for PluginTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> &Value {
        &self.manifest.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.manifest.output_schema
    }

    fn plan(&self, _arguments: &Value, place: &Place) -> Result<Plan, ToolError> {
        let effects = &self.manifest.effects;
        let network = NetworkLimit { hosts: effects.hosts.clone(), secrets: effects.secrets.clone() };
        let plan = match self.manifest.mode {
            RunMode::Once => {
                let command = CommandLine::Argv(self.words());
                Plan::of(vec![Effect::Run { command, directory: place.workspace.clone() }]).on_snapshot()
            }
            RunMode::Serve => {
                let name = self.manifest.name.clone();
                let (server, definition) = (format!("plugin {name}"), self.hash.clone());
                Plan::of(vec![Effect::UseTool { server, tool: name, definition }])
            }
        };
        Ok(Plan { level: Some(self.spec.level), network: Some(network), ..plan })
    }

    fn preview(&self, _arguments: &Value) -> Option<String> {
        let hash: String = self.hash.chars().take(SHORT_HASH).collect();
        let declared = self.manifest.effects.described().join(", ");
        Some(format!("plugin {} with content {hash}: {declared}", self.manifest.name))
    }

    fn answer_bytes(&self) -> u64 {
        ANSWER_BYTES
    }

    fn is_plugin(&self) -> bool {
        true
    }

    fn only_waits(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, context: &'a Context, arguments: Value) -> BoxFuture<'a, RunResult<Data>> {
        Box::pin(async move { self.call(context, &arguments) })
    }
}

/// Returns the name by which commands know the plugin in a folder.
fn name_of(folder: &Path) -> String {
    tool::visible(&folder.file_name().unwrap_or_default().to_string_lossy())
}

/// Returns the fixed properties of the tool; `None` if this process keeps no more names.
fn spec(manifest: &Manifest) -> Option<Spec> {
    let effects = &manifest.effects;
    let changes = effects.workspace == WorkspaceUse::Write;
    let reads_only = !changes && effects.hosts.is_empty();
    let PluginTest { arguments, expected, .. } = &manifest.example;
    let result = match expected {
        TestOutcome::Result(result) => Value::Object(result.clone()).to_string(),
        TestOutcome::Error(_) => "{}".to_owned(),
    };
    Some(Spec {
        title: static_name(&manifest.name.replace('_', " "))?,
        example: Example {
            files: &[],
            arguments: static_name(&arguments.to_string())?,
            result: static_name(&result)?,
        },
        level: manifest.least_level(),
        class: Class {
            reads_only,
            destructive: changes,
            idempotent: reads_only,
            open_world: !effects.hosts.is_empty(),
        },
        timeout: Timeout { default: manifest.timeout, max: manifest.timeout },
        lane: if manifest.mode == RunMode::Serve { Lane::Service } else { Lane::Command },
        text: TextCap::Default,
        presentation: Presentation::Record,
        ..Spec::reading(static_name(&manifest.name)?, "")
    })
}

#[cfg(test)]
mod tests;
