//! Pictures for models: format, dimensions, and limits of an answer.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use imagesize::ImageType;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of bytes of a shown picture. Its Base64 form stays below the 5 MB limit of model
/// providers.
pub(crate) const LARGEST_PICTURE: u64 = 3 << 20;

/// Maximum number of pixels of its longer side, beyond which providers refuse the whole request.
pub(crate) const LONGEST_SIDE: u64 = 8_000;

/// Number of bytes that identify the format.
const HEADER_BYTES: usize = 32;

/// Dimensions of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Picture {
    /// Width in pixels.
    pub(crate) width: u64,
    /// Height in pixels.
    pub(crate) height: u64,
}

impl Picture {
    /// Returns the media type and the dimensions of a picture in a format that models accept.
    /// Returns `None` for any other file, and for a picture without readable dimensions.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
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

    /// Returns true if an answer can contain the picture, which has this number of bytes.
    pub(crate) fn is_shown(self, bytes: u64) -> bool {
        bytes <= LARGEST_PICTURE && self.width.max(self.height) <= LONGEST_SIDE
    }
}

/// Returns true if the name of a file allows it to be a picture.
pub(crate) fn may_be(path: &Path) -> bool {
    mime_guess::from_path(path).first().is_none_or(|guess| guess.type_() == "image")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use serde_json::{Value, json};
    use testkit::{Workspace, run_in, run_tool};
    use tool::ErasedTool;

    use super::*;
    use crate::file_read::FileRead;

    fn read(workspace: &Workspace, arguments: Value) -> Value {
        run_tool(ErasedTool::tool(FileRead).as_ref(), workspace, arguments).unwrap()
    }

    /// Returns the header of a PNG with these dimensions, which is the only part that is read.
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

    fn look(workspace: &Workspace, arguments: Value) -> Value {
        let mut context = workspace.context();
        context.shows_pictures = true;
        run_in(ErasedTool::tool(FileRead).as_ref(), &context, arguments).unwrap()
    }

    #[test]
    fn a_picture_comes_whole_where_it_is_shown_and_in_parts_elsewhere() {
        let workspace = Workspace::new();
        let bytes = [png(640, 480), vec![7; 200_000]].concat();
        let whole = 4 * bytes.len().div_ceil(3);
        for path in ["a.png", "wrong.jpg", "no-extension"] {
            workspace.write(path, &bytes);
            let shown = look(&workspace, json!({"path": path}));
            assert_eq!(shown["picture"], json!({"width": 640, "height": 480}), "{path}");
            assert_eq!((&shown["mime_type"], &shown["truncated"]), (&json!("image/png"), &json!(false)));
            assert_eq!(shown["content"].as_str().unwrap().len(), whole);
            let elsewhere = read(&workspace, json!({ "path": path }));
            assert_eq!((elsewhere.get("picture"), &elsewhere["truncated"]), (None, &json!(true)));
            assert_eq!(elsewhere["content"].as_str().unwrap().len(), 25_000);
        }
        for asked in [json!({"encoding": "base64"}), json!({"offset": 10}), json!({"lines": {"start": 1}})] {
            let mut arguments = asked.clone();
            arguments["path"] = json!("a.png");
            assert!(look(&workspace, arguments).get("picture").is_none(), "{asked}");
        }
        let part = look(&workspace, json!({"path": "a.png", "max_bytes": 300}));
        assert_eq!(part["next_offset"], 300);
    }

    #[test]
    fn a_picture_that_is_too_large_says_its_dimensions_and_its_size() {
        let workspace = Workspace::new();
        workspace.write("wide.png", png(9_000, 2));
        workspace.write("large.png", [png(20, 10), vec![0; 4 << 20]].concat());
        for (path, dimensions) in
            [("wide.png", "9000 x 2 pixels"), ("large.png", "20 x 10 pixels and 4194333 bytes")]
        {
            let shown = look(&workspace, json!({ "path": path }));
            assert_eq!((&shown["content"], &shown["truncated"]), (&json!(""), &json!(true)), "{path}");
            let note = shown["note"].as_str().unwrap();
            assert!(note.contains(dimensions) && note.contains("`max_bytes`"), "{note}");
        }
    }
}
