//! Selectors that match nothing, one element, or several.

use browser::{ClickOptions, PageError};

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{SHORT, open, selector};

const PAGE: &str = "<form class=checkout><button id=save-order class=primary>Save order</button></form>
<button class=twin>One</button><button class=twin>Two</button>
<button class=pair style='display:none'>Hidden</button><button class=pair>Shown</button>
<div id=host></div><script>var hit = ''; addEventListener('click', event => { event.preventDefault(); hit = event.composedPath()[0].textContent }); host.attachShadow({mode: 'open'}).innerHTML = '<button class=deep>Deep</button>'</script>";

#[test]
fn selectors_of_each_form_find_their_element() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let cases = [
            ("#save-order", "Save order"),
            ("css:.pair", "Shown"),
            ("xpath://button[text()='Two']", "Two"),
            (".deep", "Deep"),
        ];
        for (text, name) in cases {
            page.click(&selector(text), ClickOptions::default(), LIMIT).await.unwrap();
            assert_eq!(evaluate::<String>(page.tab(), "hit").await, name, "{text}");
        }
    });
}

#[test]
fn a_selector_without_exactly_one_element_is_refused_with_what_is_near() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let cases = [
            (
                "form.checkout > button.secondary",
                "matches 0 elements; its beginning form.checkout > button matches 1",
            ),
            ("#save_order", "similar: button \"Save order\" e"),
            (".twin", "matches 2 elements, of which 2 are visible"),
            ("button:nope(", "is not a valid"),
            ("xpath://[", "selector xpath://["),
            ("e999", "belongs to no element"),
            ("f7e1", "frame f7"),
        ];
        for (text, words) in cases {
            let error = page.click(&selector(text), ClickOptions::default(), SHORT).await.unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
        let error = page.click(&selector(".twin"), ClickOptions::default(), SHORT).await.unwrap_err();
        assert!(matches!(error, PageError::ManyMatches { count: 2, visible: 2, .. }), "{error}");
        assert_eq!(evaluate::<String>(page.tab(), "hit").await, "");
    });
}
