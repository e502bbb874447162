//! Types: their bases, their members, and the blocks that add members to them.

use super::lookup::Search;
use super::{Entry, FileId, GlobalDefinition, Symbol, World};
use crate::facts::{DefinitionKind, Expression, ExpressionId, Flow};
use crate::fast_hash::FastMap;
use crate::language::Family;

/// Maximum number of types in a linearisation.
const MAXIMUM_BASES: usize = 64;
/// Maximum number of steps through an expression that names a type.
const MAXIMUM_DEPTH: u32 = 24;

/// A type and the types that it inherits from, in the order in which a member is looked for.
type Linearisation = Vec<GlobalDefinition>;

impl World {
    /// Links extensions, methods outside of classes, parts of types and bases with their types.
    pub(super) fn link_types(&mut self) {
        self.merge_parts();
        self.attach();
        self.link_bases();
        self.collect_initial();
    }

    /// Makes the definitions of one type in several places one type, for the languages that have this.
    fn merge_parts(&mut self) {
        let mut first: FastMap<(Family, String), GlobalDefinition> = FastMap::default();
        for id in 0..crate::builder::count(self.files.len()) {
            let Some(file) = self.file(id) else { continue };
            if !matches!(file.family, Family::Ruby | Family::CSharp) {
                continue;
            }
            let (facts, family, start) = (file.facts.clone(), file.family, file.first_definition);
            for (local, definition) in (0_u32..).zip(&facts.definitions) {
                if definition.kind.is_type() {
                    let global = start + local;
                    let name = self.qualified_name(global);
                    let chosen = *first.entry((family, name)).or_insert(global);
                    if chosen != global {
                        self.canonical.insert(global, chosen);
                    }
                }
            }
        }
        if self.canonical.is_empty() {
            return;
        }
        let moved: Vec<(GlobalDefinition, Symbol, Vec<Entry>)> = self
            .entries_of_scopes()
            .filter_map(|(scope, name, entries)| Some((*self.canonical.get(&scope)?, name, entries.to_vec())))
            .collect();
        let mut moved = moved;
        moved.sort();
        for (scope, name, entries) in moved {
            for entry in entries {
                self.add_to_scope(scope, name, entry);
            }
        }
    }

    /// Returns the names of a definition and of those around it, joined by dots.
    pub(crate) fn qualified_name(&self, definition: GlobalDefinition) -> String {
        let mut parts = Vec::new();
        let Some((_, file, local)) = self.local(definition) else { return String::new() };
        let mut at = local;
        while at != 0 {
            let Some(definition) = file.facts.definitions.get(at as usize) else { break };
            parts.push(file.facts.name(definition.name).to_owned());
            at = definition.parent;
        }
        if !file.facts.package.is_empty() {
            parts.push(file.facts.package.to_string());
        }
        parts.reverse();
        parts.join(".")
    }

    /// Returns the definition that stands for a type with several definitions.
    pub(crate) fn canonical(&self, definition: GlobalDefinition) -> GlobalDefinition {
        self.canonical.get(&definition).copied().unwrap_or(definition)
    }

    /// Attaches extensions and methods outside of classes to their types.
    fn attach(&mut self) {
        let mut found = Vec::new();
        for id in 0..crate::builder::count(self.files.len()) {
            let Some(file) = self.file(id) else { continue };
            for (local, definition) in (0_u32..).zip(&file.facts.definitions) {
                if definition.attached_to != 0 {
                    let targets = self.types_of(id, definition.attached_to);
                    if let Some(class) = targets.first() {
                        found.push((file.first_definition + local, *class));
                    }
                }
            }
        }
        for (extension, class) in found {
            self.attached.insert(extension, class);
            let Some((_, file, local)) = self.local(extension) else { continue };
            let (facts, start) = (file.facts.clone(), file.first_definition);
            let symbols = file.symbols.clone();
            let members = (0_u32..).zip(&facts.definitions).filter(|(at, member)| {
                member.parent == local
                    && *at != 0
                    && facts
                        .definitions
                        .get(local as usize)
                        .is_some_and(|extension| extension.kind == DefinitionKind::Extension)
                    || *at == local && member.kind != DefinitionKind::Extension
            });
            for (at, member) in members {
                let name = symbols.get(member.name as usize).copied().unwrap_or(0);
                if facts.language.family() == Family::C {
                    self.drop_declarations(class, name);
                }
                self.add_to_scope(class, name, Entry::Definition(start + at));
            }
            for (at, variable) in (0_u32..).zip(&facts.variables) {
                if variable.scope == local && variable.kind == crate::facts::VariableKind::Constant {
                    let name = symbols.get(variable.name as usize).copied().unwrap_or(0);
                    let first =
                        self.file(self.file_of_definition.get(extension as usize).copied().unwrap_or(0));
                    let first = first.map_or(0, |file| file.first_variable);
                    self.add_to_scope(class, name, Entry::Variable(first + at));
                }
            }
        }
    }

