//! Products of bytes: rows and a matrix, both converted to bytes. Each row has its own range, and
//! each column of the matrix its own scale.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rounding is what happens here"
)]

use crate::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::Kind;

/// Columns of one panel.
pub const COLUMNS: usize = 64;
/// Rows of one tile.
const ROWS: usize = 6;
/// Lines of one panel for four rows of the matrix.
pub(crate) const LINES: usize = COLUMNS / 16;

/// 64 signed bytes in one line of the processor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [i8; 64]);

impl Line {
    /// A line of zeros.
    pub(crate) const ZERO: Self = Self([0; 64]);
}

/// A matrix of signed bytes with a scale for each column, in the order in which products read it:
/// panels of 64 columns, and in a panel four rows at a time, column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct Panels {
    depth: usize,
    columns: usize,
    lines: Vec<Line>,
    scales: Vec<f32>,
    sums: Vec<i32>,
}

impl Panels {
    /// Builds the matrix from floats, the numbers of one column (one output) after the other;
    /// `depth` numbers each.
    pub fn new(weights: &[f32], depth: usize) -> Self {
        let columns = weights.len().checked_div(depth).unwrap_or(0);
        let mut panels = Self::empty(depth, columns);
        for (column, numbers) in weights.chunks_exact(depth.max(1)).enumerate() {
            let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
            panels.scales[column] = scale;
            for (place, number) in numbers.iter().enumerate() {
                let byte = (number / scale).round() as i8;
                panels.sums[column] += i32::from(byte);
                let (line, at) = panels.place(column, place);
                panels.lines[line].0[at] = byte;
            }
        }
        panels
    }

    fn empty(depth: usize, columns: usize) -> Self {
        let lines = columns.div_ceil(COLUMNS) * depth.div_ceil(4) * LINES;
        Self {
            depth,
            columns,
            lines: vec![Line::ZERO; lines],
            scales: vec![0.0; columns],
            sums: vec![0; columns],
        }
    }

    fn place(&self, column: usize, place: usize) -> (usize, usize) {
        let (panel, within) = (column / COLUMNS, column % COLUMNS);
        let line = (panel * self.depth.div_ceil(4) + place / 4) * LINES + within / 16;
        (line, (within % 16) * 4 + place % 4)
    }

    /// Returns the difference between the numbers that the bytes were made of and the bytes, in the
    /// same order.
    pub fn left_of(&self, weights: &[f32]) -> Vec<f32> {
        let mut left = weights.to_vec();
        for (column, numbers) in left.chunks_exact_mut(self.depth.max(1)).enumerate().take(self.columns) {
            for (place, number) in numbers.iter_mut().enumerate() {
                let (line, at) = self.place(column, place);
                *number -= f32::from(self.lines[line].0[at]) * self.scales[column];
            }
        }
        left
    }

    /// Returns the number of columns, which is the length of one result.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of rows, which is the length of one input.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the size of a matrix in the format of `write`, in bytes.
    pub fn written(depth: usize, columns: usize) -> usize {
        columns.div_ceil(COLUMNS) * depth.div_ceil(4) * LINES * 64 + columns * 8
    }

    /// Appends the matrix to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        for line in &self.lines {
            bytes.extend(line.0.iter().map(|byte| byte.cast_unsigned()));
        }
        bytes.extend(self.scales.iter().flat_map(|scale| scale.to_le_bytes()));
        bytes.extend(self.sums.iter().flat_map(|sum| sum.to_le_bytes()));
    }

    /// Reads a matrix in the format of `write`. Returns `None` if `bytes` has another size.
    pub fn read(bytes: &[u8], depth: usize, columns: usize) -> Option<Self> {
        if bytes.len() != Self::written(depth, columns) {
            return None;
        }
        let mut panels = Self::empty(depth, columns);
        let (lines, rest) = bytes.split_at_checked(panels.lines.len() * 64)?;
        let (scales, sums) = rest.split_at_checked(columns * 4)?;
        for (line, bytes) in panels.lines.iter_mut().zip(lines.chunks_exact(64)) {
            for (to, from) in line.0.iter_mut().zip(bytes) {
                *to = from.cast_signed();
            }
        }
        for (to, from) in panels.scales.iter_mut().zip(scales.as_chunks::<4>().0) {
            *to = f32::from_le_bytes(*from);
        }
        for (to, from) in panels.sums.iter_mut().zip(sums.as_chunks::<4>().0) {
            *to = i32::from_le_bytes(*from);
        }
        Some(panels)
    }

    /// Returns the lines of one panel.
    fn panel(&self, panel: usize) -> &[Line] {
        let size = self.depth.div_ceil(4) * LINES;
        &self.lines[panel * size..(panel + 1) * size]
    }
}

