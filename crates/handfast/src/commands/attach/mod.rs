//! `handfast attach` and `handfast detach`: write and remove Handfast's entry in the configuration
//! of an agent client, and check that the client reaches Handfast.

mod clients;
mod handshake;
mod record;
mod settings_file;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum as _;
use config_edit::{Edit, EditError, get};
use door_http::Role;
use serde_json::{Value, json};
use similar::TextDiff;
use tool::Clock;

use self::clients::{
    Client, ENTRY, FileEdits, Folders, Plan, Request, TOKEN_VARIABLE, Way, client, own_folder, plan,
};
use self::handshake::{HandshakeError, check};
use self::record::{AttachedFile, Record, RecordedChange};
use self::settings_file::SettingsFile;
use super::{Failure, print, print_json};
use crate::bounded_run::{BoundedRun, run_within};
use crate::cli::Global;
use crate::cli_attach::{AttachArgs, AttachScope, ClientName, DetachArgs};
use crate::clock::SystemClock;
use crate::host_environment::HostEnvironment;
use crate::listening::serving;
use crate::places::{place, state_folder};
use crate::report::{command, note, table, warn};
use crate::tokens::token;

/// Name of the folder with copies of configurations, within the state folder.
const COPIES: &str = "attach-copies";
/// Time for the client's own check. A client starts its other servers as well.
const OWN_CHECK_TIMEOUT: Duration = Duration::from_mins(1);
/// Address of `handfast up` if none is running for the workspace.
const USUAL: &str = "127.0.0.1:7411";

/// Returns the attached clients: the client and the scope of each.
pub(super) fn attached(state: &Path) -> Result<Vec<(String, String)>, Failure> {
    let record = Record::read(state).map_err(Failure::from)?;
    let mut clients: Vec<_> = record.files.into_iter().map(|file| (file.client, file.scope)).collect();
    clients.sort();
    clients.dedup();
    Ok(clients)
}

pub(super) fn run(global: &Global, arguments: &AttachArgs) -> Result<ExitCode, Failure> {
    let Some(name) = arguments.client else { return list(global, arguments.json) };
    let at = At::of(global)?;
    let client = client(name);
    let is_installed = at.is_installed(name, &client);
    if !is_installed && !arguments.force && arguments.scope == AttachScope::User {
        return Err(Failure::usage(format!(
            "{} is not installed here: no `{}` on the PATH, and no {}; nothing was changed. `--force` \
             attaches it all the same",
            client.title,
            client.program,
            own_folder(name, &at.folders).display()
        )));
    }
    let way = at.way(global, arguments)?;
    let request = Request { scope: arguments.scope, way: &way, only_handfast: arguments.only_handfast };
    let plan = plan(name, &at.folders, &request).map_err(Failure::usage)?;
    let mut record = Record::read(&at.state).map_err(Failure::from)?;
    let changes = changes_of(name, arguments.scope, &plan, &mut record)?;
    let is_same = changes.iter().all(Change::is_none);
    if !arguments.json {
        print(&differences(&changes, &way))?;
    }
    if global.dry_run {
        note("nothing was written, because of --dry-run");
        return Ok(ExitCode::SUCCESS);
    }
    at.write(name, &changes)?;
    record.files.extend(changes.into_iter().filter_map(|change| change.made));
    record.write(&at.state)?;
    if is_same {
        note(&format!("{} was attached already; its configuration is unchanged", client.title));
    }
    plan.notes.iter().for_each(|text| note(text));
    if let Way::Http { token: Some(_), .. } = &way
        && arguments.scope == AttachScope::Project
    {
        note(&format!(
            "the configuration names the variable {TOKEN_VARIABLE} in place of the token; set it before you start \
             the client: export {TOKEN_VARIABLE}=$(cat {})",
            at.token()?.path.display()
        ));
    }
    at.report(name, &client, &way, is_installed, arguments.json)
}

