//! Toolchains of the user that a cell shows, read-only and without credentials, so that ordinary
//! development works: the known ones, and those to which the user's own search path leads.

pub(crate) mod advice;
mod extent;
pub(crate) mod of_path;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use engine::{CellSetup, SearchFolder, Toolchain};
use policy::{ProgramFile, Programs, project_folders};
use sandbox::Spawner;
use tool::MissingPrograms;

use crate::config::USER_FILE;
use crate::host_environment::HostEnvironment;
use advice::Advice;
use extent::{Landmarks, OF_EACH_CELL};
use of_path::{FoundPrograms, LeftOut, Sources};
use table::{KINDS, Places};
use watch::LocalPaths;

/// Folders that are searched for programs after the user's own search path.
const SYSTEM_SEARCH_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The places of a run around its toolchains.
pub(crate) struct PlacesAround<'a> {
    pub(crate) workspace: &'a Path,
    /// Folders and files of Handfast, which no toolchain may show.
    pub(crate) of_handfast: Vec<PathBuf>,
    /// Folders that the user's configuration lists.
    pub(crate) listed: Vec<PathBuf>,
}

/// Finds the programs to which the user's search path leads, once for a run: a server shows the same
/// ones until its end.
pub(crate) fn found(host_environment: &HostEnvironment, around: PlacesAround<'_>) -> Arc<FoundPrograms> {
    let find = || {
        let (landmarks, paths) = landmarks(host_environment, around.workspace, around.of_handfast);
        let part = |folder: &Path, part: &PathBuf| {
            let is_all = part.as_os_str().is_empty();
            if is_all { folder.to_owned() } else { folder.join(part) }
        };
        let known = known_toolchains(host_environment, &paths);
        let parts = known.iter().flat_map(|known| known.parts.iter().map(|name| part(&known.folder, name)));
        let parts = parts.filter(|part| is_local_folder(part, &paths)).collect();
        let mut found = of_path::find(Sources {
            search_path: &host_environment.search_path,
            listed: &around.listed,
            system: sandbox::system_folders(),
            known: parts,
            landmarks,
            paths,
        });
        found.known = known;
        Arc::new(found)
    };
    host_environment.found.get_or_init(find).clone()
}

/// Returns the places that decide what of the user's folders is shown, with the paths of this machine.
fn landmarks(
    host_environment: &HostEnvironment,
    workspace: &Path,
    of_handfast: Vec<PathBuf>,
) -> (Landmarks, LocalPaths) {
    let home = host_environment.home.as_deref();
    let paths = LocalPaths::of_this_process(home);
    let homes = home.into_iter().map(Path::to_owned).chain(host_environment.other_homes.clone());
    (Landmarks::new(homes.collect(), workspace.to_owned(), of_handfast, &paths), paths)
}

/// Returns the folder or file that a cell shows for a browser that the user names. The program's path is
/// without links.
///
/// # Errors
/// The reason why nothing there is shown, as the end of a sentence.
pub(crate) fn shown_of_browser(
    host_environment: &HostEnvironment,
    workspace: &Path,
    state: &Path,
    program: &Path,
) -> Result<PathBuf, String> {
    let of_handfast = std::iter::once(state.to_owned()).chain(host_environment.configuration.clone());
    let (landmarks, paths) = landmarks(host_environment, workspace, of_handfast.collect());
    landmarks.of_browser(program, &paths).map_err(|refusal| LeftOut::Refused(refusal).reason())
}

/// Returns what is known about programs that commands do not find.
pub(crate) fn missing(host_environment: &HostEnvironment) -> Arc<dyn MissingPrograms> {
    let found = host_environment.found.get().cloned().unwrap_or_default();
    Arc::new(Advice { found, configuration: configuration_file(host_environment) })
}

/// Returns the file in which the user's configuration belongs, for messages.
pub(crate) fn configuration_file(host_environment: &HostEnvironment) -> String {
    let file = host_environment.configuration.as_ref().map(|folder| folder.join(USER_FILE));
    file.map_or_else(|| "your configuration".to_owned(), |file| file.display().to_string())
}