    /// Returns the type that an extension or a method belongs to.
    pub(crate) fn class_around(&self, definition: GlobalDefinition) -> Option<GlobalDefinition> {
        let (_, file, local) = self.local(definition)?;
        let mut at = local;
        loop {
            let global = file.first_definition + at;
            if let Some(class) = self.attached.get(&global) {
                return Some(*class);
            }
            if self.kind(global).is_type() {
                return Some(self.canonical(global));
            }
            if at == 0 {
                return None;
            }
            at = file.facts.definitions.get(at as usize)?.parent;
        }
    }

    fn link_bases(&mut self) {
        let mut bases: Vec<(GlobalDefinition, Entry)> = Vec::new();
        for id in 0..crate::builder::count(self.files.len()) {
            let Some(file) = self.file(id) else { continue };
            for (local, definition) in (0_u32..).zip(&file.facts.definitions) {
                let global = file.first_definition + local;
                let class = match definition.kind {
                    DefinitionKind::Extension => self.attached.get(&global).copied(),
                    kind if kind.is_type() => Some(self.canonical(global)),
                    _ => None,
                };
                let Some(class) = class else { continue };
                for base in &definition.bases {
                    for entry in self.base_entries(id, base.expression, class) {
                        bases.push((class, entry));
                    }
                }
            }
        }
        for (class, base) in bases {
            let known = self.bases.entry(class).or_default();
            if !known.contains(&base) {
                known.push(base);
                if let Entry::Definition(base) = base {
                    self.heirs.entry(base).or_default().push(class);
                }
            }
        }
    }

    /// Returns the types that an expression among the bases of a type names.
    pub(crate) fn base_entries(
        &self,
        file: FileId,
        base: ExpressionId,
        class: GlobalDefinition,
    ) -> Vec<Entry> {
        let mut found = Vec::new();
        for entry in self.entries_of(file, base, &Search::default(), 0) {
            match entry {
                Entry::Definition(definition) if self.kind(definition) == DefinitionKind::TypeAlias => {
                    found.extend(self.alias_targets(definition).into_iter().map(Entry::Definition));
                }
                Entry::Definition(definition) if self.kind(definition).is_type() => {
                    found.push(Entry::Definition(self.canonical(definition)));
                }
                Entry::External(_) => found.push(entry),
                _ => {}
            }
        }
        found.retain(|entry| *entry != Entry::Definition(class));
        found
    }

    /// Collects the values that flow to variables of files and types, for readers in other files.
    fn collect_initial(&mut self) {
        for file in &self.files {
            for flow in &file.facts.flows {
                let Flow::Assign { target, value } = flow else { continue };
                let Expression::Variable(variable) = file.facts.expression(*target) else { continue };
                let known = file.facts.variables.get(variable as usize);
                if known.is_some_and(|known| known.kind.is_shared()) {
                    let values = self.initial.entry(file.first_variable + variable).or_default();
                    if values.len() < 8 {
                        values.push(*value);
                    }
                }
            }
        }
    }

    /// Returns the types that an expression names.
    pub(crate) fn types_of(&self, file: FileId, expression: ExpressionId) -> Vec<GlobalDefinition> {
        let entries = self.entries_of(file, expression, &Search::default(), 0);
        let mut types = Vec::new();
        for entry in entries {
            if let Entry::Definition(definition) = entry {
                if self.kind(definition).is_type() {
                    types.push(self.canonical(definition));
                } else if self.kind(definition) == DefinitionKind::TypeAlias {
                    types.extend(self.alias_targets(definition));
                }
            }
        }
        types
    }

    /// Returns the types that another name for a type means.
    pub(crate) fn alias_targets(&self, alias: GlobalDefinition) -> Vec<GlobalDefinition> {
        let mut found = Vec::new();
        let mut open = vec![alias];
        let mut seen = Vec::new();
        while let Some(at) = open.pop() {
            if seen.contains(&at) || seen.len() > 16 {
                continue;
            }
            seen.push(at);
            match self.kind(at) {
                DefinitionKind::TypeAlias => {
                    let Some((file, _, _)) = self.local(at) else { continue };
                    let target = self.definition(at).map_or(0, |definition| definition.result);
                    for entry in self.entries_of(file, target, &Search::default(), 0) {
                        if let Entry::Definition(definition) = entry {
                            open.push(definition);
                        }
                    }
                }
                kind if kind.is_type() => found.push(self.canonical(at)),
                _ => {}
            }
        }
        found
    }

