//! The encoded forms in which the value of a secret may appear.

use std::fmt::Write as _;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;
use zeroize::Zeroizing;

/// Value in one of its forms.
pub(super) struct Form {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// True if line breaks may occur within the form, as programs insert them into base64 and
    /// hexadecimal.
    pub(super) wraps: bool,
}

/// Minimum length in bytes of a line of a multi-line value that is searched for separately. A key
/// that is indented or quoted line by line is still found.
const LEAST_LINE: usize = 20;

/// Returns every form of a value that is redacted, the unchanged value first. No form is shorter
/// than `least` bytes.
pub(super) fn forms(value: &[u8], least: usize) -> Vec<Form> {
    let mut forms = Forms { found: Vec::new(), least };
    forms.add(value.to_vec(), false);
    if let Ok(text) = std::str::from_utf8(value) {
        written(text, &mut forms);
        // Files of Windows, and answers with that charset.
        forms.add(text.encode_utf16().flat_map(u16::to_le_bytes).collect(), false);
        forms.add(text.encode_utf16().flat_map(u16::to_be_bytes).collect(), false);
        for line in text.lines().map(str::trim) {
            // `-----BEGIN ...-----` occurs in every key.
            if line.len() >= LEAST_LINE && line.len() < value.len() && !line.starts_with("-----") {
                forms.add(line.as_bytes().to_vec(), false);
                forms.add(json(line), false);
            }
        }
    }
    percent(value, &mut forms);
    for upper in [false, true] {
        forms.add(hex(value, upper), true);
    }
    for offset in 0..3 {
        forms.add(base64(value, offset, &STANDARD_NO_PAD), true);
        forms.add(base64(value, offset, &URL_SAFE_NO_PAD), true);
    }
    forms.found
}

struct Forms {
    found: Vec<Form>,
    least: usize,
}

impl Forms {
    fn add(&mut self, text: Vec<u8>, wraps: bool) {
        let text = Zeroizing::new(text);
        if text.len() >= self.least && self.found.iter().all(|form| form.text != text) {
            self.found.push(Form { text, wraps });
        }
    }
}

/// Adds a text in the forms of JSON and of a shell, and each shell form within JSON.
fn written(text: &str, forms: &mut Forms) {
    let mut spellings: Vec<Zeroizing<String>> = [text.replace('\'', "'\\''"), text.replace('\'', "'\"'\"'")]
        .into_iter()
        .chain([before_each(text, |character| "\\\"$`!".contains(character))])
        .chain([before_each(text, |character| {
            !character.is_alphanumeric() && !"_-./:=@%+,".contains(character)
        })])
        .chain([c_quoted(text)])
        .map(Zeroizing::new)
        .collect();
    spellings.insert(0, Zeroizing::new(text.to_owned()));
    for spelling in &spellings {
        forms.add(spelling.as_bytes().to_vec(), false);
        let in_json = json(spelling);
        if let Ok(again) = std::str::from_utf8(&in_json) {
            // JSON within JSON, such as a request body in a log.
            forms.add(json(again), false);
        }
        forms.add(in_json, false);
        forms.add(json_in_ascii(spelling), false);
    }
    for (special, upper) in JSON_FOR_PAGES {
        forms.add(json_for_pages(text, special, upper), false);
    }
    for quote in ["&quot;", "&#34;", "\""] {
        for apostrophe in ["&#39;", "&#x27;", "&apos;", "'"] {
            forms.add(html(text, quote, apostrophe), false);
        }
    }
}

/// Characters that writers of JSON escape so that it can stand in a page, with the case of the
/// digits: Go, PHP (`JSON_HEX_*`), and .NET.
const JSON_FOR_PAGES: [(&str, bool); 4] =
    [("<>&", false), ("<>&", true), ("<>&'\"", true), ("<>&'\"+`", true)];

