//! The search for a program that serves as browser.

use std::path::{Path, PathBuf};

use browser::BrowserProgram;

use crate::host_environment::HostEnvironment;
use crate::toolchains;

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

/// Returns a program that the user names, with what its cell shows of the user's folders.
///
/// # Errors
/// Returns a sentence that says why it cannot be used.
pub(crate) fn named(
    program: &Path,
    (state, workspace): (&Path, &Path),
    host_environment: &HostEnvironment,
) -> Result<BrowserProgram, String> {
    let real = program.canonicalize().ok().filter(|real| real.is_file());
    let path = real.ok_or_else(|| {
        format!("{}, which `handfast setup browser` was given, is not there", program.display())
    })?;
    if path.starts_with("/usr") {
        return Ok(BrowserProgram { path, shown: None });
    }
    let shown = toolchains::shown_of_browser(host_environment, workspace, state, &path);
    let shown = shown.map_err(|why| format!("{} cannot be used: {why}", path.display()))?;
    Ok(BrowserProgram { path, shown: Some(shown) })
}

/// Returns the browser that the user chose, or else that of this machine.
///
/// # Errors
/// Returns a sentence that says what was looked for.
pub(crate) fn find(
    (state, workspace): (&Path, &Path),
    host_environment: &HostEnvironment,
) -> Result<BrowserProgram, String> {
    if let Ok(program) = std::fs::read_link(chosen(state)) {
        return named(&program, (state, workspace), host_environment);
    }
    let places = NAMES.iter().flat_map(|name| FOLDERS.map(|folder| Path::new(folder).join(name)));
    places
        .into_iter()
        .find(|program| program.is_file())
        .map(|path| BrowserProgram { path, shown: None })
        .ok_or_else(|| format!("none of {} is in {}", NAMES.join(", "), FOLDERS.join(" or ")))
}
