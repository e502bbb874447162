//! Functions between the layers of a network, in floats, and products of floats.

#![allow(clippy::inline_always, reason = "each is compiled for the width of whoever calls it")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rounding is what happens here"
)]

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::level::Kind;
use crate::level::widest;
use crate::{Level, Quantised};

/// Columns of one grid.
pub(crate) const WIDTH: usize = 32;
/// Rows of one grid.
const HEIGHT: usize = 6;

/// Products of up to six rows with 32 columns.
pub(crate) type Grid = [[f32; WIDTH]; HEIGHT];

/// A matrix of floats in the order in which products read it: panels of 32 columns, and within a
/// panel row by row.
#[derive(Debug, Clone)]
pub struct Rows {
    depth: usize,
    columns: usize,
    numbers: Vec<f32>,
}

impl Rows {
    /// Builds the matrix from the numbers of one column (one output) after the other, `depth` each.
    pub fn new(weights: &[f32], depth: usize) -> Self {
        let columns = weights.len().checked_div(depth).unwrap_or(0);
        let mut numbers = vec![0.0; columns.div_ceil(WIDTH) * WIDTH * depth];
        for (column, weights) in weights.chunks_exact(depth.max(1)).enumerate() {
            let panel = column / WIDTH * WIDTH * depth;
            for (place, number) in weights.iter().enumerate() {
                numbers[panel + place * WIDTH + column % WIDTH] = *number;
            }
        }
        Self { depth, columns, numbers }
    }

    /// Returns the numbers in the order in which `new` received them.
    pub fn weights(&self) -> Vec<f32> {
        let at = |column: usize, place: usize| {
            column / WIDTH * WIDTH * self.depth + place * WIDTH + column % WIDTH
        };
        let columns = 0..self.columns;
        columns.flat_map(|column| (0..self.depth).map(move |place| self.numbers[at(column, place)])).collect()
    }
}

/// Computes `out = rows * matrix + bias` in floats.
///
/// # Panics
/// Panics if the sizes do not match.
pub fn dense(level: Level, rows: &[f32], matrix: &Rows, bias: &[f32], out: &mut [f32]) {
    let count = rows.len() / matrix.depth.max(1);
    assert!(
        out.len() == count * matrix.columns && bias.len() == matrix.columns,
        "every number has its place"
    );
    let mut grid: Grid = [[0.0; WIDTH]; HEIGHT];
    for (panel, numbers) in matrix.numbers.chunks_exact((matrix.depth * WIDTH).max(1)).enumerate() {
        let columns = panel * WIDTH..matrix.columns.min((panel + 1) * WIDTH);
        for first in (0..count).step_by(HEIGHT) {
            let height = HEIGHT.min(count - first);
            products(
                level,
                &rows[first * matrix.depth..],
                matrix.depth,
                numbers,
                WIDTH,
                matrix.depth,
                height,
                &mut grid,
            );
            for (row, sums) in (first..first + height).zip(&grid) {
                let out = &mut out[row * matrix.columns..][columns.clone()];
                for ((out, sum), bias) in out.iter_mut().zip(sums).zip(&bias[columns.clone()]) {
                    *out = sum + bias;
                }
            }
        }
    }
}

/// Multiplies `height` rows of `left` by 32 columns of `right`.
#[allow(clippy::too_many_arguments, reason = "two matrices by their strides")]
fn products(
    level: Level,
    left: &[f32],
    left_stride: usize,
    right: &[f32],
    right_stride: usize,
    depth: usize,
    height: usize,
    out: &mut Grid,
) {
    #[cfg(target_arch = "x86_64")]
    if level.0 != Kind::Portable {
        crate::x86::grid(level.0, left, left_stride, right, right_stride, depth, height, out);
        return;
    }
    let _ = level;
    for (row, sums) in out.iter_mut().enumerate().take(height) {
        *sums = [0.0; WIDTH];
        for (step, number) in left[row * left_stride..][..depth].iter().enumerate() {
            for (sum, other) in sums.iter_mut().zip(&right[step * right_stride..][..WIDTH]) {
                *sum += number * other;
            }
        }
    }
}

