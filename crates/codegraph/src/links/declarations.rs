//! Relationships that declarations alone make: imports, bases, overrides, types, decorators.

use super::{Collector, LinkKey, Origin, Target};
use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind};
use crate::language::Family;
use crate::relation::{Confidence, Relation, Via};
use crate::solve::Value;
use crate::world::{Entry, GlobalDefinition, Search};

impl Collector<'_, '_> {
    /// Collects the relationships of declarations.
    pub(super) fn declarations(&mut self) {
        self.imports();
        let facts = self.found.facts.clone();
        for (local, definition) in (0_u32..).zip(&facts.definitions) {
            let global = self.found.first_definition + local;
            if !definition.bases.is_empty()
                && let Some(class) = self.world.class_around(global)
            {
                self.bases(local, class);
            }
            self.attached(local, global);
            if definition.result != 0 && definition.kind.is_function() {
                self.types(&Origin::Definition(local), definition.result, Relation::ReturnsType);
            }
            if matches!(definition.kind, DefinitionKind::Method | DefinitionKind::Constructor) {
                self.overrides(local, global);
            }
            for decorator in &definition.decorators {
                self.decorated(local, *decorator);
                if self.found.family == Family::Python {
                    self.applied(definition.parent, *decorator);
                }
            }
        }
        for (local, variable) in (0_u32..).zip(&facts.variables) {
            let keys = self.keys.get(self.file as usize);
            let is_node =
                keys.is_some_and(|keys| keys.variables.get(local as usize).is_some_and(Option::is_some));
            if is_node && variable.declared != 0 {
                self.types(&Origin::Variable(local), variable.declared, Relation::HasType);
            }
        }
    }

    fn imports(&mut self) {
        let facts = self.found.facts.clone();
        for (local, import) in (0_u32..).zip(&facts.imports) {
            let number = self.found.first_import + local;
            let shows_on = matches!(self.found.family, Family::Rust | Family::JavaScript);
            let is_passed_on = import.is_exported && shows_on && import.kind != ImportKind::Include;
            let relation = if is_passed_on { Relation::ReExports } else { Relation::Imports };
            let alias = facts.name(import.alias);
            let mut targets = self.included(import);
            for entry in self.world.import_targets(number, &Search::default()) {
                targets.extend(self.target_of(entry));
            }
            targets.sort();
            targets.dedup();
            let own = Target::File(self.found.path.clone());
            for target in targets.into_iter().filter(|target| *target != own) {
                let via = if matches!(target, Target::External(_)) { Via::External } else { Via::Import };
                let link = LinkKey { origin: Origin::File, relation, target };
                let detail = (!alias.is_empty()).then(|| alias.into());
                self.add(link, import.line, Confidence::Exact, via, detail);
            }
        }
    }

    /// Returns the file that an include names, or something outside.
    fn included(&self, import: &Import) -> Vec<Target> {
        if import.kind != ImportKind::Include {
            return Vec::new();
        }
        let (from, path) = (&self.found.path, &*import.path);
        let file = match self.found.family {
            Family::C | Family::Bash | Family::Php => self.world.included_file(from, path),
            Family::Ruby => {
                let with_extension = format!("{path}.rb");
                self.world
                    .included_file(from, &with_extension)
                    .or_else(|| self.world.included_file(from, path))
            }
            Family::JavaScript => self.world.script_file(from, path),
            _ => return Vec::new(),
        };
        match file.and_then(|file| self.world.file(file)) {
            Some(file) => vec![Target::File(file.path.clone())],
            None => vec![Target::External(path.into())],
        }
    }

    /// Returns the file that the target of an import belongs to, or something outside.
    fn target_of(&self, entry: Entry) -> Option<Target> {
        let file = match entry {
            Entry::Definition(definition) => self.world.local(definition).map(|(_, file, _)| file),
            Entry::Variable(variable) => self.world.local_variable(variable).map(|(_, file, _)| file),
            Entry::Module(module) => {
                let module = self.world.modules.get(module as usize)?;
                module.files.first().and_then(|file| self.world.file(*file))
            }
            Entry::External(path) => return Some(Target::External(self.world.external_path(path))),
            Entry::Import(_) => None,
        };
        file.map(|file| Target::File(file.path.clone()))
    }

