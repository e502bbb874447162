//! `handfast plugin`: plugins, by the user's own hand.

mod tests_of_plugin;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use plugins::{
    FolderError, FoundPlugin, Manifest, PluginFolder, PluginState, SourceKind, difference, is_plugin_name,
    scaffold,
};
use serde_json::json;
use store_api::{Store, StoreError};
use tool::{Clock, Code};
use tools_plugins::check_provider_schema;

use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::cli_plugin::PluginCommand;
use crate::clock::SystemClock;
use crate::config::{ConfigFile, WORKSPACE_FILE};
use crate::host_environment::HostEnvironment;
use crate::pager::print_listing;
use crate::places::{open_store, state_folder, workspace};
use crate::plugin_places::PluginPlaces;
use crate::report::{note, table, warn};

/// Maximum number of characters of a status in a list.
const STATUS: usize = 100;

pub(super) fn run(global: &Global, command: PluginCommand) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let options = global.run_options();
    let workspace = workspace(&options, &host_environment, &warn)?;
    let state = state_folder(&options, &host_environment)?;
    let places = PluginPlaces::of(&workspace, host_environment.configuration.as_deref(), &state);
    match command {
        PluginCommand::New { name, language, here } => {
            let kind = if here { SourceKind::Workspace } else { SourceKind::User };
            new(&places, &name, language.of_plugin(), kind)?;
        }
        PluginCommand::Test { name, json } => {
            return tests_of_plugin::run(global, &places.find(&name)?, json);
        }
        PluginCommand::List { json } => {
            let store = open_store(&options, &host_environment)?;
            let uses_workspace = !is_untrusted(store.as_ref(), &workspace)?;
            store.close()?;
            list(&places, uses_workspace, json)?;
        }
        PluginCommand::Enable { name, yes } => {
            let store = open_store(&options, &host_environment)?;
            return enable(global, &places, store.as_ref(), &name, yes);
        }
        PluginCommand::Disable { name } => {
            let store = open_store(&options, &host_environment)?;
            let folder = known_folder(&places, &name)?;
            recorded(store.as_ref(), "plugin disable", &folder, || Ok(places.store.disable(&folder)?))?;
            note(&format!("{} is disabled", tool::visible(&name)));
        }
        PluginCommand::Remove { name, yes } => {
            let store = open_store(&options, &host_environment)?;
            return remove(global, &places, store.as_ref(), &name, yes);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a change between two rows of the audit.
pub(super) fn recorded(
    store: &dyn Store,
    what: &str,
    folder: &Path,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    struct Recorded(Failure);
    impl From<StoreError> for Recorded {
        fn from(error: StoreError) -> Self {
            Self(error.into())
        }
    }
    let arguments = json!({"folder": tool::path_text(folder)});
    let runtime = |_: &Recorded| Code::Runtime;
    engine::by_hand((store, &SystemClock), what, &arguments, runtime, || work().map_err(Recorded))
        .map_err(|Recorded(failure)| failure)
}

fn new(
    places: &PluginPlaces,
    name: &str,
    language: plugins::Language,
    kind: SourceKind,
) -> Result<(), Failure> {
    if !is_plugin_name(name) {
        return Err(Failure::usage(format!(
            "`{}` is no name of a plugin: it begins with a small letter, and has small letters, digits and single _ alone, at most 40",
            tool::visible(name)
        )));
    }
    let Some(around) = places.folder(kind) else {
        return Err(Failure::usage("there is no home folder for your plugins; use --here"));
    };
    let folder = around.join(name);
    let shown = tool::visible(&tool::path_text(&folder));
    scaffold(&folder, name, language).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{shown} exists already; choose another name"))
        }
        _ => Failure::from(format!("cannot make {shown}: {error}")),
    })?;
    print(&format!("{shown}\n"))?;
    note(&format!(
        "edit its files, try it with `handfast plugin test {name}`, and make it a tool with `handfast plugin enable {name}`"
    ));
    Ok(())
}

/// Returns true if the workspace has a configuration that is not trusted. Its plugins are then no tools.
fn is_untrusted(store: &dyn Store, workspace: &Path) -> Result<bool, Failure> {
    let path = workspace.join(WORKSPACE_FILE);
    let read = ConfigFile::read(&path).map_err(|error| error.without_what_lies_outside(workspace));
    let Some(file) = read.map_err(Failure::usage)? else { return Ok(false) };
    Ok(store.trust().trusted_hash(&path.canonicalize()?)? != Some(file.hash))
}

