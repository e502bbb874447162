//! The extent of an installation: how much around a folder of programs a cell shows.
//!
//! Programs need the files next to them: libraries, modules, data. But next to a folder of programs
//! may also lie a home, other projects, keys, and the state of Handfast.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use watch::LocalPaths;

/// Folders of a home that hold keys, and from which no program is shown.
const SECRETS: [&str; 13] = [
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".password-store",
    ".pki",
    ".ssh",
    ".thunderbird",
];

/// Folders of a home in which each application has a folder of its own, for data of any kind.
const OF_APPLICATIONS: [&str; 4] = [".cache", ".config", ".local/share", ".local/state"];

/// Names of folders that hold programs and little else.
const OF_PROGRAMS: [&str; 4] = ["bin", "libexec", "sbin", "shims"];

/// Entries of an installation that programs need, shown even if the rest stays hidden.
const PARTS: [&str; 9] =
    ["bin", "include", "lib", "lib32", "lib64", "libexec", "pyvenv.cfg", "sbin", "share"];

/// Entries of an installation of which at least one is there.
const LIBRARIES: [&str; 4] = ["lib", "lib32", "lib64", "libexec"];

/// Names of the histories of version control.
const HISTORIES: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// Maximum number of entries of a folder that are examined. A larger folder is no installation.
const MAX_ENTRIES: usize = 512;

/// Maximum number of entries among which programs are looked for.
const MAX_LISTED: usize = 4096;

/// Folders in which each cell has writable files of its own.
pub(super) const OF_EACH_CELL: [&str; 2] = ["/tmp", "/dev/shm"];

/// Maximum number of programs that are shown one by one.
const MAX_PROGRAMS: usize = 64;

/// The places that decide how much of an installation is shown. All are real paths.
#[derive(Debug)]
pub(super) struct Landmarks {
    /// Homes of the users of this machine.
    homes: Vec<PathBuf>,
    workspace: PathBuf,
    /// Folders and files of Handfast: its state, its configuration, the key of the vault.
    of_handfast: Vec<PathBuf>,
    /// Folders of keys, existing or not, also at the places that links to them lead to.
    secrets: Vec<PathBuf>,
}

/// Reason why a folder of programs is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Calls can write it.
    Writable,
    /// Every user of this machine can write it.
    OpenToAll,
    /// Keys lie around it.
    Secret,
    /// Handfast keeps its own files there.
    OfHandfast,
    /// The kernel or running programs make its files, and each cell has its own.
    OfKernel,
}

/// The shown part of an installation: some entries of its folder. An empty path stands for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) folder: PathBuf,
    pub(super) parts: Vec<PathBuf>,
}

impl Extent {
    pub(super) fn whole(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), parts: vec![PathBuf::new()] }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.parts.iter().any(|part| part.as_os_str().is_empty())
    }

    /// Returns true if the extent includes this path.
    pub(super) fn includes(&self, path: &Path) -> bool {
        self.parts.iter().any(|part| path.starts_with(self.folder.join(part)))
    }
}

impl Landmarks {
    pub(super) fn new(
        homes: Vec<PathBuf>,
        workspace: PathBuf,
        of_handfast: Vec<PathBuf>,
        paths: &LocalPaths,
    ) -> Self {
        let named = homes.iter().flat_map(|home| SECRETS.map(|secret| home.join(secret)));
        let secrets = named.flat_map(|secret| {
            let real = paths.resolve(&secret).ok().map(|resolved| resolved.real);
            let real = real.filter(|real| *real != secret);
            [Some(secret), real].into_iter().flatten()
        });
        Self { secrets: secrets.collect(), homes, workspace, of_handfast }
    }

