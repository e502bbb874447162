//! Frames of the same site and of others, in snapshots and under the pointer.

use browser::{ClickOptions, Page, PlannedAction, ReadOptions, Typing};

use crate::harness::{Ground, LIMIT, in_frame, page as evaluate, run};
use crate::page::{SHORT, look, open, selector};
use crate::server::Answer;

const INNER: &str = "<!doctype html><body style='margin:0'><div style='height:1500px'>Inside</div><button onclick='document.title = \"clicked\"'>Pay</button><input aria-label=Card>";

/// Opens a page with a frame of its own site and one of another, both with the same content.
async fn two_frames(ground: &Ground) -> Page {
    let path = ground.server.path();
    ground.server.answer_at(&path, Answer { body: INNER.as_bytes().to_vec(), ..Answer::default() });
    let other = ground.server.other_site(&path);
    open(
        ground,
        &format!("<p>Outside</p><iframe title=Same src='{path}' style='margin:30px'></iframe><div style='height:1200px'></div><iframe title=Other src='{other}'></iframe>"),
    )
    .await
}

#[test]
fn frames_are_part_of_the_snapshot_and_their_elements_can_be_used() {
    run(async |ground| {
        let page = two_frames(&ground).await;
        let text = look(&page).await.text;
        assert_eq!(
            text,
            "\"Outside\"\niframe \"Same\" e1\n \"Inside\"\n button \"Pay\" f1e1\n textbox \"Card\" f1e2\niframe \"Other\" e2\n \"Inside\"\n button \"Pay\" f2e1\n textbox \"Card\" f2e2\n"
        );
        let frames = page.tab().frames();
        for (reference, frame) in [("f1e1", &frames[1]), ("f2e1", &frames[2])] {
            let outcome = page.click(&selector(reference), ClickOptions::default(), LIMIT).await.unwrap();
            assert_eq!(outcome.reference.unwrap().to_string(), reference);
            assert_eq!(in_frame::<String>(frame, "document.title").await, "clicked", "{reference}");
        }
        let outcome = page.type_text(&selector("f2e2"), &Typing::new("4242"), LIMIT).await.unwrap();
        assert_eq!(outcome.value.as_deref(), Some("4242"));
        let target = page.describe(&PlannedAction::Click, &selector("f2e1")).await.unwrap();
        assert!(target.facts.origin.starts_with("http://localhost:"), "{target:?}");
        let error = page.click(&selector("css:button"), ClickOptions::default(), SHORT).await.unwrap_err();
        assert!(error.to_string().contains("matches 2 elements"), "{error}");
        let read = page.read_text(&ReadOptions::default()).await.unwrap();
        assert_eq!(read.text.matches("Inside").count(), 2, "{}", read.text);
    });
}

#[test]
fn what_covers_a_frame_covers_what_is_inside_it() {
    run(async |ground| {
        let page = two_frames(&ground).await;
        look(&page).await;
        evaluate::<()>(page.tab(), "document.body.insertAdjacentHTML('beforeend', '<div id=cover style=\"position:fixed;inset:0\">Sign up</div>')").await;
        for reference in ["f1e1", "f2e1"] {
            let error = page.click(&selector(reference), ClickOptions::default(), SHORT).await.unwrap_err();
            assert!(
                error.to_string().contains("covered by <div id=cover> \"Sign up\""),
                "{reference}: {error}"
            );
        }
        evaluate::<()>(page.tab(), "void setTimeout(() => cover.remove(), 1200)").await;
        page.click(&selector("f2e1"), ClickOptions::default(), LIMIT).await.unwrap();
        assert_eq!(in_frame::<String>(&page.tab().frames()[2], "document.title").await, "clicked");
    });
}