pub(super) fn detach(global: &Global, arguments: &DetachArgs) -> Result<ExitCode, Failure> {
    let at = At::of(global)?;
    let (name, scope) = (arguments.client, arguments.scope);
    let client = client(name);
    let mut record = Record::read(&at.state).map_err(Failure::from)?;
    let mut changes: Vec<Change> = Vec::new();
    for file in record.take_all(&name.word(), scope.as_str()) {
        let settings = SettingsFile::read(&file.path).map_err(Failure::from)?;
        let new = file.undo(settings.text()).map_err(|error| not_edited(&file.path, &error))?;
        let is_gone = file.is_new && file.format.read(&new).is_ok_and(|rest| rest == json!({}));
        changes.push(Change { new: (!is_gone).then_some(new), settings, made: None });
    }
    // An entry that was made by hand, or that is in a file of another state folder.
    let way = Way::Stdio { program: String::new(), arguments: Vec::new() };
    let request = Request { scope, way: &way, only_handfast: false };
    for planned in plan(name, &at.folders, &request).map_err(Failure::usage)?.files {
        if changes.iter().any(|change| change.settings.path == planned.path) {
            continue;
        }
        let settings = SettingsFile::read(&planned.path).map_err(Failure::from)?;
        let is_entry = |edit: &&Edit| edit.path().last().is_some_and(|key| key.as_str() == ENTRY);
        let entries = planned.edits.iter().filter(|edit| matches!(edit, Edit::Set { .. })).filter(is_entry);
        let edits: Vec<Edit> = entries.map(|edit| Edit::Remove { path: edit.path().to_vec() }).collect();
        let new = planned
            .format
            .edit(settings.text(), &edits)
            .map_err(|error| not_edited(&planned.path, &error))?;
        changes.push(Change { new: Some(new), settings, made: None });
    }
    print(&differences(&changes, &way))?;
    if changes.iter().all(Change::is_none) {
        note(&format!("{} was not attached; nothing was changed", client.title));
        return Ok(ExitCode::SUCCESS);
    }
    if global.dry_run {
        note("nothing was written, because of --dry-run");
        return Ok(ExitCode::SUCCESS);
    }
    at.write(name, &changes)?;
    record.write(&at.state)?;
    note(&format!("{} no longer has Handfast; start it again", client.title));
    Ok(ExitCode::SUCCESS)
}

/// A planned change of one file.
struct Change {
    settings: SettingsFile,
    /// New content, or `None` to remove the file.
    new: Option<String>,
    /// Record of the change, for `detach`.
    made: Option<AttachedFile>,
}

impl Change {
    fn is_none(&self) -> bool {
        match &self.new {
            Some(new) => *new == self.settings.text(),
            None => self.settings.content.is_none(),
        }
    }
}

fn not_edited(path: &Path, error: &EditError) -> Failure {
    Failure::from(format!("{} was not changed: {error}", path.display()))
}

/// Returns the differences as text, with the token covered.
fn differences(changes: &[Change], way: &Way) -> String {
    let token = match way {
        Way::Http { token: Some(token), .. } => token.as_str(),
        _ => "",
    };
    let mut text = String::new();
    for change in changes.iter().filter(|change| !change.is_none()) {
        let path = tool::visible(&change.settings.path.to_string_lossy());
        let new = change.new.as_deref().unwrap_or_default();
        let difference = TextDiff::from_lines(change.settings.text(), new);
        text.push_str(&difference.unified_diff().header(&path, &path).to_string());
    }
    if token.is_empty() { text } else { text.replace(token, "(token)") }
}

/// The folders and the program of a run.
struct At {
    folders: Folders,
    state: PathBuf,
    search_path: Vec<PathBuf>,
    program: PathBuf,
}

impl At {
    fn of(global: &Global) -> Result<Self, Failure> {
        let environment = HostEnvironment::of_this_process();
        let options = global.run_options();
        let workspace = place(&options, &environment, &|_| {})?.workspace;
        let home = environment.home.clone().ok_or_else(|| Failure::usage("there is no home folder"))?;
        let config = environment
            .configuration
            .as_ref()
            .and_then(|own| own.parent())
            .map_or_else(|| home.join(".config"), Path::to_owned);
        let client_folder = |name: &str| environment.client_folders.get(name).cloned();
        Ok(Self {
            folders: Folders {
                config,
                workspace,
                codex: client_folder("CODEX_HOME"),
                claude: client_folder("CLAUDE_CONFIG_DIR"),
                home,
            },
            state: state_folder(&options, &environment)?,
            search_path: environment.search_path,
            program: std::env::current_exe()?,
        })
    }

