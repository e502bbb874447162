//! The layout of a project: what its manifests say about names of packages, and which module a file is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::language::Family;

/// The manifests of a project, as far as they decide what a path in an import means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Project {
    /// Crates by the folder of their `Cargo.toml`.
    crates: BTreeMap<String, Crate>,
    /// Folders of the crates with each name.
    libraries: BTreeMap<String, BTreeSet<String>>,
    /// Modules of Go by the folder of their `go.mod`.
    go_modules: BTreeMap<String, String>,
    /// Packages of JavaScript by the folder of their `package.json`.
    packages: BTreeMap<String, Package>,
    /// Path mappings by the folder of their `tsconfig.json` or `jsconfig.json`.
    mappings: BTreeMap<String, Mappings>,
}

/// A crate of Rust.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Crate {
    /// Name as paths write it.
    name: String,
    /// Path of the root of the library, from the root of the project.
    library: String,
}

/// A package of JavaScript.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    /// Files that the package as a whole may be, from the root of the project.
    entries: Vec<String>,
}

/// Path mappings of TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mappings {
    /// Folder from which paths without dots are looked up, if there is one.
    base: Option<String>,
    /// Patterns with at most one star, and their replacements.
    patterns: Vec<(String, Vec<String>)>,
}

/// Returns true if a file is a manifest that decides about imports.
pub(crate) fn is_manifest(path: &str) -> bool {
    matches!(name_of(path), "Cargo.toml" | "go.mod" | "package.json" | "tsconfig.json" | "jsconfig.json")
}

/// Returns the folder of a path, without a slash at its end.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the last part of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Joins a folder and a relative path, and resolves its dots. `None` if it leaves the root.
pub(crate) fn joined(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = if folder.is_empty() { Vec::new() } else { folder.split('/').collect() };
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

impl Project {
    /// Reads a manifest. One that cannot be read is as if it were not there.
    pub(crate) fn add(&mut self, path: &str, content: &[u8]) {
        let folder = folder_of(path).to_owned();
        let Ok(text) = std::str::from_utf8(content) else { return };
        match name_of(path) {
            "Cargo.toml" => {
                if let Some(found) = crate_of(&folder, text) {
                    self.libraries.entry(found.name.clone()).or_default().insert(folder.clone());
                    self.crates.insert(folder, found);
                }
            }
            "go.mod" => {
                let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
                let module = module.map(|module| module.trim().trim_matches('"').to_owned());
                self.go_modules.extend(module.map(|module| (folder, module)));
            }
            "package.json" => self.packages.extend(package_of(&folder, text).map(|found| (folder, found))),
            _ => self.mappings.extend(mappings_of(&folder, text).map(|found| (folder, found))),
        }
    }

    /// Returns the module that a file is, as the family writes it.
    pub(crate) fn module_of(&self, family: Family, path: &str, package: &str) -> String {
        match family {
            Family::Rust => self.rust_module(path),
            Family::Go => folder_of(path).to_owned(),
            Family::Python => {
                let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
                let stem = if name_of(stem) == "__init__" { folder_of(stem) } else { stem };
                stem.replace('/', ".")
            }
            Family::JavaScript | Family::Bash => path.to_owned(),
            Family::Java | Family::CSharp => package.to_owned(),
            Family::Php => package.trim_matches('\\').replace('\\', "."),
            Family::C | Family::Ruby => String::new(),
        }
    }

    /// Returns the crate and the path of a Rust file: `folder#target::a::b`.
    fn rust_module(&self, path: &str) -> String {
        let folder = self.crate_folder(path);
        let inside = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
        let library = self.crates.get(folder).map_or("", |found| found.library.as_str());
        let stem = inside.strip_suffix(".rs").unwrap_or(inside);
        let parts: Vec<&str> = stem.split('/').collect();
        let (target, rest): (String, &[&str]) = match parts.as_slice() {
            _ if path == library => ("lib".to_owned(), &[]),
            ["src", "main"] => ("main".to_owned(), &[]),
            ["src", "lib"] | ["build"] => (parts.last().copied().unwrap_or("lib").to_owned(), &[]),
            ["src", "bin", name, rest @ ..] => (format!("bin/{name}"), rest),
            ["src", rest @ ..] => {
                let is_library = library.is_empty() || !library.ends_with("main.rs");
                ((if is_library { "lib" } else { "main" }).to_owned(), rest)
            }
            [kind @ ("tests" | "examples" | "benches"), name, rest @ ..] => (format!("{kind}/{name}"), rest),
            rest => ("lib".to_owned(), rest),
        };
        let mut module = format!("{folder}#{target}");
        for (at, part) in rest.iter().enumerate() {
            let is_last = at + 1 == rest.len();
            if is_last && (*part == "mod" || *part == "main" && at == 0) {
                continue;
            }
            module.push_str("::");
            module.push_str(part);
        }
        module
    }

    /// Returns the folder of the crate of a file.
    fn crate_folder<'a>(&self, path: &'a str) -> &'a str {
        let mut folder = folder_of(path);
        loop {
            if self.crates.contains_key(folder) {
                return folder;
            }
            if folder.is_empty() {
                break;
            }
            folder = folder_of(folder);
        }
        // Without a manifest, the folder around `src` is the crate.
        match path.find("src/") {
            Some(0) | None => "",
            Some(at) => path.get(..at.saturating_sub(1)).unwrap_or(""),
        }
    }

    /// Returns the root module of a library by the name of its crate.
    pub(crate) fn library(&self, name: &str) -> Option<String> {
        let folder = self.libraries.get(name)?.first()?;
        Some(format!("{folder}#lib"))
    }

    /// Returns the folder of a package of Go by its import path.
    pub(crate) fn go_folder(&self, import: &str) -> Option<String> {
        let fits = |(folder, module): (&String, &String)| {
            let rest = import.strip_prefix(module.as_str())?;
            if rest.is_empty() {
                return Some((module.len(), folder.clone()));
            }
            let rest = rest.strip_prefix('/')?;
            Some((module.len(), if folder.is_empty() { rest.to_owned() } else { format!("{folder}/{rest}") }))
        };
        self.go_modules.iter().filter_map(fits).max().map(|(_, folder)| folder)
    }

    /// Returns the paths without extensions that an import of JavaScript may mean, the best first.
    pub(crate) fn script_paths(&self, from: &str, import: &str) -> Vec<String> {
        if import.starts_with('.') {
            return joined(folder_of(from), import).into_iter().collect();
        }
        if let Some(path) = import.strip_prefix('/') {
            return vec![path.to_owned()];
        }
        let mut paths = Vec::new();
        let mut folder = folder_of(from);
        loop {
            if let Some(mappings) = self.mappings.get(folder) {
                for (pattern, replacements) in &mappings.patterns {
                    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
                    let middle = import.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                    let is_exact = !pattern.contains('*') && pattern != import;
                    let Some(middle) = middle.filter(|_| !is_exact) else { continue };
                    let base = mappings.base.as_deref().unwrap_or(folder);
                    let replaced =
                        replacements.iter().map(|replacement| replacement.replacen('*', middle, 1));
                    paths.extend(replaced.filter_map(|path| joined(base, &path)));
                }
                paths.extend(mappings.base.as_ref().and_then(|base| joined(base, import)));
            }
            if folder.is_empty() {
                break;
            }
            folder = folder_of(folder);
        }
        for (folder, package) in &self.packages {
            if import == package.name {
                paths.extend(package.entries.iter().cloned());
            } else if let Some(rest) = import.strip_prefix(package.name.as_str())
                && let Some(rest) = rest.strip_prefix('/')
            {
                paths.extend(joined(folder, rest));
                paths.extend(joined(folder, &format!("src/{rest}")));
            }
        }
        paths
    }
}

