//! Typing into fields of every kind.

use browser::{KeyPress, Typing, TypingMode};

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{SHORT, look, open, selector};

/// Field, what is typed, what it holds then, and words of a note.
const FIELDS: [(&str, &str, &str, &str); 14] = [
    ("<input id=f value=old>", "new text", "new text", ""),
    ("<input id=f value=old>", "", "", ""),
    ("<input id=f>", "日本 🙂 é", "日本 🙂 é", ""),
    (
        "<input id=f maxlength=5>",
        "123456789",
        "12345",
        "The field took 5 of 9 characters: its maxlength is 5.",
    ),
    ("<textarea id=f>old</textarea>", "two\nlines", "two\nlines", ""),
    ("<input id=f type=number step=any value=3>", "12.5", "12.5", ""),
    ("<input id=f type=number>", "abc", "", "something else"),
    ("<input id=f type=email>", "nobody", "nobody", "The page says"),
    ("<input id=f type=date>", "2026-11-27", "2026-11-27", ""),
    ("<input id=f type=time value=10:00>", "23:59", "23:59", ""),
    ("<input id=f type=color>", "#00FF00", "#00ff00", ""),
    ("<input id=f type=range min=0 max=10>", "7", "7", ""),
    ("<div id=f contenteditable>old <b>bold</b></div>", "plain", "plain", ""),
    ("<div contenteditable><p id=f>inner</p></div>", "words", "words", ""),
];

#[test]
fn each_kind_of_field_takes_its_text() {
    run(async |ground| {
        for (field, typed, held, note) in FIELDS {
            let page = open(&ground, field).await;
            let outcome = page.type_text(&selector("#f"), &Typing::new(typed), LIMIT).await.unwrap();
            assert_eq!(outcome.value.as_deref().map(str::trim), Some(held), "{field}");
            if note.is_empty() {
                assert!(outcome.notes.is_empty(), "{field}: {outcome:?}");
            } else {
                assert!(outcome.notes.concat().contains(note), "{field}: {outcome:?}");
            }
            ground.session.close(page.tab().number()).await.unwrap();
        }
    });
}

#[test]
fn a_page_sees_trusted_input_events_and_keys() {
    run(async |ground| {
        let page = open(&ground, "<input id=f value=ab><script>var seen = []; for (const type of ['keydown', 'input', 'change']) f.addEventListener(type, event => seen.push([type, event.isTrusted, event.key || event.data]))</script>").await;
        let typing = Typing {
            mode: TypingMode::Append,
            key_by_key: true,
            press: Some(KeyPress::parse("Tab").unwrap()),
            ..Typing::new("c d")
        };
        let outcome = page.type_text(&selector("#f"), &typing, LIMIT).await.unwrap();
        assert_eq!(outcome.value.as_deref(), Some("abc d"));
        let seen: Vec<(String, bool, Option<String>)> = evaluate(page.tab(), "seen").await;
        assert!(seen.iter().all(|(_, trusted, _)| *trusted), "{seen:?}");
        let keys: Vec<_> = seen
            .iter()
            .filter(|(kind, ..)| kind == "keydown")
            .filter_map(|(.., key)| key.as_deref())
            .collect();
        assert_eq!(keys, ["End", "c", " ", "d", "Tab"]);
        assert_eq!(seen.last().unwrap().0, "change");
    });
}

#[test]
fn a_line_break_in_the_text_submits_nothing() {
    run(async |ground| {
        let page = open(&ground, "<form action='/sent'><input id=f></form><script>var submitted = 0; addEventListener('submit', event => { submitted++; event.preventDefault() })</script>").await;
        for key_by_key in [false, true] {
            let typing = Typing { key_by_key, ..Typing::new("one\ntwo\n") };
            page.type_text(&selector("#f"), &typing, LIMIT).await.unwrap();
            assert_eq!(evaluate::<u32>(page.tab(), "submitted").await, 0, "{key_by_key}");
        }
        let focused = page.focused().await.unwrap().unwrap();
        assert_eq!(focused.to_string(), "e1");
        page.press(None, &KeyPress::parse("Enter").unwrap(), LIMIT).await.unwrap();
        assert_eq!(evaluate::<u32>(page.tab(), "submitted").await, 1);
    });
}

#[test]
fn a_field_that_takes_no_text_says_why() {
    run(async |ground| {
        let cases = [
            ("<input id=f readonly>", "readonly"),
            ("<input id=f disabled>", "disabled"),
            ("<input id=f type=checkbox>", "type checkbox takes no text"),
            ("<p id=f>text</p>", "<p> is no field"),
            ("<input id=f type=date>", "takes YYYY-MM-DD"),
            ("<input id=f style='visibility:hidden'>", "not visible"),
        ];
        for (field, words) in cases {
            let page = open(&ground, field).await;
            let error = page.type_text(&selector("#f"), &Typing::new("tomorrow"), SHORT).await.unwrap_err();
            assert!(error.to_string().contains(words), "{field}: {error}");
            ground.session.close(page.tab().number()).await.unwrap();
        }
    });
}

