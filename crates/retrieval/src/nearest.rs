//! Search for the nearest of many vectors. Every vector is compared as bytes, and the best
//! candidates again exactly.
//!
//! The result is exact for up to 5,000 candidates: each vector is stored with the distance of its
//! bytes from it, which bounds the product that it can have. Memory use is one byte for each
//! component and about 30 bytes for each vector, besides the caller's note. The vectors themselves
//! stay with the caller, and are requested by their identifiers.
//!
//! This module knows no model, no texts and no database.

mod rows;

use simd::{Level, Split};

use self::rows::Rows;

/// Number of vectors that are compared exactly at first. Mostly the nearest ten are among them.
const FIRST: usize = 50;
/// Number of exact comparisons after which no further batch begins, even if all vectors are alike.
/// The result is then the nearest of the vectors that are nearest as bytes.
const MOST: usize = 5_000;
/// Maximum error that rounding adds to a product of floats, relative to the lengths of both vectors.
const SLACK: f32 = 2e-5;

/// Vectors in memory with one byte for each component, by their identifiers, each with a note of
/// the caller.
#[derive(Debug)]
pub struct Index<T = ()> {
    dimensions: usize,
    level: Level,
    rows: Rows,
    ids: Vec<i64>,
    notes: Vec<T>,
    /// Places, sorted by their identifiers.
    order: Vec<u32>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

/// A function that returns the exact vector of an identifier and its note, or `None` if the vector
/// is gone.
pub type AsItIs<'a, T, E> = &'a mut dyn FnMut(i64, &T) -> Result<Option<Vec<f32>>, E>;

/// A vector that may be among the nearest: its place, and an upper bound of its product.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    place: u32,
    most: f32,
}

impl<T> Index<T> {
    /// Creates an empty index of vectors with `dimensions` components.
    pub fn new(dimensions: usize) -> Self {
        Self::with_level(dimensions, Level::best())
    }

    /// Creates an empty index that compares with the instructions of `level`.
    pub fn with_level(dimensions: usize, level: Level) -> Self {
        let rows = Rows::new(dimensions);
        Self { dimensions, level, rows, ids: Vec::new(), notes: Vec::new(), order: Vec::new() }
    }

    /// Returns the number of vectors.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if the index has no vectors.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the average product of a vector and all vectors of the index, to the precision of
    /// their bytes. The average is zero if the index is empty.
    pub fn mean(&self, vector: &[f32]) -> f64 {
        self.rows.mean(vector)
    }

    /// Returns the note of an identifier.
    pub fn note(&self, id: i64) -> Option<&T> {
        self.find(id).ok().map(|among| &self.notes[at(self.order[among])])
    }

    /// Adds a vector, or replaces the one with the same identifier. A vector of another length, or
    /// with a component that is not finite, is ignored.
    pub fn add(&mut self, id: i64, note: T, vector: &[f32]) {
        if vector.len() != self.dimensions || !vector.iter().all(|number| number.is_finite()) {
            return;
        }
        let place = match self.find(id) {
            Ok(known) => {
                let place = self.order[known];
                self.notes[at(place)] = note;
                place
            }
            Err(among) => {
                let Ok(next) = u32::try_from(self.ids.len()) else { return };
                self.order.insert(among, next);
                self.ids.push(id);
                self.notes.push(note);
                next
            }
        };
        self.rows.put(at(place), vector);
    }