fn crate_of(folder: &str, text: &str) -> Option<Crate> {
    let manifest: toml_edit::DocumentMut = text.parse().ok()?;
    let package = manifest.get("package")?.get("name")?.as_str()?;
    let library = manifest.get("lib");
    let named = library.and_then(|library| library.get("name")).and_then(|name| name.as_str());
    let path = library.and_then(|library| library.get("path")).and_then(|path| path.as_str());
    let name = named.unwrap_or(package).replace('-', "_");
    let library = joined(folder, path.unwrap_or("src/lib.rs"))?;
    Some(Crate { name, library })
}

fn package_of(folder: &str, text: &str) -> Option<Package> {
    let manifest: Json = serde_json::from_str(text).ok()?;
    let name = manifest.get("name")?.as_str()?.to_owned();
    let mut entries = Vec::new();
    let mut open: Vec<&Json> =
        ["source", "types", "module", "main"].iter().filter_map(|key| manifest.get(*key)).collect();
    let exports = manifest.get("exports");
    open.extend(exports.map(|exports| exports.get(".").unwrap_or(exports)));
    while let Some(at) = open.pop() {
        match at {
            Json::String(path) => entries.push(path.clone()),
            Json::Object(map) if entries.len() < 16 => open.extend(map.values()),
            _ => {}
        }
    }
    entries.extend(["src/index".to_owned(), "index".to_owned(), "lib/index".to_owned()]);
    let entries = entries.iter().filter_map(|path| joined(folder, path)).collect();
    Some(Package { name, entries })
}

fn mappings_of(folder: &str, text: &str) -> Option<Mappings> {
    let manifest: Json = serde_json::from_str(&without_comments(text)).ok()?;
    let options = manifest.get("compilerOptions")?;
    let base = options.get("baseUrl").and_then(Json::as_str).and_then(|base| joined(folder, base));
    let mut patterns = Vec::new();
    for (pattern, replacements) in options.get("paths").and_then(Json::as_object).into_iter().flatten() {
        let replacements = replacements.as_array().into_iter().flatten();
        let replacements = replacements.filter_map(|path| path.as_str().map(str::to_owned)).collect();
        patterns.push((pattern.clone(), replacements));
    }
    Some(Mappings { base, patterns })
}

/// Removes comments, and commas before a closing bracket, from JSON.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_text = false;
    while let Some(at) = rest.next() {
        if in_text {
            kept.push(at);
            if at == '\\' {
                kept.extend(rest.next());
            }
            in_text = at != '"';
        } else if at == '/' && rest.peek() == Some(&'/') {
            while rest.next_if(|next| *next != '\n').is_some() {}
        } else if at == '/' && rest.peek() == Some(&'*') {
            rest.next();
            let mut before = ' ';
            for next in rest.by_ref() {
                if before == '*' && next == '/' {
                    break;
                }
                before = next;
            }
        } else {
            if matches!(at, ']' | '}') && kept.trim_end().ends_with(',') {
                kept.truncate(kept.trim_end().len() - 1);
            }
            in_text = at == '"';
            kept.push(at);
        }
    }
    kept
}
