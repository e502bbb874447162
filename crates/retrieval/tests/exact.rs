//! The index, compared with a plain scan over the exact vectors.

#![expect(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;
use retrieval::nearest::{Index, dot};

type Rows = BTreeMap<i64, Vec<f32>>;

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        for number in &mut vector {
            *number /= length;
        }
    }
    vector
}

fn plain(rows: &Rows, query: &[f32], most: usize, filter: &dyn Fn(i64) -> bool) -> Vec<(i64, f32)> {
    let mut all: Vec<(i64, f32)> =
        rows.iter().filter(|(id, _)| filter(**id)).map(|(id, row)| (*id, dot(query, row))).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all.truncate(most);
    all
}

fn found(
    index: &Index<i64>,
    rows: &Rows,
    query: &[f32],
    most: usize,
    filter: &dyn Fn(i64) -> bool,
) -> Vec<(i64, f32)> {
    let answer = index.search(query, most, &mut |id, _| Ok::<_, Infallible>(filter(id)), &mut |id, note| {
        assert_eq!(*note, id * 3, "the note of another one");
        Ok(rows.get(&id).cloned())
    });
    let Ok(answer) = answer;
    let products = rows.values().map(|row| f64::from(dot(query, row)));
    let mean = products.sum::<f64>() / f64::from(u32::try_from(rows.len().max(1)).unwrap());
    assert!(answer.found.is_empty() || (answer.mean - mean).abs() < 0.05, "{} and {mean}", answer.mean);
    answer.found
}

/// One change of the index: adds a vector, or removes this identifier and the next two.
#[derive(Debug, Clone)]
enum Step {
    Add(i64, Vec<f32>),
    Remove(i64),
}

fn steps(dimensions: usize) -> impl Strategy<Value = Vec<Step>> {
    // Few different numbers make many equally near vectors, which is the hard case.
    let vector = prop_oneof![
        prop::collection::vec(-1.0_f32..1.0, dimensions),
        prop::collection::vec(prop_oneof![Just(0.0_f32), Just(1.0), Just(-1.0), Just(1e-3)], dimensions),
    ];
    let step = prop_oneof![
        4 => (0..300_i64, vector).prop_map(|(id, vector)| Step::Add(id, unit(vector))),
        1 => (0..300_i64).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_found_is_what_a_plain_scan_finds(
        (all, query) in prop_oneof![Just(3_usize), Just(64), Just(100), Just(384)]
            .prop_flat_map(|dimensions| (steps(dimensions), prop::collection::vec(-1.0_f32..1.0, dimensions))),
        most in 1..30_usize,
        nth in 1..5_i64,
    ) {
        let query = unit(query);
        let mut index = Index::new(query.len());
        let mut rows = Rows::new();
        for step in all {
            match step {
                Step::Add(id, vector) => {
                    index.add(id, id * 3, &vector);
                    rows.insert(id, vector);
                }
                Step::Remove(from) => {
                    let goes = |id: i64| id >= from && id < from + 3;
                    index.retain(|id| !goes(id));
                    rows.retain(|id, _| !goes(*id));
                }
            }
        }
        prop_assert_eq!(index.len(), rows.len());
        prop_assert_eq!(found(&index, &rows, &query, most, &|_| true), plain(&rows, &query, most, &|_| true));
        let filter = |id: i64| id % nth == 0;
        prop_assert_eq!(found(&index, &rows, &query, most, &filter), plain(&rows, &query, most, &filter));
    }
}

/// Returns a source of pseudo-random numbers that are the same on each run.
fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(state >> 48).unwrap_or(0)) / 32_768.0 - 1.0
    }
}

#[test]
fn thousands_that_are_nearly_alike_are_still_told_apart() {
    let mut next = numbers(7);
    let middle: Vec<f32> = (0..384).map(|_| next()).collect();
    let near =
        |next: &mut dyn FnMut() -> f32| unit(middle.iter().map(|number| number + next() * 0.2).collect());
    let rows: Rows = (0..3_000).map(|id| (id, near(&mut next))).collect();
    let mut index = Index::new(384);
    for (id, row) in &rows {
        index.add(*id, id * 3, row);
    }
    for _ in 0..10 {
        let query = near(&mut next);
        assert_eq!(found(&index, &rows, &query, 10, &|_| true), plain(&rows, &query, 10, &|_| true));
    }
}

#[test]
fn few_vectors_are_asked_for_where_they_differ() {
    let mut next = numbers(8);
    let rows: Rows = (0..3_000).map(|id| (id, unit((0..384).map(|_| next()).collect()))).collect();
    let mut index = Index::new(384);
    for (id, row) in &rows {
        index.add(*id, id * 3, row);
    }
    let mut asked = 0;
    let mut row = |id: i64, _: &i64| {
        asked += 1;
        Ok::<_, Infallible>(rows.get(&id).cloned())
    };
    let nearest = index.search(&rows[&5], 1, &mut |_, _| Ok(true), &mut row).unwrap();
    assert_eq!(nearest.found[0].0, 5);
    assert!(asked <= 50, "{asked}");
}

#[test]
fn what_is_no_vector_of_this_length_is_neither_taken_in_nor_looked_for() {
    let mut index = Index::new(3);
    index.add(1, 3, &[1.0, 0.0]);
    index.add(2, 6, &[f32::NAN, 0.0, 0.0]);
    assert!(index.is_empty());
    index.add(3, 9, &[0.0, 0.0, 0.0]);
    let rows = Rows::from([(3, vec![0.0; 3])]);
    assert_eq!(found(&index, &rows, &[1.0, 0.0], 5, &|_| true), []);
    assert_eq!(found(&index, &rows, &[1.0, f32::INFINITY, 0.0], 5, &|_| true), []);
    assert_eq!(found(&index, &rows, &[1.0, 0.0, 0.0], 5, &|_| true), [(3, 0.0)]);
    assert_eq!(
        found(&index, &Rows::new(), &[1.0, 0.0, 0.0], 5, &|_| true),
        [],
        "it is gone where it was kept"
    );
}

#[test]
fn a_failure_of_who_keeps_the_vectors_is_handed_on() {
    let mut index = Index::new(2);
    index.add(1, (), &[1.0, 0.0]);
    assert_eq!(
        index.search(&[1.0, 0.0], 1, &mut |_, ()| Ok(true), &mut |_, ()| Err("locked")),
        Err("locked")
    );
    assert_eq!(
        index.search(&[1.0, 0.0], 1, &mut |_, ()| Err("locked"), &mut |_, ()| Ok(None)),
        Err("locked")
    );
}