#[test]
fn a_password_is_typed_and_never_read_back() {
    run(async |ground| {
        let page = open(
            &ground,
            "<input id=f type=password aria-label=Password><button onclick=\"f.type = 'text'\">Show</button>",
        )
        .await;
        let outcome = page.type_text(&selector("#f"), &Typing::new("hunter2!"), LIMIT).await.unwrap();
        assert_eq!((outcome.value, outcome.notes.len()), (None, 0));
        assert_eq!(evaluate::<String>(page.tab(), "f.value").await, "hunter2!");
        page.click(&selector("css:button"), browser::ClickOptions::default(), LIMIT).await.unwrap();
        assert_eq!(evaluate::<String>(page.tab(), "f.type").await, "text");
        let text = look(&page).await.text;
        assert!(text.contains("password, filled") && !text.contains("hunter2"), "{text}");
        let read = page.read_text(&browser::ReadOptions::default()).await.unwrap().text;
        let html = page.read_html(&browser::ReadOptions::default()).await.unwrap().text;
        assert!(!read.contains("hunter2") && !html.contains("hunter2"), "{read} {html}");
    });
}

#[test]
fn typing_works_while_a_page_renders_its_field_again() {
    run(async |ground| {
        let page = open(&ground, "<div id=r></div><script>const draw = () => { if (!document.querySelector('#f:focus')) r.innerHTML = '<input id=f aria-label=Name>' }; draw(); setInterval(draw, 50)</script>").await;
        look(&page).await;
        let outcome = page.type_text(&selector("e1"), &Typing::new("Ada"), LIMIT).await.unwrap();
        assert_eq!(outcome.value.as_deref(), Some("Ada"));
    });
}

#[test]
fn a_secret_is_set_in_a_field_for_a_password_of_its_origin_alone() {
    run(async |ground| {
        let html = "<input id=p type=password><input id=t><script>var seen = []; addEventListener('input', event => seen.push(event.target.id))</script>";
        let page = open(&ground, html).await;
        let origin: String = evaluate(page.tab(), "location.origin").await;
        let set = async |field: &str, origin: &str| {
            page.type_secret(&selector(field), "s3cret-value", (origin, None), None, SHORT).await
        };
        assert!(set("#t", &origin).await.is_err(), "a plain field");
        assert!(set("#p", "https://shop.example").await.is_err(), "another origin");
        let values = "document.querySelector('#p').value + document.querySelector('#t').value";
        assert_eq!(evaluate::<String>(page.tab(), values).await, "");
        let outcome = set("#p", &origin).await.unwrap();
        assert_eq!((outcome.value, outcome.notes.len()), (None, 0));
        assert_eq!(evaluate::<String>(page.tab(), values).await, "s3cret-value");
        assert_eq!(evaluate::<Vec<String>>(page.tab(), "seen").await, ["p"]);
        // A field that the caller names is one for a secret from then on.
        let named =
            page.type_secret(&selector("#t"), "s3cret-value", (&origin, Some("t")), None, SHORT).await;
        assert_eq!(named.unwrap().value, None);
        let other =
            page.type_secret(&selector("#t"), "s3cret-value", (&origin, Some("p")), None, SHORT).await;
        assert!(other.is_ok(), "it has become one");
        let shown = page.snapshot(&browser::SnapshotOptions::default()).await.unwrap().text;
        assert!(!shown.contains("s3cret") && page.masks(&[]).await.unwrap().is_readable, "{shown}");
        evaluate::<()>(page.tab(), "void (document.querySelector('#t').value = '')").await;
        // The eye beside a password shows it to people, not to us.
        let _: String = evaluate(page.tab(), "document.querySelector('#p').type = 'text'").await;
        let shown = page.snapshot(&browser::SnapshotOptions::default()).await.unwrap().text;
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(page.masks(&[]).await.unwrap().is_readable, "in a picture");
        let _: String = evaluate(page.tab(), "document.querySelector('#p').type = 'password'").await;
        assert!(!page.masks(&[]).await.unwrap().is_readable, "as dots");
        let echo = "document.body.append('it is s3cret-value'), ''";
        let _: String = evaluate(page.tab(), echo).await;
        assert!(page.masks(&[]).await.unwrap().is_readable, "as text of the page");
    });
}
