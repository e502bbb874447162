//! `handfast add`, `update`, `remove` and `packages`: packages, by the user's own hand.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use plugins::{PluginFolder, PluginStore, difference};
use serde_json::json;
use store_api::Store;
use tool::Clock as _;

use super::plugin::{confirmed, recorded};
use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::Global;
use crate::cli_packages::PackageCommand;
use crate::clock::SystemClock;
use crate::compose::{RuntimeOptions, compose};
use crate::host_environment::HostEnvironment;
use crate::packages::content::{Brings, is_name};
use crate::packages::fetched::{Fetched, fetch};
use crate::packages::{NewPackage, Package, Packages, read};
use crate::pager::print_listing;
use crate::places::{open_store, state_folder, workspace};
use crate::plugin_places::PluginPlaces;
use crate::report::{note, table, warn};

/// Places and stores that the commands work on.
struct Shelf<'a> {
    global: &'a Global,
    packages: Packages,
    plugins: PluginStore,
    store: Arc<dyn Store>,
    folder: std::path::PathBuf,
}

pub(super) fn run(global: &Global, command: PackageCommand) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let options = global.run_options();
    let workspace = workspace(&options, &host_environment, &warn)?;
    let state = state_folder(&options, &host_environment)?;
    let packages = Packages::of(&state);
    if let PackageCommand::Packages { json } = command {
        return list(&packages, json);
    }
    let places = PluginPlaces::of(&workspace, host_environment.configuration.as_deref(), &state);
    let store = open_store(&options, &host_environment)?;
    let shelf = Shelf { global, packages, plugins: places.store, store, folder: state };
    match command {
        PackageCommand::Add { source, yes } => shelf.add(&source, yes),
        PackageCommand::Update { names, yes } => shelf.update(&names, yes),
        PackageCommand::Remove { name, yes } => shelf.remove(&name, yes),
        PackageCommand::Packages { .. } => Ok(ExitCode::SUCCESS),
    }
}

