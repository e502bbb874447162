//! Indexes as indexers write them, and hostile ones.

#![allow(clippy::unwrap_used, reason = "a test program: what goes wrong in it ends it")]

use std::io::{BufReader, Read};

use proptest::prelude::*;
use scip_index::{Encoding, Fit, IndexReader, Lines, Place, ScipError, ScipLimits};

/// Appends a number of variable length.
fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    into.push(u8::try_from(number).unwrap());
}

/// Returns a field with a length.
fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(content.len() as u64, &mut out);
    out.extend_from_slice(content);
    out
}

/// Returns a field with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

fn metadata() -> Vec<u8> {
    let tool = [bytes(1, b"maker"), bytes(2, b"1.2")].concat();
    bytes(1, &[bytes(2, &tool), bytes(3, b"file:///project")].concat())
}

fn occurrence(range: &[u64], symbol: &str, roles: u64) -> Vec<u8> {
    let mut packed = Vec::new();
    for one in range {
        varint(*one, &mut packed);
    }
    bytes(2, &[bytes(1, &packed), bytes(2, symbol.as_bytes()), number(3, roles)].concat())
}

fn document(path: &str, occurrences: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, &[bytes(1, path.as_bytes()), occurrences.concat(), number(6, 2)].concat())
}

/// Reads all of an index: the paths, and the number of occurrences that can be decoded.
fn read_all(input: &[u8], limits: ScipLimits) -> Result<(Vec<String>, usize), ScipError> {
    let mut reader = IndexReader::new(input, limits);
    let (mut paths, mut count) = (Vec::new(), 0);
    while let Some(found) = reader.next_document()? {
        paths.push(found.path.to_owned());
        for one in found.occurrences() {
            one?;
            count += 1;
        }
    }
    Ok((paths, count))
}

#[test]
fn documents_are_read_in_order_with_their_occurrences() {
    let one =
        document("a.py", &[occurrence(&[0, 4, 7], "x a/f().", 1), occurrence(&[2, 0, 2, 1], "local 3", 8)]);
    let external = bytes(3, &bytes(1, b"y os/getcwd()."));
    let later = bytes(9, b"a field of a later version");
    let index = [metadata(), external, one, later, document("b.py", &[])].concat();
    let mut reader = IndexReader::new(&index[..], ScipLimits::default());
    let first = reader.next_document().unwrap().unwrap();
    assert_eq!((first.path, first.encoding, first.text), ("a.py", Encoding::Utf16, None));
    let found: Vec<_> = first.occurrences().collect::<Result<_, _>>().unwrap();
    assert_eq!(found[0].place, Some(Place { line: 0, start: 4, end: 7 }));
    assert_eq!((found[0].symbol, found[0].is_definition, found[0].is_local()), ("x a/f().", true, false));
    assert_eq!(found[1].place, Some(Place { line: 2, start: 0, end: 1 }));
    assert_eq!((found[1].is_definition, found[1].is_local()), (false, true));
    assert_eq!(reader.next_document().unwrap().map(|document| document.path.to_owned()), Some("b.py".into()));
    assert!(reader.next_document().unwrap().is_none());
    let head = reader.metadata().unwrap();
    assert_eq!((&*head.tool, &*head.tool_version, &*head.project_root), ("maker", "1.2", "file:///project"));
    assert_eq!(reader.bytes_read(), index.len() as u64);
}

#[test]
fn a_range_that_is_none_has_no_place() {
    let huge = u64::MAX;
    for range in [&[][..], &[1, 2], &[1, 2, 3, 4, 5], &[0, 3, 3], &[0, 4, 3], &[0, 1, 1, 2], &[huge, 0, 1]] {
        let index = [metadata(), document("a.py", &[occurrence(range, "s", 0)])].concat();
        let mut reader = IndexReader::new(&index[..], ScipLimits::default());
        let found = reader.next_document().unwrap().unwrap();
        let places: Vec<_> = found.occurrences().map(|one| one.unwrap().place).collect();
        assert_eq!(places, [None], "{range:?}");
    }
}

#[test]
fn an_index_that_ends_early_is_refused_wherever_it_ends() {
    let head = metadata();
    let index = [head.clone(), document("a.py", &[occurrence(&[0, 4, 7], "x", 1)])].concat();
    assert_eq!(read_all(&index, ScipLimits::default()).unwrap(), (vec!["a.py".to_owned()], 1));
    for end in (1..index.len()).filter(|end| *end != head.len()) {
        let error = read_all(&index[..end], ScipLimits::default()).unwrap_err();
        assert!(matches!(error, ScipError::Truncated { at } if at == end as u64), "{end}: {error}");
    }
}

