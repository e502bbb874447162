//! Navigation: what is loaded, what is refused, what never ends.

use std::time::Duration;

use browser::BrowserError;

use crate::harness::{LIMIT, button, click, page, run};
use crate::server::Answer;

/// Time limit for what does not end by itself.
const SHORT: Duration = Duration::from_millis(1500);

#[test]
fn a_page_is_loaded_with_its_title_url_and_status() {
    run(async |ground| {
        let url = ground.server.page("<title>Hello</title><p>text");
        let navigated = ground.visit(&ground.server.redirect(&url)).await;
        assert!(navigated.loaded);
        assert_eq!((navigated.title.as_str(), &navigated.url, navigated.status), ("Hello", &url, Some(200)));
        let change = navigated.report.navigation.unwrap();
        assert!(change.new_document && change.to == url, "{change:?}");
        let missing = ground.visit(&ground.server.url("/missing")).await;
        assert_eq!((missing.loaded, missing.status), (true, Some(404)));
    });
}

#[test]
fn a_named_tab_is_used_and_another_ones_number_is_refused() {
    run(async |ground| {
        let tab = ground.open("one").await;
        let two = ground.server.page("two");
        let navigated = ground.session.navigate(Some(tab.number()), &two, None, LIMIT).await.unwrap();
        assert_eq!((navigated.tab, ground.session.tabs().await.len()), (tab.number(), 1));
        let error = ground.session.navigate(Some(99), &two, None, LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no tab 99; open tabs: 1");
    });
}

#[test]
fn a_change_of_the_fragment_is_no_new_document() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let url = format!("{}#part", tab.url());
        let navigated = tab.navigate(&url, None, LIMIT).await.unwrap();
        assert!(navigated.loaded);
        assert_eq!(navigated.url, url);
        assert!(!navigated.report.navigation.unwrap().new_document);
    });
}

#[test]
fn a_refused_scheme_opens_nothing() {
    run(async |ground| {
        for url in ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "chrome://version"] {
            let error = ground.session.navigate(None, url, None, LIMIT).await.unwrap_err();
            assert!(matches!(error, BrowserError::Address { .. }), "{error}");
        }
        assert!(ground.session.tabs().await.is_empty());
        let blank = ground.visit("about:blank").await;
        assert_eq!((blank.loaded, blank.url.as_str()), (true, "about:blank"));
    });
}

#[test]
fn a_redirect_to_a_refused_scheme_is_an_error() {
    run(async |ground| {
        let tab = ground.open("<p>before").await;
        for to in ["file:///etc/passwd", "data:text/html,x", "chrome://version"] {
            let url = ground.server.redirect(to);
            let error = tab.navigate(&url, None, LIMIT).await.unwrap_err();
            assert!(error.to_string().contains("scheme that is refused"), "{error}");
            let text: String = page(&tab, "document.documentElement.outerHTML").await;
            assert!(!text.contains("root:"), "{text}");
        }
    });
}

#[test]
fn a_page_that_leads_to_a_refused_scheme_is_replaced_by_the_empty_page() {
    run(async |ground| {
        let html =
            button("location = window.URL.createObjectURL(new Blob(['<p>blob'], {type: 'text/html'}))");
        let tab = ground.open(&html).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        assert!(tab.settle(&action, LIMIT).await);
        let report = tab.report(&action);
        assert_eq!(tab.url(), "about:blank");
        assert!(
            report.refusals.iter().any(|said| said.contains("blob:") && said.contains("empty now")),
            "{report:?}"
        );
    });
}

#[test]
fn a_page_that_tries_to_open_a_file_stays_and_it_is_said() {
    run(async |ground| {
        let tab = ground.open(&button("location = 'file:///etc/passwd'")).await;
        let url = tab.url();
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        assert!(tab.settle(&action, LIMIT).await);
        let report = tab.report(&action);
        assert_eq!(tab.url(), url);
        assert!(report.refusals.iter().any(|said| said.contains("file:///etc/passwd")), "{report:?}");
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error_and_the_tab_stays_usable() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let error = tab.navigate("http://127.0.0.1:1/", None, LIMIT).await.unwrap_err();
        assert!(matches!(&error, BrowserError::Navigation { .. }), "{error}");
        let again = tab.navigate(&ground.server.page("<title>again</title>"), None, LIMIT).await.unwrap();
        assert_eq!(again.title, "again");
    });
}

