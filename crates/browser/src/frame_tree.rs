//! The tree of the frames of a tab, with the frames that run in other processes.
//!
//! Each such frame has a session of its own, and its events come from there. This module only keeps
//! the state that events leave behind; it sends nothing.

use std::collections::HashMap;

use cdp::protocol::page::Frame;
use cdp::{ExecutionContextId, FrameId, LoaderId, SessionId};

use crate::address;
use crate::limits::{self, cut};

/// A frame.
#[derive(Debug, Clone)]
pub(crate) struct FrameState {
    pub(crate) parent: Option<FrameId>,
    /// Session in which the document of the frame lives.
    pub(crate) session: SessionId,
    /// Load of the present document.
    pub(crate) loader: Option<LoaderId>,
    /// URL of the present document, with its fragment.
    pub(crate) url: String,
    pub(crate) name: String,
    /// URL that could not be loaded, if the document says so.
    pub(crate) unreachable: Option<String>,
    /// Load that has begun and has no document yet.
    pub(crate) navigating: Option<LoaderId>,
    /// True if the page has announced a navigation that has not begun.
    pub(crate) is_scheduled: bool,
    /// True if the event `load` of the present document was there.
    pub(crate) has_loaded: bool,
    /// Context of the isolated world in the present document.
    pub(crate) world: Option<ExecutionContextId>,
    /// Context of the page's own scripts.
    pub(crate) page_context: Option<ExecutionContextId>,
    /// Position in the order in which frames appeared.
    order: u64,
}

/// The frames of a tab.
#[derive(Debug)]
pub(crate) struct FrameTree {
    main: FrameId,
    frames: HashMap<FrameId, FrameState>,
    last: u64,
}

impl FrameTree {
    /// Creates the tree of a new tab, whose main frame has the id of the target.
    pub(crate) fn new(main: FrameId, session: SessionId) -> Self {
        let mut tree = Self { main: main.clone(), frames: HashMap::new(), last: 0 };
        tree.add(main, None, session);
        tree
    }

    pub(crate) fn main(&self) -> &FrameId {
        &self.main
    }

    pub(crate) fn get(&self, id: &FrameId) -> Option<&FrameState> {
        self.frames.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &FrameId) -> Option<&mut FrameState> {
        self.frames.get_mut(id)
    }

    pub(crate) fn main_frame(&self) -> Option<&FrameState> {
        self.frames.get(&self.main)
    }

    /// Returns the frames from the outside in, siblings in the order of their appearance.
    pub(crate) fn in_order(&self) -> Vec<FrameId> {
        let mut found = Vec::new();
        let mut stack = vec![self.main.clone()];
        while let Some(id) = stack.pop() {
            let mut children: Vec<_> =
                self.frames.iter().filter(|(_, frame)| frame.parent.as_ref() == Some(&id)).collect();
            children.sort_by_key(|(_, frame)| std::cmp::Reverse(frame.order));
            stack.extend(children.into_iter().map(|(id, _)| id.clone()));
            found.push(id);
        }
        found
    }

    /// Records the URL of the document that the main frame shows already.
    pub(crate) fn begin_at(&mut self, url: &str) {
        if let Some(main) = self.frames.get_mut(&self.main) {
            main.url = address::shown(url);
        }
    }

    /// Adds a frame, or moves a known one into another session.
    pub(crate) fn attach(&mut self, id: &FrameId, parent: &FrameId, session: &SessionId) {
        if self.frames.contains_key(parent) {
            self.enter_session(id, Some(parent), session);
        }
    }

    /// Records that the document of a frame lives in this session from now on.
    pub(crate) fn enter_session(&mut self, id: &FrameId, parent: Option<&FrameId>, session: &SessionId) {
        if let Some(frame) = self.frames.get_mut(id) {
            if frame.session != *session {
                frame.session = session.clone();
                (frame.world, frame.page_context) = (None, None);
                self.remove_children(id);
            }
        } else {
            self.add(id.clone(), parent.cloned(), session.clone());
        }
    }

