//! Random graphs and random queries. No query depends on what the language leaves open: the order of rows without
//! a complete sort, of collected values, and of the labels of a node.

mod expression;

use std::collections::BTreeSet;
use std::fmt::Write;

use cypher::Value;

/// Labels of the nodes.
pub(crate) const LABELS: [&str; 3] = ["A", "B", "C"];

/// Types of the relationships.
pub(crate) const TYPES: [&str; 2] = ["R", "S"];

/// Texts of the property `s`.
const TEXTS: [&str; 4] = ["a", "ab", "b", "it's"];

/// Names and values of properties.
type Properties = Vec<(&'static str, Value)>;

/// A graph.
pub(crate) struct Plain {
    /// Nodes with a number `k` of their own.
    pub(crate) nodes: Vec<Node>,
    /// Start, type, end and properties.
    pub(crate) relationships: Vec<(usize, &'static str, usize, Properties)>,
}

/// A node.
pub(crate) struct Node {
    pub(crate) labels: Vec<&'static str>,
    pub(crate) properties: Properties,
}

/// A query.
pub(crate) struct Query {
    pub(crate) text: String,
    /// True if its rows are sorted by all columns.
    pub(crate) is_sorted: bool,
}

/// The kind of what a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Relationship,
    Relationships,
    Path,
    Number,
}

/// The source of graphs and queries.
pub(crate) struct Generator {
    state: u64,
    /// Names that the clauses so far define.
    scope: Vec<(String, Kind)>,
    /// Number of names so far.
    names: usize,
}

impl Plain {
    /// Returns the statement that makes the graph.
    pub(crate) fn statement(&self) -> String {
        let shown = |properties: &Properties| {
            let cells: Vec<String> =
                properties.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{{{}}}", cells.join(", "))
        };
        let mut parts = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let labels: String = node.labels.iter().map(|label| format!(":{label}")).collect();
            parts.push(format!("(n{at}{labels} {})", shown(&node.properties)));
        }
        for (start, name, end, properties) in &self.relationships {
            parts.push(format!("(n{start})-[:{name} {}]->(n{end})", shown(properties)));
        }
        format!("CREATE {}", parts.join(", "))
    }
}