#[test]
fn a_server_that_never_answers_leaves_what_was_there() {
    run(async |ground| {
        let tab = ground.open("<title>old</title>").await;
        let (url, _gate) = ground.server.gated("");
        let navigated = tab.navigate(&url, None, SHORT).await.unwrap();
        assert_eq!((navigated.loaded, navigated.title.as_str()), (false, "old"));
        assert_eq!(page::<i32>(&tab, "1 + 1").await, 2);
    });
}

#[test]
fn a_page_that_never_ends_can_be_read_as_far_as_it_is_there() {
    run(async |ground| {
        let body = b"<title>part</title><p id=p>here</p>".to_vec();
        let url = ground.server.answer(Answer { body, stated_length: Some(10_000), ..Answer::default() });
        let navigated = ground.session.navigate(None, &url, None, SHORT).await.unwrap();
        assert_eq!((navigated.loaded, navigated.url), (false, url));
        let tab = ground.session.tab(navigated.tab).unwrap();
        assert_eq!(page::<String>(&tab, "document.querySelector('#p').textContent").await, "here");
    });
}

#[test]
fn an_element_that_comes_later_is_waited_for() {
    run(async |ground| {
        let (data, gate) = ground.server.gated("late");
        let html = format!(
            "<body><script>fetch('{data}').then(() => {{ document.body.innerHTML = '<b id=late>x</b>'; }})</script>"
        );
        let url = ground.server.page(&html);
        for selector in ["#late", "css:b#late", "xpath://b[@id='late']"] {
            let opening = ground.session.navigate(None, &url, Some(selector), LIMIT);
            let (navigated, ()) = tokio::join!(opening, async {
                ground.server.asked(&data).await;
                gate.open();
            });
            assert!(navigated.unwrap().loaded, "{selector}");
        }
        let navigated = ground.session.navigate(None, &url, Some("#never"), SHORT).await.unwrap();
        assert!(!navigated.loaded);
        assert!(navigated.report.refusals[0].contains("nothing matched `#never`"), "{navigated:?}");
        let error = ground.session.navigate(None, &url, Some("p["), LIMIT).await.unwrap_err();
        assert!(matches!(&error, BrowserError::Script { message } if message.contains("p[")), "{error}");
    });
}

#[test]
fn an_answer_without_content_leaves_the_page() {
    run(async |ground| {
        let url = ground.server.answer(Answer { status: 204, ..Answer::default() });
        let tab = ground.open(&(button(&format!("location = '{url}'")) + "<title>stays</title>")).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        assert!(tab.settle(&action, LIMIT).await);
        assert!(tab.report(&action).is_empty(), "{:?}", tab.report(&action));
        let navigated = tab.navigate(&url, None, LIMIT).await.unwrap();
        assert_eq!((navigated.loaded, navigated.title.as_str()), (false, "stays"));
    });
}

#[test]
fn a_page_that_redirects_itself_is_followed() {
    run(async |ground| {
        let end = ground.server.page("<title>end</title>");
        let start = ground.server.page(&format!("<script>location.replace('{end}')</script>"));
        let navigated = ground.visit(&start).await;
        assert_eq!((navigated.loaded, navigated.title.as_str(), &navigated.url), (true, "end", &end));
    });
}

#[test]
fn a_navigation_that_is_dropped_leaves_the_tab_usable() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let (url, _gate) = ground.server.gated("");
        {
            let navigating = tab.navigate(&url, None, LIMIT);
            tokio::select! {
                _ = navigating => panic!("it cannot end"),
                _ = ground.server.asked(&url) => {}
            }
        }
        let next = tab.navigate(&ground.server.page("<title>next</title>"), None, LIMIT).await.unwrap();
        assert_eq!((next.loaded, next.title.as_str()), (true, "next"));
    });
}
