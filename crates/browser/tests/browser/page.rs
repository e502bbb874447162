//! Tests of what an agent sees of a page, and does on it.

mod actionability;
mod describe;
mod forms;
mod hostile;
mod inner_frames;
mod masks;
mod reading;
mod references;
mod scrolling;
mod selectors;
mod snapshot;
mod typing;
mod waiting;

use std::time::Duration;

use browser::{Page, Selector, Snapshot, SnapshotOptions};

use crate::harness::Ground;

/// Time for an action that must fail.
const SHORT: Duration = Duration::from_millis(400);

/// Opens a document in a new tab.
async fn open(ground: &Ground, html: &str) -> Page {
    Page::new(ground.open(&format!("<!doctype html><meta charset=utf-8>{html}")).await)
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap()
}

/// Takes a snapshot of the whole page.
async fn look(page: &Page) -> Snapshot {
    page.snapshot(&SnapshotOptions::default()).await.unwrap()
}

/// Takes a snapshot of what has changed.
async fn changes(page: &Page) -> String {
    page.snapshot(&SnapshotOptions { diff: true, ..SnapshotOptions::default() }).await.unwrap().text
}
