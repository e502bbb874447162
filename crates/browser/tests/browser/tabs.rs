//! Tabs: their numbers, those that pages open, and sessions that do not see each other.

use browser::{BrowserError, limits};

use crate::harness::{LIMIT, button, click, page, run};

#[test]
fn numbers_are_stable_and_never_used_again() {
    run(async |ground| {
        let (one, two) = (ground.open("<title>1</title>").await, ground.open("<title>2</title>").await);
        assert_eq!((one.number(), two.number(), ground.session.active()), (1, 2, Some(2)));
        ground.session.switch(1).await.unwrap();
        ground.session.close(2).await.unwrap();
        let three = ground.open("<title>3</title>").await;
        let tabs = ground.session.tabs().await;
        let shown: Vec<_> = tabs.iter().map(|tab| (tab.tab, tab.title.as_str(), tab.active)).collect();
        assert_eq!(shown, [(1, "1", false), (3, "3", true)]);
        assert!(matches!(ground.session.close(2).await, Err(BrowserError::NoTab { tab: 2, .. })));
        assert!(matches!(ground.session.switch(2).await, Err(BrowserError::NoTab { tab: 2, .. })));
        ground.session.close(three.number()).await.unwrap();
        assert_eq!(ground.session.active(), Some(1));
        let closed = three.navigate(&ground.server.page(""), None, LIMIT).await;
        assert!(matches!(closed, Err(BrowserError::TabClosed { tab: 3 })), "{closed:?}");
    });
}

#[test]
fn a_tab_that_a_page_opens_is_adopted_and_reported() {
    run(async |ground| {
        let target = ground.server.page("<title>opened</title>");
        for html in [
            button(&format!("window.open('{target}')")),
            format!(
                "<a href='{target}' target=_blank style='position:fixed;left:0;top:0;width:100px;height:50px'>x</a>"
            ),
        ] {
            let tab = ground.open(&html).await;
            let action = tab.begin_action().await.unwrap();
            click(&tab).await;
            assert!(tab.settle(&action, LIMIT).await);
            let report = tab.report(&action);
            assert_eq!(report.opened_tabs.len(), 1, "{report:?}");
            let opened = ground.session.tab(report.opened_tabs[0].tab).unwrap();
            // The new tab is set up before its page runs, so a read waits for it.
            opened.prepare().await.unwrap();
            assert_eq!(opened.navigate(&target, None, LIMIT).await.unwrap().title, "opened");
            let action = tab.begin_report();
            ground.session.close(opened.number()).await.unwrap();
            assert_eq!(tab.report(&action).closed_tabs, [opened.number()]);
        }
    });
}

#[test]
fn tabs_beyond_the_limit_are_closed_at_once_and_reported() {
    run(async |ground| {
        let tab = ground.open(&button("window.open('about:blank')")).await;
        let mut refusals = Vec::new();
        for _ in 0..limits::TABS + 3 {
            let action = tab.begin_action().await.unwrap();
            click(&tab).await;
            assert!(tab.settle(&action, LIMIT).await);
            refusals.extend(tab.report(&action).refusals);
        }
        assert_eq!(ground.session.tabs().await.len(), limits::TABS);
        assert_eq!(refusals.len(), 4, "{refusals:?}");
        assert!(refusals[0].contains("20 tabs are open"), "{refusals:?}");
        let error = ground.session.create("about:blank", LIMIT).await.unwrap_err();
        assert!(matches!(error, BrowserError::TooManyTabs { limit: limits::TABS }), "{error}");
    });
}

#[test]
fn sessions_share_neither_tabs_nor_cookies() {
    run(async |ground| {
        let tab = ground.open("<script>document.cookie = 'own=1'; localStorage.own = '1'</script>").await;
        let other = ground.browser.new_session().await.unwrap();
        assert!(matches!(other.tab(tab.number()), Err(BrowserError::NoTab { .. })));
        assert!(other.cookies("").await.unwrap().is_empty());
        let navigated = other.navigate(None, &tab.url(), None, LIMIT).await.unwrap();
        assert_eq!(navigated.tab, 1);
        assert_eq!(ground.session.cookies("127.0.0.1").await.unwrap().len(), 1);
    });
}

#[test]
fn cookies_are_listed_by_host_and_cleared_with_everything_else() {
    run(async |ground| {
        let headers = vec![
            ("Content-Type", "text/html".to_owned()),
            ("Set-Cookie", "kept=secret; HttpOnly; Path=/; Max-Age=1000; SameSite=Strict".to_owned()),
        ];
        let answer = crate::server::Answer { headers, ..crate::server::Answer::default() };
        let url = ground.server.answer(answer);
        let tab = ground.session.tab(ground.visit(&url).await.tab).unwrap();
        page::<()>(&tab, "void (localStorage.x = '1')").await;
        let cookies = ground.session.cookies("127.0.0.1").await.unwrap();
        assert_eq!(cookies.len(), 1);
        let cookie = &cookies[0];
        assert_eq!((cookie.name.as_str(), cookie.value.as_str(), cookie.http_only), ("kept", "secret", true));
        assert_eq!((cookie.same_site.as_deref(), cookie.secure), (Some("Strict"), false));
        assert!(ground.session.cookies("other.test").await.unwrap().is_empty());
        ground.session.clear().await.unwrap();
        assert!(ground.session.cookies("").await.unwrap().is_empty());
        assert!(ground.session.tabs().await.is_empty());
        let again = ground.open("<p>x").await;
        assert_eq!(again.number(), 2);
        assert_eq!(page::<Option<String>>(&again, "localStorage.getItem('x')").await, None);
    });
}

#[test]
fn a_session_that_is_dropped_closes_its_tabs() {
    run(async |ground| {
        let other = ground.browser.new_session().await.unwrap();
        let navigated = other.navigate(None, &ground.server.page(""), None, LIMIT).await.unwrap();
        let tab = other.tab(navigated.tab).unwrap();
        let mut events = tab.client().subscribe();
        drop(other);
        // The subscription ends with the tab.
        while events.next().await.is_some() {}
        assert!(tab.client().run(cdp::protocol::page::StopLoading {}).await.is_err());
    });
}
