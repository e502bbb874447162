//! Output for people: tables on standard output, everything else on standard error.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{LazyLock, OnceLock};

use engine::{Program, Redactor};
use tool::visible;

/// Redactor and program of this run. A process has one standard output and one standard error, so
/// the redactor for both is global, too.
static RUN: OnceLock<Run> = OnceLock::new();

/// Function that reads the secrets of a run.
type ReadSecrets = Box<dyn Fn() -> Redactor + Send + Sync>;

/// The run that output belongs to. Its secrets are read before the first output.
struct Run {
    secrets: LazyLock<Redactor, ReadSecrets>,
    program: LazyLock<Program, Box<dyn Fn() -> Program + Send + Sync>>,
}

/// Sets the sources of the secrets that output must not contain, and of the command line by which
/// commands reach the state folder. The first call of a process wins.
pub(crate) fn begin(
    secrets: impl Fn() -> Redactor + Send + Sync + 'static,
    program: impl Fn() -> Program + Send + Sync + 'static,
) {
    let secrets: ReadSecrets = Box::new(secrets);
    let program: Box<dyn Fn() -> Program + Send + Sync> = Box::new(program);
    let _second = RUN.set(Run { secrets: LazyLock::new(secrets), program: LazyLock::new(program) });
}

/// Returns the run, or one without secrets before it has begun.
fn run() -> &'static Run {
    RUN.get_or_init(|| Run {
        secrets: LazyLock::new(Box::new(Redactor::default)),
        program: LazyLock::new(Box::new(Program::default)),
    })
}

/// Returns the redactor of this run.
pub(crate) fn secrets() -> &'static Redactor {
    let secrets = &run().secrets;
    secrets.refresh();
    secrets
}

/// Covers every known secret in the text.
///
/// INVARIANT: all output of a command to standard output and standard error goes through this function.
pub(crate) fn covered(text: &str) -> std::borrow::Cow<'_, str> {
    secrets().text(text).map_or(text.into(), Into::into)
}

/// Returns a command line that reaches the state folder of this run.
pub(crate) fn command(words: &str) -> String {
    run().program.command(words)
}

/// Returns a number with its noun.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Prints a message that is not a result.
pub(crate) fn note(text: &str) {
    let text = if text.contains("`handfast ") { run().program.put_into(text) } else { text.into() };
    // If standard error is closed, nobody reads the message, and the work continues.
    let _ = writeln!(io::stderr(), "handfast: {}", covered(&text));
}

/// Receiver of warnings.
pub(crate) type Warn<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Prints a warning.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// Prints an error and its causes, one per line. No other function prints a chain of causes.
pub(crate) fn print_chain(error: &dyn Error) {
    note(&format!("error: {error}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = writeln!(io::stderr(), "  because: {}", covered(&error.to_string()));
        cause = error.source();
    }
}

/// Returns an error with its causes as one sentence.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Formats rows under headings. Each column is as wide as its widest cell, except that the last
/// column is not padded.
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
