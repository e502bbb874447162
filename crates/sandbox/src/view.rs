//! The view of a cell: the steps that build its file system, and the Landlock rules that grant the
//! same access.

mod home;
mod layers;
mod links;
mod placeholders;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::MountAttrFlags;

use crate::child::blueprint::{Kind, Mount, Place, Source, Step, c_string};
use crate::direct_writes::Direct;
use crate::enforcement::{Home, UserMapping};
use crate::error::SandboxError;
use crate::identity::{self, Identity, MappedTree, mapped_tree};
use crate::landlock::{Rights, Rules};
use crate::overlay::Layers;
use crate::roots::{Root, Roots};
use crate::spec::CellSpec;
use crate::system::{self, HOME, SystemEntry};

/// Folder in the root with the sources of covers. It stays there, read-only like the root.
pub(crate) const SCRATCH: &str = "/.cell";

const READ_WRITE: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
const READ_ONLY: MountAttrFlags = READ_WRITE.union(MountAttrFlags::MOUNT_ATTR_RDONLY);
const COVER: MountAttrFlags = READ_ONLY.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
/// Mount attributes of device files, which are shown one by one and so must work.
const DEVICE: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// The planned file system of a cell.
pub(crate) struct View {
    pub(crate) steps: Vec<Step>,
    /// Trees to which steps refer by descriptor number; they must stay open until the new process
    /// is made.
    pub(crate) trees: Vec<OwnedFd>,
    pub(crate) rules: Option<Rules>,
    /// Descriptions of the parts that could not be shown.
    pub(crate) missing: Vec<String>,
    /// Lifetime of the home's content: whether its caches are kept.
    pub(crate) home: Home,
    /// True if the overlay is already mounted, for one of the workspace's names.
    overlaid: bool,
    /// True if the lower folder of the overlay includes the mounts below it.
    with_submounts: bool,
}

/// The parts of the host that a cell shows.
#[derive(Clone, Copy)]
pub(crate) struct ShownParts<'a> {
    pub(crate) roots: &'a Roots,
    /// Identity of the command on the host.
    pub(crate) identity: Identity,
    /// The kernel's version of Landlock.
    pub(crate) landlock: Option<i32>,
    /// Overlay through which the workspace is shown.
    pub(crate) layers: Option<&'a Layers>,
    /// Folder of the host that keeps the caches of the home.
    pub(crate) kept: Option<&'a Path>,
}

/// Plans the view of a cell of `spec`.
pub(crate) fn decide(spec: &CellSpec, shown: ShownParts<'_>) -> Result<View, SandboxError> {
    let mut view = View::new(shown.landlock);
    view.foundation(Some(shown), &spec.home_files)?;
    view.links(spec, shown.roots)?;
    view.cover_all(&spec.covered, shown.roots)?;
    view.hide(spec, shown.roots, shown.layers)?;
    Ok(view)
}

/// Plans the part of the view that does not depend on a call.
pub(crate) fn foundation(landlock: Option<i32>) -> Result<View, SandboxError> {
    let mut view = View::new(landlock);
    view.foundation(None, &[])?;
    Ok(view)
}

/// Plans the additions of `spec` to the foundation.
///
/// Both together show the same as [`decide`], unless a root lies at or above a path of the
/// foundation.
pub(crate) fn addition(spec: &CellSpec, shown: ShownParts<'_>) -> Result<View, SandboxError> {
    let mut view = roots(spec, shown)?;
    view.hide(spec, shown.roots, shown.layers)?;
    Ok(view)
}

/// Plans the first part of the addition: all visible files.
pub(crate) fn roots(spec: &CellSpec, shown: ShownParts<'_>) -> Result<View, SandboxError> {
    let mut view = View::new(shown.landlock);
    // Comes before the roots, one of which may lie in the home folder: the files must not be
    // written through it.
    view.home_files(Path::new(HOME), &spec.home_files)?;
    view.kept(Path::new(HOME), shown)?;
    let mut ordered: Vec<&Root> = shown.roots.all().collect();
    ordered.sort_by_key(|root| root.at.components().count());
    for root in ordered {
        view.root(root, shown)?;
    }
    view.links(spec, shown.roots)?;
    view.cover_all(&spec.covered, shown.roots)?;
    Ok(view)
}

/// Plans the rest of the addition: files that must be hidden or unchanged.
pub(crate) fn hidden(spec: &CellSpec, shown: ShownParts<'_>) -> Result<View, SandboxError> {
    let mut view = View::new(shown.landlock);
    view.hide(spec, shown.roots, shown.layers)?;
    Ok(view)
}

/// A tree of the host. `without_submounts` is true if the mounts below it could not be included.
struct Tree {
    source: Source,
    without_submounts: bool,
}

