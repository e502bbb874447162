//! Grammar of JSON texts that fit a schema, which tells byte by byte whether a text can still become one.
//!
//! The texts have one form: `, ` and `: ` between items, keys in the order of the schema, no other white
//! space. Each is bounded: strings and lists by their lengths, and values within values by the schema. So
//! every beginning has a completion, and [`State::completion`] returns it.

mod frame;
mod number;
mod schema;
#[cfg(test)]
mod tests;

pub(crate) use frame::State;
pub(crate) use schema::{SchemaFault, call, format};

/// Index of a node.
pub(crate) type Id = usize;

/// Node of the keys of maps, which is the first of every grammar.
const KEY_OF_MAPS: Id = 0;
/// Maximum number of characters of such a key.
const LONGEST_KEY: usize = 64;

/// Grammar: nodes, of which each names only earlier ones.
#[derive(Debug)]
pub(crate) struct Grammar {
    nodes: Vec<Node>,
    /// A shortest text of each node.
    shortest: Vec<Vec<u8>>,
}

/// Part of a grammar.
#[derive(Debug)]
pub(crate) enum Node {
    /// One of these texts, in order.
    Words(Vec<Vec<u8>>),
    /// One of these beginnings, in order, each with its node and `}` after it.
    Calls(Vec<(Vec<u8>, Id)>),
    /// String of so many characters.
    Text {
        /// Least number of characters.
        least: usize,
        /// Largest number of characters.
        most: usize,
    },
    /// Number.
    Number(number::Range),
    /// Object with these keys.
    Object(Vec<Property>),
    /// Object with any keys, whose values have this node.
    Map {
        /// Node of the values.
        value: Id,
        /// Least number of keys.
        least: usize,
        /// Largest number of keys.
        most: usize,
    },
    /// List whose items have this node.
    List {
        /// Node of the items; `None` if there are none.
        item: Option<Id>,
        /// Least number of items.
        least: usize,
        /// Largest number of items.
        most: usize,
    },
    /// One of these nodes, none of which is of this kind.
    Either(Vec<Id>),
}

/// Key of an object.
#[derive(Debug)]
pub(crate) struct Property {
    /// The key as JSON, with `: ` after it.
    pub(crate) key: Vec<u8>,
    /// Node of the value.
    pub(crate) value: Id,
    /// True if the object must have it.
    pub(crate) required: bool,
}

impl Grammar {
    /// Creates a grammar with the node of the keys of maps.
    pub(crate) fn new() -> Self {
        let mut grammar = Self { nodes: Vec::new(), shortest: Vec::new() };
        grammar.add(Node::Text { least: 0, most: LONGEST_KEY });
        grammar
    }

    /// Adds a node.
    pub(crate) fn add(&mut self, node: Node) -> Id {
        let shortest = self.shortest_of(&node);
        self.nodes.push(node);
        self.shortest.push(shortest);
        self.nodes.len() - 1
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns a shortest text of a node.
    fn shortest(&self, id: Id) -> &[u8] {
        self.shortest.get(id).map_or(&[], Vec::as_slice)
    }

    fn shortest_of(&self, node: &Node) -> Vec<u8> {
        let repeated = |item: &[u8], count: usize, [open, close]: [u8; 2]| {
            let items = vec![item; count].join(b", ".as_slice());
            [&[open][..], &items, &[close]].concat()
        };
        match node {
            Node::Words(words) => words.iter().min_by_key(|word| word.len()).cloned().unwrap_or_default(),
            Node::Calls(calls) => {
                let whole = |(beginning, id): &(Vec<u8>, Id)| [beginning, self.shortest(*id), b"}"].concat();
                calls.iter().map(whole).min_by_key(Vec::len).unwrap_or_default()
            }
            Node::Text { least, .. } => [b"\"".as_slice(), &vec![b'x'; *least], b"\""].concat(),
            Node::Number(range) => range.shortest(),
            Node::Object(properties) => {
                let required = properties.iter().filter(|property| property.required);
                let parts: Vec<Vec<u8>> = required
                    .map(|property| [&property.key, self.shortest(property.value)].concat())
                    .collect();
                [b"{".as_slice(), &parts.join(b", ".as_slice()), b"}"].concat()
            }
            Node::Map { value, least, .. } => {
                let item = [b"\"\": ".as_slice(), self.shortest(*value)].concat();
                repeated(&item, *least, *b"{}")
            }
            Node::List { item, least, .. } => {
                repeated(item.map_or(&[], |item| self.shortest(item)), *least, *b"[]")
            }
            Node::Either(nodes) => {
                let texts = nodes.iter().map(|id| self.shortest(*id));
                texts.min_by_key(|text| text.len()).unwrap_or_default().to_vec()
            }
        }
    }
}
