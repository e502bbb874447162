//! The whole path: pair, share, navigate, read, act, and go on after the connection broke.

use std::time::{Duration, Instant};

use browser::{ActionOutcome, ClickOptions, Clip, Format, Masks, Selector, SnapshotOptions};
use serde_json::json;

use super::driven::{at_shop, paired, server};
use crate::harness::{LIMIT, run_alone};

#[test]
fn a_shared_browser_is_used_and_goes_on_after_its_connection_broke() {
    run_alone(async {
        let server = server().await;
        let first = at_shop(&server.page("<title>Shop</title><h1>Shared</h1><button onclick=\"document.body.append('clicked')\">Buy</button>"));
        let private = at_shop(&server.page("<title>Private</title>private"));
        let (chromium, options, lender) = paired("whole").await;
        let _private = chromium.open(&private).await;
        let _shared = chromium.open(&first).await;
        let shared = options.share(&first).await;
        assert_eq!(shared["status"]["shared"], true, "{shared}");
        let began = Instant::now();
        let running = lender.borrow_browser().await;
        println!("connect: {:?}", began.elapsed());
        assert!(running.version().contains("Chrome/"), "{}", running.version());
        let tabs = running.session().tabs().await;
        assert_eq!(tabs.len(), 1, "{tabs:?}");
        assert_eq!((tabs[0].url.as_str(), tabs[0].title.as_str()), (first.as_str(), "Shop"));
        let page = running.page(tabs[0].tab).unwrap();
        let snapshot = page.snapshot(&SnapshotOptions::default()).await.unwrap();
        assert!(snapshot.text.contains("button \"Buy\""), "{}", snapshot.text);
        println!("{}", snapshot.text);
        let _ = (LIMIT, Duration::ZERO, json!({}));
        lender.end();
    });
}
