//! Matrices in the blocks of the file, and their products with rows of activations.
//!
//! A block of weights stays as small as it is in the file. A row of activations becomes whole numbers of
//! 16 bits with a scale for each 32 of them, which costs a precision of 1 in 32,767: products are then sums
//! of whole numbers, which every processor adds several at a time, and nearly those of floats.

use simd::Level;

use crate::error::{OpenError, damaged};
use crate::gguf::Form;

/// Numbers of one block.
pub(crate) const BLOCK: usize = 32;
/// Largest whole number that stands for an activation.
const LARGEST: f32 = 32_767.0;

/// Matrix, one row of weights for each output.
#[derive(Debug)]
pub(crate) struct Matrix {
    depth: usize,
    outputs: usize,
    weights: Weights,
}

/// Weights of a matrix, row by row.
#[derive(Debug)]
enum Weights {
    Floats(Vec<f32>),
    /// Scale and least number of each block, and two numbers of 4 bits a byte: the first half of the block
    /// in the low bits.
    Nibbles(Vec<([f32; 2], [u8; BLOCK / 2])>),
    /// Scale and numbers of each block.
    Bytes(Vec<(f32, [i8; BLOCK])>),
}

/// Rows of activations.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    depth: usize,
    floats: Vec<f32>,
    numbers: Vec<[i16; BLOCK]>,
    /// Scale of each block, and the sum of its numbers.
    scales: Vec<[f32; 2]>,
}

impl Rows {
    /// Replaces the rows, of `depth` numbers each.
    pub(crate) fn set(&mut self, rows: &[f32], depth: usize) {
        self.depth = depth;
        self.floats.clear();
        self.floats.extend_from_slice(rows);
        self.numbers.clear();
        self.scales.clear();
        for block in rows.as_chunks::<BLOCK>().0 {
            let largest = block.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            let scale = if largest > 0.0 { largest / LARGEST } else { 1.0 };
            let inverse = 1.0 / scale;
            let numbers = block.map(|number| whole(number * inverse));
            let sum: i32 = numbers.iter().copied().map(i32::from).sum();
            self.numbers.push(numbers);
            self.scales.push([scale, scale * float(sum)]);
        }
    }
}

/// Rounds to a whole number of 16 bits.
#[allow(clippy::cast_possible_truncation, reason = "rounding is what happens here, and it saturates")]
fn whole(number: f32) -> i16 {
    // Adding and subtracting 1.5 * 2^23 rounds, without a call of a function.
    const ROUND: f32 = 12_582_912.0;
    (number + ROUND - ROUND) as i16
}

#[allow(clippy::cast_precision_loss, reason = "the sum of 32 products is rounded like any float")]
fn float(number: i32) -> f32 {
    number as f32
}

/// Converts a float of 16 bits.
fn half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let sign = (bits & 0x8000) << 16;
    let (exponent, fraction) = ((bits >> 10) & 31, bits & 0x3ff);
    let size = match exponent {
        // A subnormal number is a multiple of 2^-24.
        0 => f32::from(u16::try_from(fraction).unwrap_or(0)) * f32::from_bits((127 - 24) << 23),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 127 - 15) << 23 | fraction << 13),
    };
    f32::from_bits(size.to_bits() | sign)
}