/// Computes the attention of one head over one text: the numbers `head` of each row of `width`.
///
/// A row of `asked` has the query of a token and then its key. The result goes to the same
/// positions of `out`.
///
/// # Panics
/// Panics if the head's size is not a multiple of 32, or the sizes do not match.
pub fn attend(
    level: Level,
    asked: &[f32],
    values: &[f32],
    width: usize,
    head: Range<usize>,
    room: &mut Vec<f32>,
    out: &mut [f32],
) {
    let (tokens, at, size) = (out.len() / width, head.start, head.len());
    let padded = tokens.div_ceil(WIDTH) * WIDTH;
    assert!(size.is_multiple_of(WIDTH) && head.end <= width, "one head of these rows");
    assert!(asked.len() == tokens * width * 2 && values.len() == tokens * width, "a row for each token");
    room.clear();
    room.resize(padded * size + tokens * size + HEIGHT * padded, 0.0);
    let (keys, rest) = room.split_at_mut(padded * size);
    let (own, scores) = rest.split_at_mut(tokens * size);
    for (token, (asked, values)) in asked.chunks_exact(width * 2).zip(values.chunks_exact(width)).enumerate()
    {
        for (place, key) in asked[width + at..][..size].iter().enumerate() {
            keys[place * padded + token] = *key;
        }
        own[token * size..][..size].copy_from_slice(&values[head.clone()]);
    }
    let scale = 1.0 / (size as f32).sqrt();
    let mut grid: Grid = [[0.0; WIDTH]; HEIGHT];
    for first in (0..tokens).step_by(HEIGHT) {
        let height = HEIGHT.min(tokens - first);
        for column in (0..padded).step_by(WIDTH) {
            let queries = &asked[first * width * 2 + at..];
            products(level, queries, width * 2, &keys[column..], padded, size, height, &mut grid);
            for (row, sums) in grid.iter().enumerate().take(height) {
                scores[row * padded + column..][..WIDTH].copy_from_slice(sums);
            }
        }
        for row in scores.chunks_exact_mut(padded).take(height) {
            soften(level, &mut row[..tokens], scale);
        }
        for part in (0..size).step_by(WIDTH) {
            products(level, scores, padded, &own[part..], size, tokens, height, &mut grid);
            for (row, sums) in (first..first + height).zip(&grid) {
                out[row * width + at + part..][..WIDTH].copy_from_slice(sums);
            }
        }
    }
}

#[inline(always)]
fn add<const FUSED: bool>(one: f32, other: f32, third: f32) -> f32 {
    // Without the instruction, the fused addition is a slow function.
    if FUSED { one.mul_add(other, third) } else { one * other + third }
}

/// Computes e to the power of a number of at most 88, to within two units of the last place.
#[inline(always)]
fn exp<const FUSED: bool>(number: f32) -> f32 {
    // Adding and subtracting 1.5 * 2^23 rounds, and leaves the whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let number = if number > -87.0 { number } else { -87.0 };
    let shifted = add::<FUSED>(number, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = add::<FUSED>(whole, -0.693_359_4, number);
    let rest = add::<FUSED>(whole, 2.121_944_4e-4, rest);
    let mut sum = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        sum = add::<FUSED>(sum, rest, factor);
    }
    let sum = add::<FUSED>(sum, rest * rest, rest) + 1.0;
    sum * f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23)
}

widest! {
    /// Computes the softmax of `numbers` times `scale`, which is positive.
    fn soften(numbers: &mut [f32], scale: f32) => soften_each
}

#[inline(always)]
fn soften_each<const FUSED: bool>(numbers: &mut [f32], scale: f32) {
    let largest = folded(numbers, f32::NEG_INFINITY, |one, other| if other > one { other } else { one });
    for number in &mut *numbers {
        *number = exp::<FUSED>((*number - largest) * scale);
    }
    let inverse = 1.0 / folded(numbers, 0.0, |one, other| one + other);
    for number in numbers {
        *number *= inverse;
    }
}

/// Folds sixteen numbers at a time, in an order that is the same at every width.
#[inline(always)]
fn folded(numbers: &[f32], start: f32, fold: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; 16];
    let (whole, rest) = numbers.as_chunks::<16>();
    for numbers in whole {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = fold(*lane, *number);
        }
    }
    for (lane, number) in lanes.iter_mut().zip(rest) {
        *lane = fold(*lane, *number);
    }
    lanes.into_iter().fold(start, fold)
}

