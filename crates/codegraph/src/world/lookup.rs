//! Names in scopes and modules.

use std::cell::Cell;

use super::{Entries, Entry, FileId, GlobalDefinition, ModuleId, Symbol, World};
use crate::facts::{DefinitionId, DefinitionKind, ImportKind, Visibility};
use crate::language::Family;

/// Maximum number of steps of one look-up through imports of imports. Real chains have a handful.
pub(super) const MAXIMUM_STEPS: u32 = 4_000;

/// Maximum number of meanings of a name in one scope. A name with more, such as `main` in a folder of C
/// programs, says nothing.
const MAXIMUM_MEANINGS: usize = 12;

/// The steps that one look-up through imports may still take, and the imports that it is in.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(super) steps: Cell<u32>,
    pub(super) open: std::cell::RefCell<Vec<u32>>,
}

impl World {
    /// Enters the names of a file into its scopes and its module.
    pub(super) fn add_names(&mut self, id: FileId) {
        let Some(file) = self.files.get(id as usize) else { return };
        let (facts, family, module) = (file.facts.clone(), file.family, file.module);
        let (definitions, variables) = (file.first_definition, file.first_variable);
        let (first_import, symbols) = (file.first_import, file.symbols.clone());
        let symbol = |name: u32| symbols.get(name as usize).copied().unwrap_or(0);
        self.module_of_definition.insert(definitions, module);
        for (local, definition) in (0_u32..).zip(&facts.definitions).skip(1) {
            let global = definitions + local;
            let name = symbol(definition.name);
            if definition.kind == DefinitionKind::Namespace {
                let around = self.module_of_definition.get(&(definitions + definition.parent)).copied();
                let module =
                    self.nested_module(family, around.unwrap_or(module), facts.name(definition.name));
                self.module_of_definition.insert(global, module);
                if let Some(found) = self.modules.get_mut(module as usize)
                    && !found.files.contains(&id)
                {
                    found.files.push(id);
                }
            }
            if facts.name(definition.name).is_empty() {
                continue;
            }
            let entry = Entry::Definition(global);
            let around = definitions + definition.parent;
            // A method outside of its type is a member of the type alone.
            let is_entered = definition.kind != DefinitionKind::Namespace || family == Family::JavaScript;
            if is_entered && definition.attached_to == 0 {
                self.scopes.entry((around, name)).or_default().push(entry);
                let is_hidden = family == Family::C && definition.visibility == Visibility::Private;
                if let Some(module) = self.module_of_definition.get(&around).filter(|_| !is_hidden) {
                    self.contents.entry((*module, name)).or_default().push(entry);
                }
            }
            let is_nested = facts
                .definitions
                .get(definition.parent as usize)
                .is_some_and(|around| around.kind.is_function());
            if definition.kind.is_function() && !is_nested {
                self.by_name.entry((family, name)).or_default().push(global);
            }
        }
        for (local, variable) in (0_u32..).zip(&facts.variables) {
            let around = definitions + variable.scope;
            if variable.kind.is_shared() {
                let entry = Entry::Variable(variables + local);
                let name = symbol(variable.name);
                self.scopes.entry((around, name)).or_default().push(entry);
                if let Some(module) = self.module_of_definition.get(&around) {
                    self.contents.entry((*module, name)).or_default().push(entry);
                }
            }
        }
        for (local, import) in (0_u32..).zip(&facts.imports) {
            let around = definitions + import.scope;
            let number = first_import + local;
            let around_module = self.module_of_definition.get(&around).copied();
            match import.kind {
                ImportKind::All => {
                    self.all_imports.entry(around).or_default().push(number);
                    if let Some(module) =
                        around_module.and_then(|module| self.modules.get_mut(module as usize))
                        && matches!(family, Family::Rust | Family::Python | Family::JavaScript | Family::Bash)
                    {
                        module.all_imports.push(number);
                    }
                }
                ImportKind::Include => {}
                ImportKind::Path | ImportKind::Member | ImportKind::Default => {
                    let name = symbol(import.alias);
                    self.scopes.entry((around, name)).or_default().push(Entry::Import(number));
                    if let Some(module) = around_module
                        && matches!(family, Family::Rust | Family::Python | Family::JavaScript)
                    {
                        self.contents.entry((module, name)).or_default().push(Entry::Import(number));
                    }
                }
            }
        }
    }

