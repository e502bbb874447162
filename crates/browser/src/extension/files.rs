//! The files of the extension, as the program carries them.

macro_rules! files {
    ($($name:literal,)*) => {
        [$(($name, include_bytes!(concat!("../../../../extension/", $name)).as_slice()),)*]
    };
}

/// Returns the files of the extension: each with its path below the extension's folder.
pub fn extension_files() -> &'static [(&'static str, &'static [u8])] {
    const FILES: &[(&str, &[u8])] = &files![
        "manifest.json",
        "methods.json",
        "options.html",
        "popup.html",
        "pages.css",
        "js/connection.js",
        "js/keys.js",
        "js/methods.js",
        "js/options.js",
        "js/popup.js",
        "js/settings.js",
        "js/shareable.js",
        "js/tabs.js",
        "js/worker.js",
    ];
    FILES
}
