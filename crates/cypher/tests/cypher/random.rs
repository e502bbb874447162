//! Random patterns on random graphs: the engine finds what trying every assignment finds, however a pattern
//! is written.

use std::fmt::Write;

use cypher::{GraphBuilder, Limits, MemoryGraph, NodeId, Options, Parameters, Value, query};

const LABELS: [&str; 3] = ["A", "B", "C"];
const TYPES: [&str; 2] = ["R", "S"];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// A graph in the form that the test can try all assignments on.
struct Plain {
    /// The labels and the property `x` of each node.
    nodes: Vec<(Vec<usize>, i64)>,
    /// Start, type and end of each relationship.
    relationships: Vec<(usize, usize, usize)>,
}

/// A pattern of relationships between numbered nodes.
struct Pattern {
    /// The label and the property `x` that each node needs.
    nodes: Vec<(Option<usize>, Option<i64>)>,
    /// Left node, type, right node, and the direction: right, left or both.
    relationships: Vec<(usize, Option<usize>, usize, usize)>,
}

impl Plain {
    fn random(numbers: &mut Numbers) -> Self {
        let node = |numbers: &mut Numbers| {
            let labels = (0..LABELS.len()).filter(|_| numbers.below(2) == 0).collect();
            (labels, i64::try_from(numbers.below(3)).unwrap())
        };
        let nodes: Vec<_> = (0..6).map(|_| node(numbers)).collect();
        let edge = |numbers: &mut Numbers| (numbers.below(6), numbers.below(2), numbers.below(6));
        Self { nodes, relationships: (0..9).map(|_| edge(numbers)).collect() }
    }

    fn graph(&self) -> MemoryGraph {
        let mut builder = GraphBuilder::new();
        for (labels, x) in &self.nodes {
            let labels: Vec<&str> = labels.iter().map(|label| LABELS[*label]).collect();
            builder.add_node(&labels, &[("x", Value::from(*x))]).unwrap();
        }
        let id = |node: usize| NodeId(u32::try_from(node).unwrap());
        for (start, number, end) in &self.relationships {
            builder.add_relationship(id(*start), TYPES[*number], id(*end), &[]).unwrap();
        }
        builder.add_index("x").unwrap();
        builder.build()
    }

    /// Returns every assignment of the nodes of a pattern, found by trying all relationships.
    fn assignments(&self, pattern: &Pattern) -> Vec<String> {
        let mut open = vec![(vec![None; pattern.nodes.len()], Vec::new())];
        for (left, wanted, right, direction) in &pattern.relationships {
            let mut next = Vec::new();
            for (nodes, used) in open {
                for (number, (start, found, end)) in self.relationships.iter().enumerate() {
                    if used.contains(&number) || wanted.is_some_and(|wanted| wanted != *found) {
                        continue;
                    }
                    let forward = (*direction != 1).then_some((*start, *end));
                    let backward =
                        (*direction != 0 && (*direction == 1 || start != end)).then_some((*end, *start));
                    for (one, two) in forward.into_iter().chain(backward) {
                        let mut nodes: Vec<Option<usize>> = nodes.clone();
                        let fits = |nodes: &mut Vec<Option<usize>>, at: usize, node| {
                            let is_free = nodes[at].is_none_or(|known| known == node);
                            nodes[at] = Some(node);
                            is_free && self.fits(node, pattern.nodes[at])
                        };
                        if fits(&mut nodes, *left, one) && fits(&mut nodes, *right, two) {
                            next.push((nodes, [used.as_slice(), &[number]].concat()));
                        }
                    }
                }
            }
            open = next;
        }
        let show = |nodes: &Vec<Option<usize>>| {
            nodes.iter().map(|node| node.unwrap().to_string()).collect::<Vec<_>>().join(" ")
        };
        let mut found: Vec<String> = open.iter().map(|(nodes, _)| show(nodes)).collect();
        found.sort();
        found
    }

    fn fits(&self, node: usize, (label, x): (Option<usize>, Option<i64>)) -> bool {
        let (labels, found) = &self.nodes[node];
        label.is_none_or(|label| labels.contains(&label)) && x.is_none_or(|x| x == *found)
    }
}

impl Pattern {
    /// Returns a connected pattern of one to three relationships.
    fn random(numbers: &mut Numbers) -> Self {
        let mut pattern = Self { nodes: vec![Self::node(numbers)], relationships: Vec::new() };
        for _ in 0..=numbers.below(3) {
            let left = numbers.below(pattern.nodes.len());
            let right = numbers.below(pattern.nodes.len() + 1);
            if right == pattern.nodes.len() {
                pattern.nodes.push(Self::node(numbers));
            }
            let wanted = Some(numbers.below(3)).filter(|number| *number < 2);
            pattern.relationships.push((left, wanted, right, numbers.below(3)));
        }
        pattern
    }

    fn node(numbers: &mut Numbers) -> (Option<usize>, Option<i64>) {
        let label = Some(numbers.below(6)).filter(|label| *label < 3);
        let x = Some(numbers.below(9)).filter(|x| *x < 3).map(|x| i64::try_from(x).unwrap());
        (label, x)
    }

