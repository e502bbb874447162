//! Values as D-Bus has them on the wire: aligned, and texts and arrays with their lengths before them.

use zeroize::Zeroizing;

/// Writes values, in little endian.
pub(super) struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    /// With room for so many bytes: what holds a key should not have to grow, which leaves a copy behind.
    pub(super) fn new(room: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(room)))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.0
    }

    pub(super) fn align(&mut self, to: usize) {
        let aligned = self.0.len().next_multiple_of(to);
        self.0.resize(aligned, 0);
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn yes(&mut self) {
        self.number(1);
    }

    /// A text, or the path of an object.
    pub(super) fn text(&mut self, value: &str) {
        self.number(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    pub(super) fn signature(&mut self, value: &str) {
        self.0.push(u8::try_from(value.len()).unwrap_or(u8::MAX));
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    /// An array, whose elements are aligned so.
    pub(super) fn array(&mut self, alignment: usize, write: impl FnOnce(&mut Self)) {
        self.number(0);
        let length = self.0.len() - 4;
        self.align(alignment);
        let start = self.0.len();
        write(self);
        let written = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[length..length + 4].copy_from_slice(&written.to_le_bytes());
    }

    /// Texts by texts.
    pub(super) fn texts(&mut self, pairs: &[(&str, &str)]) {
        self.array(8, |writer| {
            for (name, value) in pairs {
                writer.align(8);
                writer.text(name);
                writer.text(value);
            }
        });
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }
}

/// Reads values. None is what is not there, or is none.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big_endian: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], is_big_endian: bool) -> Self {
        Self { bytes, at: 0, is_big_endian }
    }

    pub(super) fn has_more(&self) -> bool {
        self.at < self.bytes.len()
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    pub(super) fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// A text, or the path of an object.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.number()? as usize;
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    pub(super) fn signature(&mut self) -> Option<&'a str> {
        let length = self.byte()?;
        let text = std::str::from_utf8(self.take(usize::from(length))?).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    /// An array of bytes.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        self.take(length)
    }

    /// An array of texts or of the paths of objects.
    pub(super) fn texts(&mut self) -> Option<Vec<&'a str>> {
        let end = self.number()? as usize;
        let end = self.at.checked_add(end).filter(|end| *end <= self.bytes.len())?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        Some(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_what_is_cut_off_is_none() {
        let mut writer = Writer::new(0);
        writer.byte(7);
        writer.text("ab");
        writer.array(4, |writer| {
            writer.text("/one");
            writer.text("/two");
        });
        writer.signature("ao");
        let bytes = writer.into_bytes();
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes, false);
            let first = (reader.byte()?, reader.text()?.to_owned());
            let texts: Vec<String> = reader.texts()?.into_iter().map(str::to_owned).collect();
            Some((first, texts, reader.signature()?.to_owned()))
        };
        let all = ((7, "ab".to_owned()), vec!["/one".to_owned(), "/two".to_owned()], "ao".to_owned());
        assert_eq!(read(&bytes), Some(all));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "{length}");
        }
        // A length that no memory has.
        assert_eq!(Reader::new(&[0xff; 8], false).bytes(), None);
        assert_eq!(Reader::new(&[0xff; 8], true).texts(), None);
    }
}