    /// Keeps only the vectors for whose identifiers `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(i64) -> bool) {
        let before = self.ids.len();
        for place in (0..before).rev() {
            if !keep(self.ids[place]) {
                self.ids.swap_remove(place);
                self.notes.swap_remove(place);
                self.rows.swap_remove(place);
            }
        }
        if self.ids.len() < before {
            self.order = (0_u32..).zip(&self.ids).map(|(place, _)| place).collect();
            self.order.sort_unstable_by_key(|place| self.ids[at(*place)]);
        }
    }

    /// Finds the position of an identifier in `order`, or the position where it would be inserted.
    fn find(&self, id: i64) -> Result<usize, usize> {
        self.order.binary_search_by_key(&id, |place| self.ids[at(*place)])
    }

    /// Returns the identifiers and products of the `most` nearest vectors to `vector`, the nearest
    /// first. For vectors of length 1 a product is the cosine. `filter` selects the vectors that
    /// count, and `row` returns an exact vector; both are called for few vectors only. Vectors that
    /// `row` no longer has are skipped.
    ///
    /// # Errors
    /// Returns the first error of `filter` or `row`.
    pub fn search<E>(
        &self,
        vector: &[f32],
        most: usize,
        filter: &mut dyn FnMut(i64, &T) -> Result<bool, E>,
        row: AsItIs<'_, T, E>,
    ) -> Result<Vec<(i64, f32)>, E> {
        if vector.len() != self.dimensions || most == 0 || !vector.iter().all(|number| number.is_finite()) {
            return Ok(Vec::new());
        }
        let mut rest = self.candidates(vector);
        let mut found: Vec<(i64, f32)> = Vec::new();
        let mut compared = 0;
        let mut next = FIRST.max(most * 2);
        while !rest.is_empty() && (compared < MOST || found.len() < most) {
            // Take the next candidates in their order. First drop those that can no longer be among
            // the nearest.
            if let Some(least) = least_of(&found, most) {
                rest.retain(|candidate| candidate.most >= least);
            }
            next = next.min(rest.len());
            if next < rest.len() {
                rest.select_nth_unstable_by(next, |one, other| other.most.total_cmp(&one.most));
            }
            let mut some: Vec<Candidate> = rest.drain(..next).collect();
            some.sort_unstable_by(|one, other| other.most.total_cmp(&one.most));
            for candidate in some {
                if least_of(&found, most).is_some_and(|least| candidate.most < least) {
                    rest.clear();
                    break;
                }
                let (id, note) = (self.ids[at(candidate.place)], &self.notes[at(candidate.place)]);
                if filter(id, note)?
                    && let Some(exact) = row(id, note)?
                    && exact.len() == self.dimensions
                {
                    compared += 1;
                    keep(&mut found, most, id, simd::dot(self.level, vector, &exact));
                }
            }
            next = FIRST.max(next * 2);
        }
        Ok(found)
    }

    /// Returns all vectors as candidates, each with an upper bound of its product.
    fn candidates(&self, vector: &[f32]) -> Vec<Candidate> {
        let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
        let scale = largest / 16_128.0;
        #[expect(clippy::cast_possible_truncation, reason = "at most 16,128 by the scale")]
        let numbers: Vec<i16> = vector.iter().map(|number| (number / scale).round() as i16).collect();
        let length = simd::dot(self.level, vector, vector).sqrt();
        let cut_off = |(number, whole): (&f32, &i16)| (number - f32::from(*whole) * scale).powi(2);
        let left = vector.iter().zip(&numbers).map(cut_off).sum::<f32>().sqrt();
        // The cut-off part of the query and rounding add at most as much for any row as for the longest.
        let always = self.rows.longest * (2.0 * left + SLACK * length);
        let query = Split::new(&numbers);
        let mut all = Vec::with_capacity(self.len());
        self.rows.each(self.level, &query, |place, product, row| {
            all.push(Candidate { place, most: product * scale * row.scale + row.error * length + always });
        });
        all
    }
}

/// Converts a place to an index.
fn at(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Returns the product of the last result, if there are `most` results.
fn least_of(found: &[(i64, f32)], most: usize) -> Option<f32> {
    found.get(most - 1).map(|(_, product)| *product)
}

/// Keeps the best `most`, the nearest first, and equal ones in the order of their identifiers.
fn keep(found: &mut Vec<(i64, f32)>, most: usize, id: i64, product: f32) {
    let before = |other: &(i64, f32)| other.1.total_cmp(&product).reverse().then(other.0.cmp(&id)).is_lt();
    let place = found.partition_point(before);
    found.insert(place, (id, product));
    found.truncate(most);
}
