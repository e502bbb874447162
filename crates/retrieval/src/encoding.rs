//! Encoding of stored vectors: their components in order, as little-endian 32-bit floats.

/// Encodes a vector.
pub fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes a vector.
pub fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

/// Returns the cosine of an encoded vector and another vector, both of length 1.
pub fn cosine_of(kept: &[u8], vector: &[f32]) -> f32 {
    let numbers = kept.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number));
    numbers.zip(vector).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_to_the_last_bit() {
        let vector = [0.6, -0.8, f32::MIN_POSITIVE];
        assert_eq!(numbers(&bytes(&vector)), vector);
        assert!((cosine_of(&bytes(&[0.6, 0.8]), &[0.8, 0.6]) - 0.96).abs() < 1e-6);
        assert!(numbers(&[1, 2, 3]).is_empty());
    }
}
