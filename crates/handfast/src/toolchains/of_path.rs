//! The programs that the user's own search path leads to: where cells show them, with which files
//! around them, and which folders are left out.
//!
//! Links are followed to where programs really lie, and so are the interpreters that scripts name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use engine::{SearchFolder, Toolchain, Way};

use super::extent::{Extent, Landmarks, Refusal};
use watch::{LocalPaths, Obstacle, ResolvedPath};

/// Maximum number of folders of the search path. Nobody searches more on purpose.
const MAX_FOLDERS: usize = 256;

/// Maximum number of folders that are remembered as left out.
const MAX_LEFT_OUT: usize = 4_096;

/// Maximum number of mounts that a cell gets for the search path.
const MAX_PARTS: usize = 96;

/// Maximum number of links that a cell gets for the search path.
const MAX_LINKS: usize = 96;

/// Maximum number of entries that are examined in one folder, and in all folders.
const MAX_ENTRIES: (usize, usize) = (4_096, 20_000);

/// Maximum number of installations through which one program leads to the next.
const MAX_DEPTH: usize = 3;

/// Maximum length in bytes of the first line of a script, as the kernel reads it.
const FIRST_LINE: u64 = 256;

/// Folders whose links the system's package manager makes. They lead to no home.
const OF_PACKAGES: [&str; 4] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"];

/// The user's settings, and the files that cells show anyway.
pub(super) struct Sources<'a> {
    /// Entries of `PATH`, as they stand.
    pub(super) search_path: &'a [PathBuf],
    /// Folders that the user's configuration lists.
    pub(super) listed: &'a [PathBuf],
    /// Folders of the system, and existing parts of known toolchains.
    pub(super) system: Vec<PathBuf>,
    pub(super) known: Vec<PathBuf>,
    pub(super) landmarks: Landmarks,
    pub(super) paths: LocalPaths,
}

/// The programs that were found.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundPrograms {
    /// Known toolchains of the user.
    pub(crate) known: Vec<Toolchain>,
    /// Installations to which `PATH` leads, with the parts that cells show.
    pub(crate) toolchains: Vec<Toolchain>,
    /// Folders of the cells' search path, in the user's order.
    pub(crate) folders: Vec<SearchFolder>,
    /// Links that lead to programs, with their texts.
    pub(crate) links: BTreeMap<PathBuf, PathBuf>,
    /// Folders of `PATH` and of the configuration that cells do not show.
    pub(crate) left_out: Vec<(PathBuf, LeftOut)>,
    /// Folders of which cells show only a part.
    pub(crate) narrowed: Vec<PathBuf>,
    /// Paths that may be touched.
    pub(super) paths: LocalPaths,
    extents: Vec<Extent>,
    shown_anyway: Vec<PathBuf>,
}

/// Reason why a folder is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftOut {
    NotAbsolute,
    NoFolder,
    TooMany,
    /// The folder cannot be reached.
    Blocked(Obstacle),
    Refused(Refusal),
    /// The configuration lists the folder, but it contains what no cell shows.
    HoldsMore,
}

impl FoundPrograms {
    /// Returns true if cells show this real path.
    pub(super) fn shows(&self, real: &Path) -> bool {
        self.shown_anyway.iter().any(|shown| real.starts_with(shown))
            || self.extents.iter().any(|extent| extent.includes(real))
    }

    /// Returns the name by which cells show an existing folder, if they show it.
    pub(super) fn shown_name(&self, folder: &Path) -> Option<PathBuf> {
        let ResolvedPath { real, links } = self.paths.resolve(folder).ok()?;
        let is_named = links.keys().all(|link| self.links.contains_key(link) || self.shows(link));
        (self.shows(&real) && real.is_dir()).then(|| if is_named { folder.to_owned() } else { real })
    }
}

