//! Pictures and prints of a tab.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cdp::protocol::page::{
    CaptureScreenshot, GetLayoutMetrics, LayoutMetrics, PrintToPdf, Rectangle, Viewport,
};

use crate::error::BrowserError;
use crate::limits;
use crate::tab::Tab;

/// Part of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clip {
    /// The part that the viewport shows.
    Viewport,
    /// The whole page, at most [`limits::PICTURE_HEIGHT`] high.
    FullPage,
    /// A rectangle in CSS pixels, relative to the viewport: that of an element, for example.
    Box(Rectangle),
}

/// Kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// PNG.
    Png,
    /// JPEG with a quality from 0 to 100.
    Jpeg {
        /// Quality.
        quality: u8,
    },
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The file.
    pub bytes: Vec<u8>,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
}

impl Tab {
    /// Takes a picture. It is scaled down if it would have more than `max_pixels`.
    ///
    /// # Errors
    /// [`BrowserError::Picture`] if the part is empty, and the errors of [`Tab::prepare`].
    pub async fn screenshot(
        &self,
        clip: Clip,
        format: Format,
        max_pixels: u32,
    ) -> Result<Picture, BrowserError> {
        self.prepare().await?;
        let metrics = self.guarded(limits::PICTURE, self.client().run(GetLayoutMetrics {})).await?;
        let area = area(clip, &metrics)?;
        let scale = (f64::from(max_pixels) / (area.width * area.height)).sqrt().min(1.0);
        let is_plain = clip == Clip::Viewport && scale >= 1.0;
        let command = CaptureScreenshot {
            format: if format == Format::Png { "png" } else { "jpeg" },
            quality: match format {
                Format::Png => None,
                Format::Jpeg { quality } => Some(quality.min(100)),
            },
            clip: (!is_plain).then_some(Viewport { scale, ..area }),
            capture_beyond_viewport: clip != Clip::Viewport,
            optimize_for_speed: false,
        };
        let taking = self.client().run_within(command, limits::PICTURE);
        let bytes = decode(&self.guarded(limits::PICTURE, taking).await?.data)?;
        let size = imagesize::blob_size(&bytes)
            .map_err(|error| BrowserError::Picture { reason: error.to_string() })?;
        Ok(Picture { bytes, width: size.width, height: size.height })
    }

    /// Prints the page as PDF, and returns the file. Only a browser without windows can.
    ///
    /// # Errors
    /// The errors of [`Tab::prepare`], or the refusal of the browser.
    pub async fn pdf(&self) -> Result<Vec<u8>, BrowserError> {
        self.prepare().await?;
        let printing = self.client().run_within(PrintToPdf { print_background: true }, limits::PICTURE);
        decode(&self.guarded(limits::PICTURE, printing).await?.data)
    }
}

/// Returns the part of the page, relative to its upper left corner.
fn area(clip: Clip, metrics: &LayoutMetrics) -> Result<Viewport, BrowserError> {
    let shown = metrics.css_layout_viewport;
    let (x, y, width, height) = match clip {
        Clip::Viewport => (shown.page_x, shown.page_y, shown.client_width, shown.client_height),
        Clip::FullPage => (0.0, 0.0, metrics.css_content_size.width, metrics.css_content_size.height),
        Clip::Box(part) => (shown.page_x + part.x, shown.page_y + part.y, part.width, part.height),
    };
    // A part above or left of the page has no pixels; the browser would show another part instead.
    let (width, height) = (width + x.min(0.0), height + y.min(0.0));
    let (x, y) = (x.max(0.0), y.max(0.0));
    // NaN is no size either.
    if !(width >= 1.0 && height >= 1.0 && x.is_finite() && y.is_finite()) {
        let reason = format!("the part is {width} x {height} CSS pixels");
        return Err(BrowserError::Picture { reason });
    }
    let (width, height) = (width.min(limits::PICTURE_HEIGHT), height.min(limits::PICTURE_HEIGHT));
    Ok(Viewport { x, y, width, height, scale: 1.0 })
}

fn decode(data: &str) -> Result<Vec<u8>, BrowserError> {
    STANDARD.decode(data).map_err(|error| BrowserError::Picture { reason: error.to_string() })
}
