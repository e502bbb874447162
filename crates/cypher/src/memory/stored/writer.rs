//! The writing of numbers and texts, the lowest byte first.

use std::sync::Arc;

/// Bytes under construction.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// Creates a writer that appends to bytes.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a byte.
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Writes a number of 32 bits.
    pub(super) fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    /// Writes a number of 64 bits.
    pub(super) fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    /// Writes the length of what follows.
    pub(super) fn count(&mut self, count: usize) {
        self.word(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Writes a list of bytes.
    pub(super) fn bytes(&mut self, bytes: impl ExactSizeIterator<Item = u8>) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    /// Writes a list of numbers of 16 bits.
    pub(super) fn shorts(&mut self, numbers: impl ExactSizeIterator<Item = u16>) {
        self.count(numbers.len());
        self.0.reserve(numbers.len() * 2);
        numbers.for_each(|number| self.0.extend(number.to_le_bytes()));
    }

    /// Writes a list of numbers of 32 bits.
    pub(super) fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.count(numbers.len());
        self.0.reserve(numbers.len() * 4);
        numbers.for_each(|number| self.0.extend(number.to_le_bytes()));
    }

    /// Writes a list of numbers of 64 bits.
    pub(super) fn words(&mut self, words: &[u64]) {
        self.count(words.len());
        for word in words {
            self.word(*word);
        }
    }

    /// Writes a list of texts: their lengths, and all of them in one.
    pub(super) fn texts(&mut self, texts: &[Arc<str>]) {
        self.numbers(texts.iter().map(|text| u32::try_from(text.len()).unwrap_or(u32::MAX)));
        self.count(texts.iter().map(|text| text.len()).sum());
        for text in texts {
            self.0.extend(text.as_bytes());
        }
    }
}
