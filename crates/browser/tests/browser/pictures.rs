//! Pictures and prints.

use browser::{BrowserError, Clip, Format, Rectangle};

use crate::harness::{page, run};

#[test]
fn pictures_have_the_size_of_what_they_show() {
    run(async |ground| {
        let html = "<!doctype html><body style='margin:0;background:#fff'><div style='width:50px;height:3000px;background:#f00'></div>";
        let tab = ground.open(html).await;
        let viewport = tab.screenshot(Clip::Viewport, Format::Png, u32::MAX).await.unwrap();
        assert_eq!((viewport.width, viewport.height), (1280, 720));
        assert!(viewport.bytes.starts_with(b"\x89PNG"));
        let full = tab.screenshot(Clip::FullPage, Format::Jpeg { quality: 60 }, u32::MAX).await.unwrap();
        assert_eq!((full.width, full.height), (1280, 3000));
        assert!(full.bytes.starts_with(b"\xff\xd8"));
        page::<()>(&tab, "void window.scrollTo(0, 1000)").await;
        let part = Rectangle { x: 10.0, y: 20.0, width: 30.0, height: 40.0 };
        let part = tab.screenshot(Clip::Box(part), Format::Png, u32::MAX).await.unwrap();
        assert_eq!((part.width, part.height), (30, 40));
        let small = tab.screenshot(Clip::Viewport, Format::Png, 1280 * 720 / 4).await.unwrap();
        assert_eq!((small.width, small.height), (640, 360));
        let empty = Rectangle { x: 0.0, y: 0.0, width: 0.0, height: 10.0 };
        let empty = tab.screenshot(Clip::Box(empty), Format::Png, u32::MAX).await;
        assert!(matches!(empty, Err(BrowserError::Picture { .. })), "{empty:?}");
    });
}

#[test]
fn a_page_of_any_height_gives_a_bounded_picture() {
    run(async |ground| {
        let tab =
            ground.open("<!doctype html><body style='margin:0'><div style='height:1000000px'></div>").await;
        let full = tab.screenshot(Clip::FullPage, Format::Jpeg { quality: 10 }, 2_000_000).await.unwrap();
        assert!(
            full.width * full.height <= 2_010_000 && full.height > 1000,
            "{} {}",
            full.width,
            full.height
        );
    });
}

#[test]
fn a_page_is_printed() {
    run(async |ground| {
        let tab = ground.open("<p>print me").await;
        assert!(tab.pdf().await.unwrap().starts_with(b"%PDF"));
    });
}