/// The object at one path of the cell before any cover.
enum Top<'a> {
    System(SystemEntry),
    Memory { size: &'static std::ffi::CStr, mode: &'static std::ffi::CStr, what: Memory },
    Processes,
    Root(&'a Root),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Devices,
    Home,
    Plain,
}

impl View {
    fn new(landlock: Option<i32>) -> Self {
        Self {
            steps: Vec::new(),
            trees: Vec::new(),
            rules: landlock.map(Rules::new),
            missing: Vec::new(),
            home: Home::Fresh,
            overlaid: false,
            with_submounts: false,
        }
    }

    /// Adds the parts of every cell, with the roots in their places if they are known already.
    fn foundation(
        &mut self,
        shown: Option<ShownParts<'_>>,
        home_files: &[(PathBuf, Vec<u8>)],
    ) -> Result<(), SandboxError> {
        self.allow(Path::new("/"), Kind::Folder, Rights::List)?;
        self.scratch()?;
        if shown.is_none_or(|shown| shown.layers.is_some()) {
            self.site()?;
        }
        self.tops(shown, home_files)?;
        self.cover_system()
    }

    /// Freezes and covers the paths that the specification names.
    fn hide(&mut self, spec: &CellSpec, roots: &Roots, layers: Option<&Layers>) -> Result<(), SandboxError> {
        let mut frozen = roots.inside(&spec.frozen)?;
        let direct = Direct::new(roots, layers);
        let written = spec.frozen_where_direct.iter().filter(|path| direct.writes(path)).cloned();
        frozen.append(&mut roots.inside(&written.collect::<Vec<_>>())?);
        // Must come before freezing, because a mount above the file would prevent its replacement.
        let masked = match layers {
            Some(layers) => self.placeholders(spec, (roots, layers), &frozen)?,
            None => Cow::Borrowed(&*spec.masked),
        };
        self.freeze(&frozen)?;
        self.cover_all(&masked, roots)
    }

    /// Hides the content of these paths, under every name in the cell.
    fn cover_all(&mut self, paths: &[PathBuf], roots: &Roots) -> Result<(), SandboxError> {
        let (inside, outside) = roots.places(paths)?;
        for (path, root) in inside {
            // The path may not exist under a second name of a root; but then it exists under the
            // first name, where its cover is required.
            self.cover(&path, !roots.is_alias(&root))?;
        }
        for path in outside {
            self.cover(&path, false)?;
        }
        Ok(())
    }