/// Finds the programs.
pub(super) fn find(mut sources: Sources<'_>) -> FoundPrograms {
    for listed in sources.listed {
        // The user names the folder, so another machine may be asked about it.
        if let Ok(real) = fs::canonicalize(listed) {
            sources.paths.accept(listed);
            sources.paths.accept(&real);
        }
    }
    let shown_anyway = sources.system.iter().chain(&sources.known).cloned().collect();
    let paths = sources.paths.clone();
    let found = FoundPrograms { paths, shown_anyway, ..FoundPrograms::default() };
    let mut search = Search {
        found,
        named: BTreeSet::new(),
        pending: VecDeque::new(),
        scanned: BTreeSet::new(),
        left: MAX_ENTRIES.1,
        listed: Vec::new(),
        sources: &sources,
    };
    for listed in sources.listed {
        search.add_listed(listed);
    }
    for entry in sources.search_path {
        search.add_entry(entry);
    }
    search.add_programs_of_listed();
    search.follow();
    search.found
}

struct Search<'a> {
    sources: &'a Sources<'a>,
    found: FoundPrograms,
    /// Entries of `PATH` so far.
    named: BTreeSet<&'a Path>,
    /// Folders with programs that may lead elsewhere.
    pending: VecDeque<PendingFolder>,
    scanned: BTreeSet<PathBuf>,
    /// Number of entries that may still be examined.
    left: usize,
    /// Listed folders, as they are named and as they are.
    listed: Vec<(PathBuf, ResolvedPath)>,
}

struct PendingFolder {
    real: PathBuf,
    /// Number of installations that led here.
    depth: usize,
    /// True if scripts may name interpreters that cells do not show.
    reads_scripts: bool,
}

impl PendingFolder {
    fn new(real: &Path, depth: usize, reads_scripts: bool) -> Self {
        Self { real: real.to_owned(), depth, reads_scripts }
    }
}

impl<'a> Search<'a> {
    fn add_listed(&mut self, listed: &Path) {
        let resolved = match self.sources.paths.resolve(listed) {
            Ok(resolved) if resolved.real.is_dir() => resolved,
            Ok(_) => return self.leave_out(listed, LeftOut::NoFolder),
            Err(obstacle) => return self.leave_out(listed, LeftOut::Blocked(obstacle)),
        };
        let Some(extent) = self.sources.landmarks.of_listed(&resolved.real) else {
            let refusal = self.sources.landmarks.refusal(&resolved.real);
            return self.leave_out(listed, refusal.map_or(LeftOut::HoldsMore, LeftOut::Refused));
        };
        let links = resolved.links.clone();
        self.listed.push((listed.to_owned(), resolved));
        self.show(extent, &links);
    }

    fn add_entry(&mut self, entry: &'a Path) {
        if !self.named.insert(entry) {
            return;
        }
        if !entry.is_absolute() {
            return self.leave_out(entry, LeftOut::NotAbsolute);
        }
        if self.named.len() > MAX_FOLDERS {
            return self.leave_out(entry, LeftOut::TooMany);
        }
        let resolved = match self.sources.paths.resolve(entry) {
            Ok(resolved) => resolved,
            Err(obstacle) => return self.leave_out(entry, LeftOut::Blocked(obstacle)),
        };
        match fs::metadata(&resolved.real) {
            Ok(found) if !found.is_dir() => return self.leave_out(entry, LeftOut::NoFolder),
            // Programs in it could not run either.
            Ok(_) if fs::read_dir(&resolved.real).is_err() => {
                let unreadable = Obstacle::Unreadable("it cannot be listed".to_owned());
                return self.leave_out(entry, LeftOut::Blocked(unreadable));
            }
            Ok(_) => {}
            Err(_) => return self.leave_out(entry, LeftOut::Blocked(Obstacle::Missing)),
        }
        self.add_folder(entry, resolved);
    }

