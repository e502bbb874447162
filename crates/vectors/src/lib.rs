//! The nearest of many vectors, found exactly: each is held as one byte a number with a bound on what that leaves out, all of them are
//! gone through, and whatever may be among the nearest is compared again as it is.
//!
//! There is no structure to build, to keep or to repair: a vector is there from when it is added, and gone when it is removed. It
//! takes some 420 bytes for one of 384 numbers; the vectors themselves stay where they are, and are asked for.

mod scan;
mod small;

use std::collections::HashMap;

use scan::{Nearest, bounds};
use small::{Query, Small};

/// Rows that lie in memory one behind the other, so that growing never copies what is there.
const BLOCK: usize = 1024;

/// The most vectors that are compared as they are for one search. Only where more than these lie within what bytes leave out of each
/// other, as thousands of copies do, a search may take one of them for another.
const MOST_COMPARED: usize = 1_000;

/// Vectors in memory, by their ids.
#[derive(Debug, Default)]
pub struct Index {
    dimensions: usize,
    blocks: Vec<Vec<i8>>,
    /// What one unit of a row stands for, and the length of what its bytes leave out.
    scales: Vec<Scale>,
    ids: Vec<i64>,
    places: HashMap<i64, u32>,
}

#[derive(Debug, Clone, Copy)]
struct Scale {
    unit: f32,
    left_out: f32,
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

    /// Whether there is one of this id.
    pub fn contains(&self, id: i64) -> bool {
        self.places.contains_key(&id)
    }