/// Rows of bytes, each with its own scale and zero.
#[derive(Debug, Clone, Default)]
pub struct Quantised {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of one row: its depth, rounded up to a multiple of four.
    pub(crate) stride: usize,
    pub(crate) scales: Vec<f32>,
    pub(crate) zeros: Vec<i32>,
}

impl Quantised {
    /// Makes room for `rows` rows of this depth, and drops the old rows.
    pub(crate) fn make_room(&mut self, rows: usize, depth: usize) {
        self.stride = depth.div_ceil(4) * 4;
        self.bytes.clear();
        self.bytes.resize(rows * self.stride, 0);
        self.scales.clear();
        self.scales.resize(rows, 1.0);
        self.zeros.clear();
        self.zeros.resize(rows, 0);
    }

    /// Subtracts the values of the bytes from the rows that they were made of.
    pub fn left_of(&self, rows: &mut [f32], depth: usize) {
        let bytes = self.bytes.chunks_exact(self.stride.max(1));
        let facts = self.scales.iter().zip(&self.zeros);
        for (row, (bytes, (scale, zero))) in rows.chunks_exact_mut(depth.max(1)).zip(bytes.zip(facts)) {
            for (number, byte) in row.iter_mut().zip(bytes) {
                *number -= (i32::from(*byte) - zero) as f32 * scale;
            }
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }
}

/// Sums of one tile.
pub(crate) type Tile = [[i32; COLUMNS]; ROWS];

/// Computes `out = rows * matrix + bias`, one row of `out` after the other.
///
/// # Panics
/// Panics if the sizes do not match.
pub fn product(level: Level, rows: &Quantised, matrix: &Panels, bias: &[f32], out: &mut [f32]) {
    let (count, columns) = (rows.rows(), matrix.columns);
    assert_eq!(rows.stride, matrix.depth.div_ceil(4) * 4, "the depth of both is the same");
    assert!(rows.bytes.len() == count * rows.stride && rows.zeros.len() == count, "every row is there");
    assert!(out.len() == count * columns && bias.len() == columns, "every number has its place");
    let mut tile: Tile = [[0; COLUMNS]; ROWS];
    for panel in 0..columns.div_ceil(COLUMNS) {
        let lines = matrix.panel(panel);
        let first_column = panel * COLUMNS;
        let last_column = columns.min(first_column + COLUMNS);
        for first in (0..count).step_by(ROWS) {
            let height = ROWS.min(count - first);
            let bytes = &rows.bytes[first * rows.stride..(first + height) * rows.stride];
            sums(level, bytes, rows.stride, lines, &mut tile);
            for (row, sums) in (first..first + height).zip(&tile) {
                scale(
                    level,
                    sums,
                    &mut out[row * columns + first_column..row * columns + last_column],
                    &matrix.scales[first_column..last_column],
                    &matrix.sums[first_column..last_column],
                    &bias[first_column..last_column],
                    rows.scales[row],
                    rows.zeros[row],
                );
            }
        }
    }
}

/// Computes the sums of up to six rows with one panel.
fn sums(level: Level, rows: &[u8], stride: usize, panel: &[Line], tile: &mut Tile) {
    assert!(
        panel.len() == stride / 4 * LINES && rows.len().is_multiple_of(stride.max(1)),
        "whole rows and a whole panel"
    );
    #[cfg(target_arch = "x86_64")]
    if level.0 != Kind::Portable {
        crate::x86::sums(level.0, rows, stride, panel, tile);
        return;
    }
    let _ = level;
    for (row, sums) in rows.chunks_exact(stride.max(1)).zip(tile.iter_mut()) {
        *sums = [0; COLUMNS];
        for (four, lines) in row.as_chunks::<4>().0.iter().zip(panel.as_chunks::<LINES>().0) {
            for (sums, line) in sums.as_chunks_mut::<16>().0.iter_mut().zip(lines) {
                for (sum, weights) in sums.iter_mut().zip(line.0.as_chunks::<4>().0) {
                    for (byte, weight) in four.iter().zip(weights) {
                        *sum += i32::from(*byte) * i32::from(*weight);
                    }
                }
            }
        }
    }
}

crate::level::widest! {
    /// Converts sums of bytes to the numbers that they stand for.
    fn scale(sums: &[i32; COLUMNS], out: &mut [f32], scales: &[f32], of_columns: &[i32], bias: &[f32], scale: f32, zero: i32) => scale_each
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "it is compiled for the width of whoever calls it")]
fn scale_each<const FUSED: bool>(
    sums: &[i32; COLUMNS],
    out: &mut [f32],
    scales: &[f32],
    of_columns: &[i32],
    bias: &[f32],
    scale: f32,
    zero: i32,
) {
    let columns = sums.iter().zip(scales).zip(of_columns).zip(bias);
    for (out, (((sum, of_column), whole), bias)) in out.iter_mut().zip(columns) {
        *out = (sum - zero * whole) as f32 * (scale * of_column) + bias;
    }
}
