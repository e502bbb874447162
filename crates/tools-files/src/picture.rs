//! Pictures that models look at: what they are, how large, and which of them an answer holds.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use imagesize::ImageType;
use schemars::JsonSchema;
use serde::Serialize;

/// Bytes of the largest picture that is shown: as Base64 below the 5 MB that providers of models take.
pub(crate) const LARGEST_PICTURE: u64 = 3 << 20;

/// Pixels of its longer side, beyond which providers refuse the whole request.
pub(crate) const LONGEST_SIDE: u64 = 8_000;

/// Bytes that tell the format.
const HEADER_BYTES: usize = 32;

/// A picture's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Picture {
    /// Pixels.
    pub(crate) width: u64,
    /// Pixels.
    pub(crate) height: u64,
}

impl Picture {
    /// Looks whether a file is a picture of a format that models are shown, and gives its media type and its dimensions.
    ///
    /// # Errors
    /// Where the file cannot be read. A picture whose dimensions cannot be read is none.
    pub(crate) fn of(mut file: &File) -> io::Result<Option<(&'static str, Self)>> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        file.rewind()?;
        file.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
        let kind = match imagesize::image_type(&header) {
            Ok(ImageType::Png) => "image/png",
            Ok(ImageType::Jpeg) => "image/jpeg",
            Ok(ImageType::Gif) => "image/gif",
            Ok(ImageType::Webp) => "image/webp",
            _ => return Ok(None),
        };
        file.rewind()?;
        let Ok(size) = imagesize::reader_size(BufReader::new(file)) else { return Ok(None) };
        let side = |pixels: usize| u64::try_from(pixels).unwrap_or(u64::MAX);
        Ok(Some((kind, Self { width: side(size.width), height: side(size.height) })))
    }

    /// Tells whether an answer holds it, so many bytes as it has.
    pub(crate) fn is_shown(self, bytes: u64) -> bool {
        bytes <= LARGEST_PICTURE && self.width.max(self.height) <= LONGEST_SIDE
    }
}

/// Tells whether a file may be a picture, as far as its name says.
pub(crate) fn may_be(path: &Path) -> bool {
    mime_guess::from_path(path).first().is_none_or(|guess| guess.type_() == "image")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// The head of a PNG of these dimensions, which is all that is looked at.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0]);
        bytes
    }

    fn of(bytes: &[u8]) -> Option<(&'static str, u64, u64)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Picture::of(&file).unwrap().map(|(kind, picture)| (kind, picture.width, picture.height))
    }

    #[test]
    fn the_formats_that_models_are_shown_are_told_by_their_content() {
        assert_eq!(of(&png(640, 480)), Some(("image/png", 640, 480)));
        assert_eq!(of(b"GIF89a\x03\0\x02\0\x80\0\0"), Some(("image/gif", 3, 2)));
        let jpeg = [
            &b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"[..],
            &b"\xff\xc0\0\x11\x08\0\x05\0\x07\x03"[..],
        ];
        assert_eq!(of(&jpeg.concat()), Some(("image/jpeg", 7, 5)));
        let webp = [&b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0"[..], &[9, 0, 0, 4, 0, 0]];
        assert_eq!(of(&webp.concat()), Some(("image/webp", 10, 5)));
    }

    #[test]
    fn anything_else_is_no_picture() {
        for bytes in
            [&b""[..], b"\x89PNG", b"BM\0\0\0\0", b"II*\0", b"<svg width='1'/>", b"\xff\xd8\xff\xe0", b"text"]
        {
            assert_eq!(of(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_picture_beyond_what_providers_take_is_not_shown() {
        let picture = |width, height| Picture { width, height };
        assert!(picture(8_000, 1).is_shown(LARGEST_PICTURE));
        assert!(!picture(1, 8_001).is_shown(1));
        assert!(!picture(1, 1).is_shown(LARGEST_PICTURE + 1));
    }

    #[test]
    fn a_name_that_says_text_is_no_picture() {
        let named = |name: &str| may_be(Path::new(name));
        assert!(named("a.png") && named("a.JPG") && named("screenshot") && named("a.unknown"));
        assert!(!named("a.rs") && !named("a.txt") && !named("a.json"));
    }
}
