//! The search for a program that serves as browser.

use std::path::{Path, PathBuf};

/// Names of programs, the best first. The headless shell starts faster and takes less memory.
const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// Folders of the system, which every cell shows.
const FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Returns the browser of this machine.
///
/// # Errors
/// Returns a sentence that says what was looked for.
pub(crate) fn find() -> Result<PathBuf, String> {
    let places = NAMES.iter().flat_map(|name| FOLDERS.map(|folder| Path::new(folder).join(name)));
    places
        .into_iter()
        .find(|program| program.is_file())
        .ok_or_else(|| format!("none of {} is in {}", NAMES.join(", "), FOLDERS.join(" or ")))
}