fn list(packages: &Packages, json: bool) -> Result<ExitCode, Failure> {
    let (all, damaged) = (packages.all()?, packages.damaged()?);
    if json {
        let damaged =
            damaged.iter().map(|package| json!({"name": package.name, "problem": package.message()}));
        let shown = all.iter().map(|package| {
            let Package { record, .. } = package;
            let brings = package.brings();
            json!({
                "name": record.name,
                "source": record.source,
                "commit": record.commit,
                "hash": record.hash,
                "added_at": record.added_at.to_string(),
                "brings": brings.as_ref().map(Brings::lines).unwrap_or_default(),
                "problem": brings.err(),
            })
        });
        print_json(&shown.chain(damaged).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() && damaged.is_empty() {
        note("there are no packages; `handfast add SOURCE` adds one");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = all.iter().map(|package| {
        let status = match package.brings() {
            Ok(brings) => brings.summary(),
            Err(problem) => problem,
        };
        vec![package.record.name.clone(), tool::visible(&package.record.source), status]
    });
    let damaged = damaged.iter().map(|package| vec![package.name.clone(), String::new(), package.message()]);
    print_listing(&table(&["name", "source", "brings"], rows.chain(damaged)))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads what a content brings.
fn brings_of(content: &PluginFolder, source: &str) -> Result<Brings, Failure> {
    Brings::of(content).map_err(|problem| Failure::usage(format!("{}: {problem}", tool::visible(source))))
}

impl Shelf<'_> {
    fn add(&self, source: &str, yes: bool) -> Result<ExitCode, Failure> {
        let fetched = fetch(source)?;
        // A package of a package, or of the state itself, would change with what it describes.
        if fetched.folder.starts_with(self.folder.canonicalize()?) {
            return Err(Failure::usage(
                "this folder belongs to Handfast's own state; name the folder of the package",
            ));
        }
        let content = read(&fetched.folder)?;
        let brings = brings_of(&content, source)?;
        let name = brings.name.clone().unwrap_or_else(|| fetched.name.clone());
        if !is_name(&name) {
            return Err(Failure::usage(format!(
                "`{}` is no name of a package: it has letters, digits, `_`, `-` and `.`; write `name:` into its package.yaml",
                tool::visible(&name)
            )));
        }
        if let Some(known) =
            self.packages.all()?.iter().find(|package| package.record.name.eq_ignore_ascii_case(&name))
        {
            let known = &known.record;
            return Err(Failure::usage(format!(
                "there is a package {} already, from {}; `handfast update {}` fetches it again",
                known.name,
                tool::visible(&known.source),
                known.name
            )));
        }
        self.check_names(&brings, None)?;
        let mut shown = vec![format!("package {name} from {}", tool::visible(&fetched.source))];
        shown.extend(brings.lines().into_iter().map(|line| format!("  {line}")));
        print(&format!("{}\n", shown.join("\n")))?;
        self.put(&name, &fetched, &content, ("package add", "Add it?", yes))
    }

    fn update(&self, names: &[String], yes: bool) -> Result<ExitCode, Failure> {
        let all = match names {
            [] => self.packages.all()?,
            names => names.iter().map(|name| self.packages.find(name)).collect::<Result<_, _>>()?,
        };
        let mut end = ExitCode::SUCCESS;
        for package in all {
            let record = &package.record;
            let fetched = fetch(&record.source)?;
            let content = read(&fetched.folder)?;
            // The pinned files may have been damaged; then all files are shown as new.
            let earlier = package.read().ok();
            if content.hash == record.hash && earlier.is_some() {
                note(&format!("{} is current", record.name));
                continue;
            }
            let brings = brings_of(&content, &record.source)?;
            if brings.name.as_ref().is_some_and(|name| *name != record.name) {
                return Err(Failure::usage(format!(
                    "the package {} has another name now; remove it, and add the new one",
                    record.name
                )));
            }
            self.check_names(&brings, Some(&package))?;
            let mut shown = vec![format!("package {} from {}", record.name, tool::visible(&fetched.source))];
            let before = package.brings().map(|brings| brings.lines()).unwrap_or_default();
            let after = brings.lines();
            let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
            let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
            shown.extend(gone.chain(new));
            shown.push("files that differ:".to_owned());
            shown.extend(match &earlier {
                Some(earlier) => difference(earlier, &content).lines(),
                None => content.files.keys().map(|path| format!("+ {}", tool::visible(path))).collect(),
            });
            print(&format!("{}\n", shown.join("\n")))?;
            let name = record.name.clone();
            let ended =
                self.put(&name, &fetched, &content, ("package update", "Use the new content?", yes))?;
            if ended != ExitCode::SUCCESS {
                end = ended;
            }
        }
        Ok(end)
    }

    fn remove(&self, name: &str, yes: bool) -> Result<ExitCode, Failure> {
        // A package whose record is damaged can be removed, too.
        let damaged = self.packages.damaged()?.into_iter().find(|package| package.name == name);
        let (name, content) = match damaged {
            Some(package) => (package.name, self.packages.folder_of(name)),
            None => {
                let package = self.packages.find(name)?;
                (package.record.name, package.content)
            }
        };
        if self.global.dry_run {
            note(&format!("{} would be removed; nothing was changed", tool::visible(&name)));
            return Ok(ExitCode::SUCCESS);
        }
        if !confirmed(self.global, yes, &format!("Remove the package {}?", tool::visible(&name)))? {
            note("nothing was changed; --yes answers yes without a question");
            return Ok(ExitCode::from(1));
        }
        recorded(self.store.as_ref(), "package remove", &content, || {
            self.packages.remove(&name, &self.plugins, SystemClock.now())
        })?;
        note(&format!("{} is removed", tool::visible(&name)));
        Ok(ExitCode::SUCCESS)
    }

    /// Asks, and puts the content in its place.
    fn put(
        &self,
        name: &str,
        fetched: &Fetched,
        content: &PluginFolder,
        (what, question, yes): (&str, &str, bool),
    ) -> Result<ExitCode, Failure> {
        if self.global.dry_run {
            note("nothing was changed");
            return Ok(ExitCode::SUCCESS);
        }
        if !confirmed(self.global, yes, question)? {
            note("nothing was changed; --yes answers yes without a question");
            return Ok(ExitCode::from(1));
        }
        let wanted = NewPackage { name, source: &fetched.source, commit: fetched.commit.clone(), content };
        recorded(self.store.as_ref(), what, &fetched.folder, || {
            self.packages.put(&wanted, &self.plugins, SystemClock.now())
        })?;
        note(&format!(
            "{name} is there with content {}; servers that run take its plugins at once, and the rest at their next start",
            content.hash
        ));
        Ok(ExitCode::SUCCESS)
    }

    /// Checks that no plugin and no MCP server takes the name of another one.
    fn check_names(&self, brings: &Brings, earlier: Option<&Package>) -> Result<(), Failure> {
        let own = |folder: &Path| earlier.is_some_and(|package| folder.starts_with(&package.content));
        let others = self.plugins.all()?.into_iter().filter(|plugin| !own(&plugin.folder));
        let mut taken: BTreeSet<String> = others.map(|plugin| plugin.state.name).collect();
        if !brings.plugins.is_empty() {
            let composed = compose(RuntimeOptions::once(self.global.run_options()))?;
            let tools = composed.engine.registry().tools();
            taken.extend(tools.iter().filter(|tool| !tool.is_plugin()).map(|tool| tool.name().to_owned()));
            taken.extend(composed.engine.registry().unlisted_names().into_iter().map(str::to_owned));
            tokio_runtime()?.block_on(composed.engine.shutdown());
            composed.store.close()?;
        }
        let name = |plugin: &crate::packages::content::BroughtPlugin| plugin.manifest.name.clone();
        if let Some(name) = brings.plugins.iter().map(name).find(|name| taken.contains(name)) {
            return Err(Failure::usage(format!(
                "another tool is named {name}; no plugin of a package takes the name of a tool"
            )));
        }
        for package in self.packages.all()?.iter().filter(|package| !own(&package.content)) {
            let theirs = package.brings().unwrap_or_default();
            if let Some(name) = brings.servers.keys().find(|name| theirs.servers.contains_key(*name)) {
                return Err(Failure::usage(format!(
                    "the package {} has an MCP server {} already",
                    package.record.name,
                    tool::visible(name)
                )));
            }
        }
        Ok(())
    }
}
