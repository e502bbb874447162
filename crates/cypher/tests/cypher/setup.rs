//! The set-up of a graph by statements with `CREATE`. The engine itself reads only, so these are cut into
//! clauses here: clauses that read are run by the engine, and patterns of `CREATE` are added to a builder.

use std::collections::BTreeMap;

use cypher::{GraphBuilder, Limits, MemoryGraph, NodeId, Options, Parameters, Value, query};

/// A graph that statements add to.
#[derive(Default)]
pub(crate) struct Store {
    nodes: Vec<(Vec<String>, Properties)>,
    relationships: Vec<(NodeId, String, NodeId, Properties)>,
}

type Properties = Vec<(String, Value)>;
type Bindings = BTreeMap<String, Value>;

/// Words that begin a clause.
const CLAUSES: [&str; 4] = ["CREATE", "MATCH", "UNWIND", "WITH"];

impl Store {
    /// Returns the graph so far.
    pub(crate) fn graph(&self) -> MemoryGraph {
        let mut builder = GraphBuilder::new();
        for (labels, properties) in &self.nodes {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            builder.add_node(&labels, &borrowed(properties)).unwrap();
        }
        for (start, name, end, properties) in &self.relationships {
            builder.add_relationship(*start, name, *end, &borrowed(properties)).unwrap();
        }
        for key in ["name", "id", "num"] {
            builder.add_index(key).unwrap();
        }
        builder.build()
    }

    /// Runs a statement.
    pub(crate) fn run(&mut self, statement: &str, parameters: &Parameters) {
        let mut rows = vec![Bindings::new()];
        for clause in clauses(statement) {
            match clause.strip_prefix("CREATE") {
                None => rows = self.ask(&rows, &clause, "RETURN *", parameters),
                Some(patterns) => {
                    for row in &mut rows {
                        self.create(patterns, row, parameters);
                    }
                }
            }
        }
    }

    /// Runs clauses on the variables of rows.
    fn ask(&self, rows: &[Bindings], clause: &str, end: &str, parameters: &Parameters) -> Vec<Bindings> {
        let names: Vec<String> = rows[0].keys().map(|name| format!("row_.{name} AS {name}")).collect();
        let before = match names.as_slice() {
            [] => String::new(),
            names => format!("UNWIND $rows AS row_ WITH {}", names.join(", ")),
        };
        let map = |row: &Bindings| {
            Value::map(row.iter().map(|(name, value)| (name.as_str().into(), value.clone())).collect())
        };
        let mut parameters = parameters.clone();
        parameters.insert("rows".to_owned(), Value::list(rows.iter().map(map).collect()));
        let limits = Limits { rows: usize::MAX, ..Limits::default() };
        let options = Options { strict_names: false, limits, ..Options::default() };
        let text = format!("{before} {clause} {end}");
        let answer = query(&self.graph(), &text, &parameters, &options);
        let answer = answer.unwrap_or_else(|error| panic!("the set-up `{text}` fails: {error}"));
        let rows = answer.rows.into_iter();
        rows.map(|row| answer.columns.iter().cloned().zip(row).collect()).collect()
    }

    fn create(&mut self, patterns: &str, row: &mut Bindings, parameters: &Parameters) {
        let mut reader = Reader { rest: patterns.trim() };
        while !reader.rest.is_empty() {
            if !reader.rest.starts_with('(') {
                // The name of a path.
                reader.rest = reader.rest.split_once('=').unwrap().1.trim_start();
            }
            let mut left = self.node(&reader.element('(', ')'), row, parameters);
            while reader.rest.starts_with(['-', '<']) {
                let points_left = reader.skip("<");
                assert!(reader.skip("-"));
                let element = reader.element('[', ']');
                assert!(reader.skip("-"));
                reader.skip(">");
                let right = self.node(&reader.element('(', ')'), row, parameters);
                let properties = self.properties(&element, row, parameters);
                let (start, end) = if points_left { (right, left) } else { (left, right) };
                self.relationships.push((start, element.labels[0].clone(), end, properties));
                left = right;
            }
            reader.skip(",");
            reader.skip(";");
        }
    }

    fn node(&mut self, element: &Element, row: &mut Bindings, parameters: &Parameters) -> NodeId {
        if let Some(Value::Node(node)) = element.name.as_ref().and_then(|name| row.get(name)) {
            return *node;
        }
        let properties = self.properties(element, row, parameters);
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap());
        self.nodes.push((element.labels.clone(), properties));
        if let Some(name) = &element.name {
            row.insert(name.clone(), Value::Node(id));
        }
        id
    }

    fn properties(&self, element: &Element, row: &Bindings, parameters: &Parameters) -> Properties {
        let Some(map) = &element.map else { return Vec::new() };
        let answer = self.ask(std::slice::from_ref(row), "", &format!("RETURN {map} AS map"), parameters);
        let Value::Map(map) = &answer[0]["map"] else { panic!("no map: {map}") };
        map.entries().iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    }
}

/// A node or a relationship of a pattern.
struct Element {
    name: Option<String>,
    labels: Vec<String>,
    /// The text of its properties.
    map: Option<String>,
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, sign: &str) -> bool {
        let found = self.rest.starts_with(sign);
        if found {
            self.rest = self.rest[sign.len()..].trim_start();
        }
        found
    }

    fn element(&mut self, open: char, close: char) -> Element {
        let length = matching(self.rest, open, close);
        let inner = &self.rest[1..length - 1];
        self.rest = self.rest[length..].trim_start();
        let (head, map) = match inner.find('{') {
            Some(at) => (&inner[..at], Some(inner[at..].to_owned())),
            None => (inner, None),
        };
        let mut parts = head.split(':').map(|part| part.trim().trim_matches('`').to_owned());
        let name = parts.next().filter(|name| !name.is_empty());
        Element { name, labels: parts.collect(), map }
    }
}

/// Returns the length of a text up to the sign that closes its first one.
fn matching(text: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(inner), _) if inner == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, _) if character == open => depth += 1,
            (None, _) if character == close => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    panic!("`{open}` is not closed: {text}");
}

/// Splits a statement before each clause.
fn clauses(statement: &str) -> Vec<String> {
    let without_comments: Vec<&str> =
        statement.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let text = without_comments.join("\n");
    let mut clauses: Vec<String> = Vec::new();
    let (mut depth, mut quote, mut before) = (0, None, ' ');
    for (at, character) in text.char_indices() {
        let rest = &text[at..];
        let begins = depth == 0 && quote.is_none() && !before.is_alphanumeric();
        if begins && CLAUSES.iter().any(|word| rest.starts_with(word)) {
            clauses.push(String::new());
        }
        match (quote, character) {
            (Some(inner), _) if inner == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        before = character;
        if let Some(clause) = clauses.last_mut() {
            clause.push(character);
        }
    }
    clauses
}

fn borrowed(properties: &Properties) -> Vec<(&str, Value)> {
    properties.iter().map(|(key, value)| (key.as_str(), value.clone())).collect()
}