/// Returns the settings that all cells of this runtime share.
pub(crate) fn cell_setup(
    host_environment: &HostEnvironment,
    spool_directory: PathBuf,
    spawner: Option<Arc<Spawner>>,
) -> CellSetup {
    let home = host_environment.home.as_deref();
    let found = host_environment.found.get().cloned().unwrap_or_default();
    let mut environment: BTreeMap<OsString, OsString> = host_environment.passed_on.clone();
    // Without hosts, these programs would retry before they fail, npm for longer than a command may take.
    let without_hosts = [("CARGO_NET_OFFLINE", "true"), ("npm_config_fetch_retries", "0")];
    // The cache of uv and the workspace are never on one file system, and uv would warn about that
    // each time.
    environment.insert("UV_LINK_MODE".into(), "copy".into());
    for kind in KINDS {
        let Some((variable, part)) = kind.tells else { continue };
        let mut there = kind
            .of(host_environment)
            .into_iter()
            .map(|toolchain| if part.is_empty() { toolchain.folder } else { toolchain.folder.join(part) });
        if let Some(folder) = there.find(|folder| is_local_folder(folder, &found.paths)) {
            environment.insert(variable.into(), folder.into());
        }
    }
    let home_files = home.and_then(git_identity).map(|content| (PathBuf::from(".gitconfig"), content));
    if !environment.contains_key(OsStr::new("GOMODCACHE")) {
        // Every `go` command, even `go version`, starts the toolchain that the workspace names if
        // it is among the modules, and commands can write modules. Starting it is safe only if the
        // modules are the user's own, read-only.
        environment.insert("GOTOOLCHAIN".into(), "path".into());
    }
    for (name, folder) in &host_environment.installations {
        if let Some(shown) = found.shown_name(folder) {
            environment.entry(name.clone()).or_insert_with(|| shown.into());
        }
    }
    // A program with a spawner serves many calls.
    let watches = spawner.is_some();
    let search_path = with_system(found.folders.clone());
    CellSetup {
        toolchains: found.known.iter().chain(&found.toolchains).cloned().collect(),
        toolchains_seen: None,
        links: found.links.clone(),
        paths: found.paths.clone(),
        search_path,
        environment,
        without_hosts: without_hosts.map(|(name, value)| (name.into(), value.into())).into(),
        home_files: home_files.into_iter().collect(),
        spool_directory,
        process_total: Arc::default(),
        changes: None,
        records: None,
        entrance: None,
        homes: None,
        certificates: None,
        spawner,
        watches,
    }
}

/// Returns the search path in a cell: the visible entries of the user's own search path, and those
/// of the system.
fn with_system(mut search_path: Vec<SearchFolder>) -> Vec<SearchFolder> {
    for path in SYSTEM_SEARCH_PATH.map(PathBuf::from) {
        if !search_path.iter().any(|folder| folder.path == path) {
            search_path.push(SearchFolder { path, way: None });
        }
    }
    search_path
}

/// Returns the known toolchains of this machine's user.
fn known_toolchains(host_environment: &HostEnvironment, paths: &LocalPaths) -> Vec<Toolchain> {
    let all = KINDS.iter().flat_map(|kind| kind.of(host_environment));
    let mut found: Vec<Toolchain> =
        all.filter(|toolchain| is_local_folder(&toolchain.folder, paths)).collect();
    // A name that leads through a link is the user's own choice of location.
    found.retain(|toolchain| {
        host_environment.home.as_deref() != Some(&toolchain.folder) && toolchain.folder != Path::new("/")
    });
    found
}

fn is_local_folder(path: &Path, paths: &LocalPaths) -> bool {
    paths.resolve(path).is_ok_and(|resolved| resolved.real.is_dir())
}

/// Returns every toolchain folder in a home, and every part that is a folder, for the keys that
/// `handfast doctor` plants.
pub(crate) fn folders_to_probe(home: &Path) -> Vec<PathBuf> {
    let in_home = KINDS.iter().filter(|kind| !kind.folder.starts_with('/'));
    let folders = in_home.flat_map(|kind| {
        let folder = home.join(kind.folder);
        // A name with a dot refers to a file.
        let parts = kind.parts.iter().filter(|part| !part.contains('.')).map(|part| folder.join(part));
        std::iter::once(folder.clone()).chain(parts).collect::<Vec<_>>()
    });
    folders.collect()
}

impl Places for HostEnvironment {
    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn named(&self, variable: &str) -> Option<PathBuf> {
        self.folders.get(variable).cloned()
    }
}

/// Finds the programs of a cell for the policy. `written` gets the folders that calls write to, as
/// soon as a policy names them.
pub(crate) fn programs(
    found: &FoundPrograms,
    workspace: PathBuf,
    written: Arc<OnceLock<Vec<PathBuf>>>,
) -> Programs {
    let (search_path, paths) = (with_system(found.folders.clone()), found.paths.clone());
    Programs::Found(Arc::new(move |name: &str, of_project: &[PathBuf]| {
        let written = written.get().map_or(&[][..], Vec::as_slice);
        let program = |folder: &Path| {
            let path = folder.join(name);
            paths.program(&path).map(|real| (path, real))
        };
        let mut shown = search_path.iter().filter(|folder| !folder.leads_through(written));
        let of_machine = shown.find_map(|folder| program(&folder.path));
        let is_of_project = of_machine.is_none();
        let find_of_project = || of_project.iter().find_map(|folder| program(folder));
        let (path, real) = of_machine.or_else(find_of_project)?;
        let lies_in = |folder: &Path| path.starts_with(folder) || real.starts_with(folder);
        let in_writable_place = is_of_project
            || lies_in(&workspace)
            || written.iter().any(|folder| lies_in(folder))
            || OF_EACH_CELL.iter().any(|folder| lies_in(Path::new(folder)));
        let is_launcher = is_launcher(&path, &real);
        Some(ProgramFile { path, in_writable_place, of_project: is_of_project, is_launcher })
    }))
}

