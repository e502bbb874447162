//! Calls and references.

use std::sync::Arc;

use super::{Collector, LinkKey, Origin, Target};
use crate::facts::{DefinitionKind, Expression, ExpressionId};
use crate::language::Family;
use crate::relation::{Confidence, Relation, Via};
use crate::solve::Value;
use crate::world::{Entry, GlobalDefinition, Symbol};

/// Maximum number of functions that a call may be by its name alone.
const MAXIMUM_CANDIDATES: usize = 5;
/// Maximum number of implementations of a method of an interface that get an edge each.
const MAXIMUM_IMPLEMENTATIONS: usize = 12;

impl Collector<'_, '_> {
    /// Collects the calls and references of the file.
    pub(super) fn calls(&mut self) {
        let facts = self.found.facts.clone();
        let mut is_callee = vec![false; facts.expressions.len()];
        for expression in &facts.expressions {
            let (Expression::Call { callee, .. } | Expression::New { class: callee, .. }) = expression else {
                continue;
            };
            if let Some(place) = is_callee.get_mut(*callee as usize) {
                *place = true;
            }
        }
        for id in 1..crate::builder::count(facts.expressions.len()) {
            match facts.expression(id) {
                Expression::Call { callee, .. } => self.call(id, callee),
                Expression::New { class, .. } => self.creation(id, class),
                Expression::Name { .. } | Expression::Path { .. } | Expression::Member { .. }
                    if !is_callee.get(id as usize).copied().unwrap_or(false) =>
                {
                    self.reference(id);
                }
                _ => {}
            }
        }
        for (id, definition) in self.solver.implicit_calls(self.file) {
            self.link_call(id, definition, Confidence::Inferred, Via::Dynamic);
        }
    }

    /// Collects one call.
    fn call(&mut self, id: ExpressionId, callee: ExpressionId) {
        if self.compiled_call(id, callee) {
            return;
        }
        let values = self.solver.callees(self.file, callee);
        let mut is_resolved = false;
        let mut functions: Vec<GlobalDefinition> = Vec::new();
        for value in &values {
            if let Value::Function(definition) | Value::Bound(definition) | Value::Class(definition) = value
                && !functions.contains(definition)
            {
                functions.push(*definition);
            }
        }
        let single = functions.len() == 1;
        for value in values {
            match value {
                Value::Function(definition) | Value::Bound(definition) => {
                    let (confidence, via) = self.manner(callee, definition, single);
                    self.link_call(id, definition, confidence, via);
                    let is_own = matches!(
                        self.found.facts.expression(callee),
                        Expression::Member { object, .. }
                            if matches!(self.found.facts.expression(object), Expression::This { .. })
                    );
                    self.implementations(id, definition, is_own);
                    is_resolved = true;
                }
                Value::Class(class) => {
                    self.instantiate(id, callee, class, single);
                    is_resolved = true;
                }
                Value::External(path) => {
                    let path = self.world.external_path(path);
                    self.link_external(id, callee, path);
                    is_resolved = true;
                }
                Value::AppliedMethod(_) | Value::Instance(_) => is_resolved = true,
                _ => {}
            }
        }
        if !is_resolved {
            self.by_name(id, callee);
        }
    }

    /// Collects one creation of an instance.
    fn creation(&mut self, id: ExpressionId, class: ExpressionId) {
        if self.compiled_call(id, class) {
            return;
        }
        let mut classes = Vec::new();
        for value in self.solver.values(self.file, class).to_vec() {
            match value {
                Value::Class(class) => classes.push(class),
                // In Python only `raise` creates without a call; what exceptions of others do is not followed.
                Value::External(path) if self.found.family != Family::Python => {
                    let path = self.world.external_path(path);
                    self.link_external(id, class, path);
                }
                Value::Function(definition) => {
                    self.link_call(id, definition, Confidence::Inferred, Via::Local);
                }
                _ => {}
            }
        }
        if classes.is_empty() {
            classes = self.world.types_of(self.file, class);
        }
        let single = classes.len() == 1;
        for found in classes {
            self.instantiate(id, class, found, single);
        }
    }

    /// Links the creation of an instance with its class and its constructors.
    fn instantiate(&mut self, id: ExpressionId, callee: ExpressionId, class: GlobalDefinition, single: bool) {
        if self.key_of(class).is_some() {
            let (confidence, via) = self.manner(callee, class, single);
            self.instantiate_as(id, class, confidence, via);
        }
    }

    /// Links the creation of an instance, of which is known how sure it is.
    pub(super) fn instantiate_as(
        &mut self,
        id: ExpressionId,
        class: GlobalDefinition,
        confidence: Confidence,
        via: Via,
    ) {
        let origin = self.origin(id);
        let line = self.found.facts.line(id);
        if let Some(key) = self.key_of(class) {
            let link = LinkKey { origin, relation: Relation::Instantiates, target: Target::Symbol(key) };
            self.add(link, line, confidence, via, None);
            let constructors = self.solver.constructors(class);
            if constructors.is_empty()
                && let Some(path) = self.solver.inherited_constructor(class)
            {
                let link = LinkKey {
                    origin: self.origin(id),
                    relation: Relation::Calls,
                    target: Target::External(path),
                };
                self.add(link, line, Confidence::Inferred, Via::Inheritance, None);
            }
            for constructor in constructors {
                self.link_call(id, constructor, confidence, via);
            }
        }
    }