    /// Returns the query; a turned one is written from right to left, and its parts in reverse.
    fn text(&self, is_turned: bool) -> String {
        let mut parts = Vec::new();
        for (left, wanted, right, direction) in &self.relationships {
            let name = wanted.map(|number| format!(":{}", TYPES[number])).unwrap_or_default();
            let (one, two) = if is_turned { (right, left) } else { (left, right) };
            let direction = if is_turned && *direction < 2 { 1 - direction } else { *direction };
            let (before, after) = [("-", "->"), ("<-", "-"), ("-", "-")][direction];
            parts.push(format!("{}{before}[{name}]{after}{}", self.node_text(*one), self.node_text(*two)));
        }
        if is_turned {
            parts.reverse();
        }
        let names: Vec<String> = (0..self.nodes.len()).map(|node| format!("id(n{node})")).collect();
        format!("MATCH {} RETURN {}", parts.join(", "), names.join(", "))
    }

    fn node_text(&self, node: usize) -> String {
        let (label, x) = self.nodes[node];
        let mut text = format!("(n{node}");
        if let Some(label) = label {
            write!(text, ":{}", LABELS[label]).unwrap();
        }
        if let Some(x) = x {
            write!(text, " {{x: {x}}}").unwrap();
        }
        text + ")"
    }
}

fn answer(graph: &MemoryGraph, text: &str) -> Vec<String> {
    let limits = Limits { rows: usize::MAX, ..Limits::default() };
    let options = Options { limits, strict_names: false, ..Options::default() };
    let answer =
        query(graph, text, &Parameters::new(), &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    let show = |row: &Vec<Value>| row.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = answer.rows.iter().map(show).collect();
    rows.sort();
    rows
}

#[test]
fn random_patterns_find_what_trying_everything_finds_in_both_directions_of_writing() {
    let mut numbers = Numbers(3);
    for _ in 0..400 {
        let plain = Plain::random(&mut numbers);
        let graph = plain.graph();
        let pattern = Pattern::random(&mut numbers);
        let expected = plain.assignments(&pattern);
        for text in [pattern.text(false), pattern.text(true)] {
            assert_eq!(answer(&graph, &text), expected, "{text}");
        }
        let text = pattern.text(false);
        let body = text.split(" RETURN").next().unwrap();
        let exists = format!("MATCH (n0) WHERE EXISTS {{ {body} }} RETURN id(n0)");
        let mut starts: Vec<&str> = expected.iter().filter_map(|row| row.split(' ').next()).collect();
        starts.dedup();
        assert_eq!(answer(&graph, &exists), starts, "{exists}");
    }
}

#[test]
fn variable_lengths_are_the_sum_of_fixed_ones() {
    let mut numbers = Numbers(5);
    for _ in 0..150 {
        let graph = Plain::random(&mut numbers).graph();
        for (before, after) in [("-", "->"), ("<-", "-"), ("-", "-")] {
            let mut fixed = Vec::new();
            for length in 1..=3 {
                let path = format!("{before}[]{after}()").repeat(length - 1);
                fixed.extend(answer(
                    &graph,
                    &format!("MATCH (a){path}{before}[]{after}(b) RETURN id(a), id(b)"),
                ));
            }
            fixed.sort();
            let variable = format!("MATCH (a){before}[*1..3]{after}(b) RETURN");
            assert_eq!(answer(&graph, &format!("{variable} id(a), id(b)")), fixed);
            let named = variable.replace("[*", "[r*");
            assert_eq!(answer(&graph, &format!("{named} id(a), id(b)")), fixed);
            fixed.dedup();
            assert_eq!(answer(&graph, &format!("{variable} DISTINCT id(a), id(b)")), fixed);
            let shortest = format!(
                "MATCH (a), (b) WHERE a <> b MATCH p = shortestPath((a){before}[*1..3]{after}(b)) RETURN id(a), id(b)"
            );
            fixed.retain(|row| row.split_once(' ').is_some_and(|(one, two)| one != two));
            assert_eq!(answer(&graph, &shortest), fixed);
            let least =
                format!("{named} id(a), id(b), min(size(r))").replace("RETURN", "WHERE a <> b RETURN");
            assert_eq!(
                answer(&graph, &shortest.replace("RETURN id(a), id(b)", "RETURN id(a), id(b), length(p)")),
                answer(&graph, &least)
            );
        }
    }
}

#[test]
fn variable_lengths_beside_other_relationships_are_the_sum_of_fixed_ones() {
    let mut numbers = Numbers(11);
    for _ in 0..100 {
        let graph = Plain::random(&mut numbers).graph();
        for (before, after) in [("-", "->"), ("<-", "-"), ("-", "-")] {
            // The other relationship stands in the same part of the pattern, or in another one.
            for (start, end) in [("(a)", "-[r]->(c)"), ("(a)", ", (b)<-[r]-(c)"), ("(c)-[r]->(a)", "")] {
                let mut fixed = Vec::new();
                for length in 1..=3 {
                    let path = format!("{before}[]{after}()").repeat(length - 1);
                    let text =
                        format!("MATCH {start}{path}{before}[]{after}(b){end} RETURN id(a), id(b), id(c)");
                    fixed.extend(answer(&graph, &text));
                }
                fixed.sort();
                let text = format!("MATCH {start}{before}[*1..3]{after}(b){end} RETURN id(a), id(b), id(c)");
                assert_eq!(answer(&graph, &text), fixed, "{text}");
            }
        }
    }
}