/// Line of the list.
struct Row {
    found: FoundPlugin,
    state: Option<PluginState>,
    status: &'static str,
    reason: Option<String>,
    present_hash: Option<String>,
    manifest: Option<Manifest>,
}

impl Row {
    fn of(places: &PluginPlaces, found: FoundPlugin, uses_workspace: bool) -> Result<Self, Failure> {
        let state = places.store.of(&found.folder)?;
        let is_used = found.kind == SourceKind::User || uses_workspace;
        // The hash and the manifest alone stay in memory.
        let content = found.read().and_then(|(content, manifest)| {
            check_provider_schema(&manifest)?;
            Ok((content.hash, manifest))
        });
        let (status, reason) = status(&content, state.as_ref(), is_used);
        let (present_hash, manifest) = content.ok().unzip();
        Ok(Self { found, state, status, reason, present_hash, manifest })
    }
}

/// Returns what a plugin is now, in words.
fn status(
    content: &Result<(String, Manifest), FolderError>,
    state: Option<&PluginState>,
    is_used: bool,
) -> (&'static str, Option<String>) {
    let present = match content {
        Err(error) => return ("wrong", Some(error.to_string())),
        Ok((hash, _)) => hash,
    };
    match state {
        None => ("new", None),
        Some(state) if state.quarantine.is_some() => {
            ("quarantined", state.quarantine.as_ref().map(|quarantine| quarantine.reason.clone()))
        }
        Some(state) if !state.is_enabled => ("disabled", None),
        Some(state) if state.hash != *present => {
            let what = "its files have changed since they were allowed, so it is no tool";
            ("changed", Some(what.to_owned()))
        }
        Some(_) if !is_used => {
            let what = format!(
                "the {WORKSPACE_FILE} of this workspace is not trusted, so it is no tool; `handfast trust` makes it trusted"
            );
            ("untrusted", Some(what))
        }
        Some(state) => ("enabled", state.last_failure.clone()),
    }
}

fn list(places: &PluginPlaces, uses_workspace: bool, json: bool) -> Result<(), Failure> {
    let rows = places.all().into_iter().map(|found| Row::of(places, found, uses_workspace));
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    if json {
        let shown = rows.iter().map(|row| {
            let manifest = row.manifest.as_ref();
            json!({
                "name": row.found.name,
                "folder": tool::path_text(&row.found.folder),
                "owner": row.found.kind.as_str(),
                "status": row.status,
                "reason": row.reason,
                "failures": row.state.as_ref().map_or(0, |state| state.failures),
                "allowed_hash": row.state.as_ref().map(|state| &state.hash),
                "present_hash": row.present_hash,
                "level": manifest.map(Manifest::least_level),
                "declares": manifest.map(|manifest| manifest.effects.described()),
            })
        });
        return print_json(&shown.collect::<Vec<_>>());
    }
    if rows.is_empty() {
        note("there are no plugins; `handfast plugin new NAME` makes one");
        return Ok(());
    }
    let cells = rows.iter().map(|row| {
        let status = row.status;
        let shown =
            row.reason.as_ref().map_or_else(|| status.to_owned(), |reason| format!("{status}: {reason}"));
        vec![
            tool::visible(&row.found.name),
            row.found.kind.as_str().to_owned(),
            row.manifest.as_ref().map(|manifest| manifest.least_level().to_string()).unwrap_or_default(),
            row.state.as_ref().map_or(0, |state| state.failures).to_string(),
            tool::visible(&shown).chars().take(STATUS).collect(),
        ]
    });
    print_listing(&table(&["name", "owner", "level", "failures", "status"], cells))?;
    Ok(())
}

