//! Conversions between integers and floats, with the loss of each stated. This module knows no values.

use std::cmp::Ordering;

/// Two to the power of 63: the first float above every integer of 64 bits.
const ABOVE_INTEGERS: f64 = 9_223_372_036_854_775_808.0;

/// Converts an integer to the nearest float.
#[expect(clippy::cast_precision_loss, reason = "the language converts so: integers beyond 2^53 are rounded")]
pub(crate) fn float(integer: i64) -> f64 {
    integer as f64
}

/// Converts a count to the nearest float.
#[expect(clippy::cast_precision_loss, reason = "counts beyond 2^53 do not occur in memory")]
pub(crate) fn float_of_count(count: usize) -> f64 {
    count as f64
}

/// Converts a count to an integer of the language.
pub(crate) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the integral part of a float, or `None` if it is no integer of 64 bits.
pub(crate) fn truncate(float: f64) -> Option<i64> {
    if !(-ABOVE_INTEGERS..ABOVE_INTEGERS).contains(&float) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked above")]
    let integer = float as i64;
    Some(integer)
}

/// Returns the integer that equals a float exactly, if there is one.
pub(crate) fn exact_integer(value: f64) -> Option<i64> {
    truncate(value).filter(|_| value.trunc().total_cmp(&value).is_eq())
}

/// Returns the order of two floats that are not NaN; the two zeros are equal.
pub(crate) fn compare_floats(one: f64, two: f64) -> Ordering {
    one.partial_cmp(&two).unwrap_or(Ordering::Equal)
}

/// Returns the exact order of a float that is not NaN and an integer.
pub(crate) fn compare_float_integer(one: f64, two: i64) -> Ordering {
    match truncate(one) {
        Some(whole) => whole.cmp(&two).then_with(|| compare_floats(one.fract(), 0.0)),
        None if one > 0.0 => Ordering::Greater,
        None => Ordering::Less,
    }
}

/// Returns the text of a float: always with a fraction or an exponent, so that it reads as a float.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        format!("{value:?}")
    }
}
