//! The reading of what a [`super::writer::Writer`] wrote. Nothing is allocated that the bytes do not have.

use std::sync::Arc;

/// Bytes that are left.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns true if no bytes are left.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads some bytes.
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a list of elements of some bytes each.
    fn list(&mut self, size: usize) -> Option<&'a [u8]> {
        let bytes = self.count()?.checked_mul(size)?;
        self.take(bytes)
    }

    /// Reads a byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Reads a number of 32 bits.
    pub(super) fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Reads a number of 64 bits.
    pub(super) fn word(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads the length of what follows.
    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok()
    }

    /// Reads a list of bytes.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        self.list(1)
    }

    /// Reads a list of numbers of 16 bits.
    pub(super) fn shorts(&mut self) -> Option<Vec<u16>> {
        let (chunks, _) = self.list(2)?.as_chunks::<2>();
        Some(chunks.iter().map(|chunk| u16::from_le_bytes(*chunk)).collect())
    }

    /// Reads a list of numbers of 32 bits.
    pub(super) fn numbers(&mut self) -> Option<Vec<u32>> {
        let (chunks, _) = self.list(4)?.as_chunks::<4>();
        Some(chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
    }

    /// Reads a list of numbers of 64 bits.
    pub(super) fn words(&mut self) -> Option<Vec<u64>> {
        let (chunks, _) = self.list(8)?.as_chunks::<8>();
        Some(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self) -> Option<Vec<Arc<str>>> {
        let lengths = self.numbers()?;
        let mut all = std::str::from_utf8(self.bytes()?).ok()?;
        let mut texts = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (text, rest) = all.split_at_checked(length as usize)?;
            texts.push(text.into());
            all = rest;
        }
        all.is_empty().then_some(texts)
    }
}
