//! The search for a program that serves as browser.

use std::path::{Path, PathBuf};

/// Names of programs, the best first. The headless shell starts faster and takes less memory.
const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// Folders of the system, which every cell shows.
const FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Link in the state folder to the program that the user chose.
const CHOSEN: &str = "browser-program";

/// Returns the link in a state folder to the program that the user chose.
pub(crate) fn chosen(state: &Path) -> PathBuf {
    state.join(CHOSEN)
}

/// Returns the browser that the user chose, or else that of this machine.
///
/// # Errors
/// Returns a sentence that says what was looked for.
pub(crate) fn find(state: &Path) -> Result<PathBuf, String> {
    if let Ok(program) = std::fs::read_link(chosen(state)) {
        let lacks =
            || format!("{}, which `handfast setup browser` was given, is not there", program.display());
        return if program.is_file() { Ok(program) } else { Err(lacks()) };
    }
    let places = NAMES.iter().flat_map(|name| FOLDERS.map(|folder| Path::new(folder).join(name)));
    places
        .into_iter()
        .find(|program| program.is_file())
        .ok_or_else(|| format!("none of {} is in {}", NAMES.join(", "), FOLDERS.join(" or ")))
}
