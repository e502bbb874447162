//! Whatever form a secret comes in, and in whatever pieces.

use super::*;

/// A value in a form that others made, and what of it must not be left.
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

/// These bytes as programs dump them.
fn dump(bytes: &[u8], style: u8) -> String {
    let hex = |bytes: &[u8], between: &str| {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
    };
    let pairs = |line: &[u8], size: usize| {
        line.chunks(size).map(|group| hex(group, "")).collect::<Vec<_>>().join(" ")
    };
    let shown = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let lines = |width: usize, line: &dyn Fn(usize, &[u8]) -> String| {
        bytes.chunks(width).enumerate().map(|(at, bytes)| line(at * width, bytes)).collect::<String>()
    };
    match style {
        // xxd, of two, one and four bytes a group.
        0 => lines(16, &|at, line| format!("{at:08x}: {:<39}  {}\n", pairs(line, 2), shown(line))),
        1 => lines(16, &|at, line| format!("{at:08x}: {:<47}  {}\n", pairs(line, 1), shown(line))),
        2 => lines(16, &|at, line| format!("{at:08x}: {:<35}  {}\n", pairs(line, 4), shown(line))),
        // hexdump -C
        3 => lines(16, &|at, line| {
            let (left, right) = line.split_at(line.len().min(8));
            let digits = format!("{}  {}", hex(left, " "), hex(right, " "));
            format!("{at:08x}  {digits:<50}|{}|\n", shown(line))
        }),
        // od -tx1, with offsets and without
        4 => lines(16, &|at, line| format!("{at:07o} {}\n", hex(line, " "))),
        5 => lines(16, &|_, line| format!(" {}\n", hex(line, " "))),
        // xxd -p, with line ends as they are and as JSON has them
        6 => lines(30, &|_, line| format!("{}\n", hex(line, ""))),
        7 => lines(30, &|_, line| format!("{}\\n", hex(line, ""))),
        8 => hex(bytes, ":").to_uppercase(),
        9 => lines(12, &|_, line| format!("  0x{},\n", hex(line, ", 0x"))),
        _ => format!("b'\\x{}'", hex(bytes, "\\x")),
    }
}

#[test]
fn what_stands_behind_a_dump_stays_as_it_is() {
    let redactor = one("0123456789ab");
    let digits = "30 31 32 33 34 35 36 37 38 39 61 62";
    for (behind, left) in [
        (format!("  {}", "\u{e4}".repeat(100)), format!("  {}", "\u{e4}".repeat(100))),
        (format!("  |\u{e4}|\n{}", "\u{e4}".repeat(100)), format!("\n{}", "\u{e4}".repeat(100))),
        ("  |0123|".to_owned(), String::new()),
        (" and on\n  two blanks\n".to_owned(), " and on\n  two blanks\n".to_owned()),
    ] {
        let text = format!("\u{e4} {digits}{behind}");
        assert_eq!(redactor.text(&text), Some(format!("\u{e4} [SECRET:S]{left}")), "{text}");
    }
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
        // Lowering letters would make another value of it.
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
        value in "[ -~]{12,120}",
        before in "[a-z]{0,40}",
        after in "[a-z]{0,10}",
        line in prop_oneof![Just(64_usize), Just(76), 8_usize..80],
        broken in prop::sample::select(vec![
            "\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n    ", "\r\n\t", "\\n  ", "\n\n", " \n> ", "\",\n  \"", "\\\n", "\n# ",
        ]),
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        use base64::Engine as _;
        let all = base64::engine::general_purpose::STANDARD_NO_PAD.encode(format!("{before}{value}{after}"));
        let lines: Vec<&str> = all.as_bytes().chunks(line).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let text = lines.join(broken);
        // Where a character of the base64 lies in the text.
        let place = |at: usize| at + at / line * broken.len();
        let (first, last) = ((before.len() * 8).div_ceil(6), (before.len() + value.len()) * 8 / 6);
        let expected = format!("{}[SECRET:S]{}", &text[..place(first)], &text[place(last - 1) + 1..]);
        let redactor = one(&value);
        let covered = redactor.text(&text);
        prop_assert_eq!(covered.as_ref(), Some(&expected));
        let pieces = streamed(&redactor, text.as_bytes(), lengths.clone());
        prop_assert_eq!(Some(String::from_utf8(pieces).unwrap()), covered.clone());
        let passed = in_pieces(&redactor, text.as_bytes(), &lengths);
        prop_assert_eq!(Some(String::from_utf8(passed).unwrap()), covered);
    }

    #[test]
    fn the_bytes_of_a_secret_in_a_dump_are_covered_with_what_shows_them_again(
        value in "[g-wyz0-9_]{12,80}",
        before in "[A-Z]{0,40}",
        after in "[A-Z]{0,40}",
        style in 0_u8..11,
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let text = dump(format!("{before}{value}{after}").as_bytes(), style);
        let redactor = one(&value);
        let covered = redactor.text(&text).unwrap_or_default();
        prop_assert!(covered.contains("[SECRET:S]"), "{text} {covered}");
        let digits: String = covered.replace("[SECRET:S]", "").chars().filter(char::is_ascii_hexdigit).collect();
        for part in value.as_bytes().windows(6) {
            let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert!(!digits.to_lowercase().contains(&hex), "{text} {covered}");
        }
        for part in value.as_bytes().windows(3) {
            let part = std::str::from_utf8(part).unwrap();
            prop_assert!(part.bytes().all(|byte| byte.is_ascii_digit()) || !covered.contains(part), "{text} {covered}");
        }
        let pieces = streamed(&redactor, text.as_bytes(), lengths.clone());
        prop_assert_eq!(&String::from_utf8(pieces).unwrap(), &covered);
        let passed = in_pieces(&redactor, text.as_bytes(), &lengths);
        prop_assert_eq!(&String::from_utf8(passed).unwrap(), &covered);
    }

    #[test]
    fn a_secret_of_hexadecimal_digits_is_covered_in_a_dump(value in "[0-9a-f]{12,40}", before in "[A-Z]{0,40}", style in 0_u8..11) {
        let text = dump(format!("{before}{value}").as_bytes(), style);
        let covered = one(&value).text(&text).unwrap_or_default();
        prop_assert!(covered.contains("[SECRET:S]"), "{text} {covered}");
    }

    #[test]
    fn whatever_part_of_it_is_percent_encoded_in_whatever_case_it_is_covered(
        characters in prop::collection::vec(("[ -~\u{e4}]", 0_u8..4), 12..40),
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let value: String = characters.iter().map(|(character, _)| character.as_str()).collect();
        let mut text = "https://example.com/?q=".to_owned();
        for (character, how) in &characters {
            for byte in character.bytes() {
                match (how, byte) {
                    (0, _) | (1, b'%' | 128..) => text.push_str(&format!("%{byte:02X}")),
                    (2, _) | (3, b'%' | 128..) => text.push_str(&format!("%{byte:02x}")),
                    _ => text.push(char::from(byte)),
                }
            }
        }
        text.push_str("&page=2");
        let redactor = one(&value);
        let covered = redactor.text(&text);
        prop_assert_eq!(covered.as_deref(), Some("https://example.com/?q=[SECRET:S]&page=2"));
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