impl Generator {
    /// Creates a source whose graphs and queries follow from a number.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), scope: Vec::new(), names: 0 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap_or(0) % bound.max(1)
    }

    /// Returns true once in so many times.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn any<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len());
        all.get(at).copied()
    }

    fn label(&mut self) -> &'static str {
        self.any(&LABELS).unwrap_or_default()
    }

    fn new_name(&mut self, kind: Kind) -> String {
        let letter = match kind {
            Kind::Node => "n",
            Kind::Relationship => "r",
            Kind::Relationships => "rs",
            Kind::Path => "p",
            Kind::Number => "v",
        };
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn known(&mut self, kind: Kind) -> Option<String> {
        let names: Vec<usize> = (0..self.scope.len()).filter(|at| self.scope[*at].1 == kind).collect();
        let at = self.any(&names)?;
        Some(self.scope[at].0.clone())
    }

    /// Returns a graph of two to seven nodes.
    pub(crate) fn graph(&mut self) -> Plain {
        let count = 2 + self.below(6);
        let mut nodes = Vec::new();
        for at in 0..count {
            let labels = LABELS.into_iter().filter(|_| self.one_in(2)).collect();
            let mut properties = vec![("k", Value::Integer(i64::try_from(at).unwrap_or(0)))];
            match self.below(5) {
                0 => {}
                1 => properties.push(("x", Value::Float(1.5))),
                number => properties.push(("x", Value::Integer(i64::try_from(number).unwrap_or(0) - 2))),
            }
            if self.one_in(2) {
                properties.push(("s", Value::string(self.any(&TEXTS).unwrap_or_default())));
            }
            nodes.push(Node { labels, properties });
        }
        let (mut relationships, mut pairs) = (Vec::new(), BTreeSet::new());
        for at in 0..self.below(count * 2) {
            let (start, end) = (self.below(count), self.below(count));
            // The second engine takes relationships between the same two nodes for one in some patterns: it counts
            // four by MATCH and two by a pattern comprehension.
            if !pairs.insert((start.min(end), start.max(end))) {
                continue;
            }
            let mut properties = vec![("k", Value::Integer(i64::try_from(at).unwrap_or(0)))];
            if self.one_in(2) {
                properties.push(("w", Value::Integer(i64::try_from(self.below(4)).unwrap_or(0))));
            }
            relationships.push((start, self.any(&TYPES).unwrap_or_default(), end, properties));
        }
        Plain { nodes, relationships }
    }

    /// Returns a query.
    pub(crate) fn query(&mut self) -> Query {
        let columns = 1 + self.below(3);
        let mut text = self.single(columns);
        if self.one_in(8) {
            let all = if self.one_in(2) { " ALL" } else { "" };
            let other = self.single(columns);
            let _ = write!(text, " UNION{all} {other}");
            return Query { text, is_sorted: false };
        }
        let is_sorted = self.one_in(3);
        if is_sorted {
            let columns: Vec<String> = (0..columns)
                .map(|at| format!("c{at}{}", if self.one_in(3) { " DESC" } else { "" }))
                .collect();
            let _ = write!(text, " ORDER BY {}", columns.join(", "));
            // The second engine does not sort by every column that groups.
            let is_cut = !has_aggregate(&text);
            if is_cut && self.one_in(3) {
                let _ = write!(text, " SKIP {}", self.below(3));
            }
            if is_cut && self.one_in(3) {
                let _ = write!(text, " LIMIT {}", self.below(5));
            }
        }
        Query { text, is_sorted }
    }

    /// Returns a query without a union.
    fn single(&mut self, columns: usize) -> String {
        self.scope.clear();
        // The grammar of the second engine has no query that begins with UNWIND and goes on with several clauses.
        let mut clauses = vec![self.matching(false)];
        for _ in 0..self.below(3) {
            let clause = match self.below(8) {
                0..=2 => self.matching(false),
                3..=4 => self.matching(true),
                5 => self.unwind(),
                _ => self.with(),
            };
            clauses.push(clause);
        }
        let is_aggregated = self.one_in(3);
        let items: Vec<String> = (0..columns)
            .map(|at| {
                let is_aggregate = is_aggregated && (at == 0 || self.one_in(2));
                let item = if is_aggregate { self.aggregate() } else { self.value() };
                format!("{item} AS c{at}")
            })
            .collect();
        let distinct = if self.one_in(4) { "DISTINCT " } else { "" };
        clauses.push(format!("RETURN {distinct}{}", items.join(", ")));
        clauses.join(" ")
    }

    fn unwind(&mut self) -> String {
        let list = self.numbers(1);
        let name = self.new_name(Kind::Number);
        self.scope.push((name.clone(), Kind::Number));
        format!("UNWIND {list} AS {name}")
    }

    fn matching(&mut self, is_optional: bool) -> String {
        let mut names = Vec::new();
        let parts: Vec<String> = match self.below(10) {
            0 | 1 => vec![self.varied(&mut names)],
            // The second engine does not keep the relationships of several parts apart.
            2 | 3 => vec![self.chain(&mut names), self.node(&mut names)],
            _ => vec![self.chain(&mut names)],
        };
        self.scope.extend(names);
        let filter = match (self.below(8), self.known(Kind::Node)) {
            (0, Some(name)) => {
                let is_not = if self.one_in(2) { "NOT " } else { "" };
                format!(" WHERE {is_not}{}", self.around(&name))
            }
            (0..=4, _) => format!(" WHERE {}", self.truth(2)),
            _ => String::new(),
        };
        let word = if is_optional { "OPTIONAL MATCH" } else { "MATCH" };
        format!("{word} {}{filter}", parts.join(", "))
    }

    /// Returns a pattern of one relationship of variable length. It stands alone, because the second engine does not
    /// keep such a relationship apart from others of the same clause.
    fn varied(&mut self, names: &mut Vec<(String, Kind)>) -> String {
        let start = self.node(names);
        let (before, after) = self.any(&[("-", "->"), ("<-", "-"), ("-", "-")]).unwrap_or(("-", "-"));
        let wanted = self.any(&["", ":R", ":S", ":R|S"]).unwrap_or_default();
        let length = self.any(&["*0..2", "*1..3", "*..2", "*2"]).unwrap_or_default();
        let name = self.new_name(Kind::Relationships);
        let end = self.node(names);
        names.push((name.clone(), Kind::Relationships));
        format!("{start}{before}[{name}{wanted}{length}]{after}{end}")
    }

    /// Returns a pattern of up to two relationships. New names are added to `names`.
    fn chain(&mut self, names: &mut Vec<(String, Kind)>) -> String {
        let mut text = self.node(names);
        for _ in 0..self.below(3) {
            let (before, after) = self.any(&[("-", "->"), ("<-", "-"), ("-", "-")]).unwrap_or(("-", "-"));
            let inner = self.relationship(names);
            let end = self.node(names);
            let _ = write!(text, "{before}[{inner}]{after}{end}");
        }
        if self.one_in(6) {
            let name = self.new_name(Kind::Path);
            names.push((name.clone(), Kind::Path));
            return format!("{name} = {text}");
        }
        text
    }

    fn node(&mut self, names: &mut Vec<(String, Kind)>) -> String {
        let own: Vec<String> =
            names.iter().filter(|(_, kind)| *kind == Kind::Node).map(|(name, _)| name.clone()).collect();
        let known = if self.one_in(2) { self.known(Kind::Node) } else { None };
        let at = self.below(own.len() * 3);
        let name = match (known, own.get(at)) {
            (Some(name), _) => name,
            (None, Some(name)) => name.clone(),
            (None, None) if self.one_in(4) => String::new(),
            (None, None) => {
                let name = self.new_name(Kind::Node);
                names.push((name.clone(), Kind::Node));
                name
            }
        };
        let label = if self.one_in(3) { format!(":{}", self.label()) } else { String::new() };
        let cells = if self.one_in(6) { format!(" {{x: {}}}", self.below(3)) } else { String::new() };
        format!("({name}{label}{cells})")
    }

    fn relationship(&mut self, names: &mut Vec<(String, Kind)>) -> String {
        let wanted = match self.below(4) {
            0 => ":R",
            1 => ":S",
            2 => ":R|S",
            _ => "",
        };
        let name = if self.one_in(2) {
            let name = self.new_name(Kind::Relationship);
            names.push((name.clone(), Kind::Relationship));
            name
        } else {
            String::new()
        };
        format!("{name}{wanted}")
    }

    /// Returns a clause that hands on some names, with new numbers, counted or not.
    fn with(&mut self) -> String {
        let handed: Vec<(String, Kind)> =
            self.scope.clone().into_iter().filter(|_| !self.one_in(3)).collect();
        let mut items: Vec<String> = handed.iter().map(|(name, _)| name.clone()).collect();
        let new = self.new_name(Kind::Number);
        let item = if self.one_in(2) { self.aggregate() } else { self.number(2) };
        items.push(format!("{item} AS {new}"));
        let distinct = if self.one_in(4) { "DISTINCT " } else { "" };
        self.scope = handed;
        self.scope.push((new, Kind::Number));
        let filter = if self.one_in(3) { format!(" WHERE {}", self.truth(1)) } else { String::new() };
        format!("WITH {distinct}{}{filter}", items.join(", "))
    }
}

/// Returns true if a query has an aggregate.
pub(crate) fn has_aggregate(text: &str) -> bool {
    ["count(", "sum(", "min(", "max(", "avg(", "collect("].iter().any(|name| text.contains(name))
}
