//! Quality of the search on the collections of this repository.

use std::path::Path;

use knowledge::{Index, Mode, OpenModel, SearchQuery};

use crate::evaluation::{Collection, Quality};

/// Opens the pinned model that `cargo xtask test` has fetched. Its folder is only read, or its
/// derived files are already there.
fn model() -> OpenModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/model/all-MiniLM-L6-v2");
    assert!(folder.is_dir(), "the model is missing: `cargo xtask test` fetches it");
    std::sync::Arc::new(move || embed_bert::open_pinned(&folder, 2).map_err(|error| error.to_string()))
}

/// Indexes the collection with the model, with a vector for every section.
fn indexed(folder: &Path) -> (Collection, Index) {
    let collection = collection();
    let index = Index::new(folder.join("index"), Some(model()));
    collection.index(&index, &|_, _| {}).unwrap();
    (collection, index)
}

fn collection() -> Collection {
    read("collection")
}

fn read(name: &str) -> Collection {
    Collection::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
}

/// Builds sections that differ only in the code that each contains, and queries that name one of the codes.
fn coded() -> Collection {
    let code = |number: usize| match number % 6 {
        0 => format!("E{}", 1_000 + number * 7),
        1 => format!("ERR-{}", 1_000 + number * 7),
        2 => format!("cfg_pump_{number}"),
        3 => format!("{}", 31_000 + number * 31),
        4 => format!("Mod{number}Handler"),
        _ => format!("v{}.{}.4", number / 10, number % 10),
    };
    let parts = ["pump", "valve", "router", "ledger", "parser", "antenna", "boiler"];
    let causes = ["a worn seal", "a stale token", "a full disk", "a wrong clock", "too many clients"];
    let document = |number: usize| {
        let (part, cause) = (parts[number % parts.len()], causes[number % causes.len()]);
        format!(
            "# The {part}\n\n{}: the {part} stalls because of {cause}. Replace it and look again.\n",
            code(number)
        )
    };
    let question = |number: usize| {
        let code = code(number);
        let text = match number / 5 % 4 {
            0 => code,
            1 => format!("what does {code} mean"),
            2 => format!("the {} stalls and shows {}, what now?", parts[number % 4], code.to_lowercase()),
            _ => format!("How do I get rid of error {code}?"),
        };
        (text, number)
    };
    Collection::of((0..300).map(document).collect(), (0..300).step_by(5).map(question).collect())
}

/// Returns the figures by which two modes are compared.
fn figures(quality: Quality) -> [f64; 3] {
    [quality.ndcg_10, quality.success[0], quality.success[1]]
}

/// Prefix of the ids of one kind of query, with the permitted loss of nDCG@10 and success.
type Kind = (&'static str, [f64; 3]);

#[test]
fn both_ways_together_are_as_good_as_the_better_one_and_half_made_vectors_no_worse_than_words() {
    // Collection, prefix of its query ids, permitted loss of nDCG@10 and success. One of 14 queries
    // is 0.07.
    let collections: [(Collection, &[Kind]); 3] = [
        (read("sealed"), &[("p", [0.01, 0.0, 0.0])]),
        (coded(), &[("", [0.0, 0.0, 0.0])]),
        (collection(), &[("p", [0.01, 0.035, 0.035]), ("i", [0.02, 0.08, 0.08])]),
    ];
    for (collection, kinds) in &collections {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::new(folder.path().join("index"), Some(model()));
        let by = |mode, which| figures(collection.quality(&index, mode, which).unwrap());
        collection.index_upto(&index, 0.5, &|_, _| {}).unwrap();
        let half_made = kinds.iter().map(|(which, _)| by(Mode::Hybrid, which)).collect::<Vec<_>>();
        collection.index(&index, &|_, _| {}).unwrap();
        for ((which, less), half_made) in kinds.iter().zip(half_made) {
            let ways = [Mode::Keyword, Mode::Vector, Mode::Hybrid].map(|mode| by(mode, which));
            let [words, vectors, both] = ways;
            for (figure, less) in less.iter().enumerate() {
                assert!(both[figure] >= words[figure].max(vectors[figure]) - less, "{which}: {ways:?}");
                assert!(half_made[figure] >= words[figure] - less, "{which}: {half_made:?} after {words:?}");
            }
        }
    }
}

#[test]
fn results_come_in_the_order_of_their_scores_and_an_answer_says_how_sure_it_is() {
    let (may_read, stop) = (&|_: &Path| true, &|| false);
    for (collection, model) in [("sealed", Some(model())), ("sealed", None), ("collection", Some(model()))] {
        let collection = read(collection);
        let folder = tempfile::tempdir().unwrap();
        let (has_model, index) = (model.is_some(), Index::new(folder.path().join("index"), model));
        for share in [0.5, 1.0] {
            collection.index_upto(&index, share, &|_, _| {}).unwrap();
            for (_, query) in &collection.questions {
                let sought = SearchQuery { query, scope: None, mode: None, most: 50, may_read, stop };
                let hits = index.find(&sought).unwrap().hits;
                assert!(
                    hits.is_sorted_by(|one, next| one.score.value() >= next.score.value()),
                    "{query}: {hits:?}"
                );
            }
        }
        if !has_model {
            continue;
        }
        // Measured: at most 0.18 without an answer; with one at least 0.19 for nine of ten, with a
        // median of 0.40.
        let [without, with] = collection.confidence(&index).unwrap();
        assert!(without.iter().all(|sure| *sure < 0.3), "{without:?}");
        assert!(with[with.len() / 2] > 0.3, "{with:?}");
    }
}

/// Returns the highest cosine of a query and any section.
fn nearest(index: &Index, query: &str) -> f32 {
    let (may_read, stop) = (&|_: &Path| true, &|| false);
    let sought = SearchQuery { query, scope: None, mode: Some(Mode::Vector), most: 1, may_read, stop };
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
    // Measured (nDCG@10 and recall): 0.51 and 0.90, 0.50 and 0.88; for exact names 0.84 and 1.0,
    // against 0.36 and 0.67 by words.
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
    // Measured: 0.10 to 0.20 without an answer; with one 0.15 to 0.79, and all but two above 0.24.
    // `docs/KNOWLEDGE.md` says 0.2.
    assert!(without.iter().all(|(cosine, _)| *cosine < 0.22), "{without:?}");
    let below = with.iter().filter(|(cosine, _)| *cosine < 0.22).count();
    assert!(below * 20 <= with.len(), "{below} of {} questions with an answer: {with:?}", with.len());
}
