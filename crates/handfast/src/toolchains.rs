//! Toolchains of the user's home that a cell shows, read-only and without credentials, so that
//! ordinary development works.

pub(crate) mod table;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{CellSetup, Toolchain};
use policy::{ProgramFile, Programs, project_folders};
use sandbox::Spawner;

use crate::host_environment::HostEnvironment;
use table::{KINDS, Places};

/// Folders that are searched for programs after the user's own search path.
const SYSTEM_SEARCH_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Folders of the system that every cell shows.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix"];

/// Returns the settings that all cells of this runtime share.
pub(crate) fn cell_setup(
    host_environment: &HostEnvironment,
    spool_directory: PathBuf,
    spawner: Option<Arc<Spawner>>,
) -> CellSetup {
    let home = host_environment.home.as_deref();
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
        if let Some(folder) = there.find(|folder| folder.is_dir()) {
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
    let search_path = search_path(host_environment);
    // A program with a spawner serves many calls.
    let watches = spawner.is_some();
    CellSetup {
        toolchains: toolchains(host_environment),
        toolchains_seen: None,
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
pub(crate) fn search_path(host_environment: &HostEnvironment) -> Vec<PathBuf> {
    let toolchains = toolchains(host_environment);
    let parts: Vec<PathBuf> = toolchains
        .iter()
        .flat_map(|toolchain| toolchain.parts.iter().map(|part| toolchain.folder.join(part)))
        .collect();
    let shown = |entry: &PathBuf| {
        SYSTEM.iter().any(|system| entry.starts_with(system))
            || parts.iter().any(|part| entry.starts_with(part))
    };
    let mut search_path: Vec<PathBuf> =
        host_environment.search_path.iter().filter(|entry| shown(entry)).cloned().collect();
    for entry in SYSTEM_SEARCH_PATH.map(PathBuf::from) {
        if !search_path.contains(&entry) {
            search_path.push(entry);
        }
    }
    search_path
}

/// Returns the toolchains of this machine's user.
fn toolchains(host_environment: &HostEnvironment) -> Vec<Toolchain> {
    let all = KINDS.iter().flat_map(|kind| kind.of(host_environment));
    let mut found: Vec<Toolchain> = all.filter(|toolchain| toolchain.folder.is_dir()).collect();
    // A name that leads through a link is the user's own choice of location.
    found.retain(|toolchain| {
        host_environment.home.as_deref() != Some(&toolchain.folder) && toolchain.folder != Path::new("/")
    });
    found
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

/// Finds the programs of a cell for the policy. `writable` lists the folders that calls write to.
pub(crate) fn programs(search_path: Vec<PathBuf>, writable: Vec<PathBuf>) -> Programs {
    Programs::Found(Arc::new(move |name: &str, of_project: &[PathBuf]| {
        let is_program = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let find_in = |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(name)).find(is_program);
        let of_machine = find_in(&search_path);
        let is_of_project = of_machine.is_none();
        let path = of_machine.or_else(|| find_in(of_project))?;
        let real = fs::canonicalize(&path).ok()?;
        let in_writable_place = is_of_project
            || writable.iter().any(|folder| path.starts_with(folder) || real.starts_with(folder));
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
        let Programs::Found(find) = programs(vec![first.clone(), second.clone()], vec![second.clone()])
        else {
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