/// Programs that start another program under its name, in the version that a file in the current
/// folder requests.
const LAUNCHERS: [&str; 8] =
    ["rustup", "volta-shim", "mise", "asdf", "rbenv", "pyenv", "bazelisk", "swiftly"];

/// Returns true if the program at `path`, with the real path `real`, is a launcher: in a folder of
/// shims, or one of [`LAUNCHERS`] under another name.
fn is_launcher(path: &Path, real: &Path) -> bool {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    [path, real].iter().any(|path| path.components().any(|part| part.as_os_str() == "shims"))
        || LAUNCHERS.contains(&name)
        || real.components().any(|part| part.as_os_str() == "corepack")
        || path.parent().is_some_and(|folder| folder.ends_with(".volta/bin"))
        // Proxies of rustup are often hard links to it.
        || path.parent().is_some_and(|folder| folder.join("rustup").is_file() && same_file(&folder.join("rustup"), real))
}

fn same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Programs that are named to a model if commands find them, because its approach depends on them.
const ADVERTISED: [&str; 31] = [
    "git", "rg", "grep", "sed", "awk", "find", "fd", "jq", "yq", "tree", "ast-grep", "diff", "patch", "make",
    "cmake", "gcc", "clang", "cargo", "go", "java", "node", "npm", "pnpm", "yarn", "python3", "pip", "uv",
    "pytest", "ruby", "perl", "sqlite3",
];

/// Returns the available programs of [`ADVERTISED`].
pub(crate) fn advertised(programs: &Programs, workspace: &Path) -> Vec<String> {
    let Programs::Found(find) = programs else { return Vec::new() };
    let of_project = project_folders(workspace, workspace);
    ADVERTISED
        .iter()
        .filter(|name| find(name, &of_project).is_some())
        .map(|name| (*name).to_owned())
        .collect()
}

/// Returns a git configuration with only the user's name and address, so that `git commit` works in
/// the cell.
fn git_identity(home: &Path) -> Option<Vec<u8>> {
    let content = [".gitconfig", ".config/git/config"]
        .iter()
        .find_map(|file| fs::read_to_string(home.join(file)).ok())?;
    let (mut in_user, mut kept) = (false, String::from("[user]\n"));
    for line in content.lines().map(str::trim) {
        if line.starts_with('[') {
            in_user = line.trim_start_matches('[').trim_end_matches(']').trim().eq_ignore_ascii_case("user");
        } else if let Some((key, value)) = line.split_once('=').filter(|_| in_user) {
            let key = key.trim().to_ascii_lowercase();
            if key == "name" || key == "email" {
                kept.push_str(&format!("\t{key} = {}\n", value.trim()));
            }
        }
    }
    (kept != "[user]\n").then(|| kept.into_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use engine::Way;

    use super::*;

    #[test]
    fn a_program_is_found_where_the_cell_finds_it_and_a_writable_place_is_told() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = folders.each_ref().map(|folder| folder.path().to_owned());
        let make = |path: &Path, mode: u32| {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make(&first.join("one"), 0o644);
        make(&second.join("one"), 0o755);
        make(&second.join("two"), 0o755);
        fs::create_dir(second.join("shims")).unwrap();
        make(&second.join("shims/three"), 0o755);
        make(&second.join("rustup"), 0o755);
        fs::hard_link(second.join("rustup"), second.join("four")).unwrap();
        std::os::unix::fs::symlink(second.join("shims/three"), second.join("five")).unwrap();
        std::os::unix::fs::symlink(second.join("two"), first.join("link")).unwrap();
        let folder = |path: &PathBuf| {
            let way = Way { real: path.clone(), ..Way::default() };
            SearchFolder { path: path.clone(), way: Some(way) }
        };
        let mut found = FoundPrograms::default();
        found.folders = vec![folder(&first), folder(&second)];
        let Programs::Found(find) = programs(&found, second.clone(), Arc::default()) else {
            panic!("no function")
        };
        let find = |name: &str| find(name, &[]);
        let one = find("one").unwrap();
        assert_eq!((one.path, one.in_writable_place), (second.join("one"), true));
        let link = find("link").unwrap();
        assert_eq!((link.path, link.in_writable_place), (first.join("link"), true));
        assert_eq!(find("three"), None);
        let launchers =
            ["one", "two", "link", "rustup", "four", "five"].map(|name| find(name).unwrap().is_launcher);
        assert_eq!(launchers, [false, false, false, true, true, true]);
    }

    #[test]
    fn only_the_name_and_the_address_of_the_git_configuration_are_shown() {
        let home = tempfile::tempdir().unwrap();
        let configuration = "[core]\n\teditor = evil\n[user]\n\tname = A B\n\temail = a@b.example\n\tsigningkey = K\n\
            [credential]\n\thelper = store\n";
        fs::write(home.path().join(".gitconfig"), configuration).unwrap();
        let shown = String::from_utf8(git_identity(home.path()).unwrap()).unwrap();
        assert_eq!(shown, "[user]\n\tname = A B\n\temail = a@b.example\n");
    }
}
