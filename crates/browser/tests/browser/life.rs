//! Life of a browser: its version, its end, and what its end does to those who wait.

use browser::{Browser, BrowserError, Settings, World};

use crate::harness::{LIMIT, profile, run, run_alone, start};

async fn own(name: &str) -> (Browser, std::process::Child) {
    start(&Settings::new(profile(name).to_string_lossy())).await
}

#[test]
fn a_browser_names_its_version() {
    run(async |ground| {
        assert!(ground.browser.version().contains("Chrome/"), "{}", ground.browser.version());
        assert!(!ground.browser.is_closed());
    });
}

#[test]
fn everything_ends_with_the_browser() {
    run_alone(async {
        let (browser, mut child) = own("ended").await;
        let session = browser.new_session().await.unwrap();
        let navigated = session.navigate(None, "about:blank", None, LIMIT).await.unwrap();
        let tab = session.tab(navigated.tab).unwrap();
        let frame = tab.main_frame();
        let waiting = frame.evaluate::<i32>(World::Isolated, "() => new Promise(() => {})", Vec::new());
        let (ended, ()) = tokio::join!(waiting, async {
            frame.evaluate::<i32>(World::Isolated, "() => 1", Vec::new()).await.unwrap();
            browser.close().await;
        });
        assert!(
            matches!(ended, Err(BrowserError::Gone { .. } | BrowserError::TabClosed { .. })),
            "{ended:?}"
        );
        browser.closed().await;
        assert!(browser.is_closed());
        let next = session.navigate(None, "about:blank", None, LIMIT).await;
        assert!(matches!(next, Err(BrowserError::Gone { .. })), "{next:?}");
        assert!(matches!(browser.new_session().await, Err(BrowserError::Gone { .. })));
        child.wait().unwrap();
    });
}

#[test]
fn a_browser_whose_handles_are_dropped_ends() {
    run_alone(async {
        let (browser, mut child) = own("dropped").await;
        let session = browser.new_session().await.unwrap();
        drop(browser);
        // A session keeps the browser.
        session.navigate(None, "about:blank", None, LIMIT).await.unwrap();
        drop(session);
        tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    });
}

#[test]
fn what_is_no_browser_is_an_error() {
    run_alone(async {
        let (near, far) = tokio::io::duplex(100);
        drop(far);
        let (reader, writer) = tokio::io::split(near);
        let error = Browser::connect(reader, writer, Settings::new("/nowhere")).await.unwrap_err();
        assert!(matches!(error, BrowserError::Gone { .. }), "{error}");
    });
}
