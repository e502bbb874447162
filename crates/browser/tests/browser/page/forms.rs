//! Lists, boxes to tick, files and submission.

use browser::{KeyPress, PageError, Typing};

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{SHORT, open, selector};

#[test]
fn options_are_chosen_by_value_label_or_position() {
    run(async |ground| {
        let page = open(&ground, "<select id=one><option value=a>Apple<option value=b>Big  banana<option value=c disabled>Cherry</select><select id=many multiple><option>x<option>y<option selected>z</select><script>var events = []; one.onchange = one.oninput = event => events.push(event.type + one.value)</script>").await;
        for (wanted, label) in
            [("b", "Big banana"), ("Apple", "Apple"), ("big BANANA", "Big banana"), ("0", "Apple")]
        {
            let outcome = page.select(&selector("#one"), &[wanted], LIMIT).await.unwrap();
            assert_eq!(outcome.chosen, [label], "{wanted}");
        }
        assert_eq!(
            evaluate::<Vec<String>>(page.tab(), "events.slice(0, 4)").await,
            ["inputb", "changeb", "inputa", "changea"]
        );
        let outcome = page.select(&selector("#many"), &["x", "y"], LIMIT).await.unwrap();
        assert_eq!(outcome.chosen, ["x", "y"]);
        assert_eq!(evaluate::<u32>(page.tab(), "many.selectedOptions.length").await, 2);
        for (list, wanted, words) in [
            ("#one", vec!["kiwi"], "no option \"kiwi\"; there are 3: \"Apple\""),
            ("#one", vec!["c"], "is disabled"),
            ("#one", vec!["a", "b"], "exactly one"),
            ("#many", vec!["x", "q"], "no option \"q\""),
        ] {
            let error = page.select(&selector(list), &wanted, SHORT).await.unwrap_err();
            assert!(error.to_string().contains(words), "{wanted:?}: {error}");
        }
        assert_eq!(evaluate::<String>(page.tab(), "one.value").await, "a");
    });
}

#[test]
fn an_option_that_comes_later_is_waited_for() {
    run(async |ground| {
        let page = open(
            &ground,
            "<select id=s></select><script>setTimeout(() => s.add(new Option('Late')), 1200)</script>",
        )
        .await;
        assert_eq!(page.select(&selector("#s"), &["Late"], LIMIT).await.unwrap().chosen, ["Late"]);
    });
}

#[test]
fn boxes_are_ticked_also_behind_their_labels() {
    run(async |ground| {
        let boxes = [
            "<input id=f type=checkbox>",
            "<style>input{position:absolute;opacity:0;pointer-events:none}</style><label><input id=f type=checkbox><span>Agree</span></label>",
            "<style>input{display:none}</style><input id=f type=checkbox><label for=f>Agree</label>",
            "<label style='position:relative'><input id=f type=checkbox><span style='position:absolute;inset:0;background:#ddd'></span>Agree</label>",
        ];
        for html in boxes {
            let page = open(&ground, html).await;
            for wanted in [true, true, false] {
                page.check(&selector("#f"), wanted, LIMIT).await.unwrap();
                assert_eq!(evaluate::<bool>(page.tab(), "f.checked").await, wanted, "{html}");
            }
            ground.session.close(page.tab().number()).await.unwrap();
        }
        let page = open(&ground, "<div id=f role=switch aria-checked=false tabindex=0>Dark</div>").await;
        let error = page.check(&selector("#f"), true, SHORT).await.unwrap_err();
        assert!(error.to_string().contains("is not checked"), "{error}");
    });
}

#[test]
fn a_form_is_submitted_or_says_which_fields_are_invalid() {
    run(async |ground| {
        let page = open(&ground, "<form action='/done' name=f><input name=email type=email required aria-label=Email><button name=go value=1>Go</button></form>").await;
        let error = page.submit(&selector("[name=email]"), LIMIT).await.unwrap_err();
        assert!(
            matches!(&error, PageError::InvalidForm { fields } if fields.contains("textbox \"Email\" e")),
            "{error}"
        );
        page.type_text(&selector("[name=email]"), &Typing::new("a@b.test"), LIMIT).await.unwrap();
        page.submit(&selector("css:button"), LIMIT).await.unwrap();
        page.wait(&browser::Condition::Url("*/done?email=a%40b.test&go=1".into()), LIMIT).await.unwrap();
        let error = page.submit(&selector("css:body"), SHORT).await.unwrap_err();
        assert!(error.to_string().contains("belongs to no form"), "{error}");
    });
}

#[test]
fn enter_submits_the_form_of_a_field() {
    run(async |ground| {
        let page = open(&ground, "<form action='/search'><input name=q></form>").await;
        let typing = Typing { press: Some(KeyPress::parse("Enter").unwrap()), ..Typing::new("cats") };
        page.type_text(&selector("css:input"), &typing, LIMIT).await.unwrap();
        page.wait(&browser::Condition::Url("/search?q=cats".into()), LIMIT).await.unwrap();
    });
}

#[test]
fn files_are_given_to_a_file_input_even_if_it_is_hidden() {
    run(async |ground| {
        let page = open(&ground, "<button>Upload</button><input id=f type=file aria-label=Files multiple style='display:none'><input id=t>").await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.txt");
        std::fs::write(&file, "numbers").unwrap();
        let paths = vec![file.to_string_lossy().into_owned()];
        assert!(crate::page::look(&page).await.text.contains("file \"Files\" e2 hidden"));
        page.set_files(&selector("e2"), paths.clone(), LIMIT).await.unwrap();
        assert_eq!(evaluate::<String>(page.tab(), "f.files[0].name").await, "report.txt");
        let error = page.set_files(&selector("#t"), paths, SHORT).await.unwrap_err();
        assert!(error.to_string().contains("takes no files"), "{error}");
    });
}
