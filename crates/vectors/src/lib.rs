//! The nearest of many vectors: every one compared as bytes, the best again as they are.

use std::collections::HashMap;

/// Vectors in memory as one byte a number, by their ids.
#[derive(Debug, Default)]
pub struct Index {
    dimensions: usize,
    bytes: Vec<i8>,
    scales: Vec<f32>,
    ids: Vec<i64>,
    places: HashMap<i64, usize>,
}

impl Index {
    /// None yet, of this many numbers each.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Takes a vector in, in place of the one of this id. One of another length is left out.
    pub fn add(&mut self, id: i64, vector: &[f32]) {
        if vector.len() != self.dimensions {
            return;
        }
        self.remove(id);
        let (bytes, scale) = small(vector);
        self.places.insert(id, self.ids.len());
        self.ids.push(id);
        self.scales.push(scale);
        self.bytes.extend(bytes);
    }

    /// Takes a vector out.
    pub fn remove(&mut self, id: i64) {
        let Some(place) = self.places.remove(&id) else { return };
        let last = self.ids.len() - 1;
        if place != last
            && let Some(moved) = self.ids.last().copied()
        {
            let from = last * self.dimensions;
            self.bytes.copy_within(from..from + self.dimensions, place * self.dimensions);
            self.scales.swap(place, last);
            self.ids.swap(place, last);
            self.places.insert(moved, place);
        }
        self.ids.pop();
        self.scales.pop();
        self.bytes.truncate(last * self.dimensions);
    }

    /// The ids and cosines of those nearest to a vector of the length one, the nearest first. `filter` says which count, and `row` gives a
    /// vector as it is.
    pub fn search<E>(
        &self,
        vector: &[f32],
        most: usize,
        filter: &mut dyn FnMut(i64) -> Result<bool, E>,
        row: &mut dyn FnMut(i64) -> Result<Option<Vec<f32>>, E>,
    ) -> Result<Vec<(i64, f32)>, E> {
        if vector.len() != self.dimensions || self.dimensions == 0 {
            return Ok(Vec::new());
        }
        let (query, _) = small(vector);
        let rows = self.bytes.chunks_exact(self.dimensions).zip(&self.scales).zip(&self.ids);
        let mut all: Vec<(f32, i64)> = rows
            .map(|((bytes, scale), id)| {
                let sum: i32 =
                    bytes.iter().zip(&query).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
                #[expect(clippy::cast_precision_loss, reason = "an estimate, made exact below")]
                (sum as f32 * scale, *id)
            })
            .collect();
        let wanted = most.saturating_mul(2).min(all.len());
        let mut from = 0;
        let mut found: Vec<(i64, f32)> = Vec::new();
        // The best so far, and as many again while the filter takes too many away.
        while from < all.len() && found.len() < wanted {
            let some = (from + wanted * 2).min(all.len());
            if some < all.len() {
                all[from..].select_nth_unstable_by(some - from - 1, |one, other| other.0.total_cmp(&one.0));
            }
            for (_, id) in &all[from..some] {
                if filter(*id)?
                    && let Some(exact) = row(*id)?
                {
                    found.push((*id, exact.iter().zip(vector).map(|(one, other)| one * other).sum()));
                }
            }
            from = some;
        }
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found.truncate(most);
        Ok(found)
    }
}

/// A vector as bytes, and what one of them stands for.
fn small(vector: &[f32]) -> (Vec<i8>, f32) {
    let largest =
        vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs())).max(f32::MIN_POSITIVE);
    let scale = largest / 127.0;
    #[expect(clippy::cast_possible_truncation, reason = "at most 127 by the scale")]
    let bytes = vector.iter().map(|number| (number / scale).round() as i8).collect();
    (bytes, scale)
}