    /// Records the new document of a frame. Returns the load of the document that was left, and the
    /// URL that it had.
    pub(crate) fn navigated(
        &mut self,
        new: &Frame,
        session: &SessionId,
    ) -> Option<(Option<LoaderId>, String)> {
        self.enter_session(&new.id, new.parent_id.as_ref(), session);
        self.remove_children(&new.id);
        let frame = self.frames.get_mut(&new.id)?;
        let url = format!("{}{}", new.url, new.url_fragment.as_deref().unwrap_or_default());
        let old_url = std::mem::replace(&mut frame.url, address::shown(&url));
        let old = frame.loader.replace(new.loader_id.clone());
        frame.name = cut(new.name.as_deref().unwrap_or_default(), limits::NAME);
        frame.unreachable = new.unreachable_url.as_deref().map(address::shown);
        frame.world = None;
        frame.has_loaded = false;
        frame.is_scheduled = false;
        if frame.navigating.as_ref() == Some(&new.loader_id) {
            frame.navigating = None;
        }
        Some((old.filter(|old| *old != new.loader_id), old_url))
    }

    /// Records the document of a frame as the browser tells it after events were missed. Frames in other
    /// sessions stay: the ends of those tell when they go.
    pub(crate) fn refresh(&mut self, new: &Frame, session: &SessionId) {
        let others: Vec<_> = self.frames.extract_if(|_, frame| frame.session != *session).collect();
        self.navigated(new, session);
        self.frames.extend(others);
    }

    /// Removes a frame and the frames in it.
    pub(crate) fn detach(&mut self, id: &FrameId) {
        if *id != self.main {
            self.remove_children(id);
            self.frames.remove(id);
        }
    }

