//! Descriptions of targets before an action.

use browser::{KeyPress, PlannedAction};

use crate::harness::run;
use crate::page::{open, selector};

const PAGE: &str = "<a id=out href='/next'>Next page</a><a id=jump href='#there'>Jump</a><a id=new href='/n' target=_blank><span id=in>New tab</span></a><a id=script href='javascript:void 0'>Script</a><a id=file href='/f' download>File</a>
<form action='/pay' method=post><input id=card name=card aria-label=Card><input id=pw type=password><button id=pay>Pay <b id=bold>now</b></button><button id=plain type=button>Help</button><input id=alt type=submit formaction='/other' value=Alt></form>
<label id=label for=boxed>Agree</label><input id=boxed type=checkbox><button id=loose>Loose</button>";

#[test]
fn a_target_says_whether_it_submits_or_leaves_the_page() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let enter = || PlannedAction::Press(KeyPress::parse("Enter").unwrap());
        // Element, action, whether it leaves, whether it submits, end of the form's URL.
        let cases = [
            ("#out", PlannedAction::Click, true, false, ""),
            ("#out", PlannedAction::Other, false, false, ""),
            ("#out", enter(), true, false, ""),
            ("#jump", PlannedAction::Click, false, false, ""),
            ("#in", PlannedAction::Click, true, false, ""),
            ("#script", PlannedAction::Click, false, false, ""),
            ("#pay", PlannedAction::Click, false, true, "/pay"),
            ("#bold", PlannedAction::Click, false, true, "/pay"),
            ("#plain", PlannedAction::Click, false, false, ""),
            ("#alt", PlannedAction::Click, false, true, "/other"),
            ("#card", PlannedAction::Click, false, false, ""),
            ("#card", PlannedAction::Type { press: None }, false, false, ""),
            ("#card", enter(), false, true, "/pay"),
            ("#card", PlannedAction::Submit, false, true, "/pay"),
            ("#pay", enter(), false, true, "/pay"),
            ("#pay", PlannedAction::Press(KeyPress::parse("Space").unwrap()), false, true, "/pay"),
            ("#plain", enter(), false, false, ""),
            ("#loose", PlannedAction::Click, false, false, ""),
        ];
        for (element, action, leaves, submits, form) in cases {
            let facts = page.describe(&action, &selector(element)).await.unwrap().facts;
            assert_eq!((facts.leaves_page, facts.is_submit), (leaves, submits), "{element} {action:?}");
            assert!(
                facts.form_action.ends_with(form) && facts.form_action.is_empty() == form.is_empty(),
                "{element}: {facts:?}"
            );
        }
    });
}

#[test]
fn a_target_has_role_name_type_origin_and_box() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let facts = async |element: &str| {
            page.describe(&PlannedAction::Click, &selector(element)).await.unwrap().facts
        };
        let new = facts("#new").await;
        assert_eq!(
            (new.role.as_str(), new.name.as_str(), new.tag.as_str(), new.new_window),
            ("link", "New tab", "a", true)
        );
        assert!(new.href.ends_with("/n") && new.origin.starts_with("http://127.0.0.1:"), "{new:?}");
        assert!(new.area.width > 10.0 && new.area.height > 10.0 && new.hidden.is_empty());
        assert!(facts("#file").await.is_download);
        let password = facts("#pw").await;
        assert_eq!(
            (password.is_password, password.kind.as_str(), password.field_name.as_str()),
            (true, "password", "pw")
        );
        assert_eq!(facts("#pay").await.form_method, "post");
        assert_eq!(facts("#label").await.name, "Agree");
    });
}