    /// Returns the module of a namespace block in another module.
    fn nested_module(&mut self, family: Family, around: ModuleId, name: &str) -> ModuleId {
        if name.is_empty() {
            return around;
        }
        let path = self.modules.get(around as usize).map_or("", |module| &module.path).to_owned();
        let separator = if family == Family::Rust { "::" } else { "." };
        let name =
            if family == Family::Rust { name.to_owned() } else { name.replace("::", ".").replace('\\', ".") };
        let path = if path.is_empty() { name } else { format!("{path}{separator}{name}") };
        self.module(family, &path)
    }

    /// Returns the module around a scope of a file.
    pub(crate) fn module_around(&self, file: FileId, scope: DefinitionId) -> Option<ModuleId> {
        let found = self.file(file)?;
        let mut at = scope;
        loop {
            if let Some(module) = self.module_of_definition.get(&(found.first_definition + at)) {
                return Some(*module);
            }
            if at == 0 {
                return Some(found.module);
            }
            at = found.facts.definitions.get(at as usize)?.parent;
        }
    }

    /// Looks a name up from a scope outwards. The result has no imports in it.
    pub(crate) fn look_up(
        &self,
        file: FileId,
        scope: DefinitionId,
        name: Symbol,
        search: &Search,
    ) -> Vec<Entry> {
        self.ask(name);
        let Some(found) = self.file(file) else { return Vec::new() };
        let mut at = scope;
        while let Some(definition) = found.facts.definitions.get(at as usize) {
            let global = found.first_definition + at;
            let hides = at != scope
                && (definition.kind.is_type() || definition.kind == DefinitionKind::Extension)
                && !found.family.has_implicit_receiver();
            if !hides && let Some(entries) = self.scopes.get(&(global, name)) {
                let mut entries = self.without_imports(entries, search);
                entries.retain(|entry| !self.is_constructor(*entry));
                if !entries.is_empty() {
                    return entries;
                }
            }
            if found.family.has_implicit_receiver() {
                let class = if definition.kind.is_type() {
                    Some(global)
                } else {
                    self.attached.get(&global).copied()
                };
                if let Some(class) = class {
                    let mut members = self.find_member(class, name);
                    members.retain(|entry| !self.is_constructor(*entry));
                    if !members.is_empty() {
                        return members;
                    }
                }
            }
            if let Some(module) = self.module_of_definition.get(&global) {
                let entries = self.look_up_in_module(*module, name, search);
                if !entries.is_empty() {
                    return entries;
                }
            }
            if let Some(imports) = self.all_imports.get(&global) {
                let entries = self.look_up_in_all(imports, name, search, &mut Vec::new());
                if !entries.is_empty() {
                    return entries;
                }
            }
            if at == 0 {
                break;
            }
            at = definition.parent;
        }
        self.look_up_outside(file, scope, name, search)
    }

    /// Returns true for constructors, whose name alone means their class.
    fn is_constructor(&self, entry: Entry) -> bool {
        matches!(entry, Entry::Definition(definition) if self.kind(definition) == DefinitionKind::Constructor)
    }