    /// Adds an existing folder of the search path.
    fn add_folder(&mut self, entry: &Path, resolved: ResolvedPath) {
        let Sources { landmarks, system, known, paths, .. } = self.sources;
        let within = |folders: &[PathBuf], path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        let real = &resolved.real;
        let is_of_system = within(system, real);
        if is_of_system || within(known, real) {
            let is_named = within(if is_of_system { system } else { known }, entry);
            let path = plain(entry).filter(|_| is_named).unwrap_or_else(|| real.clone());
            if !(is_of_system && OF_PACKAGES.iter().any(|folder| real == Path::new(folder))) {
                self.pending.push_back(PendingFolder::new(real, 0, false));
            }
            self.found.folders.push(SearchFolder { path, way: None });
            return;
        }
        let goes_through_workspace = resolved.links.keys().any(|link| landmarks.is_of_workspace(link));
        let refusal = landmarks.refusal(real).or(goes_through_workspace.then_some(Refusal::Writable));
        if let Some(refusal) = refusal {
            return self.leave_out(entry, LeftOut::Refused(refusal));
        }
        if !self.found.shows(real) {
            let of_folder = landmarks.of_folder(real, paths);
            let around = landmarks.of_installation(real, paths);
            if !of_folder.is_whole() || around.as_ref().is_some_and(|around| !around.is_whole()) {
                self.found.narrowed.push(entry.to_owned());
            }
            // The folder itself comes too: a cell may have to leave out the whole installation.
            let is_part = around.as_ref().is_some_and(|around| !around.is_whole() && around.includes(real));
            let is_shown = around.is_none_or(|around| self.show(around, &resolved.links))
                && (is_part || self.show_as_it_is(of_folder, &resolved.links));
            if !is_shown {
                return self.leave_out(entry, LeftOut::TooMany);
            }
        }
        self.pending.push_back(PendingFolder::new(real, 0, true));
        let folder = self.search_folder(entry, resolved);
        self.found.folders.push(folder);
    }

    /// Returns a folder of the search path under its name, if cells can have the links that lead
    /// there, and under its real path otherwise.
    fn search_folder(&mut self, name: &Path, resolved: ResolvedPath) -> SearchFolder {
        let is_named = self.add_links(&resolved.links);
        let ResolvedPath { real, links } = resolved;
        let path = plain(name).filter(|_| is_named).unwrap_or_else(|| real.clone());
        let way = Way { real, links: links.into_keys().collect(), ..Way::default() };
        SearchFolder { path, way: Some(way) }
    }

    /// Adds links to those that cells have. Returns false if cells cannot have all of them.
    fn add_links(&mut self, links: &BTreeMap<PathBuf, PathBuf>) -> bool {
        let landmarks = &self.sources.landmarks;
        let may_be_there = |link: &PathBuf| {
            let above = link.parent().unwrap_or(link);
            self.found.shows(link) || landmarks.refusal(above).is_none()
        };
        if !links.keys().all(may_be_there) || self.found.links.len() + links.len() > MAX_LINKS {
            return false;
        }
        let new: Vec<_> = links.iter().filter(|(link, _)| !self.found.shows(link)).collect();
        self.found.links.extend(new.into_iter().map(|(link, text)| (link.clone(), text.clone())));
        true
    }

    /// Adds the programs of listed folders to which no entry of `PATH` leads.
    fn add_programs_of_listed(&mut self) {
        for (mut name, mut resolved) in self.listed.clone() {
            let leads_there = |folder: &SearchFolder| {
                folder.way.as_ref().map_or(&folder.path, |way| &way.real).starts_with(&resolved.real)
            };
            if self.found.folders.iter().any(leads_there) {
                continue;
            }
            // A link in its place may lead out of the folder.
            let bin = resolved.real.join("bin");
            if fs::symlink_metadata(&bin).is_ok_and(|found| found.is_dir()) {
                (name, resolved.real) = (name.join("bin"), bin);
            }
            self.pending.push_back(PendingFolder::new(&resolved.real, 0, true));
            let folder = self.search_folder(&name, resolved);
            self.found.folders.push(folder);
        }
    }

