//! Waiting for elements, text and URLs.

use std::time::Duration;

use browser::{Condition, PageError};

use crate::harness::{LIMIT, run};
use crate::page::{SHORT, open, selector};

#[test]
fn conditions_are_waited_for() {
    run(async |ground| {
        let page = open(&ground, "<div id=spinner>Loading</div><script>setTimeout(() => { spinner.remove(); document.body.innerHTML = '<p id=done>All  <b>done</b></p>'; history.pushState(0, '', '#done') }, 1000)</script>").await;
        for condition in [
            Condition::Visible(selector("#done")),
            Condition::Hidden(selector("#spinner")),
            Condition::Text("all done".into()),
            Condition::TextGone("Loading".into()),
            Condition::Url("*#done".into()),
            Condition::Time(Duration::from_millis(1)),
        ] {
            page.wait(&condition, LIMIT).await.unwrap();
        }
    });
}

#[test]
fn what_does_not_come_is_named() {
    run(async |ground| {
        let page = open(&ground, "<p>Here</p><p style='display:none'>Secret text</p>").await;
        for condition in [
            Condition::Visible(selector("#never")),
            Condition::Hidden(selector("css:p:first-of-type")),
            Condition::Text("secret text".into()),
            Condition::TextGone("here".into()),
            Condition::Url("/elsewhere".into()),
        ] {
            let error = page.wait(&condition, SHORT).await.unwrap_err();
            assert!(matches!(error, PageError::Wait { .. }), "{error}");
            assert!(error.to_string().starts_with(&condition.to_string()), "{error}");
        }
        let error = page.wait(&Condition::Visible(selector("p:nope(")), LIMIT).await.unwrap_err();
        assert!(matches!(error, PageError::Selector { .. }), "{error}");
    });
}

#[test]
fn a_wait_goes_on_through_a_navigation() {
    run(async |ground| {
        let next = ground.server.page("<p>Arrived</p>");
        let page =
            open(&ground, &format!("<script>setTimeout(() => location = '{next}', 500)</script>")).await;
        page.wait(&Condition::Text("arrived".into()), LIMIT).await.unwrap();
    });
}
