//! The references of one file to other files of its crate, read from its paths.
//!
//! Names are followed through `use` declarations, also of other files. A name that comes from a glob
//! import belongs to the file that the glob names.

use std::collections::BTreeSet;

use crate::tidy::source::Source;

/// Maximum number of `use` declarations that pass a name on, one to the next.
const PASSED_ON: usize = 8;

/// One file of a crate, as a module.
pub(super) struct Module<'a> {
    /// Path below `src/`.
    pub(super) file: &'a str,
    /// Path of the module from the root of its crate.
    path: Vec<String>,
    /// The `use` declarations.
    imports: Vec<Import>,
    /// The paths of two names or more outside `use` declarations.
    mentions: Vec<Vec<String>>,
}

/// One name that a `use` declaration brings in.
struct Import {
    path: Vec<String>,
    name: String,
}

impl<'a> Module<'a> {
    pub(super) fn read(file: &'a str, source: &Source) -> Self {
        let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let path = if stem == "lib" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() };
        let code: Vec<&str> =
            source.lines().filter(|(.., in_test)| !in_test).map(|(_, line, _)| line).collect();
        let (imports, mentions) = paths(&words(&code.join("\n")));
        Self { file, path, imports, mentions }
    }

    /// Returns the indexes of the modules that this module names, without those of its own folder
    /// and those whose folder it is in.
    pub(super) fn needs(&self, modules: &[Module<'_>]) -> BTreeSet<usize> {
        let imports = self.imports.iter().map(|import| &import.path);
        let targets = imports.chain(&self.mentions).filter_map(|path| self.target(path, modules));
        let related = |at: usize| {
            modules
                .get(at)
                .is_none_or(|other| other.path.starts_with(&self.path) || self.path.starts_with(&other.path))
        };
        targets.filter(|at| !related(*at)).collect()
    }

    /// Returns the module that has the item of this path.
    fn target(&self, path: &[String], modules: &[Module<'_>]) -> Option<usize> {
        let mut from = self;
        let mut path = path.to_vec();
        let mut at = None;
        for _ in 0..PASSED_ON {
            let Some((found, rest)) = from.absolute(&path, modules).and_then(|path| locate(&path, modules))
            else {
                break;
            };
            at = Some(found);
            let (module, [name, ..]) = (modules.get(found)?, rest.as_slice()) else { break };
            let Some(import) = module.imports.iter().find(|import| import.name == *name) else { break };
            path = import.path.iter().chain(rest.iter().skip(1)).cloned().collect();
            from = module;
        }
        at
    }

    /// Returns a path of this file from the root of the crate, or `None` for a path of another crate.
    fn absolute(&self, path: &[String], modules: &[Module<'_>]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let up = path.iter().take_while(|name| *name == "super").count();
        let (base, rest): (&[String], &[String]) = match first.as_str() {
            "crate" => (&[], rest),
            "self" => (&self.path, rest),
            "super" => (self.path.get(..self.path.len().checked_sub(up)?)?, path.get(up..)?),
            name => {
                let is_child = |module: &Module<'_>| {
                    module.path.split_last().is_some_and(|(last, folder)| last == name && folder == self.path)
                };
                let is_imported = self
                    .imports
                    .iter()
                    .any(|import| import.name == name && import.path.first() != Some(first));
                if !modules.iter().any(is_child) && !is_imported {
                    return None;
                }
                (&self.path, path)
            }
        };
        Some(base.iter().chain(rest).cloned().collect())
    }
}

/// Returns the deepest module on a path, and the rest of the path.
fn locate(path: &[String], modules: &[Module<'_>]) -> Option<(usize, Vec<String>)> {
    (0..=path.len()).rev().find_map(|length| {
        let (folder, rest) = path.split_at(length);
        let at = modules.iter().position(|module| module.path == folder)?;
        Some((at, rest.to_vec()))
    })
}

/// Splits code into names, `::`, and single other characters.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match name {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        let (word, behind) = rest.split_at(length);
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

/// Returns the imports of all `use` declarations, and all other paths.
fn paths(words: &[&str]) -> (Vec<Import>, Vec<Vec<String>>) {
    let (mut imports, mut mentions) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(word) = words.get(at) {
        // The `use<'a>` of a return type imports nothing.
        if *word == "use" && words.get(at + 1).is_some_and(|next| *next != "<") {
            let end = words.iter().skip(at).position(|word| *word == ";").map_or(words.len(), |end| at + end);
            imported(words.get(at + 1..end).unwrap_or_default(), &mut imports);
            at = end;
            continue;
        }
        let mut path = Vec::new();
        while let Some(name) = words.get(at).filter(|word| is_name(word)) {
            path.push((*name).to_owned());
            at += 1;
            let goes_on = words.get(at) == Some(&"::") && words.get(at + 1).is_some_and(|word| is_name(word));
            if !goes_on {
                break;
            }
            at += 1;
        }
        if path.is_empty() {
            at += 1;
        } else if path.len() > 1 {
            mentions.push(path);
        }
    }
    (imports, mentions)
}

/// Adds the names of one `use` declaration, which may be a tree: `a::{b as c, d::{self, e}, f::*}`.
fn imported(words: &[&str], imports: &mut Vec<Import>) {
    let mut outer: Vec<Vec<String>> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut name = None;
    let mut words = words.iter();
    loop {
        let word = words.next();
        match word.copied() {
            Some("{") => outer.push(path.clone()),
            Some("as") => name = words.next().map(|word| (*word).to_owned()),
            None | Some("," | "}") => {
                let folder = outer.last().map_or(0, Vec::len);
                if path.len() > folder {
                    path.truncate(path.iter().position(|part| part == "*").unwrap_or(path.len()));
                    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    let name = name.take().or_else(|| path.last().cloned()).unwrap_or_default();
                    imports.push(Import { path: path.clone(), name });
                }
                if word.copied() == Some("}") {
                    outer.pop();
                }
                path = outer.last().cloned().unwrap_or_default();
            }
            Some("::") => {}
            Some(part) => path.push(part.to_owned()),
        }
        if word.is_none() {
            return;
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
