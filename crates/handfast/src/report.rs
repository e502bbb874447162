//! What people read: tables on standard output, everything else on standard error.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, OnceLock};

use engine::{Program, Redactor};
use tool::visible;
use vault::Vault;

use crate::cli::Global;
use crate::configuration::key_file;
use crate::places::{self, VAULT_FOLDER, state_folder};
use crate::surroundings::{Surroundings, vault_keys};

/// The options of this run, which say where its secrets lie. A process has one standard output and one standard error, so what covers
/// secrets on both is the process's own too.
static RUN: OnceLock<Global> = OnceLock::new();

/// The secrets of the user's vault and environment. They are read when something is told for the first time.
static SECRETS: LazyLock<Redactor> = LazyLock::new(|| {
    let surroundings = Surroundings::of_this_process();
    let redactor = Redactor::new(surroundings.credentials.clone());
    let folder = RUN.get().and_then(|global| state_folder(global, &surroundings).ok());
    // What is wrong with the configuration or the folder is the command's to say.
    match (folder, key_file(&surroundings)) {
        (Some(folder), Ok(key)) => {
            redactor.with_vault(Arc::new(Vault::new(folder.join(VAULT_FOLDER), vault_keys(key))))
        }
        _ => redactor,
    }
});

/// Says by which options the secrets of this run are found.
pub(crate) fn begin(global: &Global) {
    // Only `main` says it, once.
    let _second = RUN.set(global.clone());
}

/// Gives the redactor of this run.
pub(crate) fn secrets() -> &'static Redactor {
    SECRETS.refresh();
    &SECRETS
}

/// Covers every secret in the text that is known here.
///
/// INVARIANT: all that a command writes to standard output and standard error goes through here.
pub(crate) fn covered(text: &str) -> std::borrow::Cow<'_, str> {
    secrets().text(text).map_or(text.into(), Into::into)
}

/// How commands reach the state folder of this run.
static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let surroundings = Surroundings::of_this_process();
    let folder = RUN.get().and_then(|global| state_folder(global, &surroundings).ok());
    folder.map(|folder| places::program(&folder, &surroundings)).unwrap_or_default()
});

/// A command that reaches the state folder of this run.
pub(crate) fn command(words: &str) -> String {
    PROGRAM.command(words)
}

/// Says something that is no result.
pub(crate) fn note(text: &str) {
    let text = if text.contains("`handfast ") { PROGRAM.put_into(text) } else { text.into() };
    // Where standard error is closed nobody reads it, and the work goes on.
    let _ = writeln!(io::stderr(), "handfast: {}", covered(&text));
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
        let _ = writeln!(io::stderr(), "  because: {}", covered(&error.to_string()));
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
