//! Bytes of all vectors, in blocks, so that adding a vector never copies the others.

use simd::{Level, Line, Split, dots};

/// Number of vectors of one block.
const BLOCK: usize = 256;

/// Rows of bytes, each with its scale and error.
#[derive(Debug)]
pub(crate) struct Rows {
    lines: usize,
    blocks: Vec<Box<[Line]>>,
    facts: Vec<Fact>,
    /// Length of the longest vector ever added.
    pub(crate) longest: f32,
    /// Sum of all rows, component by component.
    sum: Vec<f64>,
}

/// Scale and error of the bytes of one vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    /// Value of one step of a byte.
    pub(crate) scale: f32,
    /// Length of the difference between the vector and its bytes.
    pub(crate) error: f32,
}

impl Rows {
    pub(crate) fn new(dimensions: usize) -> Self {
        let (lines, sum) = (dimensions.div_ceil(64), vec![0.0; dimensions]);
        Self { lines, blocks: Vec::new(), facts: Vec::new(), longest: 0.0, sum }
    }

    /// Returns the average product of a vector and the rows, or zero if there are no rows.
    pub(crate) fn mean(&self, vector: &[f32]) -> f64 {
        let product: f64 = self.sum.iter().zip(vector).map(|(sum, number)| sum * f64::from(*number)).sum();
        #[expect(clippy::cast_precision_loss, reason = "an average")]
        let rows = self.facts.len().max(1) as f64;
        product / rows
    }

    /// Adds a row to the sum of all, `times` times.
    fn count(&mut self, place: usize, times: f64) {
        let scale = f64::from(self.facts[place].scale) * times;
        let row = &self.blocks[place / BLOCK][place % BLOCK * self.lines..][..self.lines];
        for (sum, byte) in self.sum.iter_mut().zip(row.iter().flat_map(|line| line.0)) {
            *sum += f64::from(byte) * scale;
        }
    }

    /// Stores a vector at a place, which is at most the first free one.
    pub(crate) fn put(&mut self, place: usize, vector: &[f32]) {
        if place == self.facts.len() {
            self.facts.push(Fact { scale: 0.0, error: 0.0 });
        }
        if place / BLOCK == self.blocks.len() {
            self.blocks.push(vec![Line::ZERO; BLOCK * self.lines].into_boxed_slice());
        }
        self.count(place, -1.0);
        let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
        let scale = largest / 127.0;
        let (mut error, mut length) = (0.0_f64, 0.0_f64);
        let row = &mut self.blocks[place / BLOCK][place % BLOCK * self.lines..][..self.lines];
        for (bytes, numbers) in row.iter_mut().zip(vector.chunks(64)) {
            for (to, number) in bytes.0.iter_mut().zip(numbers) {
                #[expect(clippy::cast_possible_truncation, reason = "at most 127 by the scale")]
                let byte = (number / scale).round() as i8;
                *to = byte;
                let stands_for = f32::from(byte) * scale;
                error += f64::from(number - stands_for).powi(2);
                length += f64::from(*number).powi(2);
            }
        }
        self.facts[place] = Fact { scale, error: above(error.sqrt()) };
        self.count(place, 1.0);
        self.longest = self.longest.max(above(length.sqrt()));
    }

    /// Removes a vector, and moves the last one to its place.
    pub(crate) fn swap_remove(&mut self, place: usize) {
        self.count(place, -1.0);
        self.facts.swap_remove(place);
        let last = self.facts.len();
        let moved: Vec<Line> = self.blocks[last / BLOCK][last % BLOCK * self.lines..][..self.lines].to_vec();
        self.blocks[place / BLOCK][place % BLOCK * self.lines..][..self.lines].copy_from_slice(&moved);
        self.blocks.truncate(last.div_ceil(BLOCK));
    }

    /// Calls `each` with the product of every row and a query, in bytes.
    pub(crate) fn each(&self, level: Level, query: &Split, mut each: impl FnMut(u32, f32, &Fact)) {
        let mut products = [0.0; BLOCK];
        let mut place = 0;
        for (lines, facts) in self.blocks.iter().zip(self.facts.chunks(BLOCK)) {
            let products = &mut products[..facts.len()];
            dots(level, query, &lines[..facts.len() * self.lines], products);
            for (product, fact) in products.iter().zip(facts) {
                each(place, *product, fact);
                place += 1;
            }
        }
    }
}

/// Converts to a float that is not less.
fn above(number: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "what is cut off is added again")]
    let near = number as f32;
    near * (1.0 + 2.0 * f32::EPSILON)
}