    /// Links a definition that stands outside of its type with the type, or else with the file.
    fn attached(&mut self, local: u32, global: GlobalDefinition) {
        let facts = &self.found.facts;
        let Some(definition) = facts.definitions.get(local as usize) else { return };
        let around = facts.definitions.get(definition.parent as usize);
        let in_extension = around.is_some_and(|around| around.kind == DefinitionKind::Extension);
        let Some(key) = self.key_of(global).filter(|_| in_extension || definition.attached_to != 0) else {
            return;
        };
        let class = self.world.class_around(global).and_then(|class| self.key_of(class));
        let origin = class.map_or(Origin::Definition(0), Origin::Symbol);
        let link = LinkKey { origin, relation: Relation::Defines, target: Target::Symbol(key) };
        self.add(link, definition.first_line, Confidence::Exact, Via::Local, None);
    }

    /// Links the type of a definition with the bases that the definition names.
    fn bases(&mut self, local: u32, class: GlobalDefinition) {
        let Some(definition) = self.found.facts.definitions.get(local as usize) else { return };
        let Some(own) = self.key_of(class) else { return };
        let own_is_interface = self.world.kind(class).is_interface();
        for base in &definition.bases {
            let line = self.found.facts.line(base.expression);
            for entry in self.world.base_entries(self.file, base.expression, class) {
                let (target, is_interface) = match entry {
                    Entry::Definition(definition) => {
                        let Some(key) = self.key_of(definition) else { continue };
                        (Target::Symbol(key), self.world.kind(definition).is_interface())
                    }
                    Entry::External(path) => (Target::External(self.world.external_path(path)), false),
                    _ => continue,
                };
                let implements = (is_interface || base.is_implemented) && !own_is_interface;
                let relation = if implements { Relation::Implements } else { Relation::Inherits };
                let link = LinkKey { origin: Origin::Symbol(own.clone()), relation, target };
                self.add(link, line, Confidence::Exact, Via::Local, None);
            }
        }
    }

    fn types(&mut self, origin: &Origin, expression: ExpressionId, relation: Relation) {
        for class in self.world.types_of(self.file, expression) {
            if let Some(key) = self.key_of(class) {
                let link = LinkKey { origin: origin.clone(), relation, target: Target::Symbol(key) };
                self.add(link, self.found.facts.line(expression), Confidence::Exact, Via::Local, None);
            }
        }
    }

    fn overrides(&mut self, local: u32, method: GlobalDefinition) {
        let Some(class) = self.world.class_around(method) else { return };
        let Some(definition) = self.found.facts.definitions.get(local as usize) else { return };
        let name = self.found.symbol(definition.name);
        let line = definition.first_line;
        for entry in self.world.find_member_in(class, name, 1) {
            let Entry::Definition(base) = entry else { continue };
            if base == method || !self.world.kind(base).is_function() {
                continue;
            }
            if let Some(key) = self.key_of(base) {
                let origin = Origin::Definition(local);
                let link = LinkKey { origin, relation: Relation::Overrides, target: Target::Symbol(key) };
                self.add(link, line, Confidence::Exact, Via::Inheritance, None);
            }
        }
    }

    /// Links the code around a definition with the decorator that it calls.
    fn applied(&mut self, around: u32, decorator: ExpressionId) {
        let line = self.found.facts.line(decorator);
        let origin = Origin::Definition(self.caller_of(around));
        for value in self.solver.values(self.file, decorator).to_vec() {
            if let Value::Function(definition) | Value::Bound(definition) = value
                && let Some(key) = self.key_of(definition)
            {
                let target = Target::Symbol(key);
                let link = LinkKey { origin: origin.clone(), relation: Relation::Calls, target };
                self.add(link, line, Confidence::Exact, Via::Local, None);
            }
        }
    }

    /// Links what is decorated with its decorator. The graph turns the relationship round.
    fn decorated(&mut self, local: u32, decorator: ExpressionId) {
        let line = self.found.facts.line(decorator);
        let callee = match self.found.facts.expression(decorator) {
            Expression::Call { callee, .. } => callee,
            _ => decorator,
        };
        for value in self.solver.values(self.file, callee).to_vec() {
            let target = match value {
                Value::Function(definition) | Value::Bound(definition) | Value::Class(definition) => {
                    self.key_of(definition).map(Target::Symbol)
                }
                Value::External(path) => Some(Target::External(self.world.external_path(path))),
                _ => None,
            };
            if let Some(target) = target {
                let link =
                    LinkKey { origin: Origin::Definition(local), relation: Relation::Decorates, target };
                self.add(link, line, Confidence::Exact, Via::Local, None);
            }
        }
    }
}
