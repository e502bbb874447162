//! Going through all rows.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::small::Query;
use crate::{BLOCK, Scale};

/// What sums in `f32` may be wrong by: a hundred times what they are for a thousand numbers of two vectors of the length one.
const ROUNDING: f32 = 1e-4;

/// For each row, what its cosine is at most.
pub(crate) fn bounds(blocks: &[Vec<i8>], scales: &[Scale], query: &Query) -> Vec<f32> {
    let mut bounds = vec![0.0; scales.len()];
    let places = blocks.iter().zip(scales.chunks(BLOCK)).zip(bounds.chunks_mut(BLOCK));
    for ((rows, scales), bounds) in places {
        pulp::Arch::new().dispatch(Block { rows, scales, query, bounds });
    }
    bounds
}

/// The rows of one block, compiled for the widest registers of this processor, too.
struct Block<'a> {
    rows: &'a [i8],
    scales: &'a [Scale],
    query: &'a Query,
    bounds: &'a mut [f32],
}

impl pulp::WithSimd for Block<'_> {
    type Output = ();

    #[expect(clippy::inline_always, reason = "it must be compiled with what it is called in")]
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        let Query { numbers, unit, length, left_out } = self.query;
        let rows = self.rows.chunks_exact(numbers.len()).zip(self.scales).zip(self.bounds);
        for ((row, scale), bound) in rows {
            let estimate = product(row, numbers) * unit * scale.unit;
            *bound = estimate + scale.left_out * length + left_out + ROUNDING;
        }
    }
}

#[expect(clippy::inline_always, reason = "it must be compiled with what it is called in")]
#[expect(clippy::cast_precision_loss, reason = "less than is added for rounding")]
#[inline(always)]
fn product(row: &[i8], query: &[i16]) -> f32 {
    let products = row.iter().zip(query).map(|(one, other)| i32::from(*one) * i32::from(*other));
    products.sum::<i32>() as f32
}

/// The places of the rows, those of the greatest bounds first. Only as many are put in order as are asked for.
pub(crate) fn best_first(bounds: &[f32], most: usize) -> impl Iterator<Item = usize> + '_ {
    let mut places: Vec<u32> = (0..u32::try_from(bounds.len()).unwrap_or(u32::MAX)).collect();
    let mut sorted = 0;
    let mut portion = most.saturating_mul(2).max(64);
    (0..places.len()).map(move |at| {
        if at == sorted {
            let by_bound = |one: &u32, other: &u32| {
                bounds[*other as usize].total_cmp(&bounds[*one as usize]).then(one.cmp(other))
            };
            let rest = &mut places[sorted..];
            let next = portion.min(rest.len());
            if next < rest.len() {
                rest.select_nth_unstable_by(next, by_bound);
            }
            rest[..next].sort_unstable_by(by_bound);
            sorted += next;
            portion = portion.saturating_mul(2);
        }
        places[at] as usize
    })
}

/// The nearest so far.
pub(crate) struct Nearest {
    most: usize,
    /// The farthest of them on top.
    heap: BinaryHeap<Reverse<Near>>,
}

struct Near {
    cosine: f32,
    id: i64,
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.id.cmp(&self.id))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Near {}

impl Nearest {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() >= self.most
    }

    /// Whether nothing with such a bound can be among them any more.
    pub(crate) fn is_beyond(&self, bound: f32) -> bool {
        self.is_full() && self.heap.peek().is_some_and(|farthest| bound < farthest.0.cosine)
    }

    pub(crate) fn add(&mut self, id: i64, cosine: f32) {
        self.heap.push(Reverse(Near { cosine, id }));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    pub(crate) fn into_sorted(self) -> Vec<(i64, f32)> {
        // Of what is turned around, the smallest comes first.
        self.heap.into_sorted_vec().into_iter().map(|near| (near.0.id, near.0.cosine)).collect()
    }
}
