//! Dialogs of pages, which are answered without anybody waiting.

use browser::{DialogAnswer, DialogKind, DialogPolicy};

use crate::harness::{LIMIT, button, click, page, run};

#[test]
fn dialogs_are_answered_by_the_policy_and_reported() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let script = "[alert('a'), confirm('c'), prompt('p', 'default')]";
        let action = tab.begin_report();
        assert_eq!(page::<serde_json::Value>(&tab, script).await, serde_json::json!([null, false, null]));
        let report = tab.report(&action);
        let said: Vec<_> =
            report.dialogs.iter().map(|dialog| (dialog.kind, dialog.message.as_str())).collect();
        assert_eq!(said, [(DialogKind::Alert, "a"), (DialogKind::Confirm, "c"), (DialogKind::Prompt, "p")]);
        let prompt = DialogAnswer::Accept(Some("typed".to_owned()));
        let confirm = DialogAnswer::Accept(None);
        ground.session.set_dialog_policy(&DialogPolicy { confirm, prompt, ..DialogPolicy::default() });
        assert_eq!(page::<serde_json::Value>(&tab, script).await, serde_json::json!([null, true, "typed"]));
        let prompt = DialogAnswer::Accept(None);
        tab.set_dialog_policy(DialogPolicy { prompt, ..DialogPolicy::default() });
        assert_eq!(
            page::<serde_json::Value>(&tab, script).await,
            serde_json::json!([null, false, "default"])
        );
    });
}

#[test]
fn a_page_that_asks_to_stay_is_left_unless_the_policy_keeps_it() {
    run(async |ground| {
        let html = button("onbeforeunload = event => event.preventDefault()");
        let tab = ground.open(&html).await;
        click(&tab).await;
        tab.set_dialog_policy(DialogPolicy {
            beforeunload: DialogAnswer::Dismiss,
            ..DialogPolicy::default()
        });
        let (old, new) = (tab.url(), ground.server.page("<title>new</title>"));
        let stayed = tab.navigate(&new, None, LIMIT).await.unwrap();
        assert_eq!((stayed.loaded, &stayed.url), (false, &old));
        assert_eq!(stayed.report.dialogs[0].kind, DialogKind::Beforeunload);
        tab.set_dialog_policy(DialogPolicy::default());
        let left = tab.navigate(&new, None, LIMIT).await.unwrap();
        assert_eq!((left.loaded, left.title.as_str()), (true, "new"));
    });
}

#[test]
fn a_page_with_alerts_in_a_loop_is_stopped_and_it_is_said() {
    run(async |ground| {
        let tab = ground.open(&button("setTimeout(() => { for (;;) alert('again'); })")).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        tab.settle(&action, LIMIT).await;
        tab.prepare().await.unwrap();
        let report = tab.report(&action);
        assert_eq!(report.dialogs.len(), 50);
        assert!(report.refusals.iter().any(|said| said.contains("more than 50 dialogs")), "{report:?}");
        assert_eq!(tab.url(), "about:blank");
        assert_eq!(page::<i32>(&tab, "1 + 1").await, 2);
    });
}
