//! Tests of the splitting into sections and chunks.

use knowledge::{Chunk, chunks};

fn cut(text: &str) -> Vec<Chunk> {
    let mut all = Vec::new();
    chunks::<std::io::Error>(text.as_bytes(), &mut |chunk| {
        all.push(chunk);
        Ok(())
    })
    .unwrap();
    all
}

fn outline(text: &str) -> Vec<(String, (usize, usize))> {
    cut(text).into_iter().map(|chunk| (chunk.section, chunk.lines)).collect()
}

fn line(section: &str, from: usize, to: usize) -> (String, (usize, usize)) {
    (section.to_owned(), (from, to))
}

#[test]
fn a_chunk_has_the_path_of_its_headings_and_its_lines() {
    let text = "Before.\n\n# House\n\nWalls.\n\n## Roof\nTiles\nand *beams*.\n\n### Gutter\n\nTin.\n\nCellar `x`\n----------\n\nStones.\n";
    assert_eq!(
        outline(text),
        [
            line("", 1, 1),
            line("House", 3, 5),
            line("House > Roof", 7, 9),
            line("House > Roof > Gutter", 11, 13),
            line("House > Cellar x", 15, 18),
        ]
    );
    let roof = &cut(text)[2];
    assert_eq!(roof.text, "## Roof\nTiles\nand *beams*.");
    assert_eq!(&roof.text[roof.heading..], "Tiles\nand *beams*.");
}

#[test]
fn what_looks_like_a_heading_in_code_or_in_front_matter_is_none() {
    let text = "---\ntitle: \"The notes\"\n# no heading\ntags: [a]\n---\n# One\n\n```sh\n# a comment\n\n## another\n```\n\n    # indented\n";
    assert_eq!(outline(text), [line("", 1, 5), line("The notes > One", 6, 14)]);
    // Two rules are not front matter if the first is not at the beginning.
    assert_eq!(outline("a\n\n---\n# b\nc\n\n---\n").len(), 2);
}

#[test]
fn a_text_without_headings_and_an_empty_one_work() {
    assert_eq!(outline("one\ntwo\n"), [line("", 1, 2)]);
    assert_eq!(outline(""), []);
    assert_eq!(outline("  \n\n"), []);
    assert_eq!(outline("[a]: b\n"), [line("", 1, 1)]);
}

#[test]
fn a_long_section_is_cut_between_paragraphs_and_nothing_is_lost() {
    let sentence = "The tide comes in twice a day and nobody on the pier is surprised by it.";
    let text: String = (0..60).map(|n| format!("Note {n}. {sentence}\n{sentence}\n\n")).collect();
    let text = format!("# Tides\n\n{text}");
    let chunks = cut(&text);
    assert!(chunks.len() > 5);
    for chunk in &chunks {
        assert!(chunk.section == "Tides" && chunk.text.split_whitespace().count() < 254, "{chunk:?}");
    }
    for n in 0..60 {
        let note = format!("Note {n}. {sentence}");
        assert!(chunks.iter().any(|chunk| chunk.text.contains(&note)), "{note}");
    }
    // Neighbouring chunks overlap.
    for pair in chunks.windows(2) {
        assert!(pair[1].lines.0 <= pair[0].lines.1 + 1 && pair[1].lines.0 > pair[0].lines.0, "{pair:?}");
    }
    assert!(chunks.windows(2).any(|pair| pair[1].lines.0 <= pair[0].lines.1));
}

#[test]
fn one_endless_line_is_cut_behind_sentences_or_words_or_anywhere() {
    let prose = "A short sentence about boats. ".repeat(3_000);
    let words = "wave ".repeat(20_000);
    let nothing = "x".repeat(200_000);
    for text in [prose, words, nothing, "船".repeat(50_000)] {
        let chunks = cut(&text);
        assert!(chunks.len() > 50, "{}", chunks.len());
        assert!(chunks.iter().all(|chunk| chunk.text.len() < 4_000 && chunk.lines == (1, 1)));
    }
}

#[test]
fn a_text_longer_than_a_window_is_cut_as_a_short_one_is() {
    // Sections of about 1,000 bytes, each with a fence, so that windows end in every kind of position.
    let section =
        |n: usize| format!("## Part {n}\n\n{}\n\n```\n# code {n}\n```\n\n", "words of this part ".repeat(50));
    let text: String = (0..4_000).map(section).collect();
    let chunks = cut(&format!("# All\n\n{text}"));
    let mut parts: Vec<&str> = chunks.iter().map(|chunk| chunk.section.as_str()).collect();
    parts.dedup();
    assert_eq!(parts.len(), 4_001);
    assert!(parts[1..].iter().enumerate().all(|(n, part)| *part == format!("All > Part {n}")));
    let last = chunks.last().unwrap();
    assert_eq!(last.lines.1, 2 + 4_000 * 8 - 1);
    // A single block larger than any window.
    let fence = format!("# Log\n\n```\n{}```\n\n# After\n\nend\n", "a line of a log\n".repeat(200_000));
    let chunks = cut(&fence);
    assert_eq!(chunks.last().unwrap().section, "After");
    assert_eq!(chunks.last().unwrap().lines, (200_006, 200_008));
}
