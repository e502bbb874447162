//! Vectors in fewer bits.

/// A vector as bytes.
pub(crate) struct Small {
    pub(crate) bytes: Vec<i8>,
    /// What one of them stands for.
    pub(crate) unit: f32,
    /// The length of what they leave out.
    pub(crate) left_out: f32,
}

impl Small {
    pub(crate) fn of(vector: &[f32]) -> Self {
        let unit = unit(vector, f32::from(i8::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "at most 127 by the unit")]
        let bytes: Vec<i8> = vector.iter().map(|number| (number / unit).round() as i8).collect();
        let left_out = left_out(vector, unit, bytes.iter().map(|byte| f32::from(*byte)));
        Self { bytes, unit, left_out }
    }
}

/// What is looked for, in 16 bits a number: beside what bytes leave out of the others, that leaves out next to nothing.
pub(crate) struct Query {
    pub(crate) numbers: Vec<i16>,
    pub(crate) unit: f32,
    /// Its length, which makes of what a row leaves out a bound on what that may add.
    pub(crate) length: f32,
    /// The length of what is left out of itself.
    pub(crate) left_out: f32,
}

impl Query {
    pub(crate) fn of(vector: &[f32]) -> Self {
        // As many bits as leave room for the sum of all products.
        let most = i32::MAX / i32::from(i8::MAX) / i32::try_from(vector.len().max(1)).unwrap_or(i32::MAX);
        let most = i16::try_from(most).unwrap_or(i16::MAX).max(1);
        let unit = unit(vector, f32::from(most));
        #[expect(clippy::cast_possible_truncation, reason = "at most what has 16 bits by the unit")]
        let numbers: Vec<i16> = vector.iter().map(|number| (number / unit).round() as i16).collect();
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        let left_out = left_out(vector, unit, numbers.iter().map(|number| f32::from(*number)));
        Self { numbers, unit, length, left_out }
    }
}

fn left_out(vector: &[f32], unit: f32, small: impl Iterator<Item = f32>) -> f32 {
    vector.iter().zip(small).map(|(number, small)| (number - small * unit).powi(2)).sum::<f32>().sqrt()
}

fn unit(vector: &[f32], most: f32) -> f32 {
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    // Of nothing but zeros, any.
    if largest / most > 0.0 { largest / most } else { 1.0 }
}
