//! Frames: scripts in isolated worlds, frames of other processes, and their places on the page.

use browser::{BrowserError, FrameHandle, Tab, World};
use serde_json::json;

use crate::harness::{Ground, LIMIT, click_at, in_frame, page, run};
use crate::server::Answer;

/// Opens a page with a frame of another site, which contains a frame of its own site.
async fn nested(ground: &Ground) -> (Tab, Vec<FrameHandle>) {
    let innermost = ground.server.path();
    let body = b"<!doctype html><body style='margin:0'><button style='position:absolute;left:7px;top:9px;width:40px;height:20px' \
        onclick='document.title = \"clicked\"'>x</button>"
        .to_vec();
    ground.server.answer_at(&innermost, Answer { body, ..Answer::default() });
    let inner = ground.server.path();
    let html = format!(
        "<!doctype html><body style='margin:0'><iframe name=innermost style='position:absolute;left:30px;top:40px;border:3px solid' src='{innermost}'></iframe>"
    );
    ground.server.answer_at(&inner, Answer { body: html.into_bytes(), ..Answer::default() });
    let html = format!(
        "<!doctype html><body style='margin:0'><iframe name=inner style='position:absolute;left:100px;top:200px;border:5px solid;width:400px;height:300px' src='{}'></iframe>",
        ground.server.other_site(&inner)
    );
    let tab = ground.open(&html).await;
    let frames = tab.frames();
    (tab, frames)
}

#[test]
fn frames_of_other_processes_are_in_the_tree_and_run_scripts() {
    run(async |ground| {
        let (tab, frames) = nested(&ground).await;
        let names: Vec<_> = frames.iter().map(|frame| frame.name().unwrap()).collect();
        assert_eq!(names, ["", "inner", "innermost"]);
        assert_ne!(frames[0].client().unwrap().id(), frames[1].client().unwrap().id());
        for frame in &frames {
            let own: String =
                frame.evaluate(World::Isolated, "() => location.href", Vec::new()).await.unwrap();
            assert_eq!(own, frame.url().unwrap());
        }
        assert_eq!(frames[2].parent().unwrap().id(), frames[1].id());
        page::<()>(&tab, "document.querySelector('iframe').remove()").await;
        let gone = frames[1].evaluate::<i32>(World::Isolated, "() => 1", Vec::new()).await;
        assert!(matches!(gone, Err(BrowserError::FrameGone)), "{gone:?}");
        assert_eq!(tab.frames().len(), 1);
    });
}

#[test]
fn a_click_at_the_offset_of_a_nested_frame_meets_its_button() {
    run(async |ground| {
        let (tab, frames) = nested(&ground).await;
        assert_eq!(frames[0].offset_in_page().await.unwrap(), (0.0, 0.0));
        assert_eq!(frames[1].offset_in_page().await.unwrap(), (105.0, 205.0));
        let (x, y) = frames[2].offset_in_page().await.unwrap();
        assert_eq!((x, y), (138.0, 248.0));
        click_at(&tab, x + 27.0, y + 19.0).await;
        assert_eq!(in_frame::<String>(&frames[2], "document.title").await, "clicked");
    });
}

#[test]
fn the_isolated_world_shares_the_document_and_no_variables() {
    run(async |ground| {
        let html =
            "<script>window.shared = 'page'; document.querySelector = () => 'replaced'</script><p id=p>text";
        let tab = ground.open(html).await;
        let frame = tab.main_frame();
        let see = "() => [typeof shared, document.querySelector('#p').textContent]";
        let seen: serde_json::Value = frame.evaluate(World::Isolated, see, Vec::new()).await.unwrap();
        assert_eq!(seen, json!(["undefined", "text"]));
        let keep = "value => { globalThis.kept = (globalThis.kept ?? 0) + value; return kept; }";
        for sum in [2, 4] {
            let kept: i32 = frame.evaluate(World::Isolated, keep, vec![json!(2).into()]).await.unwrap();
            assert_eq!(kept, sum);
        }
        assert_eq!(page::<String>(&tab, "typeof kept").await, "undefined");
        // A new document has a new world, under the same handle.
        tab.navigate(&ground.server.page("<p>next"), None, LIMIT).await.unwrap();
        let kept: i32 = frame.evaluate(World::Isolated, keep, vec![json!(2).into()]).await.unwrap();
        assert_eq!(kept, 2);
    });
}

#[test]
fn a_script_that_throws_or_returns_something_else_is_an_error() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let frame = tab.main_frame();
        let thrown =
            frame.evaluate::<i32>(World::Isolated, "() => { throw new Error('bad') }", Vec::new()).await;
        assert!(
            matches!(&thrown, Err(BrowserError::Script { message }) if message.contains("bad")),
            "{thrown:?}"
        );
        let other = frame.evaluate::<i32>(World::Isolated, "() => 'text'", Vec::new()).await;
        assert!(matches!(other, Err(BrowserError::ScriptAnswer { .. })), "{other:?}");
        let nothing =
            frame.evaluate::<Option<i32>>(World::Isolated, "() => undefined", Vec::new()).await.unwrap();
        assert_eq!(nothing, None);
        let half = frame.evaluate::<String>(World::Isolated, "() => 'a\\ud83d'", Vec::new()).await.unwrap();
        assert_eq!(half, "a\u{fffd}");
        let element =
            frame.evaluate_object(World::Isolated, "() => document.body", Vec::new()).await.unwrap();
        let name = "element => element.localName";
        let name: String = frame.evaluate(World::Isolated, name, vec![element.into()]).await.unwrap();
        assert_eq!(name, "body");
    });
}

#[test]
fn a_navigation_during_a_script_ends_it() {
    run(async |ground| {
        let next = ground.server.page("<p>next");
        let tab = ground.open("<p>x").await;
        let script = "url => { location = url; return new Promise(() => {}); }";
        let ended = tab.main_frame().evaluate::<i32>(World::Isolated, script, vec![json!(next).into()]).await;
        assert!(matches!(ended, Err(BrowserError::FrameGone)), "{ended:?}");
    });
}
