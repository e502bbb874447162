//! Scrolling, and the pointer over elements.

use browser::ScrollTo;

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{open, selector};

#[test]
fn the_page_and_elements_inside_it_are_scrolled() {
    run(async |ground| {
        let page = open(&ground, "<body style='margin:0'><div style='height:3000px'>A</div><div id=s style='height:100px;overflow:auto'><p id=i style='height:1000px'>B</p></div><button id=b>End</button>").await;
        let down = page.scroll(None, ScrollTo::Pages(1.0), LIMIT).await.unwrap().scroll.unwrap();
        assert_eq!(
            (down.top, down.of.as_str(), down.has_moved, down.is_at_end),
            (648.0, "the page", true, false)
        );
        let end = page.scroll(None, ScrollTo::Bottom, LIMIT).await.unwrap().scroll.unwrap();
        assert!(end.is_at_end);
        let again = page.scroll(None, ScrollTo::Pages(1.0), LIMIT).await.unwrap().scroll.unwrap();
        assert!(!again.has_moved);
        page.scroll(None, ScrollTo::Top, LIMIT).await.unwrap();
        let inner =
            page.scroll(Some(&selector("#i")), ScrollTo::Pixels(50.0), LIMIT).await.unwrap().scroll.unwrap();
        assert_eq!((inner.top, inner.of.as_str()), (50.0, "<div id=s> \"B\""));
        assert!(evaluate::<f64>(page.tab(), "scrollY").await < 1.0);
        page.scroll(Some(&selector("#b")), ScrollTo::View, LIMIT).await.unwrap();
        assert!(evaluate::<f64>(page.tab(), "scrollY").await > 1000.0);
    });
}

#[test]
fn an_application_that_scrolls_in_its_middle_is_scrolled_there() {
    run(async |ground| {
        let page = open(&ground, "<body style='margin:0;height:100vh;overflow:hidden'><main id=m style='height:100vh;overflow:auto'><div style='height:4000px'>A</div></main>").await;
        let down = page.scroll(None, ScrollTo::Pages(1.0), LIMIT).await.unwrap().scroll.unwrap();
        assert_eq!((down.of.as_str(), down.top), ("<main id=m> \"A\"", 648.0));
    });
}

#[test]
fn the_pointer_over_an_element_shows_what_it_reveals() {
    run(async |ground| {
        let page = open(&ground, "<style>nav ul{display:none}nav:hover ul{display:block}</style><nav>Menu<ul><li><a href='/x'>Item</a></ul></nav>").await;
        page.hover(&selector("css:nav"), LIMIT).await.unwrap();
        assert!(crate::page::look(&page).await.text.contains("link \"Item\""));
    });
}
