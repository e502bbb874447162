//! Dot products of one row of signed bytes with many rows.

use crate::Level;

/// 64 signed bytes in one line of the processor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [i8; 64]);

impl Line {
    /// A line of zeros.
    pub const ZERO: Self = Self([0; 64]);
}

/// Factor of the first half of a [`Split`].
pub const SCALE_OF_QUERY: i32 = 127;

/// Numbers of 14 bits, each as two signed bytes: `first * SCALE_OF_QUERY + second`.
#[derive(Debug, Clone)]
pub struct Split {
    pub(crate) first: Vec<Line>,
    pub(crate) second: Vec<Line>,
}

impl Split {
    /// Splits numbers. A number beyond ±16128 is clamped to that range.
    pub fn new(numbers: &[i16]) -> Self {
        let lines = numbers.len().div_ceil(64);
        let (mut first, mut second) = (vec![Line::ZERO; lines], vec![Line::ZERO; lines]);
        for (place, number) in numbers.iter().enumerate() {
            let number = number.clamp(&-16128, &16128);
            let high = (f32::from(*number) / 127.0).round();
            #[allow(clippy::cast_possible_truncation, reason = "at most 127 by the clamp")]
            let high = high as i16;
            let low = number - high * 127;
            first[place / 64].0[place % 64] = i8::try_from(high).unwrap_or(i8::MAX);
            second[place / 64].0[place % 64] = i8::try_from(low).unwrap_or(0);
        }
        Self { first, second }
    }

    /// Returns the number of lines of one row.
    pub fn lines(&self) -> usize {
        self.first.len()
    }
}

/// Computes the dot product of `query` with each row of `rows`, whose lines lie one row after the other.
///
/// # Panics
/// Panics unless `rows` has `query.lines()` lines for each element of `out`.
pub fn dots(level: Level, query: &Split, rows: &[Line], out: &mut [f32]) {
    assert_eq!(rows.len(), out.len() * query.lines(), "a place for every row");
    #[cfg(target_arch = "x86_64")]
    if level != Level::PORTABLE {
        crate::x86::dots(level.0, query, rows, out);
        return;
    }
    let _ = level;
    for (row, out) in rows.chunks_exact(query.lines().max(1)).zip(out) {
        let sum = |query: &[Line]| -> i32 {
            let pairs = query.iter().zip(row).flat_map(|(query, row)| query.0.iter().zip(&row.0));
            pairs.map(|(query, row)| i32::from(*query) * i32::from(*row)).sum()
        };
        *out = whole(sum(&query.first), sum(&query.second));
    }
}

/// Combines the sums of both halves into one product.
#[allow(clippy::cast_precision_loss, reason = "24 bits are more than the rows have")]
pub(crate) fn whole(first: i32, second: i32) -> f32 {
    first as f32 * SCALE_OF_QUERY as f32 + second as f32
}
