//! Search for the nearest of many vectors. Every vector is compared as bytes, and the best
//! candidates again exactly.
//!
//! The result is exact for up to 5,000 candidates: each vector is stored with the distance of its
//! bytes from it, which bounds the product that it can have. Memory use is one byte for each
//! component and about 40 bytes for each vector, besides the caller's note. The vectors themselves
//! stay with the caller, and are requested by their identifiers.
//!
//! This module knows no model, no texts and no database.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Number of exact comparisons after which the search ends, even if all vectors are alike. The
/// result is then the nearest of the vectors that are nearest as bytes.
const MOST: usize = 5_000;
/// Maximum error that rounding adds to a product of floats, relative to the lengths of both vectors.
const SLACK: f32 = 2e-5;
/// Largest number of a query. Products of it and of bytes, 1,000 of them, fit into 32 bits.
const LARGEST: f32 = 16_128.0;

/// Vectors in memory with one byte for each component, by their identifiers, each with a note of
/// the caller.
#[derive(Debug)]
pub struct Index<T = ()> {
    dimensions: usize,
    /// Bytes of all rows, one row after the other.
    bytes: Vec<i8>,
    rows: Vec<Row<T>>,
    places: HashMap<i64, usize>,
    /// Length of the longest vector ever added.
    longest: f32,
}

#[derive(Debug)]
struct Row<T> {
    id: i64,
    /// Value of one step of a byte.
    scale: f32,
    /// Length of the difference between the vector and its bytes.
    error: f32,
    note: T,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

/// A function that returns the exact vector of an identifier and its note, or `None` if the vector
/// is gone.
pub type AsItIs<'a, T, E> = &'a mut dyn FnMut(i64, &T) -> Result<Option<Vec<f32>>, E>;

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nearest {
    /// Identifiers and products of the nearest vectors, the nearest first.
    pub found: Vec<(i64, f32)>,
    /// Average product of the query and all vectors, to the precision of their bytes.
    pub mean: f64,
}

/// A vector that may be among the nearest: its place, and an upper bound of its product.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    place: usize,
    most: f32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.most.total_cmp(&other.most)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

impl<T> Index<T> {
    /// Creates an empty index of vectors with `dimensions` components.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, bytes: Vec::new(), rows: Vec::new(), places: HashMap::new(), longest: 0.0 }
    }

    /// Returns the number of vectors.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if the index has no vectors.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the note of an identifier.
    pub fn note(&self, id: i64) -> Option<&T> {
        self.places.get(&id).map(|place| &self.rows[*place].note)
    }

    /// Adds a vector, or replaces the one with the same identifier. A vector of another length, or
    /// with a component that is not finite, is ignored.
    pub fn add(&mut self, id: i64, note: T, vector: &[f32]) {
        if !self.is_usable(vector) {
            return;
        }
        let scale = largest(vector) / 127.0;
        #[expect(clippy::cast_possible_truncation, reason = "at most 127 by the scale")]
        let bytes = vector.iter().map(|number| (number / scale).round() as i8);
        let place = *self.places.entry(id).or_insert(self.rows.len());
        let at = place * self.dimensions;
        self.bytes.splice(at..self.bytes.len().min(at + self.dimensions), bytes);
        let stored = self.bytes[at..].iter().map(|byte| f32::from(*byte) * scale);
        let row =
            Row { id, scale, error: length(vector.iter().zip(stored).map(|(one, other)| one - other)), note };
        self.longest = self.longest.max(length(vector.iter().copied()));
        match self.rows.get_mut(place) {
            Some(known) => *known = row,
            None => self.rows.push(row),
        }
    }

