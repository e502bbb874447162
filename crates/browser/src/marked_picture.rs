//! A picture of a page with one element marked, for a human who decides about an action on it.
//!
//! The mark is painted into the picture, so the page does not see it. Chromium's own marks need a browser
//! with windows.

use cdp::protocol::page::{GetLayoutMetrics, Rectangle};

use crate::error::BrowserError;
use crate::limits;
use crate::picture::{Clip, Format, Picture};
use crate::tab::Tab;
use crate::target::Area;

/// Colour of the mark: red, green and blue.
const MARK: [u8; 3] = [255, 0, 60];
/// Width of the mark in pixels.
const LINE: usize = 3;
/// CSS pixels between the element and its mark.
const GAP: f64 = 4.0;
/// CSS pixels around an element outside of the viewport that its picture shows.
const SURROUNDINGS: f64 = 300.0;
/// Maximum number of pixels.
const MAX_PIXELS: u32 = 1280 * 1280;

impl Tab {
    /// Takes a picture of the page, as PNG, with a frame around the element whose box in the viewport is
    /// `area`. An element outside of the viewport is shown with its surroundings.
    ///
    /// # Errors
    /// The errors of [`Tab::screenshot`].
    pub async fn marked_picture(&self, area: Area) -> Result<Picture, BrowserError> {
        let (width, height) = self.settings().viewport;
        let (width, height) = (f64::from(width), f64::from(height));
        let is_inside =
            area.x >= 0.0 && area.y >= 0.0 && area.x + area.width <= width && area.y + area.height <= height;
        let shown = if is_inside {
            Rectangle { x: 0.0, y: 0.0, width, height }
        } else {
            let metrics = self.guarded(limits::PICTURE, self.client().run(GetLayoutMetrics {})).await?;
            let scrolled = metrics.css_layout_viewport;
            // There is no picture of what lies above and left of the page.
            Rectangle {
                x: (area.x - SURROUNDINGS).max(-scrolled.page_x),
                y: (area.y - SURROUNDINGS).max(-scrolled.page_y),
                width: (area.width + 2.0 * SURROUNDINGS).min(width),
                height: (area.height + 2.0 * SURROUNDINGS).min(height),
            }
        };
        let clip = if is_inside { Clip::Viewport } else { Clip::Box(shown) };
        let picture = self.screenshot(clip, Format::Png, MAX_PIXELS).await?;
        marked(&picture, shown, area)
    }
}

/// Paints the frame of an element into a picture that shows this part of the viewport.
fn marked(picture: &Picture, shown: Rectangle, area: Area) -> Result<Picture, BrowserError> {
    let failed = |reason: String| BrowserError::Picture { reason };
    let mut decoder = png::Decoder::new(std::io::Cursor::new(&picture.bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| failed(error.to_string()))?;
    let size = reader.output_buffer_size().ok_or_else(|| failed("it is too large".to_owned()))?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(|error| failed(error.to_string()))?;
    let samples = info.color_type.samples();
    #[expect(clippy::cast_precision_loss, reason = "a picture has some thousand pixels a side")]
    let scale = picture.width as f64 / shown.width;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    let place = |position: f64, most: usize| {
        let position = (position * scale).round().max(0.0) as usize;
        position.min(most.saturating_sub(1))
    };
    let left = place(area.x - shown.x - GAP, picture.width);
    let right = place(area.x - shown.x + area.width + GAP, picture.width);
    let top = place(area.y - shown.y - GAP, picture.height);
    let bottom = place(area.y - shown.y + area.height + GAP, picture.height);
    for y in top..=bottom {
        let is_edge = y < top + LINE || y + LINE > bottom;
        for x in left..=right {
            if is_edge || x < left + LINE || x + LINE > right {
                let start = y * info.line_size + x * samples;
                for (sample, colour) in pixels.iter_mut().skip(start).zip(MARK).take(samples.min(3)) {
                    *sample = colour;
                }
            }
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, info.width, info.height);
    encoder.set_color(info.color_type);
    encoder.set_depth(info.bit_depth);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    written.map_err(|error| failed(error.to_string()))?;
    Ok(Picture { bytes, width: picture.width, height: picture.height })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn white(width: u32, height: u32) -> Picture {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![255; (width * height * 3) as usize]).unwrap();
        writer.finish().unwrap();
        Picture { bytes, width: width as usize, height: height as usize }
    }

    /// Returns the box of all marked pixels: left, top, right, bottom.
    fn found(picture: &Picture) -> Option<(usize, usize, usize, usize)> {
        let decoder = png::Decoder::new(std::io::Cursor::new(&picture.bytes));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let marked = pixels.chunks(3).enumerate().filter(|(_, pixel)| *pixel == MARK);
        let places: Vec<_> = marked.map(|(at, _)| (at % picture.width, at / picture.width)).collect();
        let (xs, ys): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        Some((*xs.iter().min()?, *ys.iter().min()?, *xs.iter().max()?, *ys.iter().max()?))
    }

    #[test]
    fn the_frame_surrounds_the_element_in_the_scale_of_the_picture_and_stays_inside() {
        let whole = Rectangle { x: 0.0, y: 0.0, width: 200.0, height: 100.0 };
        let area = Area { x: 20.0, y: 30.0, width: 40.0, height: 10.0 };
        assert_eq!(found(&marked(&white(200, 100), whole, area).unwrap()), Some((16, 26, 64, 44)));
        assert_eq!(found(&marked(&white(100, 50), whole, area).unwrap()), Some((8, 13, 32, 22)));
        let part = Rectangle { x: 10.0, y: 20.0, width: 200.0, height: 100.0 };
        assert_eq!(found(&marked(&white(200, 100), part, area).unwrap()), Some((6, 6, 54, 24)));
        let beyond = Area { x: 180.0, y: -50.0, width: 900.0, height: 70.0 };
        assert_eq!(found(&marked(&white(200, 100), whole, beyond).unwrap()), Some((176, 0, 199, 24)));
        assert!(
            marked(&Picture { bytes: b"no picture".to_vec(), width: 1, height: 1 }, whole, area).is_err()
        );
    }
}
