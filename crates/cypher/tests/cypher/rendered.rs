//! One text for equal values: the values of an answer and those of the suite's tables become the same text.

use cypher::{Graph, MemoryGraph, NodeId, RelationshipId, Value};

/// Returns the text of a value of an answer. Lists are sorted if their order does not matter.
pub(crate) fn value(graph: &MemoryGraph, item: &Value, any_order: bool) -> String {
    match item {
        Value::List(list) => {
            let items = list.items().iter().map(|item| value(graph, item, any_order)).collect();
            self::list(items, any_order)
        }
        Value::Map(map) => {
            let entries = map.entries().iter();
            self::map(entries.map(|(key, item)| (key.to_string(), value(graph, item, any_order))).collect())
        }
        Value::Node(id) => node(graph, *id),
        Value::Relationship(id) => format!("[{}]", relationship(graph, *id)),
        Value::Path(path) => {
            let mut text = format!("<{}", node(graph, path.nodes[0]));
            for (at, id) in path.relationships.iter().enumerate() {
                let is_forward = graph.ends(*id).0 == path.nodes[at];
                let (left, right) = if is_forward { ("-", "->") } else { ("<-", "-") };
                text += &format!(
                    "{left}[{}]{right}{}",
                    relationship(graph, *id),
                    node(graph, path.nodes[at + 1])
                );
            }
            text + ">"
        }
        scalar => scalar.to_string(),
    }
}

fn node(graph: &MemoryGraph, id: NodeId) -> String {
    let labels = graph.labels_of(id).iter().map(|label| graph.labels()[usize::from(label.0)].to_string());
    let properties = graph.keys_of_node(id).into_iter().map(|key| {
        let name = graph.property_keys()[usize::from(key.0)].to_string();
        (name, value(graph, &graph.node_property(id, key), false))
    });
    entity("(", labels.collect(), properties.collect(), ")")
}

fn relationship(graph: &MemoryGraph, id: RelationshipId) -> String {
    let name = graph.relationship_types()[usize::from(graph.type_of(id).0)].to_string();
    let properties = graph.keys_of_relationship(id).into_iter().map(|key| {
        let name = graph.property_keys()[usize::from(key.0)].to_string();
        (name, value(graph, &graph.relationship_property(id, key), false))
    });
    entity("", vec![name], properties.collect(), "")
}

fn entity(open: &str, mut labels: Vec<String>, properties: Vec<(String, String)>, close: &str) -> String {
    labels.sort();
    let labels: String = labels.iter().map(|label| format!(":{label}")).collect();
    let properties = if properties.is_empty() { String::new() } else { map(properties) };
    let blank = if labels.is_empty() || properties.is_empty() { "" } else { " " };
    format!("{open}{labels}{blank}{properties}{close}")
}

fn map(mut entries: Vec<(String, String)>) -> String {
    entries.sort();
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn list(mut items: Vec<String>, any_order: bool) -> String {
    if any_order {
        items.sort();
    }
    format!("[{}]", items.join(", "))
}

/// Returns the text of a value of a table.
pub(crate) fn expected(cell: &str, any_order: bool) -> String {
    let mut reader = Reader { rest: cell, any_order };
    let text = reader.value();
    assert!(reader.rest.trim().is_empty(), "`{}` is left of the cell `{cell}`", reader.rest);
    text
}

struct Reader<'a> {
    rest: &'a str,
    any_order: bool,
}

impl Reader<'_> {
    fn skip(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.starts_with(sign);
        if found {
            self.rest = &self.rest[sign.len()..];
        }
        found
    }

    fn value(&mut self) -> String {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next().unwrap() {
            '\'' => self.text(),
            '{' => map(self.entries()),
            '(' => self.node(),
            '<' => self.path(),
            '[' if self.rest.starts_with("[:") => {
                self.skip("[");
                let relationship = self.relationship();
                assert!(self.skip("]"));
                format!("[{relationship}]")
            }
            '[' => self.list(),
            _ => {
                let end = self.rest.find([',', ']', '}', ')']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                number(word.trim())
            }
        }
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        let mut characters = self.rest[1..].char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            match (character, characters.peek()) {
                ('\\', Some((_, next @ ('\'' | '\\')))) if self.rest[at + 3..].contains('\'') => {
                    text.push(*next);
                    characters.next();
                }
                ('\'', _) => {
                    self.rest = &self.rest[at + 2..];
                    return Value::string(&text).to_string();
                }
                _ => text.push(character),
            }
        }
        panic!("the text is not closed: {}", self.rest);
    }

    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn entries(&mut self) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        assert!(self.skip("{"));
        while !self.skip("}") {
            let key = self.word();
            assert!(self.skip(":"));
            entries.push((key, self.value()));
            self.skip(",");
        }
        entries
    }

    fn list(&mut self) -> String {
        let mut items = Vec::new();
        assert!(self.skip("["));
        while !self.skip("]") {
            items.push(self.value());
            self.skip(",");
        }
        list(items, self.any_order)
    }

    fn labels(&mut self) -> Vec<String> {
        let mut labels = Vec::new();
        while self.skip(":") {
            labels.push(self.word());
        }
        labels
    }

    fn properties(&mut self) -> Vec<(String, String)> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('{') { self.entries() } else { Vec::new() }
    }

    fn node(&mut self) -> String {
        assert!(self.skip("("));
        let (labels, properties) = (self.labels(), self.properties());
        assert!(self.skip(")"));
        entity("(", labels, properties, ")")
    }

    fn relationship(&mut self) -> String {
        let (labels, properties) = (self.labels(), self.properties());
        entity("", labels, properties, "")
    }

    fn path(&mut self) -> String {
        assert!(self.skip("<"));
        let mut text = format!("<{}", self.node());
        while !self.skip(">") {
            let points_left = self.skip("<");
            assert!(self.skip("-") && self.skip("["));
            let relationship = self.relationship();
            assert!(self.skip("]") && self.skip("-"));
            let points_right = !points_left && self.skip(">");
            let (left, right) = if points_right { ("-", "->") } else { ("<-", "-") };
            text += &format!("{left}[{relationship}]{right}{}", self.node());
        }
        text + ">"
    }
}

/// Returns the text of a number or a word.
fn number(word: &str) -> String {
    match word {
        "null" | "true" | "false" | "NaN" => word.to_owned(),
        "Inf" => Value::from(f64::INFINITY).to_string(),
        "-Inf" => Value::from(f64::NEG_INFINITY).to_string(),
        _ if word.parse::<i64>().is_ok() => word.to_owned(),
        _ => Value::from(word.parse::<f64>().unwrap_or_else(|_| panic!("no value: {word}"))).to_string(),
    }
}
