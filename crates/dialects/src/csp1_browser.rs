//! The operation `browser` of CSP/1, with its five actions.

use std::sync::Arc;

use serde_json::json;
use tool::{AnyTool, Class, Example, Lane, Level, Presentation, Spec, TextCap, Timeout};

use crate::csp1_operation::Operation;
use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Need, ValueSource, gives, text};

/// Name of the operation.
const NAME: &str = "browser";

const PAGE: Field = text("TARGET_URL", Need::Optional, "URL that the tab must show").becoming("url");
const ELEMENT: Field =
    text("SELECTOR", Need::Required, "css:..., xpath:... or a reference").becoming("selector");
const PART_OF_PAGE: Field =
    text("SELECTOR", Need::Optional, "Element; default the page").becoming("selector");

const TIME: AnswerField = gives("exec_time", ValueSource::Milliseconds, "Milliseconds.");
const CHANGED: AnswerField =
    gives("page_changed", ValueSource::Switch("page_changed"), "True if it changed.");
const NEW_URL: AnswerField = gives("url", ValueSource::OptionalText("new_url"), "If navigation occurred.");

const PART: ExternalTool = ExternalTool { is_listed: false, ..DEFAULTS };

/// The parts, in the order of the source.
pub(crate) const NAVIGATE: ExternalTool = ExternalTool {
    name: "browser.navigate",
    canonical: "browser_navigate",
    title: "Open a page",
    description: "Loads a URL in the active tab.",
    takes: &[text("TARGET_URL", Need::Required, "http or https").becoming("url")],
    settled: || json!({"reuse": true}),
    gives: &[
        gives("action", ValueSource::Fixed("navigate"), "navigate."),
        gives("url", ValueSource::Text("url"), "URL after redirections."),
        gives("title", ValueSource::Text("title"), "Title."),
        gives("loaded", ValueSource::Switch("loaded"), "False if it was still loading."),
        TIME,
    ],
    ..PART
};

pub(crate) const CLICK: ExternalTool = ExternalTool {
    name: "browser.click",
    canonical: "browser_interact",
    title: "Click an element",
    description: "Clicks an element.",
    takes: &[PAGE, ELEMENT],
    settled: || json!({"action": "click"}),
    gives: &[gives("action", ValueSource::Fixed("click"), "click."), NEW_URL, CHANGED, TIME],
    ..PART
};

pub(crate) const TYPE: ExternalTool = ExternalTool {
    name: "browser.type",
    canonical: "browser_interact",
    title: "Type into an element",
    description: "Types text into an input.",
    takes: &[PAGE, ELEMENT, text("VALUE", Need::Required, "Text to type").becoming("value")],
    settled: || json!({"action": "type"}),
    gives: &[gives("action", ValueSource::Fixed("type"), "type."), NEW_URL, CHANGED, TIME],
    ..PART
};

pub(crate) const SCREENSHOT: ExternalTool = ExternalTool {
    name: "browser.screenshot",
    canonical: "browser_screenshot",
    title: "Take a picture",
    description: "Captures the viewport or an element.",
    takes: &[PAGE, PART_OF_PAGE],
    gives: &[
        gives("action", ValueSource::Fixed("screenshot"), "screenshot."),
        gives("image_base64", ValueSource::OptionalText("image_base64"), "The picture, before it is stored."),
        gives("mime_type", ValueSource::Text("mime_type"), "Media type."),
        gives("width", ValueSource::Integer("width"), "Pixels."),
        gives("height", ValueSource::Integer("height"), "Pixels."),
        TIME,
    ],
    ..PART
};

pub(crate) const EXTRACT: ExternalTool = ExternalTool {
    name: "browser.extract",
    canonical: "browser_read_page",
    title: "Extract text",
    description: "Extracts the text of the page or of an element.",
    takes: &[PAGE, PART_OF_PAGE],
    settled: || json!({"mode": "text"}),
    gives: &[
        gives("action", ValueSource::Fixed("extract"), "extract."),
        gives("url", ValueSource::Text("url"), "URL."),
        gives("text", ValueSource::Text("content"), "Text; a summary beyond 500 characters."),
        gives(
            "next_offset",
            ValueSource::OptionalInteger("next_offset"),
            "Characters of text, if more follows.",
        ),
        TIME,
    ],
    ..PART
};

static SPEC: Spec = Spec {
    name: NAME,
    title: "Use a browser",
    description: "Browser automation: loads a URL, clicks, types, takes a screenshot, or extracts text.",
    example: Example {
        files: &[],
        arguments: r#"{"ACTION": "navigate", "TARGET_URL": "about:blank"}"#,
        result: r#"{"action": "navigate", "url": "about:blank"}"#,
    },
    // Values that a client must assume before the action is known. For a call, those of the part apply.
    level: Level::Destructive,
    class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
    timeout: Timeout::fixed(180),
    lane: Lane::Browser,
    text: TextCap::Default,
    presentation: Presentation::Record,
};

/// Creates the tool of the operation.
pub(crate) fn operation() -> Arc<dyn AnyTool> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let actions = ["navigate", "click", "type", "screenshot", "extract"];
    let number = |kind: &str, description: &str| json!({"type": kind, "description": description});
    let input = json!({
        "type": "object",
        "properties": {
            "ACTION": {"type": "string", "enum": actions, "description": "The action"},
            "TARGET_URL": text("URL to load; for other actions, the URL that must be shown"),
            "SELECTOR": text("css:..., xpath:... or a reference"),
            "VALUE": text("Text to type"),
        },
        "required": ["ACTION"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "object",
        "properties": {
            "action": text("The action."),
            "url": text("URL of the page."),
            "title": text("Title, for navigate."),
            "loaded": number("boolean", "False if the page was still loading."),
            "page_changed": number("boolean", "True if the page changed."),
            "text": text("Text, for extract; a summary beyond 500 characters."),
            "log_ref": text("File with the full text."),
            "screenshot_ref": text("File with the picture, for screenshot."),
            "mime_type": text("Media type of the picture."),
            "width": number("integer", "Width of the picture in pixels."),
            "height": number("integer", "Height of the picture in pixels."),
            "exec_time": number("number", "Milliseconds."),
        },
        "required": ["action", "exec_time"],
    });
    Operation::tool(&SPEC, input, output)
}

#[cfg(test)]
mod tests {
    use tool::Place;

    use super::*;

    #[test]
    fn each_action_of_the_schema_leads_to_a_part_with_the_other_keys() {
        let tool = operation();
        let parts = [NAVIGATE, CLICK, TYPE, SCREENSHOT, EXTRACT].map(|part| part.name);
        let actions = tool.input_schema()["properties"]["ACTION"]["enum"].as_array().unwrap();
        let named: Vec<_> = actions
            .iter()
            .map(|action| {
                let arguments = json!({"ACTION": action, "SELECTOR": "css:a"});
                let (name, rest) = tool.names_another(&arguments).unwrap();
                assert_eq!(rest, json!({"SELECTOR": "css:a"}));
                name
            })
            .collect();
        assert_eq!(named, parts);
        assert!(tool.names_another(&json!({"ACTION": 1})).is_none());
        assert!(tool.prepare(json!({}), &Place::at("/w".into())).is_err());
    }
}