    /// Links a call with a function.
    pub(super) fn link_call(
        &mut self,
        id: ExpressionId,
        definition: GlobalDefinition,
        confidence: Confidence,
        via: Via,
    ) {
        let Some(key) = self.key_of(definition) else { return };
        let origin = self.origin(id);
        let line = self.found.facts.line(id);
        let target = Target::Symbol(key);
        let link = LinkKey { origin: origin.clone(), relation: Relation::Calls, target: target.clone() };
        self.add(link, line, confidence, via, None);
        if self.is_test(&origin)
            && !self.world.definition(definition).is_some_and(|found| found.traits.is_test)
        {
            let link = LinkKey { origin, relation: Relation::Tests, target };
            self.add(link, line, confidence, via, None);
        }
    }

    /// Links a call with something outside of the project.
    fn link_external(&mut self, id: ExpressionId, callee: ExpressionId, path: Arc<str>) {
        let is_name = match self.found.facts.expression(callee) {
            Expression::Name { .. } | Expression::Path { .. } => true,
            Expression::Member { object, .. } => !self.solver.binding(self.file, object).is_empty(),
            _ => false,
        };
        let confidence = if is_name { Confidence::Exact } else { Confidence::Inferred };
        let origin = self.origin(id);
        let link = LinkKey { origin, relation: Relation::Calls, target: Target::External(path) };
        self.add(link, self.found.facts.line(id), confidence, Via::External, None);
    }

    /// Links a call of a method of an interface with its implementations, and one of the receiver's own methods
    /// with those that override it.
    fn implementations(&mut self, id: ExpressionId, method: GlobalDefinition, is_own: bool) {
        let Some(class) = self.world.class_around(method) else { return };
        let Some(found) = self.world.definition(method) else { return };
        let is_open = self.world.kind(class).is_interface() || found.traits.is_abstract || is_own;
        if !is_open || found.traits.is_static {
            return;
        }
        let Some((_, file, _)) = self.world.local(method) else { return };
        let name = file.symbol(found.name);
        let mut implementations = Vec::new();
        let mut open = self.world.heirs.get(&class).cloned().unwrap_or_default();
        let mut seen = vec![class];
        while let Some(heir) = open.pop() {
            if seen.contains(&heir) || seen.len() > MAXIMUM_IMPLEMENTATIONS * 4 {
                continue;
            }
            seen.push(heir);
            open.extend(self.world.heirs.get(&heir).into_iter().flatten());
            implementations.extend(self.own_methods(heir, name));
        }
        implementations.sort_unstable();
        implementations.dedup();
        implementations.retain(|definition| *definition != method);
        if implementations.len() <= MAXIMUM_IMPLEMENTATIONS {
            for definition in implementations {
                self.link_call(id, definition, Confidence::Inferred, Via::Dynamic);
            }
        }
    }

    /// Returns the methods of a type itself with a name.
    fn own_methods(&self, class: GlobalDefinition, name: Symbol) -> Vec<GlobalDefinition> {
        let entries = self.world.find_member(class, name).into_iter();
        let definitions = entries.filter_map(|entry| match entry {
            Entry::Definition(definition) => Some(definition),
            _ => None,
        });
        let is_own = |definition: &GlobalDefinition| {
            self.world.kind(*definition).is_function() && self.world.class_around(*definition) == Some(class)
        };
        definitions.filter(is_own).collect()
    }

    /// Returns how sure the call of a function is, and by which way it was found.
    fn manner(
        &mut self,
        callee: ExpressionId,
        definition: GlobalDefinition,
        single: bool,
    ) -> (Confidence, Via) {
        let is_here = self.world.local(definition).is_some_and(|(file, ..)| file == self.file);
        let place = if is_here { Via::Local } else { Via::Import };
        let mut at = callee;
        if let Expression::Generic { base, .. } = self.found.facts.expression(at) {
            at = base;
        }
        match self.found.facts.expression(at) {
            Expression::Name { .. } | Expression::Path { .. } => {
                let is_named = self.solver.binding(self.file, at).contains(&Entry::Definition(definition));
                if is_named { (Confidence::Exact, place) } else { (Confidence::Inferred, Via::Dynamic) }
            }
            Expression::Member { object, .. } => self.manner_of_member(object, definition, single, place),
            Expression::Super { .. } => (Confidence::Exact, Via::Inheritance),
            Expression::Definition(_) => (Confidence::Exact, Via::Local),
            _ => (Confidence::Inferred, Via::Dynamic),
        }
    }

