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
mod prepare;
mod values;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::rc::Rc;

pub(crate) use values::{Value, Values};

use crate::facts::{ExpressionId, Flow};
use crate::fast_hash::{FastHasher, FastMap};
use crate::world::{Entry, FileId, GlobalDefinition, GlobalVariable, Symbol, World};

/// Maximum number of steps of a solution, as a multiple of the number of expressions. Real code takes less than
/// ten; what takes more has values that grow without end.
const MAXIMUM_STEPS: usize = 200;

/// The mark of the symbol that stands for all members of a value.
const EVERY_MEMBER: Symbol = u32::MAX;

/// The number of a set of values.
type Node = usize;
/// The number of an expression by its set, or of a flow after all of these.
type Item = u32;

/// The values of the expressions of some files.
pub(crate) struct Solver<'w> {
    pub(crate) world: &'w World,
    /// First sets of the files that are solved.
    places: FastMap<FileId, Places>,
    /// Files that are solved, by their first expressions in the order of the sets.
    order: Vec<(Node, FileId)>,
    sets: Vec<Values>,
    /// Expressions and flows that read each set.
    readers: Vec<Vec<Item>>,
    /// Readings that are known only after some values are.
    readings: HashSet<(Node, Item), BuildHasherDefault<FastHasher>>,
    /// Flows, by their number.
    flows: Vec<(FileId, u32)>,
    /// Expressions and flows that have to be looked at again.
    queue: VecDeque<Item>,
    queued: Vec<bool>,
    /// Sets of the members that values have got by assignments.
    fields: FastMap<(Value, Symbol), Node>,
    /// Names of those members.
    field_names: FastMap<Value, Vec<Symbol>>,
    /// Names that are members of lists, dictionaries or assignments somewhere.
    assigned: HashSet<Symbol, BuildHasherDefault<FastHasher>>,
    /// Constant values of variables, by file.
    constants: FastMap<FileId, FastMap<u32, Option<ExpressionId>>>,
    /// Meanings of names, by the number of the expression among all.
    bindings: FastMap<u32, Rc<[Entry]>>,
    /// Values of declarations of other files.
    declared: FastMap<(bool, u32), Vec<Value>>,
    /// Expression or flow that is being looked at.
    item: Item,
    /// File that is being looked at.
    current: FileId,
    /// Expression that is being looked at.
    present: ExpressionId,
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
        let mut places = FastMap::default();
        let mut order = Vec::with_capacity(files.len());
        let mut next = 0;
        for file in files {
            let Some(found) = world.file(*file) else { continue };
            let expressions = next;
            let variables = expressions + found.facts.expressions.len();
            let returns = variables + found.facts.variables.len();
            let yields = returns + found.facts.definitions.len();
            next = yields + found.facts.definitions.len();
            order.push((expressions, *file));
            places.insert(*file, Places { expressions, variables, returns, yields });
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
            order,
            sets: vec![Values::default(); next],
            readers: vec![Vec::new(); next],
            readings: HashSet::default(),
            flows: Vec::new(),
            queue: VecDeque::new(),
            queued: Vec::new(),
            fields: FastMap::default(),
            field_names: FastMap::default(),
            assigned: HashSet::default(),
            constants: FastMap::default(),
            bindings: FastMap::default(),
            declared: FastMap::default(),
            item: 0,
            current: 0,
            present: 0,
            implicit: FastMap::default(),
            known,
        };
        for file in files {
            solver.prepare(*file);
        }
        solver.queued.resize(next + solver.flows.len(), false);
        for file in files {
            solver.seed(*file);
        }
        solver.run();
        solver
    }

    /// Looks at expressions and flows until nothing changes.
    fn run(&mut self) {
        let first_flow = self.queued.len() - self.flows.len();
        let mut steps = self.queued.len().saturating_mul(MAXIMUM_STEPS);
        while let Some(item) = self.queue.pop_front() {
            if steps == 0 {
                break;
            }
            steps -= 1;
            if let Some(queued) = self.queued.get_mut(item as usize) {
                *queued = false;
            }
            self.item = item;
            let node = item as usize;
            if node >= first_flow {
                if let Some((file, flow)) = self.flows.get(node - first_flow).copied() {
                    self.current = file;
                    self.present = 0;
                    self.follow(file, flow);
                }
                continue;
            }
            let at = self.order.partition_point(|(first, _)| *first <= node);
            if let Some((first, file)) = at.checked_sub(1).and_then(|at| self.order.get(at)).copied() {
                self.current = file;
                self.present = crate::builder::count(node - first);
                self.evaluate(file, self.present);
            }
        }
    }

    /// Gives the methods of a file their own class as a receiver, and queues everything in it.
    fn seed(&mut self, file: FileId) {
        let Some(found) = self.world.file(file) else { return };
        let Some(places) = self.places_of(file) else { return };
        for (local, definition) in (0_u32..).zip(&found.facts.definitions) {
            let Some(receiver) = definition.receiver else { continue };
            if let Some(class) = self.world.class_around(found.first_definition + local) {
                let is_class = definition.traits.is_class_method;
                let value = if is_class { Value::Class(class) } else { Value::Instance(class) };
                self.add(places.variables + receiver as usize, value);
            }
        }
        for expression in 1..crate::builder::count(found.facts.expressions.len()) {
            self.enqueue(crate::builder::count(places.expressions).saturating_add(expression));
        }
        let first_flow = self.queued.len() - self.flows.len();
        let own = self.flows.partition_point(|(of, _)| *of < file);
        let flows = found.facts.flows.len();
        for flow in own..own + flows {
            self.enqueue(crate::builder::count(first_flow + flow));
        }
    }

    /// Follows a flow.
    fn follow(&mut self, file: FileId, flow: u32) {
        let Some(found) = self.world.file(file) else { return };
        match found.facts.flows.get(flow as usize).copied() {
            Some(Flow::Assign { target, value }) => self.assign(file, target, value),
            Some(Flow::Return { function, value }) => {
                if let Some(node) = self.return_node(found.first_definition + function)
                    && let Some(from) = self.expression_node(file, value)
                {
                    self.copy(from, node);
                }
            }
            Some(Flow::Yield { function, value }) => {
                if let Some(node) = self.yield_node(found.first_definition + function)
                    && let Some(from) = self.expression_node(file, value)
                {
                    self.copy(from, node);
                }
            }
            None => {}
        }
    }

    fn enqueue(&mut self, item: Item) {
        if let Some(queued) = self.queued.get_mut(item as usize)
            && !*queued
        {
            *queued = true;
            self.queue.push_back(item);
        }
    }

    /// Queues the readers of a set that has changed.
    fn notify(&mut self, node: Node) {
        let Some(readers) = self.readers.get_mut(node) else { return };
        let readers = std::mem::take(readers);
        for reader in &readers {
            self.enqueue(*reader);
        }
        if let Some(place) = self.readers.get_mut(node) {
            *place = readers;
        }
    }

    fn places_of(&self, file: FileId) -> Option<Places> {
        self.places.get(&file).copied()
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
        self.readers.push(Vec::new());
        self.fields.insert((value, name), node);
        if name != EVERY_MEMBER {
            self.field_names.entry(value).or_default().push(name);
        }
        node
    }

    /// Returns the calls of a file that the text does not write as calls: the expression and the method.
    pub(crate) fn implicit_calls(&self, file: FileId) -> Vec<(ExpressionId, GlobalDefinition)> {
        self.implicit.get(&file).into_iter().flatten().copied().collect()
    }

    /// Notes a call that the text does not write as a call.
    fn call_is_implied(&mut self, file: FileId, expression: ExpressionId, definition: GlobalDefinition) {
        if expression == 0 {
            return;
        }
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

    /// Adds a value to a set.
    fn add(&mut self, node: Node, value: Value) {
        if self.sets.get_mut(node).is_some_and(|set| set.insert(value)) {
            self.notify(node);
        }
    }

    /// Adds values to a set.
    fn add_all(&mut self, node: Node, values: &[Value]) {
        let Some(set) = self.sets.get_mut(node) else { return };
        let mut is_new = false;
        for value in values {
            is_new |= set.insert(*value);
        }
        if is_new {
            self.notify(node);
        }
    }

    /// Adds the values of a set to another one.
    fn copy(&mut self, from: Node, to: Node) {
        if from == to || self.set(from).is_empty() {
            return;
        }
        let Some(place) = self.sets.get_mut(from) else { return };
        let values = std::mem::take(place);
        self.add_all(to, values.as_slice());
        if let Some(place) = self.sets.get_mut(from) {
            *place = values;
        }
    }

    /// Notes that what is being looked at reads a set.
    fn read(&mut self, node: Node) {
        if self.readings.insert((node, self.item))
            && let Some(readers) = self.readers.get_mut(node)
        {
            readers.push(self.item);
        }
    }

    /// Adds values to a member of a value.
    fn add_to_field(&mut self, value: Value, name: Symbol, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let node = self.field_node(value, name);
        let before = self.set(node).len();
        self.add_all(node, values);
        if self.set(node).len() != before
            && let Some(every) = self.fields.get(&(value, EVERY_MEMBER)).copied()
        {
            self.notify(every);
        }
    }

    /// Returns the values of a member that was assigned to a value.
    fn field_values(&mut self, value: Value, name: Symbol, into: &mut Vec<Value>) {
        if matches!(value, Value::Instance(_) | Value::Class(_) | Value::Function(_) | Value::Bound(_))
            && !self.assigned.contains(&name)
        {
            return;
        }
        let node = self.field_node(value, name);
        self.read(node);
        into.extend_from_slice(self.set(node));
    }

    /// Returns the values of all members that were assigned to a value.
    fn all_field_values(&mut self, value: Value, into: &mut Vec<Value>) {
        let every = self.field_node(value, EVERY_MEMBER);
        self.read(every);
        for name in self.field_names.get(&value).into_iter().flatten() {
            if let Some(node) = self.fields.get(&(value, *name)) {
                into.extend_from_slice(self.set(*node));
            }
        }
    }
}
