//! What the collection of this repository measures.

use std::path::Path;

use knowledge::{Index, Mode};

use crate::evaluation::Collection;

fn collection() -> Collection {
    Collection::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/collection")).unwrap()
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
