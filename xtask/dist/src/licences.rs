//! The licence texts of everything in the program, in one file. Most of them require that it goes along.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{Failure, Result};
use crate::packages::Package;

/// Beginnings of the names of licence files, in lower case.
const NAMES: [&str; 6] = ["licen", "copying", "copyright", "notice", "unlicense", "patents"];
/// Ends of names that belong to code about licences.
const CODE: [&str; 5] = [".rs", ".py", ".toml", ".json", ".yml"];
/// Parts of every program that are no packages, with their licences.
const OTHERS: [(&str, &str); 2] = [
    ("musl, the C library", include_str!("../files/musl.txt")),
    ("Rust's standard library", include_str!("../files/rust.txt")),
];

/// Returns the text: the packages with their licences, then each licence text with the packages that carry it.
pub(crate) fn text(packages: &[Package]) -> Result<String> {
    let mut text = String::from("The program contains these packages of other people.\n\n");
    let mut carried: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter().filter(|package| !package.is_own()) {
        let Package { name, version, .. } = package;
        let licence = package.licence.as_deref().unwrap_or("see its text below");
        text.push_str(&format!("{name} {version}: {licence}\n"));
        let mut found = Vec::new();
        collect(&package.folder, &mut found)?;
        if found.is_empty() {
            let source = package.repository.as_deref().unwrap_or("its registry");
            text.push_str(&format!("    (the package has no licence file; its source is at {source})\n"));
        }
        for licence in found {
            carried.entry(licence).or_default().push(format!("{name} {version}"));
        }
    }
    for (name, licence) in OTHERS {
        text.push_str(&format!("{name}: see its text below\n"));
        carried.entry(licence.trim().to_owned()).or_default().push(name.to_owned());
    }
    // In the order of the packages, since the order of the texts says nothing.
    let mut carried: Vec<(Vec<String>, String)> = carried
        .into_iter()
        .map(|(licence, mut names)| {
            names.dedup();
            (names, licence)
        })
        .collect();
    carried.sort();
    for (names, licence) in carried {
        text.push_str(&format!("\n{}\n{}\n\n{licence}\n", "=".repeat(80), names.join(", ")));
    }
    Ok(text)
}

/// Collects the licence texts of a folder, at any depth: packages with C code have those of its authors below.
// BOUNDED: by the folders of a package from a registry, which contains no links.
fn collect(folder: &Path, into: &mut Vec<String>) -> Result<()> {
    let failed = |error: std::io::Error| Failure(format!("cannot read {}: {error}", folder.display()));
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).map_err(failed)?.collect::<std::io::Result<_>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
        if kind.is_dir() {
            collect(&entry.path(), into)?;
        } else if is_licence(&name) {
            let bytes = std::fs::read(entry.path()).map_err(failed)?;
            // Some authors write Latin-1, in which names may have accents.
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned();
            if !text.is_empty() && !into.contains(&text) {
                into.push(text);
            }
        }
    }
    Ok(())
}

fn is_licence(name: &str) -> bool {
    NAMES.iter().any(|beginning| name.starts_with(beginning)) && !CODE.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_stand_once_and_a_package_without_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut packages = Vec::new();
        for (name, file) in [("a", Some("LICENSE-MIT")), ("b", Some("c/COPYING")), ("d", None)] {
            let place = folder.path().join(name);
            std::fs::create_dir_all(place.join("c")).unwrap();
            std::fs::write(place.join("license.rs"), "fn main() {}").unwrap();
            if let Some(file) = file {
                std::fs::write(place.join(file), "Do what is right.\r\n").unwrap();
            }
            packages.push(Package {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                licence: Some("MIT".to_owned()),
                repository: Some("https://forge.example/d".to_owned()),
                folder: place,
                checksum: Some(String::new()),
                dependencies: Vec::new(),
            });
        }
        let text = text(&packages).unwrap();
        assert_eq!(text.matches("Do what is right.").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0\n\nDo what is right.\n"), "{text}");
        assert!(text.contains("d 1.0.0: MIT\n    (the package has no licence file"), "{text}");
        assert!(!text.contains("fn main"), "{text}");
        assert!(text.contains("Rich Felker"), "{text}");
    }
}
