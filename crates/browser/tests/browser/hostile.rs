//! Pages that crash, hang, or say very much.

use std::time::Duration;

use browser::{BrowserError, World, limits};
use cdp::protocol::page::Crash;

use crate::harness::{LIMIT, page, run};

#[test]
fn a_crashed_page_is_said_and_loaded_again_on_its_next_use() {
    run(async |ground| {
        let tab = ground.open("<title>back</title><p id=p>text").await;
        let action = tab.begin_report();
        let frame = tab.main_frame();
        let waiting = frame.evaluate::<i32>(World::Isolated, "() => new Promise(() => {})", Vec::new());
        let crashing = async {
            // The script is on its way before the crash is asked for.
            page::<i32>(&tab, "1").await;
            tab.client().post(Crash {});
        };
        let (ended, ()) = tokio::join!(waiting, crashing);
        assert!(matches!(ended, Err(BrowserError::Crashed { .. })), "{ended:?}");
        assert!(tab.report(&action).has_crashed);
        assert_eq!(page::<String>(&tab, "document.querySelector('#p').textContent").await, "text");
        assert_eq!(tab.title().await.unwrap(), "back");
    });
}

#[test]
fn a_page_that_hangs_ends_in_time_and_is_stopped_on_its_next_use() {
    run(async |ground| {
        let tab = ground.open("<title>hung</title>").await;
        let frame = tab.main_frame();
        let endless = "() => { for (;;) {} }";
        let limit = Duration::from_millis(500);
        let ended = frame.evaluate_within::<i32>(World::Isolated, endless, Vec::new(), limit).await;
        assert!(matches!(ended, Err(BrowserError::NotResponding { .. })), "{ended:?}");
        // The title needs no script of the page.
        assert_eq!(tab.title().await.unwrap(), "hung");
        assert_eq!(page::<i32>(&tab, "1 + 1").await, 2);
        let next = tab.navigate(&ground.server.page("<title>next</title>"), None, LIMIT).await.unwrap();
        assert_eq!(next.title, "next");
    });
}

#[test]
fn a_page_that_hangs_while_it_loads_ends_at_the_deadline() {
    run(async |ground| {
        let url = ground.server.page("<title>t</title><p>x<script>for (;;) {}</script>");
        let limit = Duration::from_secs(2);
        let navigated = ground.session.navigate(None, &url, None, limit).await.unwrap();
        assert!(!navigated.loaded);
        let tab = ground.session.tab(navigated.tab).unwrap();
        let next = tab.navigate(&ground.server.page("<title>next</title>"), None, LIMIT).await.unwrap();
        assert_eq!((next.loaded, next.title.as_str()), (true, "next"));
    });
}

#[test]
fn titles_and_urls_are_cut() {
    run(async |ground| {
        let html = "<script>document.title = '\\u202e</script>'.repeat(50000); history.replaceState(null, '', '?' + 'x'.repeat(100000))</script>";
        let navigated = ground.visit(&ground.server.page(html)).await;
        assert!(navigated.title.len() <= limits::TITLE && navigated.url.len() <= limits::URL);
        let tabs = ground.session.tabs().await;
        assert!(tabs[0].title.len() <= limits::TITLE && tabs[0].url.len() <= limits::URL);
    });
}

#[test]
fn a_page_that_navigates_for_ever_ends_at_the_deadline() {
    run(async |ground| {
        let path = ground.server.path();
        let html = "<script>location = location.pathname + '?' + Math.random()</script>";
        let answer = crate::server::Answer { body: html.into(), ..crate::server::Answer::default() };
        ground.server.answer_at(&path, answer);
        let limit = Duration::from_secs(2);
        let navigated = ground.session.navigate(None, &ground.server.url(&path), None, limit).await.unwrap();
        assert!(ground.server.count(&ground.server.url(&path)) > 1);
        ground.session.close(navigated.tab).await.unwrap();
        let next = ground
            .session
            .navigate(None, &ground.server.page("<title>next</title>"), None, LIMIT)
            .await
            .unwrap();
        assert_eq!((next.loaded, next.title.as_str()), (true, "next"));
    });
}

/// Ways in which a page navigates again and again.
const RESTLESS: [&str; 5] = [
    "<script>location = location.pathname + '?' + Math.random()</script>",
    "<script>setInterval(() => { location = location.pathname + '?' + Math.random() }, 0)</script>",
    "<meta http-equiv=refresh content=0>",
    "<form action=''><input name=a></form><script>document.forms[0].submit()</script>",
    "<script>onbeforeunload = () => 'stay'; onunload = onpagehide = () => { location.reload() }; location.reload()</script>",
];

#[test]
fn a_page_that_navigates_for_ever_can_be_left_and_its_tab_closed() {
    run(async |ground| {
        for body in RESTLESS.repeat(3) {
            let path = ground.server.path();
            let answer = crate::server::Answer { body: body.into(), ..crate::server::Answer::default() };
            ground.server.answer_at(&path, answer);
            let url = ground.server.url(&path);
            let limit = Duration::from_millis(500);
            let restless = ground.session.navigate(None, &url, None, limit).await.unwrap();
            let next = ground.server.page("<title>next</title>");
            let left = ground.session.navigate(Some(restless.tab), &next, None, LIMIT).await.unwrap();
            assert_eq!((left.loaded, left.title.as_str()), (true, "next"), "{body}");
            ground.session.navigate(Some(restless.tab), &url, None, limit).await.unwrap();
            ground.session.close(restless.tab).await.unwrap();
            assert_eq!(ground.session.tabs().await, []);
        }
    });
}

#[test]
fn a_large_page_and_many_frames_leave_everything_usable() {
    run(async |ground| {
        let html = "<p>x".repeat(20_000) + &"<iframe srcdoc='x'></iframe>".repeat(50);
        let tab = ground.open(&html).await;
        assert_eq!(tab.frames().len(), 51);
        assert_eq!(page::<usize>(&tab, "document.querySelectorAll('p').length").await, 20_000);
        let text: String = page(&tab, "'y'.repeat(20_000_000)").await;
        assert_eq!(text.len(), 20_000_000);
    });
}
