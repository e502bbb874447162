//! One pass of several texts through the network. Their tokens are stacked without padding.

use simd::{Level, Panels, Quantised};

use crate::config::{Config, Pool};
use crate::weights::{Layer, Linear, Matrix, Norm, Weights, Words};

/// Buffers of one thread, reused from one batch to the next.
#[derive(Debug, Default)]
pub(crate) struct Room {
    rows: Vec<f32>,
    asked: Vec<f32>,
    values: Vec<f32>,
    context: Vec<f32>,
    added: Vec<f32>,
    wide: Vec<f32>,
    bytes: Quantised,
    head: Vec<f32>,
}

/// Number of rows that go through the wide layer at once, so that the intermediate values stay in
/// the processor's cache.
const ROWS_AT_ONCE: usize = 96;

/// Number of bytes that stand for each number of a row, if the matrix consists of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fineness {
    /// One byte for each number.
    OneByte,
    /// A second byte for the remainder that the first byte leaves.
    TwoBytes,
}

/// Computes the vectors of several texts, each given as the numbers of its tokens.
pub(crate) fn pass(
    weights: &Weights,
    config: &Config,
    pool: Pool,
    (level, fineness): (Level, Fineness),
    texts: &[Vec<u32>],
    room: &mut Room,
) -> Vec<Vec<f32>> {
    let width = config.hidden_size;
    look_up(weights, config, level, texts, room);
    for layer in &weights.layers {
        attend(layer, config, (level, fineness), texts, room);
        for first in (0..room.rows.len()).step_by(ROWS_AT_ONCE * width) {
            let last = room.rows.len().min(first + ROWS_AT_ONCE * width);
            let rows = &mut room.rows[first..last];
            // One byte a number would cost the most precision in these rows, and they are in the cache.
            apply(&layer.up, level, rows, (width, Fineness::TwoBytes), &mut room.bytes, &mut room.wide);
            simd::gelu(level, &mut room.wide);
            let wide = (config.intermediate_size, fineness);
            apply(&layer.down, level, &room.wide, wide, &mut room.bytes, &mut room.added);
            add(&layer.after, config, level, rows, &room.added);
        }
    }
    let mut start = 0;
    texts
        .iter()
        .map(|text| {
            let rows = &room.rows[start * width..(start + text.len()) * width];
            start += text.len();
            pooled(rows, width, pool, level)
        })
        .collect()
}

fn look_up(weights: &Weights, config: &Config, level: Level, texts: &[Vec<u32>], room: &mut Room) {
    let width = config.hidden_size;
    room.rows.clear();
    for text in texts {
        for (token, position) in text.iter().zip(weights.positions.chunks_exact(width)) {
            let start = usize::try_from(*token).unwrap_or(0) * width;
            match &weights.words {
                Words::Floats(numbers) => room.rows.extend_from_slice(&numbers[start..start + width]),
                Words::Bytes { bytes, scales } => {
                    let scale = scales[start / width];
                    room.rows.extend(bytes[start..start + width].iter().map(|byte| f32::from(*byte) * scale));
                }
            }
            let last = room.rows.len() - width;
            let Norm { gain, shift } = &weights.norm;
            simd::normalise(level, &mut room.rows[last..], position, gain, shift, config.layer_norm_eps);
        }
    }
}

fn attend(
    layer: &Layer,
    config: &Config,
    (level, fineness): (Level, Fineness),
    texts: &[Vec<u32>],
    room: &mut Room,
) {
    let (width, head) = (config.hidden_size, config.head());
    let deep = (width, fineness);
    apply(&layer.asked, level, &room.rows, deep, &mut room.bytes, &mut room.asked);
    apply(&layer.values, level, &room.rows, deep, &mut room.bytes, &mut room.values);
    room.context.resize(room.rows.len(), 0.0);
    let mut start = 0;
    for text in texts {
        let end = start + text.len() * width;
        for at in (0..width).step_by(head) {
            let (asked, values) = (&room.asked[start * 2..end * 2], &room.values[start..end]);
            simd::attend(
                level,
                asked,
                values,
                width,
                at..at + head,
                &mut room.head,
                &mut room.context[start..end],
            );
        }
        start = end;
    }
    apply(&layer.output, level, &room.context, deep, &mut room.bytes, &mut room.added);
    add(&layer.after_attention, config, level, &mut room.rows, &room.added);
}

/// Computes `out = rows * matrix + bias`.
fn apply(
    linear: &Linear,
    level: Level,
    rows: &[f32],
    (depth, fineness): (usize, Fineness),
    bytes: &mut Quantised,
    out: &mut Vec<f32>,
) {
    out.resize(rows.len() / depth * linear.bias.len(), 0.0);
    let (first, second) = match &linear.matrix {
        Matrix::Floats(matrix) => return simd::dense(level, rows, matrix, &linear.bias, out),
        Matrix::Bytes(matrix) => (matrix, None),
        Matrix::Fine(first, second) => (first, Some(second)),
    };
    simd::quantise(level, rows, depth, bytes);
    simd::product(level, bytes, first, &linear.bias, out);
    if let Some(second) = second {
        add_product(level, bytes, second, out);
    }
    if fineness == Fineness::TwoBytes {
        let mut left = rows.to_vec();
        bytes.left_of(&mut left, depth);
        simd::quantise(level, &left, depth, bytes);
        // The product of the two remainders is omitted: it is far below the rounding error.
        add_product(level, bytes, first, out);
    }
}

/// Computes `out += rows * matrix`.
fn add_product(level: Level, rows: &Quantised, matrix: &Panels, out: &mut [f32]) {
    let mut more = vec![0.0; out.len()];
    simd::product(level, rows, matrix, &vec![0.0; matrix.columns()], &mut more);
    out.iter_mut().zip(&more).for_each(|(out, more)| *out += more);
}

fn add(norm: &Norm, config: &Config, level: Level, rows: &mut [f32], added: &[f32]) {
    let width = config.hidden_size;
    for (row, added) in rows.chunks_exact_mut(width).zip(added.chunks_exact(width)) {
        simd::normalise(level, row, added, &norm.gain, &norm.shift, config.layer_norm_eps);
    }
}

/// Returns the single vector of a text, scaled to length 1.
fn pooled(rows: &[f32], width: usize, pool: Pool, level: Level) -> Vec<f32> {
    let mut sum = rows.get(..width).unwrap_or_default().to_vec();
    if pool == Pool::Mean {
        for row in rows.chunks_exact(width).skip(1) {
            sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
    }
    // No division by the number of rows is needed, because the vector is scaled to length 1.
    let length = simd::dot(level, &sum, &sum).sqrt().max(f32::MIN_POSITIVE);
    for number in &mut sum {
        *number /= length;
    }
    sum
}
