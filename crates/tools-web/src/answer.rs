//! Conversion of a body: JSON, text in its charset, or bytes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use fetch::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A kind of `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Kind {
    Json,
    Text,
    Base64,
    File,
}

/// Number of bytes at the start of a page in which its charset is declared (the HTML standard,
/// section 4.2.5.4).
const CHARSET_WITHIN: usize = 1024;

/// An answer without its body.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Head {
    pub(crate) fn of(answer: &fetch::web::Answer) -> Self {
        Self { status: answer.status, reason: answer.reason.clone(), headers: joined(&answer.headers) }
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", String::as_str)
    }

    pub(crate) fn is_html(&self) -> bool {
        matches!(media_type(self.content_type()).as_str(), "text/html" | "application/xhtml+xml")
    }
}

fn joined(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        all.entry(name.as_str().to_owned())
            .and_modify(|before| {
                before.push_str(", ");
                before.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    all
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the body as a value. A body that is declared as JSON but invalid is text.
pub(crate) fn data(content_type: &str, body: Vec<u8>) -> (Kind, Value) {
    let media = media_type(content_type);
    let is_json = media == "application/json" || media.ends_with("+json");
    if is_json && let Ok(value) = serde_json::from_slice(strip_mark(&body)) {
        return (Kind::Json, value);
    }
    let says_text = media.starts_with("text/")
        || is_json
        || media.ends_with("+xml")
        || ["application/xml", "application/javascript", "application/x-www-form-urlencoded"]
            .contains(&media.as_str());
    let charset = charset(content_type);
    if !says_text && charset.is_none() && (body.contains(&0) || std::str::from_utf8(&body).is_err()) {
        return (Kind::Base64, Value::String(STANDARD.encode(body)));
    }
    let charset = charset.or_else(|| named_in_page(&media, &body));
    let encoding = charset.unwrap_or_else(|| {
        // Without a declared charset, bytes that are not UTF-8 are windows-1252, as the Encoding
        // standard sets for the web.
        if std::str::from_utf8(&body).is_ok() { UTF_8 } else { WINDOWS_1252 }
    });
    let (text, ..) = encoding.decode(&body);
    (Kind::Text, Value::String(text.into_owned()))
}

fn strip_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("charset");
        is_it.then(|| Encoding::for_label(value.trim().trim_matches('"').as_bytes()))?
    })
}

/// Returns the charset that a page declares in its head.
fn named_in_page(media: &str, body: &[u8]) -> Option<&'static Encoding> {
    if !media.contains("html") && !media.contains("xml") {
        return None;
    }
    let head = body.get(..CHARSET_WITHIN).unwrap_or(body).to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let label = ["charset=", "encoding="].into_iter().find_map(|key| head.split_once(key))?.1;
    let label = label.trim_start_matches(['"', '\'']);
    let end = label.find(|character: char| !character.is_ascii_alphanumeric() && !"-_:".contains(character));
    Encoding::for_label(label.get(..end.unwrap_or(label.len()))?.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_what_it_says_and_else_what_it_looks_like() {
        for (content_type, body, kind, expected) in [
            ("application/json", &b"{\"a\": 1}"[..], Kind::Json, json!({"a": 1})),
            ("application/ld+json; charset=utf-8", b"\xef\xbb\xbf[1]", Kind::Json, json!([1])),
            ("application/json", b"{broken", Kind::Text, json!("{broken")),
            ("application/json", b"", Kind::Text, json!("")),
            ("text/plain; charset=ISO-8859-1", b"\xe4", Kind::Text, json!("\u{e4}")),
            ("text/plain; Charset=\"shift_jis\"", b"\x82\xa0", Kind::Text, json!("\u{3042}")),
            ("text/plain", b"\xe4", Kind::Text, json!("\u{e4}")),
            (
                "text/html",
                b"<meta charset='koi8-r'>\xc1",
                Kind::Text,
                json!("<meta charset='koi8-r'>\u{430}"),
            ),
            ("text/plain", b"\xff\xfea\0", Kind::Text, json!("a")),
            ("", b"abc", Kind::Text, json!("abc")),
            ("application/octet-stream", b"\0\x01", Kind::Base64, json!("AAE=")),
            ("image/png", b"\x89PNG", Kind::Base64, json!("iVBORw==")),
            ("image/svg+xml", b"<svg/>", Kind::Text, json!("<svg/>")),
            ("text/plain; charset=nonsense", b"a", Kind::Text, json!("a")),
        ] {
            assert_eq!(data(content_type, body.to_vec()), (kind, expected), "{content_type}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(data("application/json", deep.clone().into_bytes()), (Kind::Text, json!(deep)));
    }
}