    /// Removes the frames of a session that has ended.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        let of_session = self.frames.iter().filter(|(_, frame)| frame.session == *session);
        let ids: Vec<FrameId> = of_session.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.detach(id);
        }
    }

    /// Records that a navigation came to an end without a document.
    pub(crate) fn stop(&mut self, loader: &LoaderId) {
        for frame in self.frames.values_mut().filter(|frame| frame.navigating.as_ref() == Some(loader)) {
            frame.navigating = None;
        }
    }

    /// Records that the contexts of a session are gone: one of them, or all.
    pub(crate) fn forget_worlds(&mut self, session: &SessionId, context: Option<ExecutionContextId>) {
        for frame in self.frames.values_mut().filter(|frame| frame.session == *session) {
            for own in [&mut frame.world, &mut frame.page_context] {
                if context.is_none() || *own == context {
                    *own = None;
                }
            }
        }
    }

    /// Records the crash of the main frame's process.
    pub(crate) fn crash(&mut self) {
        let main = self.main.clone();
        self.remove_children(&main);
        if let Some(frame) = self.frames.get_mut(&main) {
            (frame.world, frame.page_context) = (None, None);
            frame.navigating = None;
            frame.is_scheduled = false;
            frame.has_loaded = true;
        }
    }

    /// Returns the outermost frame whose document lives in the same session, without a frame of
    /// another session in between.
    pub(crate) fn local_root(&self, id: &FrameId) -> Option<FrameId> {
        let mut id = id.clone();
        // A tree has no circle, so the walk is no longer than the number of frames.
        for _ in 0..=self.frames.len() {
            let frame = self.frames.get(&id)?;
            let Some(parent) = frame.parent.as_ref() else { return Some(id) };
            if self.frames.get(parent)?.session != frame.session {
                return Some(id);
            }
            id = parent.clone();
        }
        None
    }

    fn add(&mut self, id: FrameId, parent: Option<FrameId>, session: SessionId) {
        if self.frames.len() >= limits::FRAMES {
            return;
        }
        self.last += 1;
        let frame = FrameState {
            parent,
            session,
            loader: None,
            url: String::new(),
            name: String::new(),
            unreachable: None,
            navigating: None,
            is_scheduled: false,
            has_loaded: false,
            world: None,
            page_context: None,
            order: self.last,
        };
        self.frames.insert(id, frame);
    }

    fn remove_children(&mut self, id: &FrameId) {
        let mut stack = vec![id.clone()];
        while let Some(parent) = stack.pop() {
            let children = self.frames.extract_if(|_, frame| frame.parent.as_ref() == Some(&parent));
            stack.extend(children.map(|(id, _)| id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> FrameId {
        FrameId::from(text)
    }

    fn document(frame: &str, parent: Option<&str>, loader: &str) -> Frame {
        Frame {
            id: id(frame),
            parent_id: parent.map(id),
            loader_id: LoaderId::from(loader),
            name: None,
            url: format!("http://a.test/{loader}"),
            url_fragment: None,
            unreachable_url: None,
        }
    }

    fn names(tree: &FrameTree) -> Vec<String> {
        tree.in_order().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn frames_are_listed_from_the_outside_in() {
        let session = SessionId::from("S");
        let mut tree = FrameTree::new(id("main"), session.clone());
        tree.attach(&id("a"), &id("main"), &session);
        tree.attach(&id("b"), &id("main"), &session);
        tree.attach(&id("a1"), &id("a"), &session);
        tree.attach(&id("lost"), &id("nowhere"), &session);
        assert_eq!(names(&tree), ["main", "a", "a1", "b"]);
        tree.detach(&id("a"));
        assert_eq!(names(&tree), ["main", "b"]);
        tree.navigated(&document("main", None, "L2"), &session);
        assert_eq!(names(&tree), ["main"]);
    }

    #[test]
    fn a_frame_of_another_process_is_a_root_of_its_own() {
        let (page, inner) = (SessionId::from("S"), SessionId::from("T"));
        let mut tree = FrameTree::new(id("main"), page.clone());
        tree.attach(&id("a"), &id("main"), &page);
        tree.attach(&id("a1"), &id("a"), &page);
        tree.enter_session(&id("a"), None, &inner);
        assert_eq!(names(&tree), ["main", "a"]);
        tree.attach(&id("a2"), &id("a"), &inner);
        assert_eq!(tree.local_root(&id("a2")), Some(id("a")));
        assert_eq!(tree.local_root(&id("main")), Some(id("main")));
        tree.end_session(&inner);
        assert_eq!(names(&tree), ["main"]);
    }

    #[test]
    fn a_new_document_forgets_the_world_and_ends_the_navigation() {
        let session = SessionId::from("S");
        let mut tree = FrameTree::new(id("main"), session.clone());
        let frame = tree.get_mut(&id("main")).unwrap();
        frame.world = Some(ExecutionContextId(1));
        frame.navigating = Some(LoaderId::from("L1"));
        assert_eq!(tree.navigated(&document("main", None, "L1"), &session), Some((None, String::new())));
        let frame = tree.main_frame().unwrap();
        assert!(frame.world.is_none() && frame.navigating.is_none() && !frame.has_loaded);
        let left = tree.navigated(&document("main", None, "L2"), &session).unwrap();
        assert_eq!(left, (Some(LoaderId::from("L1")), "http://a.test/L1".to_owned()));
    }

    #[test]
    fn a_document_that_is_told_later_keeps_the_frames_of_other_processes() {
        let (page, inner) = (SessionId::from("S"), SessionId::from("T"));
        let mut tree = FrameTree::new(id("main"), page.clone());
        tree.attach(&id("a"), &id("main"), &page);
        tree.attach(&id("b"), &id("main"), &page);
        tree.enter_session(&id("b"), None, &inner);
        tree.refresh(&document("main", None, "L1"), &page);
        assert_eq!(names(&tree), ["main", "b"]);
        tree.navigated(&document("main", None, "L2"), &page);
        assert_eq!(names(&tree), ["main"]);
    }

    #[test]
    fn the_number_of_frames_is_bounded() {
        let session = SessionId::from("S");
        let mut tree = FrameTree::new(id("main"), session.clone());
        for number in 0..limits::FRAMES * 2 {
            tree.attach(&id(&number.to_string()), &id("main"), &session);
        }
        assert_eq!(tree.in_order().len(), limits::FRAMES);
    }
}