fn enable(
    global: &Global,
    places: &PluginPlaces,
    store: &dyn Store,
    name: &str,
    yes: bool,
) -> Result<ExitCode, Failure> {
    let found = places.find(name)?;
    let (content, manifest) = readable(&found)?;
    let state = places.store.of(&found.folder)?;
    let copied = |hash: &str| PluginFolder::read(&places.store.copy_of(hash));
    let is_current = |state: &PluginState| {
        state.is_enabled
            && state.hash == content.hash
            && state.quarantine.is_none()
            // A damaged copy is made again.
            && copied(&state.hash).is_ok_and(|copy| copy.hash == state.hash)
    };
    if state.as_ref().is_some_and(is_current) {
        note(&format!("{} is enabled already", tool::visible(name)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = described(&content, &manifest);
    if let Some(state) = &state {
        if let Some(quarantine) = &state.quarantine {
            shown.push(format!("it is quarantined: {}", quarantine.reason));
        }
        // Without the earlier copy, all files count as new.
        if let Ok(earlier) = copied(&state.hash) {
            let lines = difference(&earlier, &content).lines();
            if !lines.is_empty() {
                shown.push("files that differ from those that you allowed:".to_owned());
                shown.extend(lines.into_iter().map(|line| format!("  {line}")));
            }
        }
    }
    print(&format!("{}\n", shown.join("\n")))?;
    if !confirmed(global, yes, "Make it a tool?")? {
        note("nothing was changed; --yes answers yes without a question");
        return Ok(ExitCode::from(1));
    }
    recorded(store, "plugin enable", &found.folder, || {
        Ok(places.store.enable(&manifest.name, &content, SystemClock.now())?)
    })?;
    note(&format!("{} is enabled with content {}", manifest.name, content.hash));
    Ok(ExitCode::SUCCESS)
}

/// Reads a plugin that must be right.
fn readable(found: &FoundPlugin) -> Result<(PluginFolder, Manifest), Failure> {
    let wrong = |error: FolderError| {
        Failure::usage(format!("{}: {error}", tool::visible(&tool::path_text(&found.folder))))
    };
    let (content, manifest) = found.read().map_err(wrong)?;
    check_provider_schema(&manifest).map_err(|error| wrong(error.into()))?;
    Ok((content, manifest))
}

/// Describes what a human allows by enabling a plugin.
fn described(content: &PluginFolder, manifest: &Manifest) -> Vec<String> {
    let command: Vec<String> = manifest.command.iter().map(|word| tool::visible(word)).collect();
    let mut lines = vec![
        format!("plugin {} in {}", manifest.name, tool::visible(&tool::path_text(&content.path))),
        format!("  {}", tool::visible(&manifest.description)),
        format!(
            "  runs {} ({}), level {}",
            command.join(" "),
            manifest.mode.as_str(),
            manifest.least_level()
        ),
    ];
    lines.extend(
        manifest.effects.described().into_iter().map(|effect| format!("  {}", tool::visible(&effect))),
    );
    lines
}

fn remove(
    global: &Global,
    places: &PluginPlaces,
    store: &dyn Store,
    name: &str,
    yes: bool,
) -> Result<ExitCode, Failure> {
    let folder = known_folder(places, name)?;
    if !confirmed(
        global,
        yes,
        &format!("Remove {} with all its files?", tool::visible(&tool::path_text(&folder))),
    )? {
        note("nothing was changed; --yes answers yes without a question");
        return Ok(ExitCode::from(1));
    }
    let is_plugin = std::fs::symlink_metadata(folder.join("plugin.yaml")).is_ok_and(|file| file.is_file());
    recorded(store, "plugin remove", &folder, || {
        match places.store.forget(&folder) {
            Ok(()) => {}
            Err(plugins::StoreFault::Unknown) if is_plugin => {}
            Err(plugins::StoreFault::Unknown) => {
                let folder = tool::visible(&folder.display().to_string());
                return Err(Failure::usage(format!(
                    "{folder} has no plugin.yaml, so it stays; remove it yourself"
                )));
            }
            Err(fault) => return Err(fault.into()),
        }
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    })?;
    note(&format!("{} is removed", tool::visible(name)));
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of a plugin. A plugin whose folder is gone is found by its state.
fn known_folder(places: &PluginPlaces, name: &str) -> Result<std::path::PathBuf, Failure> {
    match places.find(name) {
        Ok(found) => Ok(found.folder),
        Err(missing) => {
            let is_in_place = |folder: &Path| {
                [SourceKind::Workspace, SourceKind::User]
                    .iter()
                    .any(|kind| places.folder(*kind).is_some_and(|around| folder.parent() == Some(around)))
            };
            let mut stored = places.store.all()?.into_iter();
            let known = stored.find(|plugin| plugin.state.name == name && is_in_place(&plugin.folder));
            known.map(|plugin| plugin.folder).ok_or(missing)
        }
    }
}

/// Asks a question at the terminal. Without a terminal, only `--yes` is a yes.
pub(super) fn confirmed(global: &Global, yes: bool, question: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if global.no_input || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