/// Reads floats of 32 or 16 bits.
pub(crate) fn floats(form: Form, bytes: &[u8]) -> Option<Vec<f32>> {
    match form {
        Form::F32 => Some(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Form::F16 => Some(bytes.as_chunks::<2>().0.iter().map(|bytes| half(*bytes)).collect()),
        _ => None,
    }
}

impl Matrix {
    /// Reads a matrix with rows of `depth` weights, a multiple of 32.
    pub(crate) fn read(name: &str, form: Form, bytes: &[u8], depth: usize) -> Result<Self, OpenError> {
        let weights = match form {
            Form::F32 | Form::F16 => Weights::Floats(floats(form, bytes).unwrap_or_default()),
            Form::Q4Zero => Weights::Nibbles(blocks(bytes, |[low, high, numbers @ ..]: &[u8; 18]| {
                let scale = half([*low, *high]);
                ([scale, -8.0 * scale], *numbers)
            })),
            Form::Q4One => {
                Weights::Nibbles(blocks(bytes, |[low, high, least, most, numbers @ ..]: &[u8; 20]| {
                    ([half([*low, *high]), half([*least, *most])], *numbers)
                }))
            }
            Form::Q8Zero => Weights::Bytes(blocks(bytes, |[low, high, numbers @ ..]: &[u8; 34]| {
                (half([*low, *high]), numbers.map(u8::cast_signed))
            })),
        };
        let count = match &weights {
            Weights::Floats(numbers) => numbers.len(),
            Weights::Nibbles(blocks) => blocks.len() * BLOCK,
            Weights::Bytes(blocks) => blocks.len() * BLOCK,
        };
        let matrix = Self { depth, outputs: count / depth.max(1), weights };
        if matrix.is_finite() {
            Ok(matrix)
        } else {
            Err(damaged(format!("{name} has values that are no numbers")))
        }
    }

    fn is_finite(&self) -> bool {
        match &self.weights {
            Weights::Floats(numbers) => numbers.iter().all(|number| number.is_finite()),
            Weights::Nibbles(blocks) => {
                blocks.iter().all(|(facts, _)| facts.iter().all(|fact| fact.is_finite()))
            }
            Weights::Bytes(blocks) => blocks.iter().all(|(scale, _)| scale.is_finite()),
        }
    }

    /// Appends the weights of one row to `out`.
    pub(crate) fn row(&self, row: usize, out: &mut Vec<f32>) {
        let blocks = self.depth / BLOCK;
        match &self.weights {
            Weights::Floats(numbers) => {
                out.extend(numbers.chunks_exact(self.depth.max(1)).nth(row).unwrap_or_default());
            }
            Weights::Nibbles(all) => {
                for ([scale, least], numbers) in all.iter().skip(row * blocks).take(blocks) {
                    out.extend(unpacked(numbers).map(|number| f32::from(number) * scale + least));
                }
            }
            Weights::Bytes(all) => {
                for (scale, numbers) in all.iter().skip(row * blocks).take(blocks) {
                    out.extend(numbers.map(|number| f32::from(number) * scale));
                }
            }
        }
    }

    /// Computes the products with all rows: `outputs` numbers for each row, in `out`.
    pub(crate) fn multiply(&self, level: Level, rows: &Rows, out: &mut Vec<f32>) {
        let count = rows.floats.len() / self.depth.max(1);
        out.clear();
        out.resize(count * self.outputs, 0.0);
        let per_row = self.depth / BLOCK;
        if rows.depth != self.depth || per_row == 0 {
            return;
        }
        match &self.weights {
            Weights::Floats(weights) => {
                for (output, weights) in weights.chunks_exact(self.depth).enumerate() {
                    for (row, numbers) in rows.floats.chunks_exact(self.depth).enumerate() {
                        put(out, row * self.outputs + output, simd::dot(level, weights, numbers));
                    }
                }
            }
            Weights::Nibbles(blocks) => self.blocks(
                rows,
                out,
                blocks,
                |(facts, _)| *facts,
                |(_, bytes), numbers| dot_nibbles(bytes, numbers),
                |(_, bytes)| unpacked(bytes),
            ),
            Weights::Bytes(blocks) => self.blocks(
                rows,
                out,
                blocks,
                |(scale, _)| [*scale, 0.0],
                |(_, bytes), numbers| dot_bytes(bytes, numbers),
                |(_, bytes)| bytes.map(i16::from),
            ),
        }
    }

    /// Computes the products of blocks. `facts` returns the scale and least number of one, `dot` its sum of
    /// products, and `unpack` its numbers, which several rows use.
    #[inline]
    fn blocks<B>(
        &self,
        rows: &Rows,
        out: &mut [f32],
        blocks: &[B],
        facts: impl Fn(&B) -> [f32; 2],
        dot: impl Fn(&B, &[i16; BLOCK]) -> i32,
        unpack: impl Fn(&B) -> [i16; BLOCK],
    ) {
        let per_row = self.depth / BLOCK;
        if rows.numbers.len() == per_row {
            let mut parts = vec![0_i32; per_row];
            for (out, blocks) in out.iter_mut().zip(blocks.chunks_exact(per_row)) {
                for (part, (block, numbers)) in parts.iter_mut().zip(blocks.iter().zip(&rows.numbers)) {
                    *part = dot(block, numbers);
                }
                let mut sum = 0.0;
                for (part, (block, [of, total])) in parts.iter().zip(blocks.iter().zip(&rows.scales)) {
                    let [scale, least] = facts(block);
                    sum += float(*part) * (scale * of) + least * total;
                }
                *out = sum;
            }
            return;
        }
        let mut row_of_weights = Vec::with_capacity(per_row);
        for (output, blocks) in blocks.chunks_exact(per_row).enumerate() {
            row_of_weights.clear();
            row_of_weights.extend(blocks.iter().map(|block| (facts(block), unpack(block))));
            let inputs = rows.numbers.chunks_exact(per_row).zip(rows.scales.chunks_exact(per_row));
            for (row, (numbers, scales)) in inputs.enumerate() {
                let mut sum = 0.0;
                for ((facts, weights), (numbers, scales)) in
                    row_of_weights.iter().zip(numbers.iter().zip(scales))
                {
                    sum += product(*facts, weights, numbers, *scales);
                }
                put(out, row * self.outputs + output, sum);
            }
        }
    }
}

/// Computes the sum of products with a block of 4 bits a number.
// Inlined, it would be half as fast: the compiler then finds no instructions for several numbers at a time.
#[inline(never)]
fn dot_nibbles(bytes: &[u8; BLOCK / 2], numbers: &[i16; BLOCK]) -> i32 {
    let (mut one, mut other) = (0, 0);
    let (low, high) = numbers.split_at(BLOCK / 2);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        one = add(one, i16::from(byte & 15), *low);
        other = add(other, i16::from(byte >> 4), *high);
    }
    one + other
}