widest! {
    /// Applies the Gaussian error linear unit to every number, with an error function that is exact
    /// to 1.5e-7.
    pub fn gelu(numbers: &mut [f32]) => gelu_each
}

#[inline(always)]
fn gelu_each<const FUSED: bool>(numbers: &mut [f32]) {
    for number in numbers {
        let (x, size) = (*number, number.abs() * std::f32::consts::FRAC_1_SQRT_2);
        // Abramowitz and Stegun, 7.1.26.
        let t = 1.0 / add::<FUSED>(size, 0.327_591_1, 1.0);
        let mut sum = 1.061_405_4;
        for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
            sum = add::<FUSED>(sum, t, factor);
        }
        let error = 1.0 - sum * t * exp::<FUSED>(-size * size);
        *number = 0.5 * (x + x.abs() * error);
    }
}

widest! {
    /// Adds `added` to `row`, subtracts the mean, divides by the deviation, multiplies by `gain`
    /// and adds `shift`.
    pub fn normalise(row: &mut [f32], added: &[f32], gain: &[f32], shift: &[f32], epsilon: f32) => normalise_each
}

#[inline(always)]
fn normalise_each<const FUSED: bool>(
    row: &mut [f32],
    added: &[f32],
    gain: &[f32],
    shift: &[f32],
    epsilon: f32,
) {
    for (number, added) in row.iter_mut().zip(added) {
        *number += added;
    }
    let inverse = 1.0 / row.len() as f32;
    let mean = folded(row, 0.0, |one, other| one + other) * inverse;
    for number in &mut *row {
        *number -= mean;
    }
    let deviation = (dot_each::<FUSED>(row, row) * inverse + epsilon).sqrt();
    for ((number, gain), shift) in row.iter_mut().zip(gain).zip(shift) {
        *number = add::<FUSED>(*number / deviation, *gain, *shift);
    }
}

widest! {
    /// Computes the dot product of two rows.
    pub fn dot(one: &[f32], other: &[f32]) -> f32 => dot_each
}

#[inline(always)]
fn dot_each<const FUSED: bool>(one: &[f32], other: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<16>(), other.as_chunks::<16>());
    for (one, other) in one.iter().zip(other) {
        for (lane, (one, other)) in lanes.iter_mut().zip(one.iter().zip(other)) {
            *lane = add::<FUSED>(*one, *other, *lane);
        }
    }
    for (lane, (one, other)) in lanes.iter_mut().zip(one_rest.iter().zip(other_rest)) {
        *lane = add::<FUSED>(*one, *other, *lane);
    }
    lanes.into_iter().sum()
}

/// Converts rows of floats, `depth` numbers each, to bytes: each row by its own range.
pub fn quantise(level: Level, rows: &[f32], depth: usize, out: &mut Quantised) {
    let depth = depth.max(1);
    out.make_room(rows.len() / depth, depth);
    let bytes = out.bytes.chunks_exact_mut(out.stride.max(1));
    let places = bytes.zip(out.scales.iter_mut().zip(&mut out.zeros));
    for (row, (bytes, (scale, zero))) in rows.chunks_exact(depth).zip(places) {
        (*scale, *zero) = quantise_row(level, row, bytes);
    }
}

widest! {
    /// Converts one row to bytes. Returns its scale, and the byte that stands for zero.
    fn quantise_row(row: &[f32], bytes: &mut [u8]) -> (f32, i32) => quantise_each
}

#[inline(always)]
fn quantise_each<const FUSED: bool>(row: &[f32], bytes: &mut [u8]) -> (f32, i32) {
    // Adding 2^23 rounds, and leaves the whole number in the low bits.
    const ROUND: f32 = 8_388_608.0;
    let least = folded(row, 0.0, |one, other| if other < one { other } else { one });
    let largest = folded(row, 0.0, |one, other| if other > one { other } else { one });
    let range = largest - least;
    let scale = if range > 0.0 && range.is_finite() { range / 255.0 } else { 1.0 };
    let inverse = 1.0 / scale;
    let zero = (-least * inverse).round().clamp(0.0, 255.0);
    for (byte, number) in bytes.iter_mut().zip(row) {
        let place = number * inverse + zero;
        let place = if place > 0.0 { place } else { 0.0 };
        let place = if place < 255.0 { place } else { 255.0 };
        *byte = (place + ROUND).to_bits() as u8;
    }
    (scale, zero as i32)
}
