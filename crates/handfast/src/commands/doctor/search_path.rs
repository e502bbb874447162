//! A test of the search path: a command looks for the folders that it is said to see.

use std::fmt::Write as _;
use std::path::Path;

use sandbox::Verdict;

use super::Finding;
use super::calls::{Places, make_calls};
use crate::commands::Failure;
use crate::compose::Composed;
use crate::toolchains::{advice, configuration_file, of_path::FoundPrograms};

/// Prints each of its arguments that is no folder.
const SCRIPT: &str = r#"for folder; do [ -d "$folder" ] || printf '%s\n' "$folder"; done; echo looked"#;

/// Maximum number of folders that are named in one finding.
const MAX_NAMED: usize = 8;

pub(super) fn finding(composed: &Composed) -> Finding {
    let host_environment = &composed.reload.host_environment;
    let found = host_environment.found.get().cloned().unwrap_or_default();
    let configuration = configuration_file(host_environment);
    let (verdict, seen) = match look(&found) {
        Ok(output) => match output.strip_suffix("looked\n") {
            Some("") => (Verdict::Holds, "commands see".to_owned()),
            Some(absent) => {
                (Verdict::Fails, format!("absent: {}; of", absent.trim_end().replace('\n', ", ")))
            }
            None => (Verdict::Unknown, format!("{output}; of")),
        },
        Err(failure) => (Verdict::Unknown, format!("{}; of", failure.error)),
    };
    let mut detail = format!("{seen} {} folders of `PATH`", found.folders.len());
    let folders = |named: Vec<String>| {
        let more = named.len().saturating_sub(MAX_NAMED);
        let named: Vec<String> = named.into_iter().take(MAX_NAMED).collect();
        if more == 0 { named.join("; ") } else { format!("{}; and {more} more", named.join("; ")) }
    };
    let left_out = found.left_out.iter();
    let left_out: Vec<String> =
        left_out.map(|(folder, why)| format!("{} ({})", name(folder), why.reason())).collect();
    if !left_out.is_empty() {
        let _ = write!(detail, "; left out: {}", folders(left_out));
    }
    let narrowed: Vec<String> = found.narrowed.iter().map(|folder| name(folder)).collect();
    if !narrowed.is_empty() {
        let _ = write!(detail, "; without the files around them: {}", folders(narrowed));
    }
    let remedies = found.left_out.iter().filter(|(_, why)| !why.is_ordinary());
    let mut remedies: Vec<String> = remedies
        .filter_map(|(folder, why)| {
            Some(format!("{}: {}", name(folder), why.remedy(folder, &configuration)?))
        })
        .collect();
    if let Some(folder) = found.narrowed.first() {
        let lists = advice::lists(advice::installation(folder), &configuration);
        remedies.push(format!("if a program of {} lacks files next to it, {lists}", name(folder)));
    }
    Finding {
        name: "search-path",
        promise: Some("search-path-shown"),
        verdict,
        enforced_by: "mounts".to_owned(),
        detail: detail.replace(|letter: char| letter.is_control(), " "),
        hint: (!remedies.is_empty()).then(|| folders(remedies)),
    }
}

/// Returns the output of a command that looks for the folders, in a temporary workspace.
fn look(found: &FoundPrograms) -> Result<String, Failure> {
    let folder = tempfile::tempdir()?;
    let folders = found.folders.iter().map(|folder| name(&folder.path));
    let words = ["-c", SCRIPT, "sh"].map(str::to_owned).into_iter().chain(folders).collect();
    let answers = make_calls(folder.path(), Places::default(), &[("sh".to_owned(), words)])?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

fn name(folder: &Path) -> String {
    folder.display().to_string()
}
