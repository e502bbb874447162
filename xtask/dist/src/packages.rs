//! The packages whose code is in the program, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;
use toml_edit::DocumentMut;

use crate::command::{Failure, Result, capture};
use crate::product::Product;
use crate::target::Target;

/// One package in the program.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Licence as an SPDX expression, if the manifest states one.
    pub(crate) licence: Option<String>,
    pub(crate) repository: Option<String>,
    /// Folder of the package's source.
    pub(crate) folder: PathBuf,
    /// SHA-256 of the package's archive in the registry. A package of this workspace has none.
    pub(crate) checksum: Option<String>,
    /// Keys of the direct dependencies that are in the program too.
    pub(crate) dependencies: Vec<Key>,
}

/// Name and version.
pub(crate) type Key = (String, String);

impl Package {
    /// Returns true if the package is one of this workspace.
    pub(crate) fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

/// Returns the packages in the programs for these targets, sorted by name and version. Build scripts and
/// procedural macros are not among them, because they run only at build time.
pub(crate) fn all(product: &Product, targets: &[Target]) -> Result<Vec<Package>> {
    let mut linked = BTreeSet::new();
    for target in targets {
        let tree = [
            "tree",
            "--locked",
            "--package",
            "handfast",
            "--package",
            "languages",
            "--edges",
            "normal,no-proc-macro",
        ];
        let form = ["--prefix", "none", "--format", "{p}", "--target", target.triple()];
        let text = capture(product.cargo(&tree).args(form))?;
        linked.extend(text.lines().filter_map(key_of_line));
    }
    let mut metadata = product.cargo(&["metadata", "--locked", "--format-version", "1"]);
    for target in targets {
        metadata.args(["--filter-platform", target.triple()]);
    }
    let metadata: Value = serde_json::from_str(&capture(&mut metadata)?)
        .map_err(|error| Failure(format!("cargo metadata is not JSON: {error}")))?;
    let checksums = checksums(&product.read("Cargo.lock")?)?;
    let packages = packages_in(&metadata, &linked, &checksums);
    match linked
        .iter()
        .find(|key| packages.iter().all(|package| (&package.name, &package.version) != (&key.0, &key.1)))
    {
        Some((name, version)) => Err(Failure(format!("cargo metadata does not know {name} {version}"))),
        None => Ok(packages),
    }
}

/// Returns name and version of a line of `cargo tree`: `NAME vVERSION`, and sometimes more.
fn key_of_line(line: &str) -> Option<Key> {
    let mut words = line.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

fn packages_in(metadata: &Value, linked: &BTreeSet<Key>, checksums: &BTreeMap<Key, String>) -> Vec<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let key = |package: &Value| Some((text(&package["name"])?, text(&package["version"])?));
    let listed = || metadata["packages"].as_array().into_iter().flatten();
    let keys: BTreeMap<&str, Key> =
        listed().filter_map(|package| Some((package["id"].as_str()?, key(package)?))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let edges: BTreeMap<&str, &Value> =
        nodes.filter_map(|node| Some((node["id"].as_str()?, &node["dependencies"]))).collect();
    let mut packages: Vec<Package> = listed()
        .filter_map(|package| {
            let (name, version) = key(package).filter(|key| linked.contains(key))?;
            let id = package["id"].as_str()?;
            let below = edges.get(id).and_then(|edges| edges.as_array()).into_iter().flatten();
            let below =
                below.filter_map(|id| keys.get(id.as_str()?).filter(|key| linked.contains(key)).cloned());
            let dependencies: BTreeSet<Key> = below.collect();
            let manifest = PathBuf::from(package["manifest_path"].as_str()?);
            Some(Package {
                licence: text(&package["license"]),
                repository: text(&package["repository"]),
                folder: manifest.parent()?.to_owned(),
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                dependencies: dependencies.into_iter().collect(),
                name,
                version,
            })
        })
        .collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages
}

/// Returns the checksum of each package from a registry.
fn checksums(lock: &str) -> Result<BTreeMap<Key, String>> {
    let lock: DocumentMut =
        lock.parse().map_err(|error| Failure(format!("Cargo.lock is not TOML: {error}")))?;
    let packages = lock.get("package").and_then(|item| item.as_array_of_tables()).into_iter().flatten();
    let text = |package: &toml_edit::Table, field| Some(package.get(field)?.as_str()?.to_owned());
    let stated = packages.filter_map(|package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    });
    Ok(stated.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tree_name_packages() {
        let line = "bitflags v2.9.1 (*)";
        assert_eq!(key_of_line(line), Some(("bitflags".to_owned(), "2.9.1".to_owned())));
        assert_eq!(key_of_line("tool v0.1.0 (/x/crates/tool)").unwrap().0, "tool");
        assert_eq!(key_of_line(""), None);
    }

    #[test]
    fn the_program_of_this_checkout_has_its_own_and_outside_packages() {
        let product = Product::of_this_checkout().unwrap();
        let packages = all(&product, &[Target::of_this_machine().unwrap()]).unwrap();
        let find = |name: &str| packages.iter().find(|package| package.name == name);
        assert!(find("engine").unwrap().is_own());
        let sqlite = find("rusqlite").unwrap();
        assert_eq!(sqlite.checksum.as_ref().map(String::len), Some(64));
        assert!(sqlite.dependencies.iter().any(|(name, _)| name == "libsqlite3-sys"));
        for (name, why) in [
            ("xtask", "no part of the product"),
            ("serde_derive", "runs at build time"),
            ("testkit", "for tests"),
        ] {
            assert!(find(name).is_none(), "{name}: {why}");
        }
    }
}
