//! The pinned model, compared with other programs on the same files: `NumPy` in floats, and the
//! tokenizer of its authors. `cargo xtask test` fetches both.

#![allow(clippy::disallowed_methods, reason = "the peer is a program")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it is")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use embed_bert::{OpenError, PINNED, Precision, open_pinned, open_with};
use retrieval::embedder::{Embedder, Failure, TextExtent};
use simd::Level;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Creates a temporary folder with links to the files of the model.
fn model() -> tempfile::TempDir {
    let from = root().join("target/test-tools/model/all-MiniLM-L6-v2").canonicalize();
    let from = from.expect("the model is missing: `cargo xtask test` fetches it");
    let folder = tempfile::tempdir().unwrap();
    for file in PINNED {
        std::os::unix::fs::symlink(from.join(file.name), folder.path().join(file.name)).unwrap();
    }
    folder
}

/// Returns the peer's answer for these texts.
fn peer(kind: &str, texts: &[&str]) -> serde_json::Value {
    let python = root().join("target/test-tools/embedding/bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` installs it", python.display());
    let mut child = Command::new(python)
        .arg(root().join("xtask/test-tools/embedding_peer.py"))
        .arg(kind)
        .arg(root().join("target/test-tools/model/all-MiniLM-L6-v2"))
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", serde_json::json!(texts)).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(child.wait().unwrap().success());
    serde_json::from_str(&line).unwrap()
}

/// Returns pieces of the project's own pages, in many lengths, and some unusual texts.
fn texts() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let words: Vec<&str> = page.split_whitespace().collect();
    let mut texts: Vec<String> =
        (0..12).map(|number| words[number * 180..][..3 + number * 22 % 230].join(" ")).collect();
    let others = [
        "",
        "a",
        "?",
        "how do I undo what a command changed in my workspace",
        "É NAÏVE Straße 中文字 日本語 한국어 🦀🦀",
        "fn main() { println!(\"{}\", i32::MAX); } // 0x7fff_ffff",
        "[CLS] [MASK] and [SEP] in a text",
        "aaaa aaaa aaaa",
    ];
    texts.extend(others.map(str::to_owned));
    texts
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn vectors(embedder: &Arc<dyn Embedder>, texts: &[&str]) -> Vec<Vec<f32>> {
    embedder.embed(texts, &|| false).unwrap()
}

#[test]
fn floats_are_those_of_the_reference_and_bytes_near_them_at_every_level() {
    let folder = model();
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let right = peer("exact", &texts);
    let right: Vec<Vec<f32>> = serde_json::from_value(right["vectors"].clone()).unwrap();
    for level in Level::all() {
        let exact = vectors(&open_with(folder.path(), 2, Precision::Exact, level).unwrap(), &texts);
        let bytes = vectors(&open_with(folder.path(), 2, Precision::Bytes, level).unwrap(), &texts);
        for (text, (right, (exact, bytes))) in texts.iter().zip(right.iter().zip(exact.iter().zip(&bytes))) {
            assert!((cosine(exact, exact) - 1.0).abs() < 1e-5, "{} {text:?}", level.name());
            assert!(cosine(exact, right) > 0.99999, "{} {text:?} {}", level.name(), cosine(exact, right));
            assert!(cosine(bytes, exact) > 0.999, "{} {text:?} {}", level.name(), cosine(bytes, exact));
        }
    }
}

#[test]
fn the_tokens_of_a_text_are_told_with_its_markers_and_whether_the_rest_is_cut_off() {
    let folder = model();
    let embedder = open_with(folder.path(), 1, Precision::Bytes, Level::PORTABLE).unwrap();
    for (text, tokens, is_cut) in [
        (String::new(), 2, false),
        ("a boat".to_owned(), 4, false),
        ("boat ".repeat(254), 256, false),
        ("boat ".repeat(255), 256, true),
    ] {
        let extent = TextExtent { tokens: Some(tokens), is_cut };
        assert_eq!(embedder.extent(&text), extent, "{} bytes", text.len());
    }
}

/// Returns texts of up to 70 words, among them texts of one word and of none, over which the noise
/// of bytes averages out little.
fn short_texts() -> Vec<String> {
    let pages = ["docs/ARCHITECTURE.md", "CHANGELOG.md", "docs/THREAT_MODEL.md"];
    let pages = pages.map(|page| std::fs::read_to_string(root().join(page)).unwrap()).concat();
    let words: Vec<&str> = pages.split_whitespace().collect();
    let mut texts: Vec<String> =
        (0..400).map(|number| words[number * 34..][..=number % 70].join(" ")).collect();
    let others = [
        "",
        " ",
        "a",
        "?",
        "!",
        "...",
        "-",
        "0",
        "42",
        "3.14159",
        "the",
        "and",
        "no",
        "undo",
        "EACCES",
        "E1234",
        "checkpoint_restore",
        "file_read",
        "/etc/passwd",
        "don't",
        "C++",
        "{}",
        "()",
        "\"",
        "$HOME",
        "#",
        "naïve",
        "Straße",
        "море",
        "вода и хлеб",
        "θάλασσα",
        "海",
        "船と港",
        "바다",
        "ทะเล",
        "سمك",
        "ים",
        "नाव",
        "🦀",
        "🦀🦀🦀",
        "x",
        "xx",
        "xyzzy",
        "supercalifragilistic",
        "hello",
        "hello world",
        "good morning",
        "what is this?",
        "why",
        "port 8080",
        "kill -9",
        "rm -rf /",
        "a b c",
        "1 2 3 4 5",
        "[CLS]",
        "[UNK] [UNK]",
        "\u{fffd}",
        "\t\n",
    ];
    texts.extend(others.map(str::to_owned));
    texts
}