/// An input that counts how much of it is asked for at once.
struct Counted<'a>(&'a [u8], usize);

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1.max(buffer.len());
        self.0.read(buffer)
    }
}

#[test]
fn a_length_that_lies_costs_no_memory() {
    for length in [60 << 20, 1 << 30, u64::MAX] {
        let mut index = metadata();
        index.push(2 << 3 | 2);
        varint(length, &mut index);
        index.extend_from_slice(b"short");
        let mut counted = Counted(&index, 0);
        let mut reader = IndexReader::new(BufReader::new(&mut counted), ScipLimits::default());
        let error = reader.next_document().map(|found| found.is_some()).unwrap_err();
        let is_right = match error {
            ScipError::Truncated { .. } => length <= 64 << 20,
            ScipError::TooLarge { .. } => length > 64 << 20,
            _ => false,
        };
        assert!(is_right, "{length}: {error}");
        drop(reader);
        assert!(counted.1 <= 64 << 10, "{length}: a buffer of {} bytes", counted.1);
    }
}

#[test]
fn limits_hold_for_documents_and_occurrences() {
    let one = document("a.py", &vec![occurrence(&[0, 0, 1], "s", 0); 10]);
    let index = [metadata(), one.clone(), one].concat();
    let limits = |documents, occurrences| ScipLimits { documents, occurrences, ..ScipLimits::default() };
    assert_eq!(read_all(&index, limits(2, 20)).unwrap().1, 20);
    for limits in [limits(1, 20), limits(2, 19), ScipLimits { document: 50, ..ScipLimits::default() }] {
        let error = read_all(&index, limits).unwrap_err();
        assert!(matches!(error, ScipError::TooLarge { .. }), "{limits:?}: {error}");
    }
}

#[test]
fn another_file_is_no_index() {
    let without_head = document("a.py", &[]);
    let inputs: [&[u8]; 6] = [
        b"",
        b"#!/bin/sh\necho\n",
        b"{\"documents\": []}",
        b"\x7fELF\x02\x01\x01",
        b"\0\0\0\0",
        &without_head,
    ];
    for input in inputs {
        let error = read_all(input, ScipLimits::default()).unwrap_err();
        assert!(matches!(error, ScipError::NotAnIndex { .. }), "{input:?}: {error}");
    }
}

#[test]
fn a_field_that_is_longer_than_its_message_is_damage() {
    for inner in
        [&[0x0a_u8, 0x7f, b'a'][..], &[0x12, 0x02, 0x0a, 0x05], &[0x0a, 0x02, 0xff, 0xfe], &[0x0b], &[0x00]]
    {
        let index = [metadata(), bytes(2, inner)].concat();
        let error = read_all(&index, ScipLimits::default()).unwrap_err();
        assert!(matches!(error, ScipError::Damaged { .. }), "{inner:?}: {error}");
    }
}

#[test]
fn paths_that_leave_the_project_are_not_safe() {
    let is_safe = |path: &str| {
        let index = [metadata(), document(path, &[])].concat();
        let mut reader = IndexReader::new(&index[..], ScipLimits::default());
        reader.next_document().unwrap().unwrap().safe_path().is_some()
    };
    for path in ["a.py", "src/ü/a b.py", "..a/b..", "a/.hidden"] {
        assert!(is_safe(path), "{path}");
    }
    for path in
        ["", "/etc/passwd", "../a.py", "a/../../b", "a//b", "./a", "a/.", "C:\\a", "a\\..\\b", "a\0b", "a\nb"]
    {
        assert!(!is_safe(path), "{path:?}");
    }
}

#[test]
fn columns_are_counted_in_the_unit_of_the_index() {
    let lines = Lines::new("first\r\né😀name(1)\n");
    let at = |line, start, end, encoding| lines.at(Place { line, start, end }, encoding);
    assert_eq!(at(1, 6, 10, Encoding::Utf8), Some(("name", "(1)")));
    assert_eq!(at(1, 3, 7, Encoding::Utf16), Some(("name", "(1)")));
    assert_eq!(at(1, 2, 6, Encoding::Utf32), Some(("name", "(1)")));
    assert_eq!(at(0, 0, 5, Encoding::Utf16), Some(("first", "")), "a line ends before its carriage return");
    for encoding in Encoding::KNOWN {
        assert_eq!(at(0, 0, 6, encoding), None, "beyond the line");
        assert_eq!(at(3, 0, 1, encoding), None, "beyond the text");
        assert_eq!(at(u32::MAX, 0, u32::MAX, encoding), None);
    }
    assert_eq!(at(1, 1, 6, Encoding::Utf8), None, "within a character");
    assert_eq!(at(1, 2, 3, Encoding::Utf16), None, "within a pair");
    assert_eq!(at(0, 0, 1, Encoding::Unspecified), None);
}