    /// Keeps only the vectors for whose identifiers `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(i64) -> bool) {
        for place in
            (0..self.rows.len()).rev().filter(|place| !keep(self.rows[*place].id)).collect::<Vec<_>>()
        {
            self.places.remove(&self.rows.swap_remove(place).id);
            let last = self.rows.len() * self.dimensions;
            self.bytes.copy_within(last.., place * self.dimensions);
            self.bytes.truncate(last);
            if let Some(moved) = self.rows.get(place) {
                self.places.insert(moved.id, place);
            }
        }
    }

    /// Returns the `most` nearest vectors to `vector`. For vectors of length 1 a product is the
    /// cosine. `filter` selects the vectors that count, and `row` returns an exact vector; both are
    /// called for few vectors only. Vectors that `row` no longer has are skipped.
    ///
    /// # Errors
    /// Returns the first error of `filter` or `row`.
    pub fn search<E>(
        &self,
        vector: &[f32],
        most: usize,
        filter: &mut dyn FnMut(i64, &T) -> Result<bool, E>,
        row: AsItIs<'_, T, E>,
    ) -> Result<Nearest, E> {
        if most == 0 || !self.is_usable(vector) {
            return Ok(Nearest::default());
        }
        let (mut candidates, mean) = self.candidates(vector);
        let mut found: Vec<(i64, f32)> = Vec::new();
        let mut compared = 0;
        while let Some(candidate) = candidates.pop() {
            let least = found.get(most - 1).map(|(_, product)| *product);
            if least.is_some_and(|least| candidate.most < least || compared >= MOST) {
                break;
            }
            let Row { id, note, .. } = &self.rows[candidate.place];
            if filter(*id, note)?
                && let Some(exact) = row(*id, note)?
                && exact.len() == self.dimensions
            {
                compared += 1;
                keep(&mut found, most, *id, dot(vector, &exact));
            }
        }
        Ok(Nearest { found, mean })
    }

    /// Returns all vectors as candidates, each with an upper bound of its product, and the average
    /// product.
    fn candidates(&self, vector: &[f32]) -> (BinaryHeap<Candidate>, f64) {
        #[expect(clippy::cast_precision_loss, reason = "a bound that need not be exact")]
        let scale = largest(vector) / (LARGEST * (1_000.0 / self.dimensions as f32).min(1.0));
        #[expect(clippy::cast_possible_truncation, reason = "at most the largest number by the scale")]
        let query: Vec<i16> = vector.iter().map(|number| (number / scale).round() as i16).collect();
        let length_of_query = length(vector.iter().copied());
        let cut_off =
            length(vector.iter().zip(&query).map(|(number, whole)| number - f32::from(*whole) * scale));
        // The cut-off part of the query and rounding add at most as much for any row as for the longest.
        let always = self.longest * (2.0 * cut_off + SLACK * length_of_query);
        let mut sum = 0.0;
        let all = (0..).zip(self.bytes.chunks_exact(self.dimensions)).zip(&self.rows).map(
            |((place, bytes), row)| {
                let product = dot_of_bytes(&query, bytes);
                #[expect(clippy::cast_precision_loss, reason = "24 bits are more than the rows have")]
                let product = product as f32 * scale * row.scale;
                sum += f64::from(product);
                Candidate { place, most: product + row.error * length_of_query + always }
            },
        );
        let all: Vec<Candidate> = all.collect();
        #[expect(clippy::cast_precision_loss, reason = "an average")]
        let mean = sum / all.len().max(1) as f64;
        (BinaryHeap::from(all), mean)
    }

    fn is_usable(&self, vector: &[f32]) -> bool {
        vector.len() == self.dimensions
            && !vector.is_empty()
            && vector.iter().all(|number| number.is_finite())
    }
}

/// Returns the largest magnitude of a vector's components, and never zero.
fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()))
}

/// Returns the length of a vector, rounded up.
fn length(numbers: impl Iterator<Item = f32>) -> f32 {
    let square: f64 = numbers.map(|number| f64::from(number).powi(2)).sum();
    #[expect(clippy::cast_possible_truncation, reason = "what is cut off is added again")]
    let near = square.sqrt() as f32;
    near * (1.0 + 2.0 * f32::EPSILON)
}

/// Returns the product of a query and the bytes of a row. The sum cannot overflow, and an addition
/// that need not check this is made for many numbers at once.
fn dot_of_bytes(query: &[i16], bytes: &[i8]) -> i32 {
    let pairs = query.iter().zip(bytes);
    pairs.fold(0, |sum, (one, other)| sum.wrapping_add(i32::from(*one).wrapping_mul(i32::from(*other))))
}

/// Returns the product of two vectors of floats, in several sums that the processor adds at once.
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (one, ends) = one.as_chunks::<16>();
    let (other, other_ends) = other.as_chunks::<16>();
    let mut sums = [0.0_f32; 16];
    for (one, other) in one.iter().zip(other) {
        for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
            *sum += one * other;
        }
    }
    let rest: f32 = ends.iter().zip(other_ends).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}

/// Keeps the best `most`, the nearest first, and equal ones in the order of their identifiers.
fn keep(found: &mut Vec<(i64, f32)>, most: usize, id: i64, product: f32) {
    let before = |other: &(i64, f32)| other.1.total_cmp(&product).reverse().then(other.0.cmp(&id)).is_lt();
    let place = found.partition_point(before);
    found.insert(place, (id, product));
    found.truncate(most);
}
