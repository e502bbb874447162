//! What the collection of this repository measures.

use std::path::Path;

use knowledge::{Index, Mode, OpenModel, Sought};

use crate::evaluation::Collection;

/// The pinned model, as `cargo xtask test` has fetched it. Its folder is only read, or what it keeps there lies there already.
fn model() -> OpenModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/model/all-MiniLM-L6-v2");
    assert!(folder.is_dir(), "the model is missing: `cargo xtask test` fetches it");
    std::sync::Arc::new(move || embed_bert::open_pinned(&folder, 2).map_err(|error| error.to_string()))
}

/// The collection in an index with the model, every section with its vector.
fn indexed(folder: &Path) -> (Collection, Index) {
    let collection = collection();
    let index = Index::new(folder.join("index"), Some(model()));
    collection.index(&index, &|_, _| {}).unwrap();
    (collection, index)
}

fn collection() -> Collection {
    Collection::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/collection")).unwrap()
}

/// The highest cosine of a question and any section.
fn nearest(index: &Index, query: &str) -> f32 {
    let (may_read, stop) = (&|_: &Path| true, &|| false);
    let sought = Sought { query, scope: None, mode: Some(Mode::Vector), most: 1, may_read, stop };
    index.find(&sought).unwrap().hits[0].score.value()
}

#[test]
fn the_collection_is_as_large_as_it_says_and_some_questions_have_no_answer() {
    let collection = collection();
    assert!(collection.documents() >= 150 && collection.questions.len() >= 80);
    let without = collection.questions.iter().filter(|(id, _)| !collection.has_answer(id)).count();
    assert!(without >= 5);
}

#[test]
fn words_find_exact_names_first_and_much_of_what_is_put_in_other_words() {
    let collection = collection();
    let folder = tempfile::tempdir().unwrap();
    let index = Index::new(folder.path().join("index"), None);
    collection.index(&index, &|_, _| {}).unwrap();
    let quality = |which| collection.quality(&index, Mode::Keyword, which).unwrap();
    let (names, other_words) = (quality("i"), quality("p"));
    assert!(names.ndcg_10 >= 0.80, "{names:?}");
    assert!(other_words.ndcg_10 >= 0.25 && other_words.recall_50 >= 0.55, "{other_words:?}");
}

#[test]
fn meaning_finds_what_is_put_in_other_words_and_both_together_lose_no_exact_name() {
    let folder = tempfile::tempdir().unwrap();
    let (collection, index) = indexed(folder.path());
    let quality = |mode, which| collection.quality(&index, mode, which).unwrap();
    // Measured: 0.51 and 0.90, 0.50 and 0.88, and of exact names 0.84 and 1.0, beside 0.36 and 0.67 by words.
    for (mode, which, ndcg_10, recall_50) in [
        (Mode::Vector, "", 0.48, 0.86),
        (Mode::Hybrid, "", 0.47, 0.84),
        (Mode::Hybrid, "p", 0.40, 0.81),
        (Mode::Hybrid, "i", 0.80, 0.98),
    ] {
        let found = quality(mode, which);
        assert!(found.ndcg_10 >= ndcg_10 && found.recall_50 >= recall_50, "{mode:?} {which}: {found:?}");
    }
    let by_words = quality(Mode::Keyword, "p");
    assert!(quality(Mode::Hybrid, "p").ndcg_10 > by_words.ndcg_10 + 0.1, "{by_words:?}");
}

#[test]
fn a_question_without_an_answer_is_near_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (collection, index) = indexed(folder.path());
    let mut best: [Vec<(f32, &str)>; 2] = [Vec::new(), Vec::new()];
    for (id, question) in &collection.questions {
        let cosine = nearest(&index, question);
        best[usize::from(collection.has_answer(id))].push((cosine, question));
    }
    for questions in &mut best {
        questions.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    let [without, with] = best;
    // Measured: 0.10 to 0.20 without an answer; with one 0.15 to 0.79, and all but two above 0.24. `docs/KNOWLEDGE.md` says 0.2.
    assert!(without.iter().all(|(cosine, _)| *cosine < 0.22), "{without:?}");
    let below = with.iter().filter(|(cosine, _)| *cosine < 0.22).count();
    assert!(below * 20 <= with.len(), "{below} of {} questions with an answer: {with:?}", with.len());
}