    /// Follows the links and scripts in the folders of programs.
    fn follow(&mut self) {
        while let Some(folder) = self.pending.pop_front() {
            if !self.scanned.insert(folder.real.clone()) {
                continue;
            }
            let entries = fs::read_dir(&folder.real).into_iter().flatten().flatten();
            for entry in entries.take(MAX_ENTRIES.0) {
                let Some(left) = self.left.checked_sub(1) else { return };
                self.left = left;
                self.follow_entry(&folder, &entry);
            }
        }
    }

    fn follow_entry(&mut self, folder: &PendingFolder, entry: &fs::DirEntry) {
        let Ok(kind) = entry.file_type() else { return };
        let path = entry.path();
        let target = if kind.is_symlink() {
            Some(path)
        } else if kind.is_file() && folder.reads_scripts {
            interpreter(&path)
        } else {
            None
        };
        let Some(Ok(target)) = target.map(|target| self.sources.paths.resolve(&target)) else { return };
        let landmarks = &self.sources.landmarks;
        let is_shown = self.found.shows(&target.real);
        if target.links.keys().any(|link| landmarks.is_of_workspace(link))
            || (!is_shown && landmarks.refusal(&target.real).is_some())
            || self.sources.paths.program(&target.real).is_none()
        {
            return;
        }
        self.add_links(&target.links);
        if is_shown {
            return;
        }
        let is_of_programs = |above: &&Path| above.ends_with("bin") || above.ends_with("sbin");
        let above = target.real.ancestors().skip(1).find(is_of_programs);
        let around = above.and_then(|above| landmarks.of_installation(above, &self.sources.paths));
        let around = around.filter(|around| around.includes(&target.real));
        if let (Some(above), Some(_)) = (above, &around)
            && folder.depth < MAX_DEPTH
        {
            self.pending.push_back(PendingFolder::new(above, folder.depth + 1, true));
        }
        let alone = || {
            if !self.sources.paths.is_certainly_program(&target.real) {
                return None;
            }
            let (above, name) = target.real.parent().zip(target.real.file_name())?;
            Some(Extent { folder: above.to_owned(), parts: vec![name.into()] })
        };
        if let Some(extent) = around.or_else(alone) {
            self.show(extent, &target.links);
        }
    }

    /// Shows an extent, unless cells show it anyway. Returns false if they already show too much.
    fn show(&mut self, extent: Extent, links: &BTreeMap<PathBuf, PathBuf>) -> bool {
        let Extent { folder, parts } = extent;
        let parts = parts.into_iter().filter(|part| !self.found.shows(&folder.join(part))).collect();
        self.show_as_it_is(Extent { folder, parts }, links)
    }

    fn show_as_it_is(&mut self, extent: Extent, links: &BTreeMap<PathBuf, PathBuf>) -> bool {
        if extent.parts.is_empty() {
            return true;
        }
        let in_all: usize = self.found.toolchains.iter().map(|toolchain| toolchain.parts.len()).sum();
        if in_all + extent.parts.len() > MAX_PARTS {
            return false;
        }
        let listed = self.listed.iter().any(|(_, listed)| extent.folder.starts_with(&listed.real));
        let way = Way { real: extent.folder.clone(), links: links.keys().cloned().collect(), listed };
        self.found.toolchains.push(Toolchain {
            folder: extent.folder.clone(),
            parts: extent.parts.clone(),
            named: true,
            of_path: Some(way),
            ..Toolchain::default()
        });
        self.found.extents.push(extent);
        true
    }

    fn leave_out(&mut self, folder: &Path, why: LeftOut) {
        // The rest of an endless list is of no use to anybody.
        if self.found.left_out.len() < MAX_LEFT_OUT {
            self.found.left_out.push((folder.to_owned(), why));
        }
    }
}

/// Returns the path without repeated and final slashes, or `None` if it has `..`.
fn plain(path: &Path) -> Option<PathBuf> {
    path.components().all(|part| part != Component::ParentDir).then(|| path.components().collect())
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(script).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut start)).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(u8::is_ascii_whitespace).next()?;
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    path.is_absolute().then(|| path.to_owned())
}
