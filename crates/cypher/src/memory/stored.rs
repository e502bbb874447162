//! A graph as bytes, in a form that opens without building anything: arrays of numbers in the order of the fields.
//!
//! The bytes may be damaged or forged. Every number that names something is compared with what there is, and every
//! length with the bytes that are left, so that opening fails and neither a query nor the memory does.

mod reader;
mod values;
mod writer;

use std::sync::Arc;

use super::MemoryGraph;
use super::adjacency::Adjacency;
use super::assembly::Parts;
use super::column::{Column, Columns, Rows};
use super::index::{Index, short_hash};
use crate::graph::{LabelId, NodeId, TypeId};
use crate::value::Value;
use reader::Reader;
use writer::Writer;

/// The first bytes, and the version of this form. It must change with every change of the form.
const MAGIC: [u8; 8] = *b"graph\0\0\x01";

impl MemoryGraph {
    /// Returns the graph as bytes, for [`MemoryGraph::from_bytes`] of a program that was built from the same
    /// sources. The bytes have no checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC.to_vec());
        writer.number(probe());
        for names in [&self.labels, &self.types, &self.keys, &self.texts] {
            writer.texts(names);
        }
        writer.count(self.label_sets.len());
        for set in &self.label_sets {
            writer.numbers(set.iter().map(|label| u32::from(label.0)));
        }
        writer.numbers(self.label_set_of.iter().copied());
        writer.numbers(self.outgoing.offsets().iter().copied());
        writer.numbers(self.outgoing.all().iter().map(|link| link.neighbour.0));
        writer.shorts(self.outgoing.types().iter().map(|found| found.0));
        for columns in [&self.node_columns, &self.relationship_columns] {
            writer.count(columns.0.len());
            for column in &columns.0 {
                writer.words(column.rows.bits());
                writer.values(&column.values);
            }
        }
        writer.count(self.indexes.len());
        for index in &self.indexes {
            writer.number(u32::from(index.is_some()));
            let entries = index.as_ref().map(Index::entries).unwrap_or_default();
            writer.numbers(entries.iter().map(|entry| entry.0));
            writer.numbers(entries.iter().map(|entry| entry.1.0));
        }
        writer.into_bytes()
    }

    /// Opens a graph from bytes. Returns `None` for bytes of another version and for damaged ones.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(&MAGIC)?);
        if reader.number()? != probe() {
            return None;
        }
        let (labels, types) = (reader.texts()?, reader.texts()?);
        let (keys, texts) = (reader.texts()?, reader.texts()?);
        let mut label_sets = Vec::new();
        for _ in 0..reader.count()? {
            label_sets.push(label_set(&reader.numbers()?, labels.len())?);
        }
        let label_set_of = reader.numbers()?;
        let nodes = label_set_of.len();
        if label_set_of.iter().any(|set| *set as usize >= label_sets.len()) {
            return None;
        }
        let (offsets, ends) = (reader.numbers()?, reader.numbers()?);
        if offsets.len() != nodes + 1 {
            return None;
        }
        let kinds = reader.shorts()?.into_iter().map(TypeId).collect();
        let outgoing = Adjacency::checked(offsets, &ends, kinds, types.len())?;
        let node_columns = columns(&mut reader, keys.len(), nodes, &texts)?;
        let relationship_columns = columns(&mut reader, keys.len(), ends.len(), &texts)?;
        let count = reader.count()?;
        if count != keys.len() {
            return None;
        }
        let mut indexes = Vec::new();
        for _ in 0..count {
            let has_index = reader.number()? == 1;
            let found = index(&mut reader, nodes)?;
            if !has_index && !found.entries().is_empty() {
                return None;
            }
            indexes.push(has_index.then_some(found));
        }
        if !reader.is_at_end() {
            return None;
        }
        let parts = Parts {
            labels,
            types,
            keys,
            label_sets,
            label_set_of,
            outgoing,
            texts,
            node_columns,
            relationship_columns,
            indexes,
        };
        Some(parts.assemble())
    }
}

/// Returns a number that differs between programs whose indexes have other hashes.
fn probe() -> u32 {
    let values = [Value::from("a text that is longer than a word"), Value::from(7), Value::from(0.5)];
    values.iter().fold(0, |all, value| all ^ short_hash(value))
}

fn label_set(numbers: &[u32], labels: usize) -> Option<Vec<LabelId>> {
    let is_ascending = numbers.windows(2).all(|pair| matches!(pair, [one, two] if one < two));
    let known = |number: &u32| u16::try_from(*number).ok().filter(|number| usize::from(*number) < labels);
    if !is_ascending {
        return None;
    }
    numbers.iter().map(|number| known(number).map(LabelId)).collect()
}

/// Reads the columns of a number of rows.
fn columns(reader: &mut Reader<'_>, keys: usize, rows: usize, texts: &[Arc<str>]) -> Option<Columns> {
    let count = reader.count()?;
    if count > keys {
        return None;
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let bits = reader.words()?;
        let spare = (!rows.is_multiple_of(64)).then(|| u64::MAX << (rows % 64));
        let has_spare = bits.len() == rows.div_ceil(64)
            && spare.is_some_and(|spare| bits.last().is_some_and(|last| last & spare != 0));
        if bits.len() > rows.div_ceil(64) || has_spare {
            return None;
        }
        let rows = Rows::of_bits(bits);
        let values = reader.values(texts)?;
        if values.count() != rows.count() {
            return None;
        }
        columns.push(Column { rows, values });
    }
    Some(Columns(columns))
}

/// Reads the index of a key; that of a key without one is empty.
fn index(reader: &mut Reader<'_>, nodes: usize) -> Option<Index> {
    let (hashes, numbers) = (reader.numbers()?, reader.numbers()?);
    if hashes.len() != numbers.len() || numbers.iter().any(|node| *node as usize >= nodes) {
        return None;
    }
    let entries: Vec<(u32, NodeId)> = hashes.into_iter().zip(numbers.into_iter().map(NodeId)).collect();
    entries.is_sorted().then(|| Index::of_entries(entries))
}
