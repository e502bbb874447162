//! Content of the fixtures.

use rmcp::model::{
    ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResult, ImageContent, PromptMessage,
    ResourceContents, Role,
};

/// One red pixel, as a PNG image in Base64.
pub(crate) const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// Silence, as a WAV file in Base64.
pub(crate) const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// Builds a text resource.
pub(crate) fn text(uri: &str, kind: &str, text: &str) -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(kind.to_owned()),
        text: text.to_owned(),
        meta: None,
    }
}

/// Runs a prompt that does not ask.
///
/// # Errors
/// `-32602` if there is no prompt of this name.
pub(crate) fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments
            .and_then(|arguments| arguments.get(name))
            .and_then(|value| value.as_str())
            .unwrap_or_default()
    };
    let said = |text: String| PromptMessage::new_text(Role::User, text);
    let shown = |content: ContentBlock| PromptMessage::new(Role::User, content);
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![said("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![said(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource =
                text(argument("resourceUri"), "text/plain", "Embedded resource content for testing.");
            vec![
                shown(ContentBlock::resource(resource)),
                said("Please process the embedded resource above.".to_owned()),
            ]
        }
        "test_prompt_with_image" => vec![
            shown(ContentBlock::Image(ImageContent::new(IMAGE, "image/png"))),
            said("Please analyze the image above.".to_owned()),
        ],
        _ => return Err(ErrorData::invalid_params("there is no such prompt", None)),
    };
    Ok(GetPromptResult::new(messages))
}
