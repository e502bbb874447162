//! HTML pages as text or as Markdown.

use std::rc::Rc;

use htmd::{HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;
use tool::{Code, Context, Redaction, ToolError};

use crate::fetch_url::Format;

/// Maximum bytes of a page that is converted: the conversion takes a hundred times that size in
/// memory.
const LARGEST: usize = 2 * 1024 * 1024;
/// Maximum depth of elements: the conversion to Markdown is recursive.
const DEEPEST: usize = 150;
/// Elements whose text is invisible to readers.
const UNSEEN: [&str; 8] = ["head", "iframe", "noscript", "script", "style", "svg", "template", "title"];
/// Elements that begin and end a line.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];

/// Converts a page to this format. A page too deep for Markdown becomes text, with a warning.
///
/// # Errors
/// `EQUOTA` if the page is too large, and the error of a requested stop.
pub(crate) fn converted(context: &Context, page: &str, format: Format) -> Result<String, ToolError> {
    if page.len() > LARGEST {
        let message =
            format!("the page has {} bytes, more than the {LARGEST} that can be converted", page.len());
        return Err(ToolError::new(Code::Quota, message).hint("use `format: raw` or `save_to`"));
    }
    let converter = HtmlToMarkdown::builder().skip_tags(UNSEEN.to_vec()).build();
    let tree = converter
        .html_to_tree(page)
        .map_err(|error| ToolError::internal("the page is not text").because(error))?;
    context.stop.check()?;
    let covering = tool_support::covering(context)?;
    cover(&tree, covering.as_ref().as_ref());
    let (text, depth) = text_of(&tree);
    match format {
        Format::Raw | Format::Text => Ok(text),
        Format::Markdown if depth > DEEPEST => {
            context.warn(format!("the page is nested {depth} elements deep, so it is shown as text"));
            Ok(text)
        }
        Format::Markdown => {
            let markdown = converter.tree_to_markdown(&tree);
            // A secret across several elements is in pieces, and Markdown puts its own characters
            // between them.
            let covered = covering.text(&text);
            if covered.is_none() && covering.text(&markdown.replace('\\', "")).is_none() {
                return Ok(markdown);
            }
            context
                .warn("a secret spans several elements of the page, so the page is shown as text".to_owned());
            Ok(covered.unwrap_or(text))
        }
    }
}

/// Covers secrets in the tree, before the output escapes or encodes their characters.
fn cover(tree: &Rc<Node>, covering: &dyn Redaction) {
    let mut waiting = vec![tree.clone()];
    while let Some(node) = waiting.pop() {
        match &node.data {
            NodeData::Text { contents } => {
                let covered = covering.text(&contents.borrow());
                if let Some(covered) = covered {
                    *contents.borrow_mut() = covered.into();
                }
            }
            NodeData::Element { attrs, .. } => {
                for attribute in attrs.borrow_mut().iter_mut() {
                    if let Some(covered) = covering.text(&attribute.value) {
                        attribute.value = covered.into();
                    }
                }
            }
            _ => {}
        }
        waiting.extend(node.children.borrow().iter().cloned());
    }
}

/// Returns the visible text, one line per block, and the depth of the tree.
fn text_of(tree: &Rc<Node>) -> (String, usize) {
    let mut text = Text::default();
    let mut deepest = 0;
    // Items to visit: a node with its depth, or the end of a block.
    let mut waiting = vec![Some((tree.clone(), 0_usize))];
    while let Some(next) = waiting.pop() {
        let Some((node, depth)) = next else {
            text.end_line();
            continue;
        };
        deepest = deepest.max(depth);
        if let NodeData::Text { contents } = &node.data {
            text.add(&contents.borrow());
        }
        if let NodeData::Element { name, .. } = &node.data {
            let name = &*name.local;
            if UNSEEN.contains(&name) {
                continue;
            }
            if BLOCKS.contains(&name) {
                text.end_line();
                waiting.push(None);
            } else if ["td", "th"].contains(&name) {
                text.add(" ");
            }
        }
        let children = node.children.borrow();
        waiting.extend(children.iter().rev().map(|child| Some((child.clone(), depth + 1))));
    }
    (text.done(), deepest)
}

/// Text with white space as a browser shows it.
#[derive(Default)]
struct Text {
    shown: String,
    has_space: bool,
}

impl Text {
    fn add(&mut self, text: &str) {
        for character in text.chars() {
            if character.is_ascii_whitespace() {
                self.has_space = true;
                continue;
            }
            if std::mem::take(&mut self.has_space) && !self.shown.is_empty() && !self.shown.ends_with('\n') {
                self.shown.push(' ');
            }
            self.shown.push(character);
        }
    }

    fn end_line(&mut self) {
        self.has_space = false;
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            self.shown.push('\n');
        }
    }

    fn done(mut self) -> String {
        self.end_line();
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use testkit::Workspace;

    use super::*;

    fn as_(format: Format, page: &str) -> String {
        converted(&Workspace::new().context(), page, format).unwrap()
    }

    #[test]
    fn a_page_is_text_as_a_browser_shows_it_or_markdown() {
        let page = "<html><head><title>T</title><style>a{}</style></head><body><h1>One  \n two</h1>\
                    <p>A <b>bold</b> <a href='/x'>link</a>.<script>alert(1)</script></p>\
                    <ul><li>a<li>b</ul><table><tr><td>1<td>2</table></body></html>";
        assert_eq!(as_(Format::Text, page), "One two\nA bold link.\na\nb\n1 2\n");
        let markdown = as_(Format::Markdown, page);
        assert!(markdown.starts_with("# One two\n\nA **bold** [link](/x).\n\n*   a\n*   b"), "{markdown}");
        assert!(!markdown.contains("alert"), "{markdown}");
    }

    #[test]
    fn a_page_that_nests_without_end_is_text() {
        for tag in ["<div>", "<b>", "<a href=x>", "<table><tr><td>", "<ul><li>"] {
            let context = Workspace::new().context();
            let page = format!("{}end", tag.repeat(2_000));
            let markdown = converted(&context, &page, Format::Markdown).unwrap();
            assert!(markdown.contains("end"), "{tag}");
        }
        let context = Workspace::new().context();
        converted(&context, &"<div>".repeat(1_000), Format::Markdown).unwrap();
        assert_eq!(context.take_warnings().len(), 1);
        let shallow = format!("{}end", "<div>".repeat(DEEPEST - 10));
        assert_eq!(as_(Format::Markdown, &shallow).trim(), "end");
    }

    #[test]
    fn a_page_that_is_too_large_is_refused() {
        let page = "x".repeat(LARGEST + 1);
        let error = converted(&Workspace::new().context(), &page, Format::Text).unwrap_err();
        assert_eq!(error.code, Code::Quota);
    }
}
