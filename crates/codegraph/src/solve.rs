//! Resolution: the values that the expressions of some files can have. The smallest solution of all flows
//! together; it does not depend on the order in which they are looked at.
//!
//! Files of a language without declared types are solved together, because a value flows from any of them to any
//! other. A file of another language is solved alone; of the other files only their declarations count.

mod assignments;
mod calls;
mod declared;
mod elements;
mod evaluate;
mod members;
mod outside;
mod values;

use std::collections::BTreeSet;

pub(crate) use values::{Value, Values};

use crate::facts::{ExpressionId, Flow};
use crate::fast_hash::FastMap;
use crate::world::{Entry, FileId, GlobalDefinition, GlobalVariable, Symbol, World};

/// Maximum number of passes through one file before others have their turn.
const MAXIMUM_PASSES: u32 = 40;
/// Maximum number of passes through files, as a multiple of the number of files.
const MAXIMUM_TURNS: usize = 60;

/// The number of a set of values.
type Node = usize;

/// The values of the expressions of some files.
pub(crate) struct Solver<'w> {
    pub(crate) world: &'w World,
    /// Places of the files that are solved; `None` for others.
    places: Vec<Option<Places>>,
    sets: Vec<Values>,
    /// Sets of the members that values have got by assignments.
    fields: FastMap<(Value, Symbol), Node>,
    /// Names of those members.
    field_names: FastMap<Value, Vec<Symbol>>,
    /// Meanings of names, by the number of the expression among all.
    bindings: FastMap<u32, Vec<Entry>>,
    /// Values of declarations of other files.
    declared: FastMap<(bool, u32), Vec<Value>>,
    /// Files that read from a file.
    readers: FastMap<FileId, BTreeSet<FileId>>,
    /// Files that read members that were assigned, by the name of the member.
    field_readers: FastMap<Symbol, BTreeSet<FileId>>,
    dirty: BTreeSet<FileId>,
    /// File that is being looked at.
    current: FileId,
    /// Expression that is being looked at.
    present: ExpressionId,
    /// True if something changed in the present pass.
    changed: bool,
    /// Calls that the text does not write as calls: the method, by the expression that calls it.
    implicit: FastMap<FileId, BTreeSet<(ExpressionId, GlobalDefinition)>>,
    /// Symbols of names with a meaning.
    known: KnownNames,
}

/// The first sets of a file.
#[derive(Debug, Clone, Copy)]
struct Places {
    expressions: Node,
    variables: Node,
    returns: Node,
    yields: Node,
}

/// Symbols of names that the solver knows.
#[derive(Debug, Clone, Copy, Default)]
struct KnownNames {
    any: Symbol,
    init: Option<Symbol>,
    constructor: Option<Symbol>,
    initialize: Option<Symbol>,
    php_construct: Option<Symbol>,
    call: Option<Symbol>,
    iter: Option<Symbol>,
    next: Option<Symbol>,
    exports: Option<Symbol>,
    prototype: Option<Symbol>,
}

impl<'w> Solver<'w> {
    /// Solves some files of a world.
    pub(crate) fn solve(world: &'w World, files: &[FileId]) -> Self {
        let mut places = vec![None; world.files.len()];
        let mut next = 0;
        for file in files {
            let Some(found) = world.file(*file) else { continue };
            let expressions = next;
            let variables = expressions + found.facts.expressions.len();
            let returns = variables + found.facts.variables.len();
            let yields = returns + found.facts.definitions.len();
            next = yields + found.facts.definitions.len();
            if let Some(place) = places.get_mut(*file as usize) {
                *place = Some(Places { expressions, variables, returns, yields });
            }
        }
        let known = KnownNames {
            any: 0,
            init: world.known_symbol("__init__"),
            constructor: world.known_symbol("constructor"),
            initialize: world.known_symbol("initialize"),
            php_construct: world.known_symbol("__construct"),
            call: world.known_symbol("__call__"),
            iter: world.known_symbol("__iter__"),
            next: world.known_symbol("__next__"),
            exports: world.known_symbol("exports"),
            prototype: world.known_symbol("prototype"),
        };
        let mut solver = Self {
            world,
            places,
            sets: vec![Values::default(); next],
            fields: FastMap::default(),
            field_names: FastMap::default(),
            bindings: FastMap::default(),
            declared: FastMap::default(),
            readers: FastMap::default(),
            field_readers: FastMap::default(),
            dirty: files.iter().copied().collect(),
            current: 0,
            present: 0,
            changed: false,
            implicit: FastMap::default(),
            known,
        };
        solver.run(files.len());
        solver
    }

    fn run(&mut self, files: usize) {
        let mut turns = 0;
        while let Some(file) = self.dirty.pop_first() {
            turns += 1;
            if turns > files.saturating_mul(MAXIMUM_TURNS) {
                break;
            }
            self.current = file;
            for _ in 0..MAXIMUM_PASSES {
                self.changed = false;
                self.sweep(file);
                if !self.changed {
                    break;
                }
            }
            self.dirty.remove(&file);
        }
    }

    /// Looks at every expression and every flow of a file once.
    fn sweep(&mut self, file: FileId) {
        let Some(found) = self.world.file(file) else { return };
        let facts = &found.facts;
        for expression in 1..crate::builder::count(facts.expressions.len()) {
            self.present = expression;
            self.evaluate(file, expression);
        }
        for flow in &facts.flows {
            match *flow {
                Flow::Assign { target, value } => self.assign(file, target, value),
                Flow::Return { function, value } => {
                    if let Some(node) = self.return_node(found.first_definition + function) {
                        let values = self.values(file, value).to_vec();
                        self.add_to_file(file, node, &values);
                    }
                }
                Flow::Yield { function, value } => {
                    if let Some(places) = self.places_of(file) {
                        let values = self.values(file, value).to_vec();
                        self.add_to_file(file, places.yields + function as usize, &values);
                    }
                }
            }
        }
    }