/// Returns a text as JSON in which these characters are escaped by their number.
fn json_for_pages(text: &str, special: &str, upper: bool) -> Vec<u8> {
    let mut escaped = Zeroizing::new(Vec::with_capacity(text.len() * 6));
    for character in text.chars() {
        if special.contains(character) {
            let number = u32::from(character);
            let spelled = if upper { format!("\\u{number:04X}") } else { format!("\\u{number:04x}") };
            escaped.extend_from_slice(spelled.as_bytes());
        } else {
            escaped.extend_from_slice(&json(character.encode_utf8(&mut [0; 4])));
        }
    }
    escaped.to_vec()
}

/// Returns a text as it stands in HTML and XML, with these spellings of the quotation marks.
fn html(text: &str, quote: &str, apostrophe: &str) -> Vec<u8> {
    let mut escaped = Zeroizing::new(String::with_capacity(text.len() * 6));
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str(quote),
            '\'' => escaped.push_str(apostrophe),
            other => escaped.push(other),
        }
    }
    escaped.as_bytes().to_vec()
}

/// Returns a text as `serde_json` writes it, without the surrounding quotes.
fn json(text: &str) -> Vec<u8> {
    let quoted = Zeroizing::new(Value::from(text).to_string());
    quoted.as_bytes()[1..quoted.len() - 1].to_vec()
}

/// Returns a text as writers escape it in JSON that use ASCII alone and escape the slash.
fn json_in_ascii(text: &str) -> Vec<u8> {
    let plain = Zeroizing::new(String::from_utf8(json(text)).unwrap_or_default());
    let mut escaped = String::with_capacity(plain.len() * 6);
    for character in plain.chars() {
        if character.is_ascii() {
            if character == '/' {
                escaped.push('\\');
            }
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing into a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped.into_bytes()
}

/// Returns a text with a backslash before each of these characters.
fn before_each(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut quoted = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if is_special(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

/// Returns a text in the form of `$'...'`.
fn c_quoted(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
        .replace('\r', "\\r")
}

/// Adds the percent-encoded forms of URLs and HTML forms. Encoders differ in the characters that
/// they leave unchanged, and in the case of the hexadecimal digits.
fn percent(value: &[u8], forms: &mut Forms) {
    let kept: [&[u8]; 6] = [
        b"",
        // The entries after the empty one: unreserved characters (RFC 3986, section 2.3), the same
        // with the slash, `encodeURIComponent`, `encodeURI`, and HTML forms.
        b"-._~",
        b"-._~/",
        b"-._~!'()*",
        b"-._~!'()*;/?:@&=+$,#",
        b"*-._",
    ];
    for kept in kept {
        for upper in [true, false] {
            for plus in [false, true] {
                forms.add(
                    escaped(value, upper, |byte| byte.is_ascii_alphanumeric() || kept.contains(&byte), plus),
                    false,
                );
            }
        }
    }
    forms.add(escaped(value, true, |_| false, false), false);
    forms.add(escaped(value, false, |_| false, false), false);
}

fn escaped(value: &[u8], upper: bool, stays: impl Fn(u8) -> bool, plus: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len() * 3);
    for byte in value {
        match byte {
            b' ' if plus => text.push(b'+'),
            byte if stays(*byte) => text.push(*byte),
            byte => {
                text.push(b'%');
                text.extend(digits(*byte, upper));
            }
        }
    }
    text
}

fn hex(value: &[u8], upper: bool) -> Vec<u8> {
    value.iter().flat_map(|byte| digits(*byte, upper)).collect()
}

fn digits(byte: u8, upper: bool) -> [u8; 2] {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// Returns the base64 characters that depend on the value alone, if the value starts `offset` bytes
/// after the beginning of a group of three.
fn base64(value: &[u8], offset: usize, engine: &impl base64::Engine) -> Vec<u8> {
    let mut shifted = Zeroizing::new(Vec::with_capacity(offset + value.len()));
    shifted.resize(offset, 0);
    shifted.extend_from_slice(value);
    let encoded = Zeroizing::new(engine.encode(&*shifted));
    let first = (offset * 8).div_ceil(6);
    let last = shifted.len() * 8 / 6;
    encoded.as_bytes().get(first..last).unwrap_or_default().to_vec()
}
