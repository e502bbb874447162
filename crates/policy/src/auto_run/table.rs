//! List of files that programs run automatically, read from `table.txt`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// One row of the list.
struct Row {
    /// Names that a path must have one after the other, in lower case; the first one is the key.
    names: Vec<String>,
    /// True if everything below counts as well.
    is_folder: bool,
    why: &'static str,
}

struct Table {
    rows: HashMap<String, Vec<Row>>,
    /// All names that stand in a row.
    names: HashSet<String>,
    /// Endings of names, in lower case, with their dot.
    endings: Vec<(String, &'static str)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { rows: HashMap::new(), names: HashSet::new(), endings: Vec::new() };
    for (pattern, why, _) in rows() {
        let pattern = pattern.to_lowercase();
        if let Some(ending) = pattern.strip_prefix('*') {
            table.endings.push((ending.to_owned(), why));
            continue;
        }
        let is_folder = pattern.ends_with('/');
        let names: Vec<String> = pattern.trim_end_matches('/').split('/').map(str::to_owned).collect();
        let first = names.first().cloned().unwrap_or_default();
        table.names.extend(names.iter().cloned());
        table.rows.entry(first).or_default().push(Row { names, is_folder, why });
    }
    table
});

/// Returns the rows: the name, the program that reads the file, and the source of that fact.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("table.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut fields = line.split(" | ").map(str::trim);
        Some((fields.next()?, fields.next()?, fields.next()?))
    })
}

/// Returns the program that runs a file with these names, in lower case and from the top.
/// `is_folder` means that the entry is a folder, without its content.
pub(super) fn find(names: &[String], is_folder: bool) -> Option<&'static str> {
    let table = &*TABLE;
    for (index, name) in names.iter().enumerate() {
        let rest = names.get(index..).unwrap_or_default();
        let matches = |row: &&Row| {
            let is_all = rest.len() == row.names.len();
            // A folder's own entry does not yet reveal its content.
            rest.starts_with(&row.names) && if is_all { !is_folder } else { row.is_folder }
        };
        if let Some(row) = table.rows.get(name).and_then(|rows| rows.iter().find(matches)) {
            return Some(row.why);
        }
    }
    let last = names.last().filter(|_| !is_folder)?;
    table.endings.iter().find(|(ending, _)| last.ends_with(ending)).map(|(_, why)| *why)
}

/// Returns true if an entry of this name, in lower case, or one in a folder of this name, could be
/// on the list.
pub(super) fn may_match(name: &str) -> bool {
    let table = &*TABLE;
    table.names.contains(name) || table.endings.iter().any(|(ending, _)| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_reader_and_a_source_and_stands_once() {
        let lines =
            include_str!("table.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(lines.count(), rows().count());
        let mut seen = std::collections::BTreeSet::new();
        for (pattern, why, source) in rows() {
            assert!(!pattern.is_empty() && !why.is_empty(), "{pattern}");
            assert!(source.starts_with("https://") || source.starts_with("http://"), "{pattern}: {source}");
            assert!(seen.insert(pattern.to_lowercase()), "{pattern} stands twice");
        }
    }
}