    fn places_of(&self, file: FileId) -> Option<Places> {
        self.places.get(file as usize).copied().flatten()
    }

    /// Returns true if a file is solved here.
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.places_of(file).is_some()
    }

    fn expression_node(&self, file: FileId, expression: ExpressionId) -> Option<Node> {
        self.places_of(file).map(|places| places.expressions + expression as usize)
    }

    fn variable_node(&self, variable: GlobalVariable) -> Option<Node> {
        let (file, _, local) = self.world.local_variable(variable)?;
        self.places_of(file).map(|places| places.variables + local as usize)
    }

    fn return_node(&self, definition: GlobalDefinition) -> Option<Node> {
        let (file, _, local) = self.world.local(definition)?;
        self.places_of(file).map(|places| places.returns + local as usize)
    }

    fn yield_node(&self, definition: GlobalDefinition) -> Option<Node> {
        let (file, _, local) = self.world.local(definition)?;
        self.places_of(file).map(|places| places.yields + local as usize)
    }

    /// Returns the set of a member that was assigned to a value.
    fn field_node(&mut self, value: Value, name: Symbol) -> Node {
        if let Some(node) = self.fields.get(&(value, name)) {
            return *node;
        }
        let node = self.sets.len();
        self.sets.push(Values::default());
        self.fields.insert((value, name), node);
        self.field_names.entry(value).or_default().push(name);
        node
    }

    /// Returns the calls of a file that the text does not write as calls: the expression and the method.
    pub(crate) fn implicit_calls(&self, file: FileId) -> Vec<(ExpressionId, GlobalDefinition)> {
        self.implicit.get(&file).into_iter().flatten().copied().collect()
    }

    /// Notes a call that the text does not write as a call.
    fn call_is_implied(&mut self, file: FileId, expression: ExpressionId, definition: GlobalDefinition) {
        self.implicit.entry(file).or_default().insert((expression, definition));
    }

    /// Returns the values of an expression of a solved file.
    pub(crate) fn values(&self, file: FileId, expression: ExpressionId) -> &[Value] {
        let node = self.expression_node(file, expression);
        node.and_then(|node| self.sets.get(node)).map(Values::as_slice).unwrap_or_default()
    }

    fn set(&self, node: Node) -> &[Value] {
        self.sets.get(node).map(Values::as_slice).unwrap_or_default()
    }

    /// Adds a value to a set of the present file.
    fn add(&mut self, node: Node, value: Value) {
        if self.sets.get_mut(node).is_some_and(|set| set.insert(value)) {
            self.changed = true;
        }
    }

    fn add_all(&mut self, node: Node, values: &[Value]) {
        for value in values {
            self.add(node, *value);
        }
    }

    fn copy(&mut self, from: Node, to: Node) {
        if from == to || self.set(from).is_empty() {
            return;
        }
        let values = std::mem::take(&mut self.sets[from]);
        self.add_all(to, values.as_slice());
        self.sets[from] = values;
    }

    /// Adds values to a set that belongs to a file, which may be another one.
    fn add_to_file(&mut self, owner: FileId, node: Node, values: &[Value]) {
        let mut is_new = false;
        if let Some(set) = self.sets.get_mut(node) {
            for value in values {
                is_new |= set.insert(*value);
            }
        }
        if !is_new {
            return;
        }
        if owner == self.current {
            self.changed = true;
        } else {
            self.dirty.insert(owner);
        }
        let readers = self.readers.get(&owner).into_iter().flatten();
        let readers: Vec<FileId> = readers.copied().filter(|reader| *reader != self.current).collect();
        self.dirty.extend(readers);
    }

    /// Notes that the present file reads from another one.
    fn read(&mut self, owner: FileId) {
        if owner != self.current {
            self.readers.entry(owner).or_default().insert(self.current);
        }
    }

    /// Adds values to a member of a value.
    fn add_to_field(&mut self, value: Value, name: Symbol, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let node = self.field_node(value, name);
        let mut is_new = false;
        if let Some(set) = self.sets.get_mut(node) {
            for value in values {
                is_new |= set.insert(*value);
            }
        }
        if is_new {
            self.changed = true;
            for name in [name, self.known.any] {
                let readers = self.field_readers.get(&name).into_iter().flatten();
                let readers: Vec<FileId> =
                    readers.copied().filter(|reader| *reader != self.current).collect();
                self.dirty.extend(readers);
            }
        }
    }

    /// Returns the values of a member that was assigned to a value.
    fn field_values(&mut self, value: Value, name: Symbol, into: &mut Vec<Value>) {
        self.field_readers.entry(name).or_default().insert(self.current);
        if let Some(node) = self.fields.get(&(value, name)) {
            into.extend_from_slice(self.set(*node));
        }
    }

    /// Returns the values of all members that were assigned to a value.
    fn all_field_values(&mut self, value: Value, into: &mut Vec<Value>) {
        self.field_readers.entry(self.known.any).or_default().insert(self.current);
        for name in self.field_names.get(&value).into_iter().flatten() {
            if let Some(node) = self.fields.get(&(value, *name)) {
                into.extend_from_slice(self.set(*node));
            }
        }
    }
}
