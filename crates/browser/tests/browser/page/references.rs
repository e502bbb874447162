//! References: stable for an element's life, and passed on to what replaces it.

use browser::{ClickOptions, PageError, PlannedAction};

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{SHORT, changes, look, open, selector};

#[test]
fn a_reference_stays_with_its_element() {
    run(async |ground| {
        let page = open(&ground, "<button id=a>A</button><button id=b>B</button>").await;
        assert_eq!(look(&page).await.text, "button \"A\" e1\nbutton \"B\" e2\n");
        evaluate::<()>(page.tab(), "void (a.before(Object.assign(document.createElement('button'), {textContent: 'C'})), a.textContent = 'D')").await;
        assert_eq!(changes(&page).await, "+ button \"C\" e3\n~ button \"D\" e1 (was button \"A\")\n");
        assert_eq!(changes(&page).await, "no change\n");
        evaluate::<()>(page.tab(), "b.remove()").await;
        assert_eq!(changes(&page).await, "- button \"B\" e2\n");
    });
}

#[test]
fn a_reference_passes_to_the_element_that_replaces_its_own_and_that_is_said() {
    run(async |ground| {
        let draw = "void (r.innerHTML = '<button onclick=\"document.title = 1\">Save</button>')";
        let page = open(&ground, "<div id=r></div>").await;
        evaluate::<()>(page.tab(), draw).await;
        assert_eq!(look(&page).await.text, "button \"Save\" e1\n");
        evaluate::<()>(page.tab(), draw).await;
        let target = page.describe(&PlannedAction::Click, &selector("e1")).await.unwrap();
        assert!(target.note.unwrap().contains("has left the page"));
        evaluate::<()>(page.tab(), draw).await;
        let outcome = page.click(&selector("e1"), ClickOptions::default(), LIMIT).await.unwrap();
        assert!(outcome.notes[0].contains("has left the page"), "{outcome:?}");
        assert_eq!(evaluate::<String>(page.tab(), "document.title").await, "1");
        assert_eq!(changes(&page).await, "~ button \"Save\" e1 focused (was plain)\n");
    });
}

#[test]
fn a_reference_never_passes_to_the_same_button_of_another_row() {
    run(async |ground| {
        let page = open(&ground, "<table id=t></table><script>var clicked = []; const draw = names => t.innerHTML = names.map(name => `<tr><td>${name}</td><td><button onclick='clicked.push(\"${name}\")'>Delete</button></td></tr>`).join('')</script>").await;
        evaluate::<()>(page.tab(), "void draw(['Alice', 'Bob'])").await;
        assert_eq!(
            look(&page).await.text,
            "table e1\n row \"Alice\"\n  button \"Delete\" e2\n row \"Bob\"\n  button \"Delete\" e3\n"
        );
        evaluate::<()>(page.tab(), "void draw(['Bob', 'Carol'])").await;
        let gone = page.click(&selector("e2"), ClickOptions::default(), SHORT).await.unwrap_err();
        assert!(matches!(gone, PageError::Reference { .. }), "{gone}");
        assert!(gone.to_string().contains("was button \"Delete\""), "{gone}");
        page.click(&selector("e3"), ClickOptions::default(), LIMIT).await.unwrap();
        assert_eq!(evaluate::<Vec<String>>(page.tab(), "clicked").await, ["Bob"]);
    });
}

#[test]
fn a_reference_of_an_earlier_document_finds_nothing() {
    run(async |ground| {
        let page = open(&ground, "<button>A</button><button>B</button>").await;
        assert_eq!(look(&page).await.text, "button \"A\" e1\nbutton \"B\" e2\n");
        evaluate::<()>(page.tab(), "void location.reload()").await;
        page.wait(&browser::Condition::Text("B".into()), LIMIT).await.unwrap();
        let next = ground.server.page("<button>C</button>");
        page.tab().navigate(&next, None, LIMIT).await.unwrap();
        let text = look(&page).await.text;
        assert!(text.starts_with("button \"C\" e") && text != "button \"C\" e1\n", "{text}");
        let error = page.click(&selector("e1"), ClickOptions::default(), SHORT).await.unwrap_err();
        assert!(error.to_string().contains("belongs to no element of the present document"), "{error}");
    });
}