#[test]
fn texts_of_every_length_are_near_to_floats() {
    let folder = model();
    let texts = short_texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let level = Level::best();
    let exact = vectors(&open_with(folder.path(), 2, Precision::Exact, level).unwrap(), &texts);
    let bytes = vectors(&open_with(folder.path(), 2, Precision::Bytes, level).unwrap(), &texts);
    let mut cosines: Vec<(f32, &str)> = exact
        .iter()
        .zip(&bytes)
        .zip(&texts)
        .map(|((exact, bytes), text)| (cosine(exact, bytes), *text))
        .collect();
    cosines.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(cosines[0].0 > 0.999, "{:?}", &cosines[..12]);
}

#[test]
fn a_text_has_the_same_vector_whatever_is_asked_with_it() {
    let folder = model();
    let embedder = open_pinned(folder.path(), 3).unwrap();
    assert_eq!((embedder.model().name.as_str(), embedder.model().dimensions), ("all-MiniLM-L6-v2", 384));
    let texts: Vec<String> = texts().into_iter().chain(short_texts().into_iter().skip(380)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = vectors(&embedder, &texts);
    for (text, vector) in texts.iter().zip(&together) {
        assert_eq!(&vectors(&embedder, &[text])[0], vector, "{text:?}");
    }
    assert!(vectors(&embedder, &[]).is_empty());
}

#[test]
fn what_is_beyond_256_tokens_is_cut_off_and_a_text_without_end_costs_no_more() {
    let folder = model();
    let embedder = open_pinned(folder.path(), 1).unwrap();
    let (cut, longer) = ("word ".repeat(254), "word ".repeat(255) + "and something else entirely");
    assert_eq!(vectors(&embedder, &[&cut]), vectors(&embedder, &[&longer]));
    let (huge, one) = ("word ".repeat(4_000_000), "x".repeat(20_000_000));
    assert_eq!(vectors(&embedder, &[&cut]), vectors(&embedder, &[&huge]));
    assert_eq!(vectors(&embedder, &[&one]), vectors(&embedder, &["[UNK]"]));
}

#[test]
fn a_call_ends_when_it_is_told_to_stop() {
    let folder = model();
    let embedder = open_pinned(folder.path(), 2).unwrap();
    let asked = AtomicUsize::new(0);
    let texts = vec!["a text of some words that takes its time"; 2_000];
    let answer = embedder.embed(&texts, &|| asked.fetch_add(1, Ordering::Relaxed) >= 2);
    assert_eq!(answer, Err(Failure::Stopped));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn what_was_made_bytes_is_kept_and_made_again_where_it_is_damaged() {
    let folder = model();
    let kept = folder.path().join("weights.bytes");
    let first = open_pinned(folder.path(), 1).unwrap();
    let bytes = std::fs::read(&kept).unwrap();
    assert!(bytes.len() < 40 << 20, "{}", bytes.len());
    let text = ["what is kept"];
    let right = vectors(&first, &text);
    assert_eq!(vectors(&open_pinned(folder.path(), 1).unwrap(), &text), right);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    for damaged in [&flipped[..], &bytes[..bytes.len() - 1], &bytes[..40], &[]] {
        std::fs::write(&kept, damaged).unwrap();
        assert_eq!(vectors(&open_pinned(folder.path(), 1).unwrap(), &text), right);
        assert!(std::fs::read(&kept).unwrap() == bytes, "it is whole again");
    }
}

#[test]
fn files_that_are_missing_cut_off_or_others_are_named() {
    let folder = model();
    let weights = folder.path().join("model.safetensors");
    let real = weights.canonicalize().unwrap();
    std::fs::remove_file(&weights).unwrap();
    assert!(
        matches!(open_pinned(folder.path(), 1), Err(OpenError::Unreadable { path, .. }) if path == weights)
    );
    let bytes = std::fs::read(real).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(open_pinned(folder.path(), 1), Err(OpenError::Size { found: 90_868_375, .. })));
    let open = || open_with(folder.path(), 1, Precision::Bytes, Level::best()).err().unwrap().to_string();
    assert!(open().contains("it ends before the end of"), "{}", open());
    let mut other = bytes.clone();
    other[50_000_000] ^= 1;
    std::fs::write(&weights, &other).unwrap();
    assert!(matches!(open_pinned(folder.path(), 1), Err(OpenError::Hash { path, .. }) if path == weights));
    std::fs::write(&weights, u64::MAX.to_le_bytes()).unwrap();
    assert!(open().contains("its head has"), "{}", open());
    std::fs::write(&weights, b"\x02\0\0\0\0\0\0\0{}").unwrap();
    assert!(open().contains("it has no embeddings.word_embeddings.weight"), "{}", open());
    let config = folder.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::remove_file(&config).unwrap();
    for (from, to, what) in [
        ("\"gelu\"", "\"relu\"", "hidden_act is \"relu\""),
        ("\"bert\"", "\"roberta\"", "model_type is \"roberta\""),
        ("\"num_attention_heads\": 12", "\"num_attention_heads\": 16", "no multiple of 32"),
        ("\"vocab_size\": 30522", "\"vocab_size\": 99999999", "vocab_size is 99999999"),
        ("\"vocab_size\": 30522", "\"vocab_size\": 30521", "tokens beyond"),
    ] {
        std::fs::write(&config, text.replace(from, to)).unwrap();
        assert!(open().contains(what), "{}", open());
    }
}
