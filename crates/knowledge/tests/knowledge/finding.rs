//! Tests of the search.

use std::path::{Path, PathBuf};

use knowledge::{Mode, Scope, Score, SearchQuery};

use crate::base::{Base, index};

fn paths(hits: &[knowledge::Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.path.to_str().unwrap()).collect()
}

#[test]
fn words_are_found_with_their_place_and_a_score_that_the_order_goes_by() {
    let base = Base::new();
    base.write(
        "learned/boats.md",
        "# Boats\n\n## Mooring\n\nTie the bow line first.\n\n## Sails\n\nReef early.\n",
    );
    base.write("user/bread.md", "# Bread\n\nKnead for ten minutes.\n");
    base.sync();
    let found = base.found("How do I tie up a bow?", None);
    assert_eq!((found.mode, found.waiting), (Mode::Keyword, 0));
    let hit = &found.hits[0];
    assert_eq!((hit.path.to_str(), hit.section.as_str()), (Some("learned/boats.md"), "Boats > Mooring"));
    assert_eq!(hit.lines, (3, 5));
    assert_eq!(hit.content, "## Mooring\n\nTie the bow line first.");
    assert!(matches!(hit.score, Score::Words(score) if score > 0.0 && score < 1.0), "{hit:?}");
}

#[test]
fn identifiers_errors_and_operators_are_text_like_any_other() {
    let base = Base::new();
    base.write("a.md", "# Undo\n\n`checkpoint_restore` puts files back.\n");
    base.write("b.md", "# Other\n\nA checkpoint is made. We restore nothing here, says the checkpoint of the restore guild.\n");
    base.write(
        "c.md",
        "# Errors\n\nopenat fails with EACCES there, see crates/roots/src/walk.rs and --no-input.\n",
    );
    base.sync();
    assert_eq!(paths(&base.find("checkpoint_restore"))[0], "a.md");
    for query in [
        "EACCES",
        "eacces?",
        "--no-input",
        "crates/roots/src/walk.rs",
        "\"EACCES\" AND (",
        "walk.rs NOT x OR *",
    ] {
        assert_eq!(paths(&base.find(query))[0], "c.md", "{query}");
    }
    for query in ["", "\"", "   ", "NEAR(", "\0\u{202e}", "zzzz"] {
        assert_eq!(base.find(query), [], "{query:?}");
    }
}

#[test]
fn meaning_finds_what_no_word_does_and_the_order_is_that_of_the_scores() {
    let base = Base::with_model(Some("m"));
    base.write("a.md", "# Driving\n\nAn automobile needs oil.\n");
    base.write("b.md", "# Baking\n\nThe dough needs rest.\n");
    base.write("c.md", "# Code\n\nSee E1234 for oil.\n");
    base.sync();
    // Chunks without vectors are found by their words, and the result says so.
    let before = base.found("oil", None);
    assert_eq!((before.mode, before.waiting), (Mode::Hybrid, 3));
    assert!(before.hits.iter().all(|hit| matches!(hit.score, Score::Words(_))));
    assert_eq!(base.embed().made, 3);
    let found = base.found("car", None);
    assert_eq!((found.mode, found.waiting), (Mode::Hybrid, 0));
    assert_eq!(found.hits[0].path, Path::new("a.md"));
    assert!(matches!(found.hits[0].score, Score::Both(score) if score > 0.4), "{:?}", found.hits[0].score);
    assert!(matches!(found.hits[1].score, Score::Both(score) if score < 0.3));
    assert!(found.confidence > 0.9, "{found:?}");
    // An exact word ranks first even without any similarity in meaning.
    assert_eq!(base.find("E1234")[0].path, Path::new("c.md"));
}

#[test]
fn vectors_of_two_models_are_never_mixed_and_unchanged_texts_keep_theirs() {
    let base = Base::with_model(Some("one"));
    base.write("a.md", "# Cars\n\nvehicle\n");
    base.write("b.md", "# Ships\n\nvessel\n");
    base.sync();
    assert_eq!((base.embed().made, base.embed().made), (2, 0));
    base.write("b.md", "# Ships\n\nvessel and boat\n");
    base.write("moved.md", "# Cars\n\nvehicle\n");
    std::fs::remove_file(base.root().join("a.md")).unwrap();
    base.sync();
    assert_eq!(base.embed().made, 1, "a text that moved keeps its vector");
    assert_eq!(base.find("automobile")[0].path, Path::new("moved.md"));
    // Another model uses none of these vectors.
    let path = base.folder.path().join("index");
    let other = Base { index: index(&path, Some("other")), ..base };
    let found = other.found("automobile", None);
    assert_eq!((found.waiting, found.hits.len()), (2, 0));
    assert_eq!(other.embed().made, 2);
    let found = other.found("automobile", Some(Mode::Vector));
    assert!(matches!(found.hits[0].score, Score::Cosine(cosine) if cosine > 0.99));
}

#[test]
fn nothing_comes_out_that_may_not_be_read_and_it_takes_no_place_of_what_may() {
    let base = Base::with_model(Some("m"));
    for n in 0..150 {
        base.write(&format!("secret/{n}.md"), "# Boats\n\nboat boat boat\n");
    }
    base.write("open.md", "# Boats\n\nOne boat among many other things that are written here at length.\n");
    base.sync();
    base.embed();
    assert!(base.find("boat").iter().all(|hit| hit.path.starts_with("secret")));
    base.denied.borrow_mut().push(PathBuf::from("secret"));
    for mode in [Mode::Keyword, Mode::Vector, Mode::Hybrid] {
        assert_eq!(paths(&base.found("boat", Some(mode)).hits), ["open.md"], "{mode:?}");
    }
    // A caller who may not see these files does not remove them for others.
    base.sync();
    base.denied.borrow_mut().clear();
    assert_eq!(base.find("boat").len(), 10);
}

#[test]
fn a_scope_is_a_folder_at_the_top() {
    let base = Base::new();
    for path in [
        "system/a.md",
        "user/a.md",
        "learned/deep/a.md",
        "plugins/a.md",
        "a.md",
        "system.md",
        "x/system/a.md",
    ] {
        base.write(path, "# Tide\n\nIn and out.\n");
    }
    base.sync();
    let of = |scope| {
        let sought =
            SearchQuery { query: "tide", scope, mode: None, most: 10, may_read: &|_| true, stop: &|| false };
        base.index.find(&sought).unwrap().hits.len()
    };
    assert_eq!(Scope::NAMED.map(|scope| of(Some(scope))), [1, 1, 1, 1]);
    assert_eq!(of(None), 7);
}

#[test]
fn in_a_large_base_rare_words_decide_and_frequent_ones_count_where_there_are_no_others() {
    let base = Base::new();
    for file in 0..120 {
        let section = |n: usize| format!("# Part {n}\n\nharbour log of day {file}{n:03}x\n\n");
        base.write(&format!("{file}.md"), (0..100).map(section).collect::<String>());
    }
    base.write("one.md", "# Odd\n\nA gannet over the harbour.\n");
    base.write("two.md", "# Even\n\nThe log of a lighthouse.\n");
    base.sync();
    assert_eq!(base.find("gannet in the harbour log")[0].path, Path::new("one.md"));
    assert_eq!(base.find("day 7042x")[0].path, Path::new("7.md"));
    // Every section except the unusual ones contains all of these words.
    assert_eq!(base.find("harbour log day").len(), 10);
    // No section contains all of these words, and very many contain one.
    assert_eq!(base.find("harbour lighthouse-keeper log")[0].path, Path::new("two.md"));
}