    fn program_of(&self, client: &Client) -> Option<PathBuf> {
        let folders = self.search_path.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(client.program)).find(|path| path.is_file())
    }

    fn is_installed(&self, name: ClientName, client: &Client) -> bool {
        self.program_of(client).is_some() || own_folder(name, &self.folders).is_dir()
    }

    fn token(&self) -> Result<crate::tokens::Token, Failure> {
        Ok(token(&self.state, Role::Agent)?)
    }

    fn way(&self, global: &Global, arguments: &AttachArgs) -> Result<Way, Failure> {
        if !arguments.http {
            let program = self.program.to_str().ok_or("the path of this program is not text in UTF-8")?;
            let mut words = vec!["mcp".to_owned()];
            let names_workspace = arguments.scope == AttachScope::Project || global.workspace.is_some();
            // A client starts a user's server in the folder that it works in.
            if names_workspace {
                let workspace = self.folders.workspace.to_str();
                let workspace = workspace.ok_or("the path of the workspace is not text in UTF-8")?;
                words.extend(["--workspace".to_owned(), workspace.to_owned()]);
            }
            words.extend(passed_on(global)?);
            return Ok(Way::Stdio { program: program.to_owned(), arguments: words });
        }
        if let Some(option) = rules(global).first() {
            return Err(Failure::usage(format!(
                "{} belongs to `handfast up`, which a client with --http reaches; give it there",
                option.0
            )));
        }
        let address = serving(&self.state, &self.folders.workspace)
            .map_or_else(|| USUAL.to_owned(), |address| address.to_string());
        Ok(Way::Http { url: format!("http://{address}/mcp"), token: Some(self.token()?.text) })
    }

    fn write(&self, name: ClientName, changes: &[Change]) -> Result<(), Failure> {
        let stamp = SystemClock.now().strftime("%Y%m%dT%H%M%SZ").to_string();
        for change in changes.iter().filter(|change| !change.is_none()) {
            let stem = format!("{}-{stamp}", name.word());
            if let Some(copy) =
                change.settings.back_up(&self.state.join(COPIES), &stem).map_err(Failure::from)?
            {
                note(&format!("{} was saved as {}", change.settings.path.display(), copy.display()));
            }
            match &change.new {
                Some(new) => change.settings.write(new).map_err(Failure::from)?,
                None => std::fs::remove_file(&change.settings.path)?,
            }
        }
        Ok(())
    }

    /// Checks the entry, and reports how the client reaches Handfast.
    fn report(
        &self,
        name: ClientName,
        client: &Client,
        way: &Way,
        is_installed: bool,
        as_json: bool,
    ) -> Result<ExitCode, Failure> {
        let word = name.word();
        let (code, text, tools) = match check(way, &word, &self.folders.workspace) {
            Ok(done) => {
                let text = format!("works: {} tools in {} ms", done.tools, done.took.as_millis());
                (ExitCode::SUCCESS, text, Some(done.tools))
            }
            Err(HandshakeError::NobodyListens) => {
                let text = format!(
                    "attached; nothing listens there yet: start `{}` in {}",
                    command("up"),
                    self.folders.workspace.display()
                );
                (ExitCode::SUCCESS, text, None)
            }
            Err(HandshakeError::Failed(reason)) => {
                (ExitCode::FAILURE, format!("attached, but Handfast does not answer: {reason}"), None)
            }
        };
        if as_json {
            print_json(&json!({"client": word, "attached": true, "tools": tools, "detail": text}))?;
        } else {
            print(&format!("{}: {text}\n", client.title))?;
        }
        match (client.check, self.program_of(client)) {
            (Some(words), Some(program)) => self.own_check(client, &program, words),
            (_, None) if !is_installed => warn(&format!("{} is not installed here", client.title)),
            _ => {}
        }
        Ok(code)
    }

    /// Runs the client's own check, and shows what it says about Handfast.
    #[expect(clippy::disallowed_methods, reason = "the user's own command starts the user's own client")]
    fn own_check(&self, client: &Client, program: &Path, words: &[&str]) {
        let line = format!("{} {}", client.program, words.join(" "));
        let mut check = Command::new(program);
        check.args(words).current_dir(&self.folders.workspace);
        let (text, has_succeeded) = match run_within(check, b"", OWN_CHECK_TIMEOUT) {
            Ok(BoundedRun::Ended { output, status }) => (output, status.success()),
            Ok(BoundedRun::TimedOut) => {
                let seconds = OWN_CHECK_TIMEOUT.as_secs();
                return warn(&format!("`{line}` did not end within {seconds} s; run it to see why"));
            }
            Err(error) => return warn(&format!("cannot run `{line}`: {error}")),
        };
        let about = text.lines().map(plain).find(|line| {
            let line = line.to_ascii_lowercase();
            let says = ["connected", "disabled", "failed"].iter().any(|word| line.contains(word));
            line.contains("status:") || line.contains(ENTRY) && says
        });
        match about {
            Some(found) => note(&format!("`{line}` says: {}", tool::visible(found.trim()))),
            None if has_succeeded => note(&format!("`{line}` knows the entry")),
            None => warn(&format!("`{line}` failed; run it to see why")),
        }
    }
}

