//! Faults of the second engine (graphdblite 0.1.2), with what shows that they are its own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::generate::has_aggregate;
use crate::peer::Answer;

/// Returns the reason why the second engine has another answer, if it is known.
pub(crate) fn reason(text: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let (Answer::Rows(ours), Answer::Rows(theirs)) = (ours, theirs) else { return None };
    let comprehends = text.contains("IN nodes(") || text.contains("[e IN rs");
    if text.contains("OPTIONAL MATCH") && comprehends && is_null_for_empty(ours, theirs) {
        return Some("a list comprehension over null is null, and it takes null for an empty list");
    }
    let sorted = |rows: &[String]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    if text.contains("ORDER BY") && has_aggregate(text) && sorted(ours) == sorted(theirs) {
        return Some("it does not sort by a column that groups, if that is no property");
    }
    // Rows that are equal as numbers are one row here, and several there.
    let is_set = text.contains("RETURN DISTINCT") || text.contains("UNION") && !text.contains("UNION ALL");
    let as_set = |rows: &[String]| rows.iter().map(|row| plain(&as_value(row))).collect::<BTreeSet<_>>();
    if is_set && theirs.len() > ours.len() && as_set(ours) == as_set(theirs) {
        return Some("0 and 0.0 are equal, and it takes them for two values");
    }
    let unsigned =
        |rows: &[String]| sorted(rows).iter().map(|row| row.replace("-0.0", "0.0")).collect::<Vec<_>>();
    if unsigned(ours) == unsigned(theirs) {
        return Some("the negative of 0.0 is -0.0, and it has no such value");
    }
    if text.contains("avg(") && ours.len() == theirs.len() {
        let both = sorted(ours).into_iter().zip(sorted(theirs));
        if both.into_iter().all(|(one, other)| is_rounded(&as_value(&one), &as_value(&other))) {
            return Some(
                "an average is the rounded sum by the count, and its last digit is another one there",
            );
        }
    }
    None
}

fn as_value(row: &str) -> Value {
    serde_json::from_str(row).unwrap_or(Value::Null)
}

/// Returns true if two values are equal but for the last digits of their numbers.
fn is_rounded(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_rounded(one, other))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            (a - b).abs() <= 4.0 * f64::EPSILON * a.abs()
        }
        _ => one == other,
    }
}

/// Returns a value with the numbers 1.0 and -0.0 written as 1 and 0.
fn plain(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(",")),
        Value::Number(number) => match number.to_string().trim_end_matches(".0") {
            "-0" => "0".to_owned(),
            digits => digits.to_owned(),
        },
        other => other.to_string(),
    }
}

/// Returns true if only rows differ that have null here, as many as there.
fn is_null_for_empty(ours: &[String], theirs: &[String]) -> bool {
    let mut left = theirs.to_vec();
    let mut rest = ours.to_vec();
    rest.retain(|row| left.iter().position(|other| other == row).map(|at| left.swap_remove(at)).is_none());
    rest.len() == left.len() && rest.iter().all(|row| row.contains("null"))
}
