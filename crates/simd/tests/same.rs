//! Comparison of every level of this machine with the portable one.

use proptest::prelude::*;
use simd::{Level, Panels, Quantised, Rows};

fn floats(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(prop_oneof![9 => -4.0_f32..4.0, 1 => -1000.0_f32..1000.0], count)
}

/// Returns true if all numbers differ by no more than the rounding of fused additions.
fn near(one: &[f32], other: &[f32], size: f32) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| (one - other).abs() <= size * 1e-5 + 1e-6)
}

fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |largest, number| largest.max(number.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_of_bytes_are_the_same_at_every_level(
        (rows, weights, depth) in (1..20_usize, 1..150_usize, 1..90_usize)
            .prop_flat_map(|(rows, columns, depth)| (floats(rows * depth), floats(columns * depth), Just(depth))),
    ) {
        let matrix = Panels::new(&weights, depth);
        let bias: Vec<f32> = weights.iter().step_by(depth).copied().collect();
        let answer = |level| {
            let mut bytes = Quantised::default();
            simd::quantise(level, &rows, depth, &mut bytes);
            let mut out = vec![0.0; rows.len() / depth * bias.len()];
            simd::product(level, &bytes, &matrix, &bias, &mut out);
            out
        };
        let portable = answer(Level::PORTABLE);
        for level in Level::all() {
            let wide = answer(level);
            prop_assert!(near(&portable, &wide, largest(&portable)), "{}", level.name());
        }
    }

    #[test]
    fn a_product_of_bytes_is_near_that_of_floats(
        (rows, weights) in (1..9_usize, 1..80_usize)
            .prop_flat_map(|(rows, columns)| (
                prop::collection::vec(-1.0_f32..1.0, rows * 64), prop::collection::vec(-1.0_f32..1.0, columns * 64))),
    ) {
        let (level, bias) = (Level::best(), vec![0.5; weights.len() / 64]);
        let mut bytes = Quantised::default();
        simd::quantise(level, &rows, 64, &mut bytes);
        let mut out = vec![0.0; bytes.rows() * bias.len()];
        simd::product(level, &bytes, &Panels::new(&weights, 64), &bias, &mut out);
        let mut exact = vec![0.0; out.len()];
        simd::dense(level, &rows, &Rows::new(&weights, 64), &bias, &mut exact);
        for (out, exact) in out.iter().zip(&exact) {
            // Each of 64 products is off by half a step of either side.
            prop_assert!((out - exact).abs() < 64.0 * (0.5 / 127.0 + 1.0 / 255.0), "{out} {exact}");
        }
    }

    #[test]
    fn products_of_floats_are_the_same_at_every_level_and_right(
        (rows, weights, depth) in (1..20_usize, 1..70_usize, 1..60_usize)
            .prop_flat_map(|(rows, columns, depth)| (floats(rows * depth), floats(columns * depth), Just(depth))),
    ) {
        let matrix = Rows::new(&weights, depth);
        prop_assert_eq!(matrix.weights(), weights.clone());
        let bias: Vec<f32> = weights.iter().step_by(depth).copied().collect();
        for level in Level::all() {
            let mut out = vec![0.0; rows.len() / depth * bias.len()];
            simd::dense(level, &rows, &matrix, &bias, &mut out);
            let mut right = Vec::new();
            for row in rows.chunks_exact(depth) {
                for (column, bias) in weights.chunks_exact(depth).zip(&bias) {
                    let sum: f32 = row.iter().zip(column).map(|(one, other)| one * other).sum();
                    right.push(sum + bias);
                }
            }
            let size = largest(&rows) * largest(&weights) * 60.0;
            prop_assert!(near(&right, &out, size), "{}", level.name());
        }
    }

    #[test]
    fn attention_is_the_same_at_every_level(
        (asked, values) in (1..90_usize).prop_flat_map(|tokens| (
            prop::collection::vec(-2.0_f32..2.0, tokens * 128), prop::collection::vec(-2.0_f32..2.0, tokens * 64))),
    ) {
        let answer = |level| {
            let (mut out, mut room) = (vec![0.0; values.len()], Vec::new());
            simd::attend(level, &asked, &values, 64, 0..32, &mut room, &mut out);
            simd::attend(level, &asked, &values, 64, 32..64, &mut room, &mut out);
            out
        };
        let portable = answer(Level::PORTABLE);
        for level in Level::all() {
            prop_assert!(near(&portable, &answer(level), 2.0), "{}", level.name());
        }
    }

    #[test]
    fn what_lies_between_products_is_the_same_at_every_level(
        (row, added, gain) in (1..400_usize).prop_flat_map(|size| (floats(size), floats(size), floats(size))),
    ) {
        let answer = |level| {
            let mut row = row.clone();
            simd::normalise(level, &mut row, &added, &gain, &added, 1e-12);
            let size = simd::dot(level, &row, &gain);
            simd::gelu(level, &mut row);
            row.push(size / largest(&row).max(1.0));
            row
        };
        let portable = answer(Level::PORTABLE);
        for level in Level::all() {
            prop_assert!(near(&portable, &answer(level), largest(&portable) * 20.0), "{}", level.name());
        }
    }
}

#[test]
fn gelu_is_right_where_its_values_are_known() {
    // Values by the definition, x * (1 + erf(x / √2)) / 2, to eight digits.
    let known = [
        (0.0, 0.0),
        (1.0, 0.841_344_7),
        (-1.0, -0.158_655_25),
        (3.0, 2.995_950_3),
        (-3.0, -0.004_049_69),
        (40.0, 40.0),
    ];
    for level in Level::all() {
        for (x, right) in known {
            let mut numbers = [x; 33];
            simd::gelu(level, &mut numbers);
            assert!(
                numbers.iter().all(|number| (number - right).abs() < 1e-6),
                "{} {x} {numbers:?}",
                level.name()
            );
        }
    }
}

#[test]
fn a_matrix_is_read_as_it_was_written_and_not_where_it_was_cut() {
    let weights: Vec<f32> = (0_u8..210).map(|number| f32::from(number) - 100.0).collect();
    let matrix = Panels::new(&weights, 7);
    let mut bytes = Vec::new();
    matrix.write(&mut bytes);
    assert_eq!(bytes.len(), Panels::written(7, 30));
    assert_eq!(Panels::read(&bytes, 7, 30), Some(matrix));
    assert_eq!(Panels::read(&bytes[1..], 7, 30), None);
    assert_eq!(Panels::read(&bytes, 7, 31), None);
}
