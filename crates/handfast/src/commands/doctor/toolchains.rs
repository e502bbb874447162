//! A test for keys in toolchains: plants keys in a temporary home and looks for them from a cell.

use std::fs;
use std::path::Path;

use sandbox::{Attempter, Verdict};
use serde_json::json;

use super::Finding;
use super::calls::{Places, make_calls};
use crate::commands::Failure;
use crate::config::USER_FILE;
use crate::toolchains;

const PROMISE: &str = "toolchain-keys-absent";

/// Names of planted keys. Each is planted in every probed folder and in a subfolder of it.
const KEYS: [&str; 5] = ["credentials.toml", "credentials.toml.bak", ".npmrc", "server.pem~", ".git/config"];

pub(super) fn finding(attempter: &Attempter) -> Finding {
    let (verdict, detail) = match look(attempter) {
        Ok((planted, inside, outside)) => match (inside.starts_with("done "), outside.starts_with("done ")) {
            (true, _) => (Verdict::Fails, inside),
            (false, true) if inside.starts_with("refused ") => {
                (Verdict::Holds, format!("none of the {planted} keys planted in toolchains was found"))
            }
            (false, _) => (Verdict::Unknown, format!("inside: {inside}; without a cell: {outside}")),
        },
        Err(failure) => (Verdict::Unknown, failure.error.to_string()),
    };
    Finding {
        name: "toolchain-keys",
        promise: Some(PROMISE),
        verdict,
        enforced_by: "allowlist of folders, masks".to_owned(),
        detail: detail.trim_end().replace(|letter: char| letter.is_control(), " "),
        hint: None,
    }
}

/// Returns the number of planted keys, and the results of the search in a cell and without one.
fn look(attempter: &Attempter) -> Result<(usize, String, String), Failure> {
    let folder = tempfile::tempdir()?;
    let [home, configuration] = ["home", "configuration"].map(|name| folder.path().join(name));
    for made in [&home, &configuration] {
        fs::create_dir(made)?;
    }
    let home = home.canonicalize()?;
    let planted =
        toolchains::folders_to_probe(&home).iter().try_fold(0, |count, folder| plant(folder, count))?;
    let program = attempter.program.display().to_string();
    let own = attempter.arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = own.chain(["seek".to_owned(), home.display().to_string()]).collect();
    let profile = json!({ "sandbox_config": { "normal": { "allowed_read_paths": [".", program] } } });
    fs::write(configuration.join(USER_FILE), profile.to_string())?;
    let places = Places { home: Some(home.clone()), configuration: Some(configuration), ..Places::default() };
    let commands = [(program, words)];
    let inside = make_calls(folder.path(), places, &commands)?.pop().unwrap_or_default();
    let outside = attempter.outside().args(["seek".as_ref(), home.as_os_str()]).output()?;
    Ok((planted, inside, String::from_utf8_lossy(&outside.stdout).into_owned()))
}

fn plant(folder: &Path, count: usize) -> Result<usize, Failure> {
    for key in KEYS {
        for folder in [folder.to_owned(), folder.join("within")] {
            let path = folder.join(key);
            fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs::write(path, format!("token = {}\n", sandbox::MARKER))?;
        }
    }
    Ok(count + 2 * KEYS.len())
}