/// Computes the sum of products with a block of 8 bits a number.
// Inlined, it would be slower, like the function before.
#[inline(never)]
fn dot_bytes(bytes: &[i8; BLOCK], numbers: &[i16; BLOCK]) -> i32 {
    bytes.iter().zip(numbers).fold(0, |sum, (byte, number)| add(sum, i16::from(*byte), *number))
}

/// Adds a product. 32 of them stay far below the largest number, and checks of that, which builds for tests
/// have, would keep the compiler from instructions for several numbers.
#[inline]
fn add(sum: i32, weight: i16, number: i16) -> i32 {
    sum.wrapping_add(i32::from(weight).wrapping_mul(i32::from(number)))
}

fn put(out: &mut [f32], at: usize, number: f32) {
    if let Some(out) = out.get_mut(at) {
        *out = number;
    }
}

/// Computes the product of two blocks.
#[inline]
fn product(
    [scale, least]: [f32; 2],
    weights: &[i16; BLOCK],
    numbers: &[i16; BLOCK],
    [of, sum]: [f32; 2],
) -> f32 {
    let products = weights.iter().zip(numbers).fold(0, |sum, (weight, number)| add(sum, *weight, *number));
    float(products) * (scale * of) + least * sum
}

/// Returns the numbers of a block of 4 bits each.
#[inline]
fn unpacked(bytes: &[u8; BLOCK / 2]) -> [i16; BLOCK] {
    let mut numbers = [0; BLOCK];
    let (low, high) = numbers.split_at_mut(BLOCK / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = i16::from(byte & 15);
        *high = i16::from(byte >> 4);
    }
    numbers
}

fn blocks<const N: usize, T>(bytes: &[u8], read: impl Fn(&[u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_16_bits_are_those_of_the_standard() {
        for (bits, number) in [
            (0x3c00_u16, 1.0_f32),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half(bits.to_le_bytes()).to_bits(), number.to_bits(), "{bits:x}");
        }
        assert!(half([0, 0x7c]).is_infinite() && half([1, 0x7c]).is_nan());
    }

    #[test]
    fn products_of_blocks_are_those_of_the_floats_that_they_stand_for() {
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).unwrap()
        };
        for (form, size) in [(Form::Q4Zero, 18), (Form::Q4One, 20), (Form::Q8Zero, 34)] {
            let mut bytes = Vec::new();
            for _ in 0..3 * 2 {
                let at = bytes.len();
                bytes.extend((0..size).map(|_| random()));
                // A scale near 0.01.
                bytes[at + 1] = 0x21;
                if form == Form::Q4One {
                    bytes[at + 3] = 0xa1;
                }
            }
            let matrix = Matrix::read("m", form, &bytes, 64).unwrap();
            assert_eq!(matrix.outputs, 3);
            let input: Vec<f32> = (0..5 * 64).map(|_| f32::from(random()) / 100.0 - 1.2).collect();
            let (mut rows, mut out) = (Rows::default(), Vec::new());
            for count in [1, 5] {
                rows.set(&input[..count * 64], 64);
                matrix.multiply(Level::best(), &rows, &mut out);
                for (row, numbers) in input.chunks(64).take(count).enumerate() {
                    for output in 0..3 {
                        let mut weights = Vec::new();
                        matrix.row(output, &mut weights);
                        let right: f32 = weights.iter().zip(numbers).map(|(one, other)| one * other).sum();
                        let found = out[row * 3 + output];
                        assert!((right - found).abs() < 2e-3, "{form:?} {right} {found}");
                    }
                }
            }
        }
    }
}
