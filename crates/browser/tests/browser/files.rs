//! Choosers of files.

use crate::harness::{LIMIT, button, click, page, run};

const CHOOSE: &str = "document.querySelector('input').click()";

#[test]
fn a_chooser_gets_the_files_that_were_given_before() {
    run(async |ground| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "content").unwrap();
        let html = button(CHOOSE)
            + "<input type=file style='display:none' oncancel=\"document.title = 'cancelled'\">";
        let tab = ground.open(&html).await;
        tab.choose_files(&[file.path().to_owned()]).await.unwrap();
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        tab.settle(&action, LIMIT).await;
        while page::<usize>(&tab, "document.querySelector('input').files.length").await == 0 {}
        assert_eq!(page::<String>(&tab, "document.querySelector('input').files[0].text()").await, "content");
        assert_eq!(tab.report(&action).files_chosen, 1);
    });
}

#[test]
fn a_chooser_without_files_is_cancelled_and_reported() {
    run(async |ground| {
        let html = button(CHOOSE)
            + "<input type=file style='display:none' oncancel=\"document.title = 'cancelled'\">";
        let tab = ground.open(&html).await;
        tab.choose_files(&["/nothing".into()]).await.unwrap();
        tab.forget_files();
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        tab.settle(&action, LIMIT).await;
        while page::<String>(&tab, "document.title").await != "cancelled" {}
        let report = tab.report(&action);
        assert!(report.refusals[0].contains("asked for files"), "{report:?}");
    });
}