/// Compares one document with a content.
fn fit(occurrences: &[Vec<u8>], further: &[u8], content: &str) -> Fit {
    let message = [bytes(1, b"a.py"), occurrences.concat(), further.to_vec()].concat();
    let index = [metadata(), bytes(2, &message)].concat();
    let mut reader = IndexReader::new(&index[..], ScipLimits::default());
    reader.next_document().unwrap().unwrap().fit(content).unwrap()
}

#[test]
fn a_document_fits_only_the_text_that_it_describes() {
    const SYMBOL: &str = "scip-python python my  project 1.0 `pkg.a`/run().";
    let all = [occurrence(&[0, 4, 7], SYMBOL, 1), occurrence(&[2, 0, 3], SYMBOL, 8)];
    let content = "def run():\n    pass\nrun()\n";
    assert_eq!(fit(&all, &number(6, 1), content), Fit::Fits(Encoding::Utf8));
    assert_eq!(fit(&all, &[], content), Fit::Fits(Encoding::Utf8), "the encoding is found by trying");
    assert_eq!(fit(&all, &[], "def run():\n    pass\n"), Fit::Outside { line: 2 });
    assert_eq!(fit(&all, &[], "\ndef run():\n    pass\nrun()\n"), Fit::Outside { line: 0 });
    assert_eq!(fit(&all, &[], "def sum():\n    pass\nrun()\n"), Fit::OtherName { line: 0 });
    assert_eq!(fit(&all, &bytes(5, content.as_bytes()), content), Fit::Fits(Encoding::Utf8));
    assert_eq!(fit(&all, &bytes(5, b"def run(): ..."), content), Fit::OtherText);
    let project = [occurrence(&[0, 4, 11], SYMBOL, 1)];
    assert_eq!(
        fit(&project, &[], "def project():\n"),
        Fit::OtherName { line: 0 },
        "the name of the package is no name of a definition"
    );
    let local = [occurrence(&[0, 0, 3], "local 1", 1)];
    assert_eq!(fit(&local, &[], "x12 = 1\n"), Fit::Fits(Encoding::Utf8));
}

#[test]
fn an_encoding_that_is_not_said_is_the_one_in_which_the_definitions_fit() {
    let at = |start| [occurrence(&[0, start, start + 1], "s m p v f().", 1)];
    let content = "😀é f x\n";
    assert_eq!(fit(&at(7), &[], content), Fit::Fits(Encoding::Utf8));
    assert_eq!(fit(&at(4), &[], content), Fit::Fits(Encoding::Utf16));
    assert_eq!(fit(&at(3), &[], content), Fit::Fits(Encoding::Utf32));
    assert_eq!(fit(&at(4), &number(6, 3), content), Fit::OtherName { line: 0 });
}

#[test]
fn occurrences_have_their_texts() {
    const SYMBOL: &str = "s m p v `pkg.a`/run().";
    let all = [
        occurrence(&[0, 4, 7], SYMBOL, 1),
        occurrence(&[1, 0, 3], SYMBOL, 0),
        occurrence(&[1, 4, 5], "local 1", 0),
    ];
    let index = [metadata(), document("a.py", &all)].concat();
    let mut reader = IndexReader::new(&index[..], ScipLimits::default());
    let found = reader.next_document().unwrap().unwrap();
    let lines = Lines::new("def run(x):\nrun(y)\n");
    let named: Vec<_> = found.named(&lines, Encoding::Utf16).collect::<Result<_, _>>().unwrap();
    let shown: Vec<_> = named.iter().map(|one| (one.line, one.name, one.rest)).collect();
    assert_eq!(shown, [(0, "run", "(x):"), (1, "run", "(y)")]);
}

proptest! {
    #[test]
    fn any_bytes_end_without_a_panic(junk in proptest::collection::vec(any::<u8>(), 0..400)) {
        drop(read_all(&junk, ScipLimits::default()));
        drop(read_all(&[metadata(), bytes(2, &junk)].concat(), ScipLimits::default()));
        drop(read_all(&[metadata(), junk].concat(), ScipLimits::default()));
    }

    #[test]
    fn every_column_is_a_place_or_none(text in ".{0,40}", line in 0..3_u32, start in 0..90_u32, length in 1..9_u32) {
        let lines = Lines::new(&text);
        for encoding in Encoding::KNOWN {
            if let Some((found, rest)) = lines.at(Place { line, start, end: start + length }, encoding) {
                let whole = format!("{found}{rest}");
                prop_assert!(text.contains(&whole));
            }
        }
    }
}
