//! Tests of the redactor.

use proptest::prelude::*;

use super::*;

fn redactor() -> Redactor {
    Redactor::new([
        ("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned()),
        ("LONG".to_owned(), "sk-1234567890abcdef-and-more".to_owned()),
        ("SHORT".to_owned(), "abc".to_owned()),
    ])
}

fn one(value: &str) -> Redactor {
    Redactor::new([("S".to_owned(), value.to_owned())])
}

/// Reader that returns chunks of these lengths in turn.
struct Pieces<'a> {
    left: &'a [u8],
    lengths: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl<'a> Pieces<'a> {
    fn of(left: &'a [u8], lengths: Vec<usize>) -> Self {
        Self { left, lengths: lengths.into_iter().cycle() }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.lengths.next().unwrap_or(1).min(self.left.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.left[..length]);
        self.left = &self.left[length..];
        Ok(length)
    }
}

fn streamed(redactor: &Redactor, text: &[u8], lengths: Vec<usize>) -> Vec<u8> {
    let mut covered = Vec::new();
    redactor.reader(Pieces::of(text, lengths)).read_to_end(&mut covered).unwrap();
    covered
}

#[test]
fn a_secret_is_covered_in_values_and_keys_and_the_longer_one_wins() {
    let mut value = serde_json::json!({
        "a sk-1234567890abcdef": ["x sk-1234567890abcdef-and-more y", "abc"],
    });
    redactor().value(&mut value);
    assert_eq!(value, serde_json::json!({"a [SECRET:TOKEN]": ["x [SECRET:LONG] y", "abc"]}));
}

#[test]
fn a_secret_of_digits_is_covered_where_it_comes_as_a_number() {
    let mut value = serde_json::json!({"id": 123_456_789_012_u64, "other": 123_456_789_013_u64});
    one("123456789012").value(&mut value);
    assert_eq!(value, serde_json::json!({"id": "[SECRET:S]", "other": 123_456_789_013_u64}));
}

#[test]
fn a_message_keeps_every_number_as_it_is_written_but_for_a_secret() {
    let redactor = Redactor::new([
        ("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned()),
        ("PIN".to_owned(), "123456789012".to_owned()),
        ("QUOTED".to_owned(), "a\"b\\c\n\"d\"e\\\\f".to_owned()),
    ]);
    let message = |text: &str| String::from_utf8(redactor.message(text.as_bytes()).unwrap()).unwrap();
    for id in ["18446744073709551616", "1e400", "-0", "1.50", "\"7\\\"\\\\\"", "null"] {
        let with = |secret: &str| format!(r#"{{"id":{id},"a":[1.0,true,"x {secret}"],"{secret}":-2E+5}}"#);
        assert_eq!(message(&with("sk-1234567890abcdef")), with("[SECRET:TOKEN]"));
        let quoted = Value::from("a\"b\\c\n\"d\"e\\\\f").to_string();
        assert_eq!(message(&with(quoted.trim_matches('"'))), with("[SECRET:QUOTED]"));
        assert_eq!(redactor.message(with("nothing").as_bytes()), None);
    }
    assert_eq!(message(r#"{"id":123456789012,"n":[1]}"#), r#"{"id":"[SECRET:PIN]","n":[1]}"#);
    assert_eq!(message("no JSON: sk-1234567890abcdef"), "no JSON: [SECRET:TOKEN]");
    assert_eq!(message(r#"{"id":1,"x":"sk-1234567890abcdef"#), r#"{"id":1,"x":"[SECRET:TOKEN]"#);
}

#[test]
fn a_secret_is_covered_in_what_was_written_however_it_is_escaped() {
    let secrets =
        ["sk-1234567890abcdef", "pass \"word\\ \n\t\u{1}\u{7f} \u{e4}\u{1f600}/</", "\\n\\n\\n\\n\\n\\n"];
    let named = secrets.iter().enumerate().map(|(at, secret)| (format!("S{at}"), (*secret).to_owned()));
    let redactor = Redactor::new(named);
    for secret in secrets {
        let value = serde_json::json!({"list": ["plain", format!("\\{secret}\""), {(secret): secret}]});
        let written = tool::RawJson::of(&value, 0).unwrap();
        let covered = redactor.data(Data::Written(written)).unwrap().into_value().unwrap();
        assert!(covered.to_string().contains("[SECRET:S"), "{covered}");
        let escaped = Value::from(secret).to_string();
        assert!(!covered.to_string().contains(&escaped[1..escaped.len() - 1]), "{covered}");
    }
    let written = tool::RawJson::of(&["nothing to cover"], 0).unwrap();
    assert!(matches!(redactor.data(Data::Written(written)).unwrap(), Data::Written(_)));
}

#[test]
fn a_secret_in_a_page_or_in_json_for_pages_is_covered() {
    let redactor = one("pa&ss<wo>rd\"4'5+6");
    for text in [
        "pa&amp;ss&lt;wo&gt;rd&quot;4&#39;5+6",
        "pa&amp;ss&lt;wo&gt;rd&#34;4&#39;5+6",
        "pa&amp;ss&lt;wo&gt;rd\"4'5+6",
        "pa&amp;ss&lt;wo&gt;rd&quot;4&#x27;5+6",
        "pa\\u0026ss\\u003cwo\\u003erd\\\"4'5+6",
        "pa\\u0026ss\\u003Cwo\\u003Erd\\u00224\\u00275+6",
        "pa\\u0026ss\\u003Cwo\\u003Erd\\u00224\\u00275\\u002B6",
    ] {
        let covered = redactor.text(&format!("before {text} after"));
        assert_eq!(covered.as_deref(), Some("before [SECRET:S] after"), "{text}");
    }
}

#[test]
fn a_secret_in_utf_16_is_covered() {
    let value = "sk-1234567890abcdef";
    for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let text: Vec<u8> = format!("a {value} b").encode_utf16().flat_map(to_bytes).collect();
        let left: Vec<u8> = value.encode_utf16().flat_map(to_bytes).collect();
        let covered = streamed(&one(value), &text, vec![7, 64]);
        assert!(!covered.windows(left.len()).any(|part| part == left), "{covered:?}");
        assert!(covered.windows(10).any(|part| part == b"[SECRET:S]"), "{covered:?}");
    }
}

#[test]
fn a_secret_across_two_reads_is_covered() {
    let text = "before sk-1234567890abcdef between sk-1234567890abcdef-and-more after sk-12345";
    let out = streamed(&redactor(), text.as_bytes(), vec![1]);
    assert_eq!(String::from_utf8(out).unwrap(), "before [SECRET:TOKEN] between [SECRET:LONG] after sk-12345");
}

/// Returns the bytes that are passed on after each chunk, and those at the end.
fn passed_on(redactor: &Redactor, pieces: &[&[u8]]) -> Vec<String> {
    let mut stream = redactor.pieces();
    let mut passed: Vec<Vec<u8>> = pieces.iter().map(|piece| stream.next(piece, false)).collect();
    passed.push(stream.next(b"", true));
    passed.into_iter().map(|part| String::from_utf8(part).unwrap()).collect()
}

/// Returns all bytes that are passed on for a text in chunks of these lengths in turn.
fn in_pieces(redactor: &Redactor, mut rest: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut stream, mut lengths, mut passed) = (redactor.pieces(), lengths.iter().cycle(), Vec::new());
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(lengths.next().map_or(1, |length| (*length).min(rest.len())));
        passed.extend(stream.next(part, false));
        rest = behind;
    }
    passed.extend(stream.next(b"", true));
    passed
}

#[test]
fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
    let key = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----", "a0123456789".repeat(300));
    let redactor = Redactor::new([
        ("KEY".to_owned(), key),
        ("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned()),
        ("LONG".to_owned(), "sk-1234567890abcdef-and-more".to_owned()),
    ]);
    // Each event of an event stream is complete with its empty line, and no reader may have to wait
    // for the next event.
    let events = [&b"data: one.\n\n"[..], b": \r\n\r\n", b"data: {\"n\": 1}\n\n"];
    let whole = events.map(|event| String::from_utf8(event.to_vec()).unwrap());
    assert_eq!(passed_on(&redactor, &events)[..3], whole);
    assert_eq!(passed_on(&redactor, &[b"a sk-123", b"4x", b" sk-"]), ["a ", "sk-1234x", " ", "sk-"]);
    let one = passed_on(
        &redactor,
        &[b"<sk-1234567890abcdef", b"-and-", b"less>", b"<sk-1234567890abcdef-and-more>"],
    );
    assert_eq!(one, ["<", "", "[SECRET:TOKEN]-and-less>", "<[SECRET:LONG]>", ""]);
}

#[test]
fn what_overlaps_without_end_goes_on_all_the_same() {
    let mut stream = one("aaaaaaaaaaaaaaaa").pieces();
    let mut passed = 0;
    for _ in 0..1_000 {
        passed += stream.next(&[b'a'; 1_000], false).len();
        assert!(stream.held() < 10_000);
    }
    assert!(passed > 0);
}

#[test]
fn secrets_that_overlap_are_covered_as_one() {
    let redactor = Redactor::new([
        ("A".to_owned(), "0123456789abcdef".to_owned()),
        ("B".to_owned(), "abcdefghijklmnop".to_owned()),
    ]);
    assert_eq!(redactor.text("<0123456789abcdefghijklmnop>").unwrap(), "<[SECRET:A]>");
    let text = "0123456789abcdefghijklmnop".repeat(3_000);
    let covered = String::from_utf8(streamed(&redactor, text.as_bytes(), vec![777])).unwrap();
    assert_eq!(covered, "[SECRET:A]".repeat(3_000));
}

#[test]
fn a_key_of_many_lines_is_covered_line_by_line_and_in_broken_base64() {
    let line = |letter: &str| format!("{letter}{}", "0123456789".repeat(6));
    let key = format!("-----BEGIN KEY-----\n{}\n{}\n-----END KEY-----", line("a"), line("b"));
    let redactor = one(&key);
    let indented = format!("key: |\n    {}\n    {}\n", line("a"), line("b"));
    assert_eq!(redactor.text(&indented).unwrap(), "key: |\n    [SECRET:S]\n    [SECRET:S]\n");
    assert_eq!(redactor.text("-----BEGIN KEY-----"), None);
    for before in ["", "x", "xy"] {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{before}{key}"));
        for line_break in ["\n", "\r\n", "\\n"] {
            let broken: Vec<&str> =
                encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let covered = redactor.text(&broken.join(line_break)).unwrap();
            assert!(covered.contains("[SECRET:S]") && covered.len() < 24, "{covered}");
        }
    }
}

#[test]
fn what_the_vault_gets_is_covered_from_then_on_also_when_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key");
    vault::make_key_file(&key_file).unwrap();
    let open = || {
        let keys = vault::Keys { key_file: Some(key_file.clone()), ..vault::Keys::default() };
        Arc::new(Vault::new(folder.path().join("vault"), keys))
    };
    let redactor = redactor().with_vault(open());
    let text = "a value-of-the-vault and sk-1234567890abcdef";
    assert_eq!(redactor.text(text).unwrap(), "a value-of-the-vault and [SECRET:TOKEN]");
    // Another process stores the secret.
    let change = vault::Change::named("mine").unwrap();
    open().set(&change, b"value-of-the-vault", jiff::Timestamp::UNIX_EPOCH).unwrap();
    redactor.refresh();
    assert_eq!(redactor.text(text).unwrap(), "a [SECRET:mine] and [SECRET:TOKEN]");
    assert!(open().remove("mine").unwrap());
    redactor.refresh();
    assert_eq!(redactor.clone().text(text).unwrap(), "a [SECRET:mine] and [SECRET:TOKEN]");
}

/// Returns a value in a form that other programs produce, and the part of it that must not remain.
fn encoded(value: &str, form: u8, before: &str) -> (String, String) {
    use base64::Engine as _;
    let percent = |keep: &str| -> String {
        let mut text = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        text
    };
    let json = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let whole = match form {
        0 => value.to_owned(),
        1 => json(value),
        2 => json(&json(value)),
        3 => value.replace('\'', "'\\''"),
        4 => percent("-._~"),
        5 => percent("").to_ascii_lowercase().chars().collect::<String>(),
        6 => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        7 => value.bytes().map(|byte| format!("{byte:02X}")).collect(),
        8 => {
            let all = base64::engine::general_purpose::STANDARD.encode(format!("{before}{value}{before}"));
            let (first, last) = ((before.len() * 8).div_ceil(6), (before.len() + value.len()) * 8 / 6);
            return (all.clone(), all[first..last].to_owned());
        }
        _ => {
            let all = base64::engine::general_purpose::URL_SAFE.encode(format!("{before}{value}{before}"));
            let (first, last) = ((before.len() * 8).div_ceil(6), (before.len() + value.len()) * 8 / 6);
            return (all.clone(), all[first..last].to_owned());
        }
    };
    (whole.clone(), whole)
}

#[test]
fn the_letter_of_an_escaped_line_break_is_not_taken_for_one_of_the_secret() {
    use base64::Engine as _;
    let value = "   00Aa'AA  a0A 0AA00aa A  a A0AA00 AA0 ";
    let all = base64::engine::general_purpose::STANDARD.encode(format!("{}{value}", "a".repeat(37)));
    let (first, second) = all.split_at(60);
    assert!(first.ends_with('n'), "the case that it is about");
    let covered = one(value).text(&format!("{first}\\n{second}"));
    assert!(covered.as_ref().is_some_and(|text| text.contains("[SECRET:S]")), "{covered:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn in_whatever_form_and_pieces_a_secret_comes_it_is_covered(
        value in "[ -~äß\u{1f600}\n\"'\\\\]{12,60}",
        form in 0_u8..10,
        around in ("[a-z .:\n]{0,40}", "[a-z .:\n]{0,40}"),
        before in "[a-zA-Z0-9:]{0,5}",
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        // Lower-case letters would change the value.
        let value = if form == 5 { value.to_ascii_lowercase() } else { value };
        let (whole, part) = encoded(&value, form, &before);
        let text = format!("{}{whole}{}", around.0, around.1);
        prop_assert!(text.contains(&part));
        let redactor = one(&value);
        let covered = redactor.text(&text);
        prop_assert!(covered.as_ref().is_some_and(|text| text.contains("[SECRET:S]") && !text.contains(&part)), "{covered:?}");
        let pieces = streamed(&redactor, text.as_bytes(), lengths.clone());
        prop_assert_eq!(Some(String::from_utf8(pieces).unwrap()), covered.clone());
        let passed = in_pieces(&redactor, text.as_bytes(), &lengths);
        prop_assert_eq!(Some(String::from_utf8(passed).unwrap()), covered);
    }

    #[test]
    fn base64_in_lines_is_covered_in_whatever_pieces_it_comes(
        value in "[ -~]{40,200}",
        before in "[a-z]{0,40}",
        line in 60_usize..77,
        broken in prop::sample::select(vec!["\n", "\r\n", "\\n", "\\r\\n"]),
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        use base64::Engine as _;
        let all = base64::engine::general_purpose::STANDARD.encode(format!("{before}{value}"));
        let lines: Vec<&str> = all.as_bytes().chunks(line).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let text = lines.join(broken);
        let redactor = one(&value);
        let covered = redactor.text(&text);
        prop_assert!(covered.is_some());
        let passed = in_pieces(&redactor, text.as_bytes(), &lengths);
        prop_assert_eq!(Some(String::from_utf8(passed).unwrap()), covered);
    }

    #[test]
    fn what_holds_no_secret_stays_as_it_is(text in "[a-f0-9 ]{0,400}", lengths in prop::collection::vec(1_usize..40, 1..6)) {
        let redactor = one("0123456789abcdefg");
        prop_assert_eq!(redactor.text(&text), None);
        prop_assert_eq!(streamed(&redactor, text.as_bytes(), lengths), text.as_bytes());
    }
}