    /// Returns the reason why nothing at a real path is shown, if there is one.
    pub(super) fn refusal(&self, real: &Path) -> Option<Refusal> {
        let within = |places: &[PathBuf]| places.iter().any(|place| real.starts_with(place));
        if ["/dev", "/proc", "/run", "/sys"].iter().any(|own| real.starts_with(own)) {
            Some(Refusal::OfKernel)
        } else if within(&self.of_handfast) {
            Some(Refusal::OfHandfast)
        } else if self.is_of_workspace(real) || OF_EACH_CELL.iter().any(|own| real.starts_with(own)) {
            Some(Refusal::Writable)
        } else if within(&self.secrets) {
            Some(Refusal::Secret)
        } else {
            is_open_to_all(real).then_some(Refusal::OpenToAll)
        }
    }

    pub(super) fn is_of_workspace(&self, path: &Path) -> bool {
        path.starts_with(&self.workspace)
    }

    /// Returns the extent of a folder of the search path: the whole folder, or its programs alone.
    pub(super) fn of_folder(&self, folder: &Path, paths: &LocalPaths) -> Extent {
        let is_of_programs = OF_PROGRAMS.iter().any(|name| folder.ends_with(name));
        let is_mixed = folder.parent().is_none()
            || self.contains_what_stays_hidden(folder)
            || self.is_of_an_application(folder)
            || paths.remote_below(folder).is_some()
            || (!is_of_programs && (has_history(folder) || holds_projects(folder)));
        if !is_mixed {
            return Extent::whole(folder);
        }
        // Links are left out: the folder is not checked for what they lead to.
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_LISTED);
        let programs = entries.filter(|entry| is_file(entry) && paths.is_certainly_program(&entry.path()));
        let mut parts: Vec<PathBuf> = programs.map(|entry| entry.file_name().into()).collect();
        parts.sort();
        parts.truncate(MAX_PROGRAMS);
        Extent { folder: folder.to_owned(), parts }
    }

    /// Returns the extent of the installation around a folder of programs, or `None` if the folder
    /// is no part of one.
    pub(super) fn of_installation(&self, folder: &Path, paths: &LocalPaths) -> Option<Extent> {
        let prefix = folder.parent().filter(|_| OF_PROGRAMS.iter().any(|name| folder.ends_with(name)))?;
        if prefix.parent().is_none()
            || self.contains_a_home(prefix)
            || self.workspace.starts_with(prefix)
            || paths.remote_below(prefix).is_some()
            || holds_projects(prefix)
        {
            return None;
        }
        let is_an_installation = !(prefix.parent() == Some(Path::new("/"))
            || self.contains_what_stays_hidden(prefix)
            || self.is_of_an_application(prefix)
            || !LIBRARIES.iter().any(|name| prefix.join(name).is_dir())
            || has_history(prefix)
            || has_keys(prefix));
        if is_an_installation {
            return Some(Extent::whole(prefix));
        }
        let is_shown = |part: &PathBuf| {
            let path = prefix.join(part);
            // A part may be a link to anywhere.
            fs::symlink_metadata(&path).is_ok_and(|found| !found.is_symlink())
                && !self.contains_what_stays_hidden(&path)
        };
        Some(Extent {
            folder: prefix.to_owned(),
            parts: PARTS.iter().map(PathBuf::from).filter(is_shown).collect(),
        })
    }

    /// Returns the extent of a folder that the user lists, or `None` if it would show a home or what
    /// belongs to Handfast.
    pub(super) fn of_listed(&self, folder: &Path) -> Option<Extent> {
        let hides = folder.parent().is_none() || self.contains_what_stays_hidden(folder);
        (!hides && self.refusal(folder).is_none()).then(|| Extent::whole(folder))
    }

    /// Returns what a cell shows for a browser that the user names: the folder of its program if that is an
    /// installation of Chromium, else the program alone.
    ///
    /// # Errors
    /// The reason why nothing there is shown.
    pub(super) fn of_browser(&self, program: &Path, paths: &LocalPaths) -> Result<PathBuf, Refusal> {
        let Some(folder) = program.parent() else { return Err(Refusal::OfKernel) };
        if let Some(refusal) = self.refusal(folder) {
            return Err(refusal);
        }
        // Every Chromium has this file beside it, and a folder of anything else has not.
        let is_installation = folder.join("icudtl.dat").is_file()
            && folder.parent().is_some()
            && !self.contains_what_stays_hidden(folder)
            && !self.is_of_an_application(folder)
            && paths.remote_below(folder).is_none()
            && !has_history(folder)
            && !holds_projects(folder)
            && !has_keys(folder);
        Ok(if is_installation { folder } else { program }.to_owned())
    }

    /// Returns true if something below the folder, or the folder itself, must not be shown.
    fn contains_what_stays_hidden(&self, folder: &Path) -> bool {
        self.contains_a_home(folder)
            || self.workspace.starts_with(folder)
            || self.of_handfast.iter().any(|own| own.starts_with(folder))
            || self.secrets.iter().any(|secret| secret.starts_with(folder) && secret.exists())
    }

    fn contains_a_home(&self, folder: &Path) -> bool {
        let is_home = folder.parent() == Some(Path::new("/home"));
        is_home || self.homes.iter().any(|home| home.starts_with(folder))
    }

    /// Returns true if the folder holds the data of one application, which may include keys.
    fn is_of_an_application(&self, folder: &Path) -> bool {
        let Some((above, name)) = folder.parent().zip(folder.file_name()) else { return false };
        let is_hidden = name.to_string_lossy().starts_with('.');
        self.homes.iter().any(|home| {
            (is_hidden && above == home) || OF_APPLICATIONS.iter().any(|part| above == home.join(part))
        })
    }
}

