//! Pictures and prints.

use browser::{BrowserError, Clip, Format, Page, PlannedAction, Rectangle, Selector};

use crate::harness::{page as evaluated, run};

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
        evaluated::<()>(&tab, "void window.scrollTo(0, 1000)").await;
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
fn an_element_is_marked_in_a_picture_and_the_page_does_not_see_it() {
    run(async |ground| {
        let html = "<!doctype html><body style='margin:0;background:#fff'><button style='position:absolute;left:100px;top:100px;width:80px;height:40px'>Buy</button><button style='position:absolute;top:3000px'>Far</button>\
            <script>window.changes = 0; new MutationObserver(() => window.changes++).observe(document, {subtree: true, childList: true, attributes: true})</script>";
        let page = Page::new(ground.open(html).await);
        let target = |name: &'static str| {
            let page = &page;
            async move {
                let selector = Selector::parse(&format!("xpath://button[.='{name}']")).unwrap();
                page.describe(&PlannedAction::Click, &selector).await.unwrap()
            }
        };
        let (buy, far) = (target("Buy").await, target("Far").await);
        let plain = page.tab().screenshot(Clip::Viewport, Format::Png, u32::MAX).await.unwrap();
        let marked = page.tab().marked_picture(buy.facts.area).await.unwrap();
        assert_eq!((marked.width, marked.height), (1280, 720));
        assert_ne!(marked.bytes, plain.bytes);
        assert!(marked.bytes.starts_with(b"\x89PNG"));
        // The mark is in the picture alone.
        let after = page.tab().screenshot(Clip::Viewport, Format::Png, u32::MAX).await.unwrap();
        assert_eq!(after.bytes, plain.bytes);
        let around = page.tab().marked_picture(far.facts.area).await.unwrap();
        assert!(around.height > 400 && around.bytes.len() > 1_000, "{}", around.height);
        let changes = evaluated::<u32>(page.tab(), "window.changes").await;
        assert_eq!(changes, 0);
    });
}

#[test]
fn a_page_is_printed() {
    run(async |ground| {
        let tab = ground.open("<p>print me").await;
        assert!(tab.pdf().await.unwrap().starts_with(b"%PDF"));
    });
}
