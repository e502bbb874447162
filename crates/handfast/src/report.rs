//! What people read: tables on standard output, everything else on standard error.

use std::error::Error;
use std::io::{self, Write};

use tool::visible;

/// Says something that is no result.
pub(crate) fn note(text: &str) {
    // Where standard error is closed nobody reads it, and the work goes on.
    let _ = writeln!(io::stderr(), "handfast: {text}");
}

/// Who hears what is not as it should be.
pub(crate) type Warn<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Says that something is not as it should be.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// Prints an error and what caused it, one a line. The one place where a chain of causes is shown.
pub(crate) fn print_chain(error: &dyn Error) {
    note(&format!("error: {error}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = writeln!(io::stderr(), "  because: {error}");
        cause = error.source();
    }
}

/// An error with what caused it, as one sentence.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Rows under headings, each column as wide as its widest cell. The last column is left ragged.
pub(crate) fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut all: Vec<Vec<String>> = vec![headings.iter().map(|heading| heading.to_uppercase()).collect()];
    all.extend(rows.into_iter().map(|row| row.iter().map(|cell| visible(cell)).collect()));
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..headings.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let shown = table(
            &["a", "long"],
            [vec!["xyz".to_owned(), "1".to_owned()], vec!["ä\n".to_owned(), String::new()]],
        );
        assert_eq!(shown, "A    LONG\nxyz  1\nä\\n\n");
    }
}