/// Computes the new content of every file. An earlier attachment is taken back first.
fn changes_of(
    name: ClientName,
    scope: AttachScope,
    plan: &Plan,
    record: &mut Record,
) -> Result<Vec<Change>, Failure> {
    let one = |planned: &FileEdits, record: &mut Record| -> Result<Change, Failure> {
        let FileEdits { path, format, edits } = planned;
        let settings = SettingsFile::read(path).map_err(Failure::from)?;
        let earlier = record.take(&name.word(), scope.as_str(), path);
        let failed = |error: EditError| {
            Failure::from(format!(
                "{} was not changed: {error}; correct it, or add the entry by hand: {}",
                path.display(),
                edits.first().map(by_hand).unwrap_or_default()
            ))
        };
        let clean = match &earlier {
            Some(earlier) => earlier.undo(settings.text()).map_err(failed)?,
            None => settings.text().to_owned(),
        };
        let made = RecordedChange::by(*format, &clean, edits).map_err(failed)?;
        let new = format.edit(&clean, edits).map_err(failed)?;
        // Equal values need no other text.
        let is_same = format.read(settings.text()).ok() == format.read(&new).ok();
        let new = if is_same && settings.content.is_some() { settings.text().to_owned() } else { new };
        let is_new = earlier.map_or(settings.content.is_none(), |earlier| earlier.is_new);
        let made = AttachedFile {
            client: name.word(),
            scope: scope.as_str().to_owned(),
            path: path.clone(),
            format: *format,
            is_new,
            made,
        };
        Ok(Change { settings, new: Some(new), made: Some(made) })
    };
    plan.files.iter().map(|planned| one(planned, record)).collect()
}

/// Removes the escape sequences of a terminal.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().take_while(|c| !c.is_ascii_alphabetic()).for_each(drop);
        } else {
            text.push(character);
        }
    }
    text
}

fn by_hand(edit: &Edit) -> String {
    let Edit::Set { path, value } = edit else { return String::new() };
    path.iter().rev().fold(value.clone(), |value, key| json!({key.as_str(): value})).to_string()
}

/// Returns the given options about rules and tools, with their values.
fn rules(global: &Global) -> Vec<(&'static str, Option<&str>)> {
    let options = [
        ("--profile", global.profile.as_deref()),
        ("--label", global.label.as_deref()),
        ("--mode", global.mode.map(policy::Mode::as_str)),
        ("--dialect", global.dialect.map(dialects::Dialect::as_str)),
        ("--catalogue", global.catalogue.map(dialects::CatalogueKind::as_str)),
    ];
    let given = options.into_iter().filter(|(_, value)| value.is_some());
    given.chain(global.read_only.then_some(("--read-only", None))).collect()
}

/// Returns the given options that the client has to pass on to the server that it starts.
fn passed_on(global: &Global) -> Result<Vec<String>, Failure> {
    let mut words: Vec<String> = Vec::new();
    if let Some(state) = &global.state {
        let state = std::path::absolute(state)?;
        let state = state.to_str().ok_or("the path of the state folder is not text in UTF-8")?;
        words.extend(["--state".to_owned(), state.to_owned()]);
    }
    for (option, value) in rules(global) {
        words.push(option.to_owned());
        words.extend(value.map(str::to_owned));
    }
    if global.no_input {
        words.push("--no-input".to_owned());
    }
    Ok(words)
}

/// Lists the clients: which are installed, and which have Handfast.
fn list(global: &Global, as_json: bool) -> Result<ExitCode, Failure> {
    let at = At::of(global)?;
    let way = Way::Stdio { program: String::new(), arguments: Vec::new() };
    let is_attached = |name: ClientName, scope: AttachScope| {
        let request = Request { scope, way: &way, only_handfast: false };
        let files = plan(name, &at.folders, &request).map(|plan| plan.files).unwrap_or_default();
        files.iter().any(|file| {
            let values = SettingsFile::read(&file.path)
                .ok()
                .and_then(|settings| file.format.read(settings.text()).ok());
            let is_entry = |edit: &Edit| {
                matches!(edit, Edit::Set { .. })
                    && edit.path().last().is_some_and(|key| key.as_str() == ENTRY)
            };
            let found =
                |edit: &Edit| values.as_ref().is_some_and(|values| get(values, edit.path()).is_some());
            file.edits.iter().any(|edit| is_entry(edit) && found(edit))
        })
    };
    let rows: Vec<(String, &str, bool, Vec<&str>)> = ClientName::value_variants()
        .iter()
        .map(|name| {
            let client = client(*name);
            let scopes = [AttachScope::User, AttachScope::Project].into_iter();
            let attached =
                scopes.filter(|scope| is_attached(*name, *scope)).map(AttachScope::as_str).collect();
            (name.word(), client.title, at.is_installed(*name, &client), attached)
        })
        .collect();
    if as_json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(word, title, installed, attached)| {
                json!({"client": word, "title": title, "installed": installed, "attached": attached})
            })
            .collect();
        print_json(&rows)?;
    } else {
        let shown = rows.into_iter().map(|(word, title, installed, attached)| {
            let installed = if installed { "yes" } else { "no" };
            let attached = if attached.is_empty() { "no".to_owned() } else { attached.join(", ") };
            vec![word, title.to_owned(), installed.to_owned(), attached]
        });
        print(&table(&["client", "name", "installed", "attached"], shown))?;
        note("`handfast attach CLIENT` attaches one");
    }
    Ok(ExitCode::SUCCESS)
}