/// Returns true if the folder is a working copy of version control.
fn has_history(folder: &Path) -> bool {
    HISTORIES.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
}

/// Returns true if a folder in this one is a working copy of version control, or if the folder has
/// too many entries to tell.
fn holds_projects(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return true };
    let entries: Vec<_> = entries.flatten().take(MAX_ENTRIES + 1).collect();
    let is_folder = |entry: &&fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.len() > MAX_ENTRIES || entries.iter().filter(is_folder).any(|entry| has_history(&entry.path()))
}

/// Returns true if the folder itself has a file with the name of a key.
fn has_keys(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| engine::is_key_name(&entry.file_name().to_string_lossy()))
}

/// Returns true if every user of this machine can write the folder, or replace it.
fn is_open_to_all(folder: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    let mode = |path: &Path| fs::metadata(path).map_or(0, |found| found.permissions().mode());
    mode(folder) & 0o002 != 0
        || folder.ancestors().skip(1).any(|above| mode(above) & (0o002 | STICKY) == 0o002)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        at: PathBuf,
        landmarks: Landmarks,
    }

    fn world(files: &[&str]) -> World {
        // Not in /tmp, of which each cell has its own.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = folder.path().canonicalize().unwrap();
        for file in files {
            let path = at.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            let is_script = path.extension().is_some_and(|ending| ending == "sh");
            if path.parent().unwrap().ends_with("bin") || is_script {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let landmarks = Landmarks::new(
            vec![at.join("home/me")],
            at.join("home/me/work/site"),
            vec![at.join("home/me/.local/state/handfast")],
            &LocalPaths::default(),
        );
        World { _folder: folder, at, landmarks }
    }

    #[test]
    fn a_browser_shows_its_installation_or_its_program_alone_and_never_what_lies_around_it() {
        let files = [
            "home/me/chrome",
            "home/me/icudtl.dat",
            "home/me/apps/chrome/chrome",
            "home/me/apps/chrome/icudtl.dat",
            "home/me/apps/wrapper",
            "home/me/apps/keyed/chrome",
            "home/me/apps/keyed/icudtl.dat",
            "home/me/apps/keyed/id_rsa",
            "home/me/dev/chrome",
            "home/me/dev/icudtl.dat",
            "home/me/dev/site/.git/HEAD",
            "home/me/.config/chrome",
            "home/me/.config/icudtl.dat",
            "home/me/.cache/playwright/chromium-1/chrome-linux/chrome",
            "home/me/.cache/playwright/chromium-1/chrome-linux/icudtl.dat",
            "home/me/.ssh/chrome",
            "home/me/work/site/chrome",
            "home/me/.local/state/handfast/chrome",
        ];
        let world = world(&files);
        let shown = |program: &str| {
            let shown = world.landmarks.of_browser(&world.at.join(program), &LocalPaths::default());
            shown.map(|shown| shown.strip_prefix(&world.at).unwrap().display().to_string())
        };
        for (program, expected) in [
            ("home/me/chrome", Ok("home/me/chrome")),
            ("home/me/apps/chrome/chrome", Ok("home/me/apps/chrome")),
            ("home/me/apps/wrapper", Ok("home/me/apps/wrapper")),
            ("home/me/apps/keyed/chrome", Ok("home/me/apps/keyed/chrome")),
            ("home/me/dev/chrome", Ok("home/me/dev/chrome")),
            ("home/me/.config/chrome", Ok("home/me/.config/chrome")),
            (
                "home/me/.cache/playwright/chromium-1/chrome-linux/chrome",
                Ok("home/me/.cache/playwright/chromium-1/chrome-linux"),
            ),
            ("home/me/.ssh/chrome", Err(Refusal::Secret)),
            ("home/me/work/site/chrome", Err(Refusal::Writable)),
            ("home/me/.local/state/handfast/chrome", Err(Refusal::OfHandfast)),
        ] {
            assert_eq!(shown(program), expected.map(str::to_owned), "{program}");
        }
        let temporary = world.landmarks.of_browser(Path::new("/tmp/chrome"), &LocalPaths::default());
        assert_eq!(temporary, Err(Refusal::Writable));
    }

    fn installation(world: &World, folder: &str) -> Option<(String, Vec<PathBuf>)> {
        let extent = world.landmarks.of_installation(&world.at.join(folder), &LocalPaths::default())?;
        let folder = extent.folder.strip_prefix(&world.at).unwrap().display().to_string();
        Some((folder, extent.parts))
    }

    #[test]
    fn an_installation_is_shown_whole_and_what_is_none_by_its_parts() {
        let files = [
            "home/me/tools/node/bin/node",
            "home/me/tools/node/lib/x.js",
            "home/me/tools/node/README",
            "home/me/tools/keyed/bin/x",
            "home/me/tools/keyed/lib/x",
            "home/me/tools/keyed/credentials.json",
            "home/me/.app/bin/app",
            "home/me/.app/lib/app",
            "home/me/.app/config.yml",
            "home/me/.config/app/bin/app",
            "home/me/dev/bin/run",
            "home/me/dev/lib/x",
            "home/me/dev/other/.git/HEAD",
            "home/me/clone/bin/run",
            "home/me/clone/lib/x",
            "home/me/clone/.git/HEAD",
            "home/me/clone/notes",
            "home/me/plain/bin/run",
            "home/me/plain/diary",
            "home/me/.local/bin/x",
            "home/me/.local/lib/x",
            "home/me/.local/share/keyrings/k",
            "home/me/.local/state/handfast/x",
        ];
        let world = world(&files);
        let parts = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (folder, expected) in [
            ("home/me/tools/node/bin", Some(("home/me/tools/node", parts(&[""])))),
            ("home/me/tools/keyed/bin", Some(("home/me/tools/keyed", parts(&["bin", "lib"])))),
            ("home/me/.app/bin", Some(("home/me/.app", parts(&["bin", "lib"])))),
            ("home/me/.config/app/bin", Some(("home/me/.config/app", parts(&["bin"])))),
            ("home/me/dev/bin", None),
            ("home/me/clone/bin", Some(("home/me/clone", parts(&["bin", "lib"])))),
            ("home/me/plain/bin", Some(("home/me/plain", parts(&["bin"])))),
            ("home/me/.local/bin", Some(("home/me/.local", parts(&["bin", "lib"])))),
            // Homes, and folders around the workspace.
            ("home/me/bin", None),
            ("home/bin", None),
            ("home/me/work/bin", None),
            // No folder of programs.
            ("home/me/tools/node", None),
        ] {
            let expected = expected.map(|(folder, parts)| (folder.to_owned(), parts));
            assert_eq!(installation(&world, folder), expected, "{folder}");
        }
    }

    #[test]
    fn a_folder_among_other_files_is_shown_by_its_programs() {
        let files = [
            "home/me/run.sh",
            "home/me/diary",
            "home/me/scripts/x.sh",
            "home/me/scripts/data",
            "home/me/dev/x.sh",
            "home/me/dev/secret-plan",
            "home/me/dev/other/.git/HEAD",
            "home/me/.tool/tool.sh",
            "home/me/.tool/config.json",
            "home/me/bin/x",
            "home/me/bin/clone/.git/HEAD",
        ];
        let world = world(&files);
        // Executable by its mode, and no program.
        let diary = world.at.join("home/me/diary");
        fs::write(&diary, "dear diary").unwrap();
        fs::set_permissions(diary, fs::Permissions::from_mode(0o755)).unwrap();
        let parts = |folder: &str| {
            let extent = world.landmarks.of_folder(&world.at.join(folder), &LocalPaths::default());
            extent.parts.iter().map(|part| part.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(parts("home/me"), ["run.sh"]);
        assert_eq!(parts("home/me/scripts"), [""]);
        assert_eq!(parts("home/me/dev"), ["x.sh"]);
        assert_eq!(parts("home/me/.tool"), ["tool.sh"]);
        assert_eq!(parts("home/me/bin"), [""]);
        assert_eq!(parts("home"), [] as [&str; 0]);
    }

    #[test]
    fn nothing_is_shown_where_calls_write_where_keys_lie_or_where_every_user_writes() {
        let files =
            ["home/me/dotfiles/ssh/bin/x", "open/bin/x", "swapped/in/bin/x", "plain/bin/x", "home/me/x"];
        let world = world(&files);
        std::os::unix::fs::symlink("dotfiles/ssh", world.at.join("home/me/.ssh")).unwrap();
        // Links are known when the world is looked at.
        let homes = world.landmarks.homes.clone();
        let paths = LocalPaths::default();
        let landmarks = Landmarks::new(homes, world.landmarks.workspace, world.landmarks.of_handfast, &paths);
        let world = World { landmarks, ..world };
        let set = |path: &str, mode: u32| {
            fs::set_permissions(world.at.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        set("open/bin", 0o1777);
        set("swapped", 0o777);
        for (folder, expected) in [
            ("home/me/.ssh", Some(Refusal::Secret)),
            ("home/me/.ssh/bin", Some(Refusal::Secret)),
            ("home/me/dotfiles/ssh/bin", Some(Refusal::Secret)),
            ("home/me/.local/state/handfast/bin", Some(Refusal::OfHandfast)),
            ("home/me/work/site/node_modules/.bin", Some(Refusal::Writable)),
            ("open/bin", Some(Refusal::OpenToAll)),
            ("swapped/in/bin", Some(Refusal::OpenToAll)),
            ("plain/bin", None),
        ] {
            assert_eq!(world.landmarks.refusal(&world.at.join(folder)), expected, "{folder}");
            assert_eq!(
                world.landmarks.of_listed(&world.at.join(folder)).is_some(),
                expected.is_none(),
                "{folder}"
            );
        }
        assert_eq!(world.landmarks.refusal(Path::new("/proc/self/root/usr/bin")), Some(Refusal::OfKernel));
        assert_eq!(world.landmarks.refusal(Path::new("/tmp/x/bin")), Some(Refusal::Writable));
        assert_eq!(world.landmarks.of_listed(&world.at.join("home/me")), None);
        assert_eq!(world.landmarks.of_listed(Path::new("/")), None);
    }
}