    /// Returns the meaning of an expression that consists of names alone.
    // BOUNDED: by `MAXIMUM_DEPTH` steps into the parts of an expression.
    pub(crate) fn entries_of(
        &self,
        file: FileId,
        expression: ExpressionId,
        search: &Search,
        depth: u32,
    ) -> Vec<Entry> {
        let Some(found) = self.file(file) else { return Vec::new() };
        if depth > MAXIMUM_DEPTH {
            return Vec::new();
        }
        let facts = &found.facts;
        match facts.expression(expression) {
            Expression::Name { name, scope } => {
                let text = facts.name(name);
                let is_self =
                    matches!((found.family, text), (Family::Rust, "Self") | (Family::Php, "self" | "static"));
                if is_self {
                    let class = self.class_around(found.first_definition + scope);
                    return class.map(Entry::Definition).into_iter().collect();
                }
                if found.family == Family::Rust {
                    return self.rust_path(file, scope, &[text], search);
                }
                self.look_up(file, scope, found.symbol(name), search)
            }
            Expression::This { scope } if found.family == Family::Rust => {
                self.module_around(file, scope).map(Entry::Module).into_iter().collect()
            }
            Expression::Super { scope } if found.family == Family::Rust => {
                self.rust_path(file, scope, &["super"], search)
            }
            Expression::Variable(variable) => {
                let kind = facts.variables.get(variable as usize).map(|variable| variable.kind);
                match kind {
                    Some(crate::facts::VariableKind::TypeParameter) | None => Vec::new(),
                    Some(_) => vec![Entry::Variable(found.first_variable + variable)],
                }
            }
            Expression::Definition(definition) => {
                vec![Entry::Definition(found.first_definition + definition)]
            }
            Expression::Member { object, name } | Expression::Path { object, name } => {
                if object == 0 && facts.expression(expression) != (Expression::Member { object, name }) {
                    return self.look_up(file, 0, found.symbol(name), search);
                }
                let objects = self.entries_of(file, object, search, depth + 1);
                let name = found.symbol(name);
                let separator = if found.family == Family::Rust { "::" } else { "." };
                let mut entries = Vec::new();
                for entry in objects {
                    if let Entry::External(path) = entry {
                        let path = format!("{}{separator}{}", self.external_path(path), self.name(name));
                        entries.push(Entry::External(self.external(&path)));
                    } else {
                        entries.extend(self.member_of_entry(entry, name, search));
                    }
                }
                entries
            }
            Expression::Generic { base, .. } => self.entries_of(file, base, search, depth + 1),
            Expression::Index { object, .. } => self.entries_of(file, object, search, depth + 1),
            Expression::Inner(inner) => self.entries_of(file, inner, search, depth + 1),
            _ => Vec::new(),
        }
    }

    /// Returns a type and the types that it inherits from. Of a type that is reached in several ways, the last
    /// place counts, as in the linearisation of Python.
    pub(crate) fn linearisation(&self, class: GlobalDefinition) -> Linearisation {
        let mut order = Vec::new();
        let mut open = vec![class];
        let mut steps = 0;
        while let Some(at) = open.pop() {
            steps += 1;
            if steps > MAXIMUM_BASES * 4 {
                break;
            }
            order.push(at);
            let bases = self.bases.get(&at).map(Vec::as_slice).unwrap_or_default();
            let bases = bases.iter().rev().filter_map(|base| match base {
                Entry::Definition(base) if !order.contains(base) || order.len() < MAXIMUM_BASES => {
                    Some(*base)
                }
                _ => None,
            });
            open.extend(bases);
        }
        let mut kept: Vec<GlobalDefinition> = Vec::new();
        for class in order.into_iter().rev() {
            if !kept.contains(&class) {
                kept.push(class);
            }
        }
        kept.reverse();
        // A circle of bases must not put another type before the type itself.
        if let Some(at) = kept.iter().position(|known| *known == class) {
            kept.remove(at);
        }
        kept.insert(0, class);
        kept
    }

    /// Returns a member of a type, of its own or inherited.
    pub(crate) fn find_member(&self, class: GlobalDefinition, name: Symbol) -> Vec<Entry> {
        self.find_member_in(class, name, 0)
    }

    /// Returns a member of a type, without those of the first types of its linearisation.
    pub(crate) fn find_member_in(&self, class: GlobalDefinition, name: Symbol, skip: usize) -> Vec<Entry> {
        self.ask(name);
        let class = self.canonical(class);
        if self.kind(class).is_function() {
            return Vec::new();
        }
        if skip == 0
            && let Some(entries) = self.in_scope(class, name)
        {
            return entries.to_vec();
        }
        if !self.bases.contains_key(&class) {
            return Vec::new();
        }
        let order = self.linearisation(class);
        let found = order.iter().skip(skip.max(1)).find_map(|class| self.in_scope(*class, name));
        found.map(<[Entry]>::to_vec).unwrap_or_default()
    }
}
