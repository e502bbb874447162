//! The nearest of many vectors: every one is compared as bytes, and those that may be among the nearest again as they are.
//!
//! What is found is exact, and nothing is approximated: with each vector lies how far its bytes are from it, so that it is known which
//! ones can still be nearer than those that were compared as they are. In memory is one byte for each number, and some 30 for each vector beside its keeper's note;
//! the vectors themselves stay where they are kept, and are asked for by their ids.
//!
//! It knows no model, no texts and no database.

mod rows;

use simd::{Level, Split};

use crate::rows::Rows;

/// So many are compared as they are at first: mostly the nearest ten are among them.
const FIRST: usize = 50;
/// So many at most, however alike all are: then what was found is the nearest of those that are nearest as bytes.
const MOST: usize = 5_000;
/// What rounding adds to a product of floats, at most.
const SLACK: f32 = 2e-5;

/// Vectors in memory as one byte a number, by their ids, each with what its keeper wants to know of it.
#[derive(Debug)]
pub struct Index<T = ()> {
    dimensions: usize,
    level: Level,
    rows: Rows,
    ids: Vec<i64>,
    notes: Vec<T>,
    /// The places by their ids.
    order: Vec<u32>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Gives the vector of an id and its note, as it is; none where it is gone.
pub type AsItIs<'a, T, E> = &'a mut dyn FnMut(i64, &T) -> Result<Option<Vec<f32>>, E>;

/// One that may be among the nearest: its place, and the most that its product can be.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    place: u32,
    most: f32,
}

impl<T> Index<T> {
    /// None yet, of this many numbers each.
    pub fn new(dimensions: usize) -> Self {
        Self::with_level(dimensions, Level::best())
    }

    /// None yet, compared by these instructions.
    pub fn with_level(dimensions: usize, level: Level) -> Self {
        let rows = Rows::new(dimensions);
        Self { dimensions, level, rows, ids: Vec::new(), notes: Vec::new(), order: Vec::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Gives the average product of a vector and all that are here, to the precision of their bytes; zero where there are none.
    pub fn mean(&self, vector: &[f32]) -> f64 {
        self.rows.mean(vector)
    }

    /// The note of this id.
    pub fn note(&self, id: i64) -> Option<&T> {
        self.find(id).ok().map(|among| &self.notes[at(self.order[among])])
    }

    /// Takes a vector in, in place of the one of this id. One of another length, or with what is no number in it, is left out.
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

    /// Keeps those of these ids alone.
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

    /// Where the place of an id lies in the order, or would lie.
    fn find(&self, id: i64) -> Result<usize, usize> {
        self.order.binary_search_by_key(&id, |place| self.ids[at(*place)])
    }

    /// The ids and products of the `most` nearest to `vector`, the nearest first; for vectors of the length one a product is the cosine.
    /// `filter` says which count, and `row` gives a vector as it is; both are asked about a few alone. What `row` no longer has is
    /// passed over.
    ///
    /// # Errors
    /// The first of `filter` or `row`.
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
            // The next ones in their order; those that cannot be among the nearest any more are let go first.
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

    /// All of them, each with the most that its product can be.
    fn candidates(&self, vector: &[f32]) -> Vec<Candidate> {
        let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
        let scale = largest / 16_128.0;
        #[expect(clippy::cast_possible_truncation, reason = "at most 16,128 by the scale")]
        let numbers: Vec<i16> = vector.iter().map(|number| (number / scale).round() as i16).collect();
        let length = simd::dot(self.level, vector, vector).sqrt();
        let cut_off = |(number, whole): (&f32, &i16)| (number - f32::from(*whole) * scale).powi(2);
        let left = vector.iter().zip(&numbers).map(cut_off).sum::<f32>().sqrt();
        // What was cut off the query, and what rounding adds, counts for no row more than for the longest.
        let always = self.rows.longest * (2.0 * left + SLACK * length);
        let query = Split::new(&numbers);
        let mut all = Vec::with_capacity(self.len());
        self.rows.each(self.level, &query, |place, product, row| {
            all.push(Candidate { place, most: product * scale * row.scale + row.error * length + always });
        });
        all
    }
}

/// A place as it is counted.
fn at(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The product of the last one, where there are as many as are wanted.
fn least_of(found: &[(i64, f32)], most: usize) -> Option<f32> {
    found.get(most - 1).map(|(_, product)| *product)
}

/// Keeps the best `most`, the nearest first and among equals that of the lowest id.
fn keep(found: &mut Vec<(i64, f32)>, most: usize, id: i64, product: f32) {
    let before = |other: &(i64, f32)| other.1.total_cmp(&product).reverse().then(other.0.cmp(&id)).is_lt();
    let place = found.partition_point(before);
    found.insert(place, (id, product));
    found.truncate(most);
}