    fn manner_of_member(
        &mut self,
        object: ExpressionId,
        definition: GlobalDefinition,
        single: bool,
        place: Via,
    ) -> (Confidence, Via) {
        if self.solver.super_class(self.file, object).is_some() {
            return (Confidence::Exact, Via::Inheritance);
        }
        let values = self.solver.values(self.file, object);
        let class = self.world.class_around(definition);
        let mut via = Via::Dynamic;
        let mut classes = Vec::new();
        for value in values {
            match value {
                Value::Module(_) => return (Confidence::Exact, place),
                Value::Applied(_) => via = Via::ReceiverType,
                Value::Class(found) | Value::Instance(found) => {
                    if !classes.contains(found) {
                        classes.push(*found);
                    }
                    let is_own = Some(*found) == class;
                    if via != Via::ReceiverType {
                        via = if is_own { Via::ReceiverType } else { Via::Inheritance };
                    }
                }
                _ => {}
            }
        }
        let of_one_class = classes.len() == 1
            && values.iter().all(|value| matches!(value, Value::Class(_) | Value::Instance(_)));
        let is_declared = match self.found.facts.expression(object) {
            Expression::This { .. } | Expression::Super { .. } => true,
            Expression::Name { .. } | Expression::Path { .. } => {
                !self.found.family.is_dynamic() || values.iter().any(|value| matches!(value, Value::Class(_)))
            }
            Expression::Variable(variable) => {
                let known = self.found.facts.variables.get(variable as usize);
                let is_receiver = known.is_some_and(|known| {
                    let around = self.found.facts.definitions.get(known.scope as usize);
                    around.is_some_and(|around| around.receiver == Some(variable))
                });
                is_receiver
                    || !self.found.family.is_dynamic()
                    || known.is_some_and(|known| known.declared != 0)
            }
            _ => !self.found.family.is_dynamic(),
        };
        let is_sure = single && is_declared && via != Via::Dynamic && of_one_class;
        (if is_sure { Confidence::Exact } else { Confidence::Inferred }, via)
    }

    /// Links a call of which only the name is known with the functions of that name, if they are few.
    fn by_name(&mut self, id: ExpressionId, callee: ExpressionId) {
        let (name, is_member) = match self.found.facts.expression(callee) {
            Expression::Member { name, .. } => (name, true),
            Expression::Name { name, .. } | Expression::Path { name, .. } => (name, false),
            _ => return,
        };
        let origin = self.origin(id);
        if let Origin::Definition(definition) = origin {
            *self.links.unresolved.entry(definition).or_insert(0) += 1;
        }
        let symbol = self.found.symbol(name);
        let named = self.world.named(self.found.family, symbol);
        let fits = |definition: &GlobalDefinition| {
            let is_method = self.world.class_around(*definition).is_some();
            is_method == is_member && self.world.kind(*definition) != DefinitionKind::Constructor
        };
        let candidates: Vec<GlobalDefinition> = named.iter().copied().filter(fits).collect();
        if candidates.len() > MAXIMUM_CANDIDATES {
            return;
        }
        for definition in candidates {
            if let Some(key) = self.key_of(definition) {
                let link = LinkKey {
                    origin: origin.clone(),
                    relation: Relation::MayCall,
                    target: Target::Symbol(key),
                };
                self.add(link, self.found.facts.line(id), Confidence::NameOnly, Via::Name, None);
            }
        }
    }

    /// Collects one name that is no callee.
    fn reference(&mut self, id: ExpressionId) {
        for entry in self.solver.binding(self.file, id).iter() {
            let Entry::Definition(definition) = *entry else { continue };
            let kind = self.world.kind(definition);
            if kind.is_function() && self.found.family == Family::Ruby {
                // A name alone calls the method.
                let is_here = self.world.local(definition).is_some_and(|(file, ..)| file == self.file);
                let via = if is_here { Via::Local } else { Via::Inheritance };
                self.link_call(id, definition, Confidence::Exact, via);
                continue;
            }
            let detail = if kind.is_function() { "value" } else { "type" };
            if !(kind.is_function() || kind.is_type() || kind == DefinitionKind::TypeAlias) {
                continue;
            }
            let origin = self.origin(id);
            let Some(key) = self.key_of(definition) else { continue };
            if self.own_key(&origin).as_deref() == Some(&*key) {
                continue;
            }
            let link = LinkKey { origin, relation: Relation::References, target: Target::Symbol(key) };
            let is_here = self.world.local(definition).is_some_and(|(file, ..)| file == self.file);
            let via = if is_here { Via::Local } else { Via::Import };
            self.add(link, self.found.facts.line(id), Confidence::Exact, via, Some(detail.into()));
        }
    }

    /// Returns the node in which an expression stands.
    fn origin(&mut self, id: ExpressionId) -> Origin {
        let owner = self.found.facts.owner(id);
        Origin::Definition(self.caller_of(owner))
    }

    fn own_key(&self, origin: &Origin) -> Option<Arc<str>> {
        let Origin::Definition(definition) = *origin else { return None };
        self.keys.get(self.file as usize)?.definitions.get(definition as usize)?.clone()
    }

    fn is_test(&self, origin: &Origin) -> bool {
        let Origin::Definition(definition) = *origin else { return false };
        self.found
            .facts
            .definitions
            .get(definition as usize)
            .is_some_and(|definition| definition.traits.is_test)
    }
}
