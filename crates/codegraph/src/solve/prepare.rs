//! The readings of sets that the text alone says: of an expression from its parts, and of a flow from its ends.

use super::{Item, Solver};
use crate::facts::{Expression, ExpressionId, FileFacts, Flow};
use crate::world::FileId;

/// Maximum number of expressions of one pattern.
const MAXIMUM_PATTERN: usize = 1_000;

impl Solver<'_> {
    /// Notes the readings of a file, and the names that are members of values in it.
    pub(super) fn prepare(&mut self, file: FileId) {
        let Some(found) = self.world.file(file) else { return };
        let Some(places) = self.places_of(file) else { return };
        let facts = &found.facts;
        for id in 1..crate::builder::count(facts.expressions.len()) {
            let item = crate::builder::count(places.expressions).saturating_add(id);
            self.prepare_expression(file, facts, id, item);
        }
        let first_flow = self.sets.len();
        for (number, flow) in (0_u32..).zip(&facts.flows) {
            // The sets of all files come before the first flow, and so far no member has a set.
            let item = crate::builder::count(first_flow + self.flows.len());
            self.flows.push((file, number));
            match *flow {
                Flow::Assign { target, value } => {
                    self.part(file, value, item);
                    self.prepare_target(file, facts, target, item);
                }
                Flow::Return { value, .. } | Flow::Yield { value, .. } => self.part(file, value, item),
            }
        }
    }

    /// Notes that an expression is read.
    fn part(&mut self, file: FileId, part: ExpressionId, item: Item) {
        if part != 0
            && let Some(node) = self.expression_node(file, part)
            && let Some(readers) = self.readers.get_mut(node)
        {
            readers.push(item);
        }
    }

    fn prepare_expression(&mut self, file: FileId, facts: &FileFacts, id: ExpressionId, item: Item) {
        match facts.expression(id) {
            Expression::Unknown
            | Expression::Name { .. }
            | Expression::Definition(_)
            | Expression::This { .. }
            | Expression::Super { .. }
            | Expression::Keyword { .. }
            | Expression::Spread(_)
            | Expression::Text(_)
            | Expression::Number(_) => {}
            Expression::Variable(variable) => {
                let node = self.places_of(file).map(|places| places.variables + variable as usize);
                if let Some(readers) = node.and_then(|node| self.readers.get_mut(node)) {
                    readers.push(item);
                }
            }
            Expression::Member { object, .. } | Expression::Path { object, .. } => {
                self.part(file, object, item);
            }
            Expression::Call { callee, arguments } => {
                self.part(file, callee, item);
                if let Expression::Member { object, .. } = facts.expression(callee) {
                    self.part(file, object, item);
                }
                self.arguments(file, facts, facts.list(arguments), item);
            }
            Expression::New { class, arguments } => {
                self.part(file, class, item);
                self.arguments(file, facts, facts.list(arguments), item);
            }
            Expression::List(span) | Expression::Choice(span) => {
                self.arguments(file, facts, facts.list(span), item);
            }
            Expression::Dictionary(span) => {
                let parts = facts.list(span);
                for key in parts.iter().step_by(2) {
                    if let Expression::Text(name) = facts.expression(*key) {
                        let symbol = self.world.file(file).map_or(0, |found| found.symbol(name));
                        self.assigned.insert(symbol);
                    }
                }
                self.arguments(file, facts, parts, item);
            }
            Expression::Index { object, key } => {
                self.part(file, object, item);
                self.part(file, key, item);
            }
            Expression::Element(inner) | Expression::Inner(inner) | Expression::Instance(inner) => {
                self.part(file, inner, item);
            }
            Expression::Generic { base, .. } => self.part(file, base, item),
        }
    }

    fn arguments(&mut self, file: FileId, facts: &FileFacts, parts: &[ExpressionId], item: Item) {
        for part in parts {
            self.part(file, *part, item);
            if let Expression::Keyword { value: inner, .. } | Expression::Spread(inner) =
                facts.expression(*part)
            {
                self.part(file, inner, item);
            }
        }
    }

    /// Notes what a flow reads to find its target.
    fn prepare_target(&mut self, file: FileId, facts: &FileFacts, target: ExpressionId, item: Item) {
        let mut open = vec![target];
        let mut seen = 0;
        while let Some(at) = open.pop() {
            seen += 1;
            if seen > MAXIMUM_PATTERN {
                break;
            }
            match facts.expression(at) {
                Expression::Member { object, name } | Expression::Path { object, name } => {
                    let symbol = self.world.file(file).map_or(0, |found| found.symbol(name));
                    self.assigned.insert(symbol);
                    self.part(file, object, item);
                }
                Expression::Index { object, .. } => self.part(file, object, item),
                Expression::List(span) | Expression::Dictionary(span) | Expression::Choice(span) => {
                    open.extend_from_slice(facts.list(span));
                }
                Expression::Spread(inner) | Expression::Inner(inner) => open.push(inner),
                _ => {}
            }
        }
    }
}
