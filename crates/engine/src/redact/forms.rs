//! The forms in which a value may appear that is not written as it is.

use std::fmt::Write as _;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;
use zeroize::Zeroizing;

use super::matcher::Spelling;

/// A value in one of its forms.
pub(super) struct Form {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// What programs put between its characters, or in place of one.
    pub(super) spelling: Spelling,
}

/// Lines of a value of several lines that are looked for by themselves, from this many bytes on: a key that is indented or quoted
/// line by line is still one.
const LEAST_LINE: usize = 20;

/// Every form of a value that is covered, itself first. None is shorter than `least`.
pub(super) fn forms(value: &[u8], least: usize) -> Vec<Form> {
    let mut forms = Forms { found: Vec::new(), least };
    forms.add(value.to_vec(), Spelling::Percent);
    if value.contains(&b' ') {
        // As forms have it, in which other characters may be encoded.
        let plus = value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte });
        forms.add(plus.collect(), Spelling::Percent);
    }
    if let Ok(text) = std::str::from_utf8(value) {
        written(text, &mut forms);
        for line in text.lines().map(str::trim) {
            // `-----BEGIN ...-----` stands in every key.
            if line.len() >= LEAST_LINE && line.len() < value.len() && !line.starts_with("-----") {
                forms.add(line.as_bytes().to_vec(), Spelling::Exact);
                forms.add(json(line), Spelling::Exact);
            }
        }
    }
    for upper in [false, true] {
        forms.add(hex(value, upper), Spelling::Digits);
    }
    for offset in 0..3 {
        forms.add(base64(value, offset, &STANDARD_NO_PAD), Spelling::Lines);
        forms.add(base64(value, offset, &URL_SAFE_NO_PAD), Spelling::Lines);
    }
    forms.found
}

struct Forms {
    found: Vec<Form>,
    least: usize,
}

impl Forms {
    fn add(&mut self, text: Vec<u8>, spelling: Spelling) {
        let text = Zeroizing::new(text);
        if text.len() >= self.least && self.found.iter().all(|form| form.text != text) {
            self.found.push(Form { text, spelling });
        }
    }
}

/// As a text stands in JSON, as a shell reads it, and the second within the first.
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
        forms.add(spelling.as_bytes().to_vec(), Spelling::Exact);
        let in_json = json(spelling);
        if let Ok(again) = std::str::from_utf8(&in_json) {
            // JSON within JSON, such as a body in a log.
            forms.add(json(again), Spelling::Exact);
        }
        forms.add(in_json, Spelling::Exact);
        forms.add(json_in_ascii(spelling), Spelling::Exact);
    }
}

/// As `serde_json` writes it, without the quotes around it.
fn json(text: &str) -> Vec<u8> {
    let quoted = Zeroizing::new(Value::from(text).to_string());
    quoted.as_bytes()[1..quoted.len() - 1].to_vec()
}

/// As writers do that leave nothing but ASCII, and escape the slash.
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

/// With a backslash before each of these characters.
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

/// As it stands in `$'...'`.
fn c_quoted(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
        .replace('\r', "\\r")
}

fn hex(value: &[u8], upper: bool) -> Vec<u8> {
    value.iter().flat_map(|byte| digits(*byte, upper)).collect()
}

fn digits(byte: u8, upper: bool) -> [u8; 2] {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// The characters of base64 that the value alone decides where it begins `offset` bytes behind the beginning of a group of three.
fn base64(value: &[u8], offset: usize, engine: &impl base64::Engine) -> Vec<u8> {
    let mut shifted = Zeroizing::new(Vec::with_capacity(offset + value.len()));
    shifted.resize(offset, 0);
    shifted.extend_from_slice(value);
    let encoded = Zeroizing::new(engine.encode(&*shifted));
    let first = (offset * 8).div_ceil(6);
    let last = shifted.len() * 8 / 6;
    encoded.as_bytes().get(first..last).unwrap_or_default().to_vec()
}