    /// Looks a name up in the modules around the module of a scope.
    fn look_up_outside(
        &self,
        file: FileId,
        scope: DefinitionId,
        name: Symbol,
        search: &Search,
    ) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        if !matches!(found.family, Family::CSharp | Family::C | Family::Php | Family::Ruby) {
            return Vec::new();
        }
        let around = self.module_around(file, scope).and_then(|module| self.modules.get(module as usize));
        let mut path = around.map_or("", |module| &module.path);
        while !path.is_empty() {
            path = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            if let Some(module) = self.module_at(found.family, path) {
                let entries = self.look_up_in_module(module, name, search);
                if !entries.is_empty() {
                    return entries;
                }
            }
        }
        Vec::new()
    }

    /// Looks a name up in a module.
    pub(crate) fn look_up_in_module(&self, module: ModuleId, name: Symbol, search: &Search) -> Vec<Entry> {
        self.look_up_through(module, name, search, &mut Vec::new())
    }

    /// Looks a name up in a module that imports of everything led to, unless it was `seen` with this name. Modules
    /// that import everything from each other have far more ways through them than modules.
    fn look_up_through(
        &self,
        module: ModuleId,
        name: Symbol,
        search: &Search,
        seen: &mut Vec<ModuleId>,
    ) -> Vec<Entry> {
        self.ask(name);
        if seen.contains(&module) || !search.step() {
            return Vec::new();
        }
        seen.push(module);
        if let Some(entries) = self.contents.get(&(module, name)) {
            let mut entries = self.without_imports(entries, search);
            // A package may have a member and a module of one name; the member hides the module.
            if entries.iter().any(|entry| !matches!(entry, Entry::Module(_))) {
                entries.retain(|entry| !matches!(entry, Entry::Module(_)));
            }
            if !entries.is_empty() {
                return entries;
            }
        }
        let Some(found) = self.modules.get(module as usize) else { return Vec::new() };
        self.look_up_in_all(&found.all_imports, name, search, seen)
    }

    /// Looks a name up in what imports of everything lead to.
    fn look_up_in_all(
        &self,
        imports: &[u32],
        name: Symbol,
        search: &Search,
        seen: &mut Vec<ModuleId>,
    ) -> Vec<Entry> {
        let mut found = Vec::new();
        for import in imports {
            for target in self.import_targets(*import, search) {
                match target {
                    Entry::Module(module) => {
                        search.open.borrow_mut().push(*import);
                        found.extend(self.look_up_through(module, name, search, seen));
                        search.open.borrow_mut().pop();
                    }
                    Entry::Definition(class) => found.extend(self.find_member(class, name)),
                    _ => {}
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        found
    }

    /// Returns entries with the targets of imports in place of the imports.
    fn without_imports(&self, entries: &[Entry], search: &Search) -> Vec<Entry> {
        if entries.len() > MAXIMUM_MEANINGS {
            return Vec::new();
        }
        let mut found = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                Entry::Import(import) => found.extend(self.import_targets(*import, search)),
                entry => found.push(*entry),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns a member of what a name means.
    pub(crate) fn member_of_entry(&self, entry: Entry, name: Symbol, search: &Search) -> Vec<Entry> {
        match entry {
            Entry::Module(module) => self.look_up_in_module(module, name, search),
            Entry::Definition(definition) if self.kind(definition) == DefinitionKind::TypeAlias => self
                .alias_targets(definition)
                .into_iter()
                .flat_map(|target| self.find_member(target, name))
                .collect(),
            Entry::Definition(definition) => self.find_member(definition, name),
            Entry::External(_) | Entry::Import(_) | Entry::Variable(_) => Vec::new(),
        }
    }

    /// Returns the entries of a name in a scope itself.
    pub(super) fn in_scope(&self, scope: GlobalDefinition, name: Symbol) -> Option<&[Entry]> {
        self.ask(name);
        self.scopes.get(&(scope, name)).map(|entries| &**entries)
    }

    /// Removes the methods without a body from the entries of a name, because their bodies stand elsewhere.
    pub(super) fn drop_declarations(&mut self, scope: GlobalDefinition, name: Symbol) {
        let Some(entries) = self.scopes.get(&(scope, name)) else { return };
        let has_body = |entry: &Entry| match entry {
            Entry::Definition(definition) => {
                self.definition(*definition).is_none_or(|definition| !definition.traits.is_abstract)
            }
            _ => true,
        };
        let kept: Entries = entries.iter().copied().filter(has_body).collect();
        self.scopes.insert((scope, name), kept);
    }

    /// Adds an entry to a scope.
    pub(super) fn add_to_scope(&mut self, scope: GlobalDefinition, name: Symbol, entry: Entry) {
        let entries = self.scopes.entry((scope, name)).or_default();
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }

    /// Returns the names in the scopes of a set of definitions.
    pub(super) fn entries_of_scopes(&self) -> impl Iterator<Item = (GlobalDefinition, Symbol, &[Entry])> {
        self.scopes.iter().map(|((scope, name), entries)| (*scope, *name, &**entries))
    }
}

impl Search {
    /// Takes one step, if there is one left.
    pub(super) fn step(&self) -> bool {
        let steps = self.steps.get();
        self.steps.set(steps + 1);
        steps < MAXIMUM_STEPS
    }
}
