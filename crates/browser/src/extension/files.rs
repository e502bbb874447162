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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;

    use super::*;
    use crate::extension::ORIGIN;

    #[test]
    fn every_file_that_the_extension_loads_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../extension");
        let names = |below: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder.join(below)).unwrap().flatten();
            let files = entries.filter(|entry| entry.path().is_file());
            files.map(|entry| format!("{below}{}", entry.file_name().to_string_lossy())).collect()
        };
        let mut there: BTreeSet<String> = names("").into_iter().chain(names("js/")).collect();
        // The compiler alone reads it.
        assert!(there.remove("tsconfig.json"));
        let carried: BTreeSet<String> =
            extension_files().iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(carried, there);
    }

    #[test]
    fn the_key_gives_the_origin_and_the_permissions_are_few() {
        let (_, manifest) = extension_files().iter().find(|(name, _)| *name == "manifest.json").unwrap();
        let manifest: Value = serde_json::from_slice(manifest).unwrap();
        let key = STANDARD.decode(manifest["key"].as_str().unwrap()).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &key);
        let half = digest.as_ref().iter().take(16).flat_map(|byte| [byte >> 4, byte & 15]);
        let id: String = half.map(|digit| char::from(b'a' + digit)).collect();
        assert_eq!(ORIGIN, format!("chrome-extension://{id}"));
        let permissions: Vec<&str> =
            manifest["permissions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(permissions, ["alarms", "debugger", "storage", "tabGroups", "tabs"]);
        for absent in
            ["host_permissions", "externally_connectable", "content_scripts", "web_accessible_resources"]
        {
            assert!(manifest.get(absent).is_none(), "{absent}");
        }
    }
}
