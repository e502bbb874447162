//! Faults of the second engine (graphdblite 0.1.2), with what shows that they are its own.

use crate::generate::has_aggregate;
use crate::peer::Answer;

/// Returns the reason why the second engine has another answer, if it is known.
pub(crate) fn reason(text: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let (Answer::Rows(ours), Answer::Rows(theirs)) = (ours, theirs) else { return None };
    if text.contains("OPTIONAL MATCH") && (text.contains("IN nodes(") || text.contains("[e IN rs")) {
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
    if text.contains("DISTINCT") && theirs.iter().any(|row| ours.contains(&row.replace(".0", ""))) {
        return Some("0 and 0.0 are equal, and it takes them for two values");
    }
    let unsigned =
        |rows: &[String]| sorted(rows).iter().map(|row| row.replace("-0.0", "0.0")).collect::<Vec<_>>();
    if unsigned(ours) == unsigned(theirs) {
        return Some("the negative of 0.0 is -0.0, and it has no such value");
    }
    None
}