    /// Takes a vector of the length one in, in place of the one of this id. Whether it has been: one of fewer or more numbers, or with
    /// one that is none, is left out.
    pub fn add(&mut self, id: i64, vector: &[f32]) -> bool {
        self.remove(id);
        let is_one = vector.len() == self.dimensions && vector.iter().all(|number| number.is_finite());
        let Some(place) = u32::try_from(self.ids.len()).ok().filter(|_| is_one) else { return false };
        let Small { bytes, unit, left_out } = Small::of(vector);
        if self.ids.len().is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK * self.dimensions));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.extend(bytes);
        }
        self.scales.push(Scale { unit, left_out });
        self.ids.push(id);
        self.places.insert(id, place);
        true
    }

    /// Takes a vector out, and puts the last one in its place.
    pub fn remove(&mut self, id: i64) {
        let Some(place) = self.places.remove(&id) else { return };
        let (at, dimensions) = (place as usize, self.dimensions);
        self.ids.swap_remove(at);
        self.scales.swap_remove(at);
        let Some(last) = self.blocks.last_mut() else { return };
        let row = last.split_off(last.len() - dimensions);
        if last.is_empty() {
            self.blocks.pop();
        }
        // The last one lies here now, unless it was the one.
        if let Some(moved) = self.ids.get(at) {
            let start = at % BLOCK * dimensions;
            self.blocks[at / BLOCK][start..start + dimensions].copy_from_slice(&row);
            self.places.insert(*moved, place);
        }
    }

    /// The ids of those nearest to a vector of the length one, with their cosines, the nearest first; of two that are as near, the
    /// smaller id. `filter` says which count, and `row` gives a vector as it is; one that it does not give does not count.
    ///
    /// # Errors
    /// Those of `filter` and `row`.
    pub fn search<E>(
        &self,
        vector: &[f32],
        most: usize,
        filter: &mut dyn FnMut(i64) -> Result<bool, E>,
        row: &mut dyn FnMut(i64) -> Result<Option<Vec<f32>>, E>,
    ) -> Result<Vec<(i64, f32)>, E> {
        let is_one = vector.len() == self.dimensions && vector.iter().all(|number| number.is_finite());
        if !is_one || most == 0 || self.is_empty() {
            return Ok(Vec::new());
        }
        let bounds = bounds(&self.blocks, &self.scales, &Query::of(vector));
        let mut nearest = Nearest::new(most);
        let mut compared = 0;
        for place in scan::best_first(&bounds, most) {
            if compared >= MOST_COMPARED.max(2 * most) && nearest.is_full()
                || nearest.is_beyond(bounds[place])
            {
                break;
            }
            let id = self.ids[place];
            if !filter(id)? {
                continue;
            }
            if let Some(exact) = row(id)?.filter(|exact| exact.len() == vector.len()) {
                compared += 1;
                nearest.add(id, exact.iter().zip(vector).map(|(one, other)| one * other).sum());
            }
        }
        Ok(nearest.into_sorted())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn unit(numbers: &[f32]) -> Vec<f32> {
        let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
        numbers.iter().map(|number| if length > 0.0 { number / length } else { 0.0 }).collect()
    }

    /// Searches, and counts how many vectors were compared as they are.
    fn search(
        index: &Index,
        rows: &BTreeMap<i64, Vec<f32>>,
        vector: &[f32],
        most: usize,
        lets: impl Fn(i64) -> bool,
    ) -> (Vec<(i64, f32)>, usize) {
        let mut compared = 0;
        let found = index.search::<Infallible>(vector, most, &mut |id| Ok(lets(id)), &mut |id| {
            compared += 1;
            Ok(rows.get(&id).cloned())
        });
        let Ok(found) = found;
        (found, compared)
    }

    fn exactly(
        rows: &BTreeMap<i64, Vec<f32>>,
        vector: &[f32],
        most: usize,
        lets: impl Fn(i64) -> bool,
    ) -> Vec<(i64, f32)> {
        let cosine = |row: &Vec<f32>| row.iter().zip(vector).map(|(one, other)| one * other).sum::<f32>();
        let mut all: Vec<(i64, f32)> =
            rows.iter().filter(|(id, _)| lets(**id)).map(|(id, row)| (*id, cosine(row))).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        all.truncate(most);
        all
    }

    const NUMBERS: usize = 24;

    fn vector() -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(-1.0_f32..1.0, NUMBERS).prop_map(|numbers| unit(&numbers))
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_comparing_all_finds(
            changes in proptest::collection::vec((0..60_i64, proptest::option::weighted(0.8, vector())), 1..150),
            looked_for in vector(),
            most in 1..12_usize,
            left_out in 0..7_i64,
        ) {
            let (mut index, mut rows) = (Index::new(NUMBERS), BTreeMap::new());
            for (id, vector) in changes {
                if let Some(vector) = vector {
                    prop_assert!(index.add(id, &vector));
                    rows.insert(id, vector);
                } else {
                    index.remove(id);
                    rows.remove(&id);
                }
                prop_assert_eq!(index.len(), rows.len());
                prop_assert_eq!(index.contains(id), rows.contains_key(&id));
            }
            let lets = |id: i64| id % 7 != left_out;
            let (found, _) = search(&index, &rows, &looked_for, most, lets);
            prop_assert_eq!(found, exactly(&rows, &looked_for, most, lets));
        }
    }

    /// Numbers that look like chance, the same each time.
    fn scattered(seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f32::from((state >> 48) as u16) / f32::from(u16::MAX) - 0.5
        };
        (0..384).map(|_| next()).collect()
    }

    #[test]
    fn of_many_only_those_that_may_be_among_the_nearest_are_compared_as_they_are() {
        let mut index = Index::new(384);
        let centre = unit(&scattered(1));
        let rows: BTreeMap<i64, Vec<f32>> = (0..3_000)
            .map(|id| {
                let mixed: Vec<f32> = centre
                    .iter()
                    .zip(unit(&scattered(u64::try_from(id).unwrap() + 2)))
                    .map(|(one, other)| one + other)
                    .collect();
                (id, unit(&mixed))
            })
            .collect();
        rows.iter().for_each(|(id, row)| assert!(index.add(*id, row)));
        let (found, compared) = search(&index, &rows, &centre, 10, |_| true);
        assert_eq!(found, exactly(&rows, &centre, 10, |_| true));
        assert!((10..600).contains(&compared), "{compared}");
        // More than a block, and the last one moves into each place that is left.
        for id in 0..2_990 {
            index.remove(id);
        }
        let left: BTreeMap<i64, Vec<f32>> = rows.range(2_990..).map(|(id, row)| (*id, row.clone())).collect();
        let (found, _) = search(&index, &left, &centre, 10, |_| true);
        assert_eq!(found, exactly(&left, &centre, 10, |_| true));
    }

    #[test]
    fn thousands_of_copies_are_not_all_compared() {
        let mut index = Index::new(NUMBERS);
        let same = unit(&[1.0; NUMBERS]);
        let rows: BTreeMap<i64, Vec<f32>> = (0..5_000).map(|id| (id, same.clone())).collect();
        rows.iter().for_each(|(id, row)| assert!(index.add(*id, row)));
        let (found, compared) = search(&index, &rows, &same, 3, |_| true);
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(compared <= MOST_COMPARED, "{compared}");
        // Where few count, all of them are found however many do not.
        let (found, _) = search(&index, &rows, &same, 3, |id| id >= 4_998);
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [4_998, 4_999]);
    }

    #[test]
    fn what_is_no_vector_of_the_index_is_neither_taken_in_nor_looked_for() {
        let mut index = Index::new(2);
        for odd in [&[1.0][..], &[1.0, 0.0, 0.0], &[f32::NAN, 0.0], &[f32::INFINITY, 0.0]] {
            assert!(!index.add(1, odd), "{odd:?}");
            assert!(index.is_empty());
        }
        assert!(index.add(1, &[0.6, 0.8]) && index.add(2, &[0.0, 0.0]));
        let rows = BTreeMap::from([(1, vec![0.6, 0.8]), (2, vec![0.0, 0.0])]);
        for odd in [&[1.0][..], &[f32::NAN, 0.0]] {
            assert_eq!(search(&index, &rows, odd, 5, |_| true).0, []);
        }
        assert_eq!(search(&index, &rows, &[1.0, 0.0], 5, |_| true).0, [(1, 0.6), (2, 0.0)]);
        assert_eq!(search(&index, &rows, &[1.0, 0.0], 0, |_| true).0, []);
        // What lies nowhere any more is not found.
        assert_eq!(
            search(&index, &BTreeMap::from([(2, vec![0.0, 0.0])]), &[1.0, 0.0], 5, |_| true).0,
            [(2, 0.0)]
        );
        // One that takes the place of another, with what is no vector: the old one is not what its id stands for any more.
        assert!(!index.add(1, &[1.0]));
        assert!(!index.contains(1));
    }

    #[test]
    fn an_error_of_who_is_asked_ends_the_search() {
        let mut index = Index::new(1);
        index.add(1, &[1.0]);
        assert_eq!(index.search(&[1.0], 1, &mut |_| Err("closed"), &mut |_| Ok(None)), Err("closed"));
        assert_eq!(index.search(&[1.0], 1, &mut |_| Ok(true), &mut |_| Err("gone")), Err("gone"));
    }
}
