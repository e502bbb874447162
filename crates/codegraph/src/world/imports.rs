//! The targets of imports, by the rules of each language.

use super::lookup::Search;
use super::{Entry, FileId, ModuleId, World};
use crate::facts::{Import, ImportKind};
use crate::language::Family;
use crate::project::{folder_of, joined};

/// Extensions of the files that an import of JavaScript may mean, in the order of their preference.
const SCRIPT_EXTENSIONS: [&str; 10] =
    [".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".vue"];

impl World {
    /// Returns the import with a number among all.
    pub(crate) fn import(&self, import: u32) -> Option<(FileId, &Import)> {
        let file = *self.file_of_import.get(import as usize)?;
        let found = self.files.get(file as usize)?;
        Some((file, found.facts.imports.get((import - found.first_import) as usize)?))
    }

    /// Returns the things that an import leads to. An import that leads to itself leads nowhere.
    pub(crate) fn import_targets(&self, number: u32, search: &Search) -> Vec<Entry> {
        if !search.step() || search.open.borrow().contains(&number) {
            return Vec::new();
        }
        let Some((file, import)) = self.import(number) else { return Vec::new() };
        search.open.borrow_mut().push(number);
        let mut found = self.targets(file, import, search);
        search.open.borrow_mut().pop();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn targets(&self, file: FileId, import: &Import, search: &Search) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        match found.family {
            Family::Rust => {
                let parts: Vec<&str> = import.path.split(':').filter(|part| !part.is_empty()).collect();
                self.rust_path(file, import.scope, &parts, search)
            }
            Family::Python => self.python_targets(file, import, search),
            Family::JavaScript => self.script_targets(file, import, search),
            Family::Go => match self.project.go_folder(&import.path) {
                Some(folder) => self.module_at(Family::Go, &folder).map(Entry::Module).into_iter().collect(),
                None => self.outside(&import.path),
            },
            Family::Java | Family::CSharp | Family::Php => {
                let path = import.path.replace(['\\', ':'], ".");
                self.dotted(found.family, path.trim_matches('.'), search)
            }
            Family::C if import.kind == ImportKind::Include => Vec::new(),
            Family::C => self.dotted(Family::C, &import.path, search),
            Family::Bash => {
                let file = self.included_file(&found.path, &import.path).and_then(|file| self.file(file));
                match file {
                    Some(file) => vec![Entry::Module(file.module)],
                    None => self.outside(&import.path),
                }
            }
            Family::Ruby => Vec::new(),
        }
    }

    /// Returns something outside of the project by its path.
    fn outside(&self, path: &str) -> Vec<Entry> {
        vec![Entry::External(self.external(path))]
    }

    /// Resolves a path of Rust.
    pub(crate) fn rust_path(&self, file: FileId, scope: u32, parts: &[&str], search: &Search) -> Vec<Entry> {
        let Some((head, rest)) = parts.split_first() else { return Vec::new() };
        let module = self.module_around(file, scope);
        let path_of = |module: Option<ModuleId>| {
            module.and_then(|module| self.modules.get(module as usize)).map_or("", |module| &module.path)
        };
        let at = |path: &str| self.module_at(Family::Rust, path).map(Entry::Module).into_iter().collect();
        let mut entries: Vec<Entry> = match *head {
            "crate" | "$crate" => at(path_of(module).split("::").next().unwrap_or("")),
            "self" => module.map(Entry::Module).into_iter().collect(),
            "super" => at(path_of(module).rsplit_once("::").map_or("", |(parent, _)| parent)),
            head => {
                let local = self.known_symbol(head).map(|name| self.look_up(file, scope, name, search));
                match local {
                    Some(found) if !found.is_empty() => found,
                    _ => self.project.library(head).map(|path| at(&path)).unwrap_or_default(),
                }
            }
        };
        if entries.is_empty() && !matches!(*head, "crate" | "self" | "super" | "$crate") {
            return self.outside(&parts.join("::"));
        }
        for (index, part) in rest.iter().enumerate() {
            if *part == "super" {
                let above = entries.iter().filter_map(|entry| match entry {
                    Entry::Module(module) => {
                        path_of(Some(*module)).rsplit_once("::").map(|(parent, _)| parent)
                    }
                    _ => None,
                });
                entries =
                    above.filter_map(|path| self.module_at(Family::Rust, path)).map(Entry::Module).collect();
                continue;
            }
            if *part == "self" {
                continue;
            }
            if entries.iter().all(|entry| matches!(entry, Entry::External(_))) && !entries.is_empty() {
                let Some(Entry::External(path)) = entries.first() else { break };
                let tail = rest.get(index..).unwrap_or_default().join("::");
                return self.outside(&format!("{}::{tail}", self.external_path(*path)));
            }
            let Some(name) = self.known_symbol(part) else { return Vec::new() };
            entries =
                entries.into_iter().flat_map(|entry| self.member_of_entry(entry, name, search)).collect();
        }
        entries
    }

    /// Returns the targets of an import of Python.
    fn python_targets(&self, file: FileId, import: &Import, search: &Search) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        let modules = self.python_modules(&found.path, &import.path, import.level);
        let Some(module) = modules else {
            let member = found.facts.name(import.member);
            let path =
                if member.is_empty() { import.path.to_string() } else { format!("{}.{member}", import.path) };
            return if import.level == 0 { self.outside(&path) } else { Vec::new() };
        };
        if import.kind != ImportKind::Member {
            return vec![Entry::Module(module)];
        }
        let name = found.symbol(import.member);
        self.look_up_in_module(module, name, search)
    }

    /// Returns the module of a dotted path, as a file sees it.
    fn python_modules(&self, from: &str, path: &str, level: u16) -> Option<ModuleId> {
        let dotted = |folder: &str, path: &str| {
            let folder = folder.replace('/', ".");
            match (folder.is_empty(), path.is_empty()) {
                (true, _) => path.to_owned(),
                (_, true) => folder,
                _ => format!("{folder}.{path}"),
            }
        };
        let mut folder = folder_of(from);
        if level > 0 {
            for _ in 1..level {
                folder = folder_of(folder);
            }
            return self.module_at(Family::Python, &dotted(folder, path));
        }
        // The folder above the outermost package comes first, then the root and its usual folders of sources,
        // then the folder of the file itself, as for a script.
        let mut outermost = folder;
        while self.is_package(outermost) && !outermost.is_empty() {
            outermost = folder_of(outermost);
        }
        let mut roots = vec![outermost, "", "src", "lib"];
        while !folder.is_empty() {
            roots.push(folder);
            folder = folder_of(folder);
        }
        roots.iter().find_map(|root| self.module_at(Family::Python, &dotted(root, path)))
    }

    fn is_package(&self, folder: &str) -> bool {
        let init = if folder.is_empty() { "__init__.py".to_owned() } else { format!("{folder}/__init__.py") };
        self.file_at(&init).is_some()
    }

    /// Returns the targets of an import of JavaScript or TypeScript.
    fn script_targets(&self, file: FileId, import: &Import, search: &Search) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        let member = found.facts.name(import.member);
        if import.path.is_empty() {
            // `export { a as b }` names something of the file itself.
            return self.look_up(file, 0, found.symbol(import.member), search);
        }
        let Some(target) = self.script_file(&found.path, &import.path) else {
            let path = match import.kind {
                ImportKind::Member => format!("{}.{member}", import.path),
                _ => import.path.to_string(),
            };
            return self.outside(&path);
        };
        let Some(module) = self.file(target).map(|target| target.module) else { return Vec::new() };
        match import.kind {
            ImportKind::Member if member != "default" => {
                self.look_up_in_module(module, found.symbol(import.member), search)
            }
            ImportKind::Default | ImportKind::Member => {
                let entries = self.default_export(target, search);
                if entries.is_empty() { vec![Entry::Module(module)] } else { entries }
            }
            _ => vec![Entry::Module(module)],
        }
    }

    /// Returns the default export of a file.
    fn default_export(&self, file: FileId, search: &Search) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        let definitions = (0_u32..).zip(&found.facts.definitions);
        let marked = definitions.filter(|(_, definition)| definition.traits.is_default_export);
        let mut entries: Vec<Entry> =
            marked.map(|(local, _)| Entry::Definition(found.first_definition + local)).collect();
        if let Some(name) = self.known_symbol("default") {
            entries.extend(self.look_up_in_module(found.module, name, search));
        }
        entries
    }

    /// Returns the file that an import path of JavaScript means.
    pub(crate) fn script_file(&self, from: &str, import: &str) -> Option<FileId> {
        for path in self.project.script_paths(from, import) {
            if let Some(file) = self.file_at(&path) {
                return Some(file);
            }
            let mut with_extension = SCRIPT_EXTENSIONS.iter().map(|extension| format!("{path}{extension}"));
            if let Some(file) = with_extension.find_map(|path| self.file_at(&path)) {
                return Some(file);
            }
            // TypeScript writes the extension of the output.
            for (written, real) in
                [(".js", ".ts"), (".js", ".tsx"), (".jsx", ".tsx"), (".mjs", ".mts"), (".cjs", ".cts")]
            {
                let source = path.strip_suffix(written).map(|stem| format!("{stem}{real}"));
                if let Some(file) = source.and_then(|path| self.file_at(&path)) {
                    return Some(file);
                }
            }
            for extension in SCRIPT_EXTENSIONS {
                let index = joined(&path, &format!("index{extension}"));
                if let Some(file) = index.and_then(|path| self.file_at(&path)) {
                    return Some(file);
                }
            }
        }
        None
    }

    /// Resolves a dotted path: a module, and members in it.
    fn dotted(&self, family: Family, path: &str, search: &Search) -> Vec<Entry> {
        let mut end = path.len();
        loop {
            let module = path.get(..end).and_then(|path| self.module_at(family, path));
            if let Some(module) = module {
                let mut entries = vec![Entry::Module(module)];
                for part in
                    path.get(end..).unwrap_or("").split('.').filter(|part| !part.is_empty() && *part != "*")
                {
                    let Some(name) = self.known_symbol(part) else { return self.outside(path) };
                    entries = entries
                        .into_iter()
                        .flat_map(|entry| self.member_of_entry(entry, name, search))
                        .collect();
                }
                let is_root = end == 0;
                return if entries.is_empty() || is_root && path.is_empty() {
                    self.outside(path)
                } else {
                    entries
                };
            }
            match path.get(..end).and_then(|path| path.rfind('.')) {
                Some(at) => end = at,
                None if end > 0 => end = 0,
                None => return self.outside(path),
            }
        }
    }

    /// Returns the file that an include of C or a `source` of a shell means.
    pub(crate) fn included_file(&self, from: &str, path: &str) -> Option<FileId> {
        let beside = joined(folder_of(from), path);
        if let Some(file) = beside.and_then(|path| self.file_at(&path)) {
            return Some(file);
        }
        let roots = ["", "include", "src", "lib"];
        let at_root = roots.iter().find_map(|root| joined(root, path).and_then(|path| self.file_at(&path)));
        at_root.or_else(|| {
            let with_slash = format!("/{path}");
            let named = self.files_named(crate::project::name_of(path)).iter().copied();
            let mut matching =
                named.filter(|file| self.file(*file).is_some_and(|file| file.path.ends_with(&with_slash)));
            matching.next().filter(|_| matching.next().is_none())
        })
    }
}