    /// Mounts everything that the cell shows, outer paths first.
    fn tops(
        &mut self,
        shown: Option<ShownParts<'_>>,
        home_files: &[(PathBuf, Vec<u8>)],
    ) -> Result<(), SandboxError> {
        let mut tops: BTreeMap<PathBuf, Top<'_>> = BTreeMap::new();
        for entry in system::entries()? {
            tops.insert(entry.path().to_owned(), Top::System(entry));
        }
        let mut memory = |path: &str, size, mode, what| {
            tops.insert(PathBuf::from(path), Top::Memory { size, mode, what });
        };
        // The sizes bound the memory that a command can use through files; large builds belong in
        // the workspace.
        memory("/dev", c"64k", c"0755", Memory::Devices);
        memory("/dev/shm", c"256m", c"1777", Memory::Plain);
        memory("/tmp", c"1g", c"1777", Memory::Plain);
        memory("/var/tmp", c"256m", c"1777", Memory::Plain);
        memory(HOME, c"512m", c"0700", Memory::Home);
        tops.insert(PathBuf::from("/proc"), Top::Processes);
        for root in shown.iter().flat_map(|shown| shown.roots.all()) {
            // A root at the path of a system folder or an empty folder replaces it, as its caller
            // wants.
            tops.insert(root.at.clone(), Top::Root(root));
        }
        let mut ordered: Vec<_> = tops.into_iter().collect();
        ordered.sort_by_key(|(path, _)| path.components().count());
        for (path, top) in ordered {
            match top {
                Top::System(entry) => self.system(&path, &entry)?,
                Top::Processes => {
                    self.mount(
                        Source::Processes,
                        &path,
                        Kind::Folder,
                        MountAttrFlags::MOUNT_ATTR_NOSUID
                            | MountAttrFlags::MOUNT_ATTR_NODEV
                            | MountAttrFlags::MOUNT_ATTR_NOEXEC,
                    )?;
                    self.allow(&path, Kind::Folder, Rights::Processes)?;
                }
                Top::Memory { size, mode, what } => {
                    let source = Source::Memory { size: size.to_owned(), mode: mode.to_owned() };
                    self.mount(source, &path, Kind::Folder, READ_WRITE)?;
                    match what {
                        Memory::Devices => self.devices(&path)?,
                        Memory::Home => self.home(&path, home_files, shown)?,
                        Memory::Plain => self.allow(&path, Kind::Folder, Rights::Write)?,
                    }
                }
                Top::Root(root) => {
                    if let Some(shown) = shown {
                        self.root(root, shown)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn system(&mut self, path: &Path, entry: &SystemEntry) -> Result<(), SandboxError> {
        match entry {
            SystemEntry::Folder(_) => {
                self.mount(Source::Host(c_string("path", path)?), path, Kind::Folder, READ_ONLY)?;
                self.allow(path, Kind::Folder, Rights::Read)
            }
            SystemEntry::Link(_, text) => {
                self.steps.push(Step::Link { at: Place::new(path)?, text: c_string("path", text)? });
                Ok(())
            }
        }
    }

    fn root(&mut self, root: &Root, shown: ShownParts<'_>) -> Result<(), SandboxError> {
        match shown.layers {
            Some(layers) if layers.workspace == root.real => self.overlay(root, layers, shown)?,
            _ => {
                let attributes = if root.writable { READ_WRITE } else { READ_ONLY };
                let source = if root.owned || !identity::is_open_to_all(&root.real) {
                    self.tree(&root.real, shown.identity, attributes)?.source
                } else {
                    self.foreign_tree(&root.real, shown.identity, attributes)?
                };
                self.mount(source, &root.at, root.kind, attributes)?;
                self.require_at_resolved_path(root);
            }
        }
        let rights = if root.writable { Rights::Write } else { Rights::Read };
        self.allow(&root.at, root.kind, rights)
    }

    /// Makes the last mount required at the root's resolved path alone: a second name may lead
    /// through a link of the system, and is then not needed.
    fn require_at_resolved_path(&mut self, root: &Root) {
        if let Some(Step::Mount(mount)) = self.steps.last_mut() {
            mount.required = root.at == root.real;
        }
    }

    /// Returns a tree of the host, as its path or handed over with its owner mapped.
    fn tree(
        &mut self,
        real: &Path,
        identity: Identity,
        attributes: MountAttrFlags,
    ) -> Result<Tree, SandboxError> {
        if identity.mapping == UserMapping::Own {
            let source = Source::Host(c_string("path", real)?);
            return Ok(Tree { source, without_submounts: false });
        }
        let MappedTree { tree, without_submounts } = mapped_tree(real, identity, attributes)?;
        if without_submounts {
            self.missing.push(format!("mounts below {}", real.display()));
        }
        let source = Source::Handed(tree.as_raw_fd());
        self.trees.push(tree);
        Ok(Tree { source, without_submounts })
    }

    /// Returns a tree of the host whose owners stay foreign to a command of root.
    fn foreign_tree(
        &mut self,
        real: &Path,
        identity: Identity,
        attributes: MountAttrFlags,
    ) -> Result<Source, SandboxError> {
        if identity.mapping == UserMapping::Own {
            return Ok(Source::Host(c_string("path", real)?));
        }
        let tree = identity::foreign_tree(real, attributes)?;
        let source = Source::Handed(tree.as_raw_fd());
        self.trees.push(tree);
        Ok(source)
    }

    fn devices(&mut self, path: &Path) -> Result<(), SandboxError> {
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            let device = path.join(name);
            self.mount(Source::Host(c_string("path", &device)?), &device, Kind::File, DEVICE)?;
            if let Some(Step::Mount(mount)) = self.steps.last_mut() {
                // No command can run without it; a container may lack the others.
                mount.required = name == "null";
            }
        }
        for (name, text) in [
            ("ptmx", c"pts/ptmx"),
            ("fd", c"/proc/self/fd"),
            ("stdin", c"/proc/self/fd/0"),
            ("stdout", c"/proc/self/fd/1"),
            ("stderr", c"/proc/self/fd/2"),
        ] {
            self.steps.push(Step::Link { at: Place::new(&path.join(name))?, text: text.to_owned() });
        }
        self.mount(Source::Terminals, &path.join("pts"), Kind::Folder, MountAttrFlags::empty())?;
        // The mount point of the shared memory, which is mounted later, when this folder is sealed.
        self.steps.push(Step::Folder { at: Place::new(&path.join("shm"))?, mode: 0o755 });
        self.steps.push(Step::Seal { at: Place::new(path)? });
        self.allow(path, Kind::Folder, Rights::Devices)
    }

    /// Makes the sources of covers, empty folders that programs expect, and the files of `/etc`
    /// that must describe the cell.
    fn scratch(&mut self) -> Result<(), SandboxError> {
        for (name, content, mode) in
            [("passwd", system::PASSWD, 0o644), ("group", system::GROUP, 0o644), ("file", "", 0o000)]
        {
            let at = place(&format!("{SCRATCH}/{name}"))?;
            self.steps.push(Step::File { at, content: content.as_bytes().to_vec(), mode });
        }
        for (path, mode) in [(&*format!("{SCRATCH}/folder"), 0o000), ("/run", 0o755)] {
            self.steps.push(Step::Folder { at: place(path)?, mode });
        }
        Ok(())
    }

    fn cover_system(&mut self) -> Result<(), SandboxError> {
        // A second barrier: the filter refuses the calls that make user namespaces, and with this
        // setting the kernel would refuse them without the filter.
        let at = place("/proc/sys/user/max_user_namespaces")?;
        self.steps.push(Step::Setting { at, value: c"0".to_owned() });
        self.inside(&format!("{SCRATCH}/passwd"), Path::new("/etc/passwd"), Kind::File, READ_ONLY)?;
        self.inside(&format!("{SCRATCH}/group"), Path::new("/etc/group"), Kind::File, READ_ONLY)?;
        for path in system::PROCESSES_READ_ONLY {
            self.inside(path, Path::new(path), Kind::Folder, READ_ONLY)?;
        }
        for path in system::PROCESSES_COVERED {
            self.cover(Path::new(path), false)?;
        }
        Ok(())
    }

    /// Makes each path read-only, and each folder between it and its root a mount point, which the
    /// kernel neither renames nor removes.
    fn freeze(&mut self, frozen: &BTreeMap<PathBuf, PathBuf>) -> Result<(), SandboxError> {
        let mut pinned: BTreeSet<&Path> = BTreeSet::new();
        for (path, root) in frozen {
            // Empty if the root itself is frozen.
            let between =
                path.ancestors().skip(1).take_while(|folder| folder.starts_with(root) && *folder != root);
            pinned.extend(between);
        }
        // In the order of paths, an outer folder comes before an inner one.
        for folder in pinned {
            self.inside_same(folder, Kind::Folder, READ_WRITE)?;
        }
        for path in frozen.keys() {
            self.inside_same(path, kind_of(path)?, READ_ONLY)?;
        }
        Ok(())
    }

    fn inside_same(
        &mut self,
        path: &Path,
        kind: Kind,
        attributes: MountAttrFlags,
    ) -> Result<(), SandboxError> {
        let at = Place::new(path)?;
        let source = Source::Inside(c_string("path", path)?);
        self.steps.push(Step::Mount(Mount {
            source,
            at,
            kind,
            attributes,
            required: true,
            make_point: false,
            tree: -1,
        }));
        Ok(())
    }

    /// Hides the content of `path`. If `required`, the cell fails when the path is moved away at
    /// this moment, because its content could then be visible elsewhere.
    fn cover(&mut self, path: &Path, required: bool) -> Result<(), SandboxError> {
        let kind = match kind_of(path) {
            Err(_) if !required => return Ok(()),
            kind => kind?,
        };
        let name = if kind == Kind::Folder { "folder" } else { "file" };
        self.inside(&format!("{SCRATCH}/{name}"), path, kind, COVER)?;
        if let Some(Step::Mount(mount)) = self.steps.last_mut() {
            mount.required = required;
        }
        Ok(())
    }

    fn inside(
        &mut self,
        source: &str,
        path: &Path,
        kind: Kind,
        attributes: MountAttrFlags,
    ) -> Result<(), SandboxError> {
        self.steps.push(Step::Mount(Mount {
            source: Source::Inside(c_string("path", source)?),
            at: Place::new(path)?,
            kind,
            attributes,
            required: false,
            make_point: false,
            tree: -1,
        }));
        Ok(())
    }

    fn mount(
        &mut self,
        source: Source,
        path: &Path,
        kind: Kind,
        attributes: MountAttrFlags,
    ) -> Result<(), SandboxError> {
        let at = Place::new(path)?;
        self.steps.push(Step::Mount(Mount {
            source,
            at,
            kind,
            attributes,
            required: true,
            make_point: true,
            tree: -1,
        }));
        Ok(())
    }

    fn allow(&mut self, path: &Path, kind: Kind, rights: Rights) -> Result<(), SandboxError> {
        match &mut self.rules {
            Some(rules) => rules.allow(path, kind, rights),
            None => Ok(()),
        }
    }
}

fn place(path: &str) -> Result<Place, SandboxError> {
    Place::new(Path::new(path))
}

fn kind_of(path: &Path) -> Result<Kind, SandboxError> {
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| SandboxError::Root { path: path.to_owned(), reason: error.to_string() })?;
    Ok(if metadata.is_dir() { Kind::Folder } else { Kind::File })
}
