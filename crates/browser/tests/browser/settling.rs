//! Settling after an action: its requests and navigations are waited for, others are not.

use std::time::Duration;

use crate::harness::{LIMIT, button, click, page, run};

#[test]
fn a_request_that_the_action_starts_is_waited_for() {
    run(async |ground| {
        let (first, gate) = ground.server.gated("one");
        let second = ground.server.page("two");
        let script = format!(
            "fetch('{first}').then(() => fetch('{second}')).then(answer => answer.text()).then(text => document.title = text)"
        );
        let tab = ground.open(&button(&script)).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        let (settled, ()) = tokio::join!(tab.settle(&action, LIMIT), async {
            ground.server.asked(&first).await;
            gate.open();
        });
        assert!(settled);
        assert_eq!(page::<String>(&tab, "document.title").await, "two");
        assert!(tab.report(&action).is_empty(), "{:?}", tab.report(&action));
    });
}

#[test]
fn a_navigation_that_the_action_starts_is_waited_for_and_reported() {
    run(async |ground| {
        let target = ground.server.page("<title>there</title><img src=/nothing.png>");
        for html in [
            button(&format!("setTimeout(() => location = '{target}')")),
            format!("<form action='{target}'>{}</form>", button("")),
            button(&format!("history.pushState(null, '', '{target}')")),
        ] {
            let tab = ground.open(&html).await;
            let from = tab.url();
            let action = tab.begin_action().await.unwrap();
            click(&tab).await;
            assert!(tab.settle(&action, LIMIT).await);
            let change = tab.report(&action).navigation.unwrap();
            assert_eq!((&change.from, change.to.trim_end_matches('?')), (&from, target.as_str()));
            assert_eq!(change.new_document, tab.title().await.unwrap() == "there", "{html}");
        }
    });
}

#[test]
fn requests_from_before_and_streams_are_not_waited_for() {
    run(async |ground| {
        let (before, _gate) = ground.server.gated("");
        let (stream, _gate_of_stream) = ground.server.gated("");
        let tab = ground.open(&button(&format!("new EventSource('{stream}')"))).await;
        page::<()>(&tab, &format!("void fetch('{before}')")).await;
        ground.server.asked(&before).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        ground.server.asked(&stream).await;
        assert!(tab.settle(&action, LIMIT).await);
    });
}

#[test]
fn a_page_that_never_settles_is_waited_for_only_so_long() {
    run(async |ground| {
        let (endless, _gate) = ground.server.gated("");
        let tab = ground.open(&button(&format!("fetch('{endless}')"))).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        ground.server.asked(&endless).await;
        assert!(!tab.settle(&action, Duration::from_millis(300)).await);
    });
}
