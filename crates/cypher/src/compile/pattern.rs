//! Patterns: their variables, and the pattern graph that the planner orders.

use super::types::Type;
use super::{Compiler, undefined};
use crate::ast::{
    Comparison, Expression as Source, Kind, Length, Logic, Name, NodePattern, PathPattern,
    RelationshipPattern, Shortest,
};
use crate::error::{Detail, Error, Result};
use crate::graph::{KeyId, number_of};
use crate::plan::{self, Lookup, Node, PatternGraph, PatternPath, Predicate, Range, Relationship, Target};
use crate::program::{Expression, Slot, Step};

/// Maximum number of nodes in the patterns of one clause. The time to plan them grows with its cube.
const MAXIMUM_NODES: usize = 64;

/// The entries of a property map.
type Entries = Vec<(Name, Source)>;

/// The variables and property maps of the patterns of one clause.
#[derive(Default)]
struct Names {
    /// Named nodes with their indexes.
    nodes: Vec<(Name, usize)>,
    relationships: Vec<Name>,
    /// Property maps of nodes, which have an index, and of single relationships.
    properties: Vec<(Slot, Option<usize>, Entries)>,
    /// Property maps of relationships of variable length, by the index of the relationship.
    repeated: Vec<(usize, Entries)>,
}

impl Compiler<'_> {
    /// Compiles the patterns and the condition of a clause into steps in the best order.
    ///
    /// `defines` says whether new variables may occur. `ends_only` says that repeated rows do not matter.
    pub(super) fn matching(
        &mut self,
        patterns: &[PathPattern],
        filter: Option<&Source>,
        defines: bool,
        ends_only: bool,
    ) -> Result<Vec<Step>> {
        let mut graph = PatternGraph { ends_only, ..PatternGraph::default() };
        let mut names = Names::default();
        for pattern in patterns {
            self.path_pattern(pattern, defines, &mut graph, &mut names)?;
            if graph.nodes.len().max(graph.relationships.len()) > MAXIMUM_NODES {
                let message = format!(
                    "The patterns of one clause have more than {MAXIMUM_NODES} nodes or relationships."
                );
                return Err(Error::syntax(Detail::QueryTooComplex, pattern.at.0, message));
            }
        }
        for (slot, node, entries) in std::mem::take(&mut names.properties) {
            for (key, value) in entries {
                self.property_predicate(slot, node, &key, &value, &mut graph)?;
            }
        }
        for (relationship, entries) in std::mem::take(&mut names.repeated) {
            for (key, value) in entries {
                let number = self.key(&key, value.at.0)?;
                let value = self.expression(&value)?.expression;
                if let Some(relationship) = graph.relationships.get_mut(relationship) {
                    relationship.properties.push((number, value));
                }
            }
        }
        for part in filter.map(conjuncts).unwrap_or_default() {
            self.condition(part, &names, &mut graph)?;
        }
        let known = |expression: &Expression| self.known_value(expression);
        Ok(plan::plan(graph, self.settings.graph, &known))
    }

    fn path_pattern(
        &mut self,
        pattern: &PathPattern,
        defines: bool,
        graph: &mut PatternGraph,
        names: &mut Names,
    ) -> Result<()> {
        let start = self.node(&pattern.first, defines, graph, names)?;
        let mut left = start;
        let mut relationships = Vec::new();
        for (relationship, node) in &pattern.rest {
            let at = relationship.at.0;
            // The relationship is defined before the node behind it, in the order of the text.
            let (slot, is_bound) = self.relationship_slot(relationship, defines, names)?;
            let right = self.node(node, defines, graph, names)?;
            relationships.push(slot);
            let types = self.types(&relationship.types, at)?;
            let shortest = pattern.shortest.map(|shortest| shortest == Shortest::All);
            let single = Range { minimum: 1, maximum: 1, is_capped: false };
            let range = relationship.length.map(|length| self.range(length)).or(shortest.map(|_| single));
            if let Some(range) = range.filter(|range| shortest.is_some() && range.minimum > 1) {
                let message =
                    format!("A shortest path begins at length 0 or 1, and not at {}.", range.minimum);
                return Err(Error::syntax(Detail::InvalidRelationshipPattern, at, message));
            }
            if range.is_some() {
                names.repeated.push((graph.relationships.len(), relationship.properties.clone()));
            } else {
                names.properties.push((slot, None, relationship.properties.clone()));
            }
            graph.relationships.push(Relationship {
                slot,
                is_bound,
                left,
                right,
                direction: relationship.direction,
                types,
                range,
                shortest,
                properties: Vec::new(),
                keep: relationship.name.is_some() || pattern.name.is_some(),
            });
            left = right;
        }
        if let Some(name) = &pattern.name {
            let slot = self.path_slot(name, pattern.at.0, defines)?;
            let start = graph.nodes.get(start).map_or(0, |node| node.slot);
            graph.paths.push(PatternPath { slot, start, relationships });
        }
        Ok(())
    }

    fn path_slot(&mut self, name: &Name, at: usize, defines: bool) -> Result<Slot> {
        if self.scope.find(name).is_some() {
            let message = format!("The variable `{name}` is defined already, so it cannot name a path.");
            return Err(Error::syntax(Detail::VariableAlreadyBound, at, message));
        }
        if !defines {
            return Err(undefined(name, at));
        }
        let slot = self.slot(name);
        self.scope.define(name, slot, Type::Path);
        Ok(slot)
    }

    fn range(&self, length: Length) -> Range {
        let cap = self.settings.maximum_hops;
        let minimum = length.minimum.unwrap_or(1);
        match length.maximum {
            Some(maximum) if maximum <= cap => Range { minimum, maximum, is_capped: false },
            _ => Range { minimum, maximum: cap.max(minimum), is_capped: true },
        }
    }

    fn node(
        &mut self,
        pattern: &NodePattern,
        defines: bool,
        graph: &mut PatternGraph,
        names: &mut Names,
    ) -> Result<usize> {
        let at = pattern.at.0;
        let labels = self.labels(&pattern.labels, at)?;
        let known =
            pattern.name.as_ref().and_then(|name| names.nodes.iter().find(|(known, _)| known == name));
        let index = if let Some((_, index)) = known {
            *index
        } else {
            let (slot, is_bound) = match &pattern.name {
                Some(name) => self.entity_slot(name, Type::Node, defines, at)?,
                None => (self.hidden_slot("node"), false),
            };
            let name = self.names.get(slot).cloned().unwrap_or_else(|| super::name("?"));
            let is_named = pattern.name.is_some();
            names.nodes.extend(pattern.name.iter().map(|name| (name.clone(), graph.nodes.len())));
            graph.nodes.push(Node { slot, name, is_named, is_bound, labels: Vec::new() });
            graph.nodes.len() - 1
        };
        if let Some(node) = graph.nodes.get_mut(index) {
            for test in labels {
                if !node.labels.contains(&test) {
                    node.labels.push(test);
                }
            }
            names.properties.push((node.slot, Some(index), pattern.properties.clone()));
        }
        Ok(index)
    }

    fn relationship_slot(
        &mut self,
        pattern: &RelationshipPattern,
        defines: bool,
        names: &mut Names,
    ) -> Result<(Slot, bool)> {
        let Some(name) = &pattern.name else { return Ok((self.hidden_slot("relationship"), false)) };
        if names.relationships.contains(name) {
            let message =
                format!("The relationship `{name}` occurs twice in one pattern, which never matches.");
            return Err(Error::syntax(Detail::RelationshipUniquenessViolation, pattern.at.0, message));
        }
        names.relationships.push(name.clone());
        let is_list = pattern.length.is_some();
        let kind = if is_list { Type::list(Type::Relationship) } else { Type::Relationship };
        self.entity_slot(name, kind, defines, pattern.at.0)
    }

    /// Returns the slot of a variable, and whether it has a value already.
    fn entity_slot(&mut self, name: &Name, kind: Type, defines: bool, at: usize) -> Result<(Slot, bool)> {
        if let Some(variable) = self.scope.find(name) {
            let known = &variable.kind;
            let fits = match kind {
                Type::Node => known.may_be_node(),
                Type::Relationship => known.may_be_relationship(),
                _ => known.is_open() || known.may_be_list() && known.item().may_be_relationship(),
            };
            if !fits {
                let (found, wanted) = (known.name(), kind.name());
                let message = format!("The variable `{name}` is {found}, and cannot be {wanted} as well.");
                return Err(Error::syntax(Detail::VariableTypeConflict, at, message));
            }
            let slot = variable.slot;
            self.check_grouped(name, slot, at)?;
            self.referenced.push(slot);
            return Ok((slot, true));
        }
        if !defines {
            return Err(undefined(name, at));
        }
        let slot = self.slot(name);
        self.scope.define(name, slot, kind);
        Ok((slot, false))
    }

    /// Adds the condition that a property has a value.
    fn property_predicate(
        &mut self,
        slot: Slot,
        node: Option<usize>,
        key: &Name,
        value: &Source,
        graph: &mut PatternGraph,
    ) -> Result<()> {
        let number = self.key(key, value.at.0)?;
        let before = self.referenced.len();
        let compiled = self.expression(value)?.expression;
        let mut needs = self.needs_since(before);
        let lookup = match (node, number) {
            (Some(node), Some(key)) => {
                let value = self.expression(value)?.expression;
                Some(Lookup { node, target: Target::Property(key), value, needs: needs.clone() })
            }
            _ => None,
        };
        needs.push(slot);
        let object = Box::new(Expression::Slot(slot));
        let property = Expression::Property { object, name: key.clone(), key: number };
        let expression = Expression::Comparison(Box::new(property), vec![(Comparison::Equal, compiled)]);
        graph.predicates.push(Predicate { expression, needs, lookup });
        Ok(())
    }

    fn needs_since(&self, before: usize) -> Vec<Slot> {
        let mut needs = self.referenced.get(before..).unwrap_or_default().to_vec();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Adds one part of the condition of a clause.
    fn condition(&mut self, source: &Source, names: &Names, graph: &mut PatternGraph) -> Result<()> {
        // A label in the condition is planned like one in the pattern.
        if let Kind::HasLabels(object, labels) = &source.kind
            && let Some(index) = names.node(object)
            && let Some(node) = graph.nodes.get_mut(index)
        {
            node.labels.extend(self.labels(labels, source.at.0)?);
            return Ok(());
        }
        let before = self.referenced.len();
        let expression = self.predicate(source)?.expression;
        let needs = self.needs_since(before);
        let lookup = self.lookup(source, names)?;
        graph.predicates.push(Predicate { expression, needs, lookup });
        Ok(())
    }

    /// Returns the lookup that a condition permits: `node.key = value` or `id(node) = value`.
    fn lookup(&mut self, source: &Source, names: &Names) -> Result<Option<Lookup>> {
        let Kind::Comparison(one, rest) = &source.kind else { return Ok(None) };
        let [(Comparison::Equal, two)] = rest.as_slice() else { return Ok(None) };
        for (side, value) in [(&**one, two), (two, &**one)] {
            let Some((node, key)) = names.target(side) else { continue };
            let target = match key {
                None => Target::Id,
                Some(key) => match number_of(self.settings.graph.property_keys(), key) {
                    Some(number) => Target::Property(KeyId(number)),
                    None => continue,
                },
            };
            let before = self.referenced.len();
            let value = self.expression(value)?.expression;
            let needs = self.needs_since(before);
            return Ok(Some(Lookup { node, target, value, needs }));
        }
        Ok(None)
    }
}

impl Names {
    /// Returns the node that an expression names.
    fn node(&self, source: &Source) -> Option<usize> {
        let name = source.as_variable()?;
        self.nodes.iter().find(|(known, _)| known == name).map(|(_, index)| *index)
    }

    /// Returns the node and the key of `node.key`, or the node alone of `id(node)`.
    fn target<'a>(&self, source: &'a Source) -> Option<(usize, Option<&'a Name>)> {
        match &source.kind {
            Kind::Property(object, key) => Some((self.node(object)?, Some(key))),
            Kind::Function { name, arguments, .. } if &**name == "id" => {
                Some((self.node(arguments.first()?)?, None))
            }
            _ => None,
        }
    }
}

/// Returns the parts of a condition that must all hold.
fn conjuncts(source: &Source) -> Vec<&Source> {
    let mut open = vec![source];
    let mut parts = Vec::new();
    while let Some(source) = open.pop() {
        match &source.kind {
            Kind::Logic(Logic::And, inner) => open.extend(inner.iter().rev()),
            _ => parts.push(source),
        }
    }
    parts
}
