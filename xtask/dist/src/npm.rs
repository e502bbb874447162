//! The npm packages: one with the program for each architecture, and the one that users name.
//!
//! The launcher depends on all of them optionally, and npm installs the one of the machine's architecture. Nothing
//! runs at installation, so `--ignore-scripts` changes nothing.

use flate2::Compression;
use serde_json::{Value, json};

use crate::archive::{Entry, gzip, tar};
use crate::artefacts::Contents;
use crate::command::Result;
use crate::product::{NAME, Product};
use crate::target::Target;

/// Folder that every entry of an npm package lies in.
const FOLDER: &str = "package/";

/// Returns the package with the program, and the name of its file.
pub(crate) fn program(contents: &Contents<'_>) -> Result<(String, Vec<u8>)> {
    let Contents { product, program, documents, compression, .. } = contents;
    let target = program.target;
    let mut manifest = manifest(product, &name(target));
    manifest["description"] = json!(format!("The program of {NAME} for Linux on {}.", target.node()));
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([target.node()]);
    // A package manager that keeps packages in archives cannot start a program in one.
    manifest["preferUnplugged"] = json!(true);
    let program = Entry::program("bin/handfast", program.bytes.clone());
    let name = format!("{NAME}-linux-{}-{}.tgz", target.node(), product.version);
    Ok((name, packed(product, &manifest, documents, program, *compression)?))
}

/// Returns the package that users name, and the name of its file.
pub(crate) fn launcher(
    product: &Product,
    documents: &[Entry],
    compression: Compression,
) -> Result<(String, Vec<u8>)> {
    let mut manifest = manifest(product, NAME);
    manifest["bin"] = json!({NAME: "bin/handfast.js"});
    manifest["engines"] = json!({"node": ">=18"});
    let programs = Target::ALL.map(|target| (name(target), json!(product.version)));
    manifest["optionalDependencies"] = Value::Object(programs.into_iter().collect());
    let script = Entry::program("bin/handfast.js", include_str!("../files/handfast.js"));
    let name = format!("{NAME}-{}.tgz", product.version);
    Ok((name, packed(product, &manifest, documents, script, compression)?))
}

fn name(target: Target) -> String {
    format!("@{NAME}/linux-{}", target.node())
}

fn manifest(product: &Product, name: &str) -> Value {
    json!({
        "name": name,
        "version": product.version,
        "description": product.description,
        "license": product.licence,
        "repository": {"type": "git", "url": format!("git+{}.git", product.repository)},
        "homepage": product.repository,
    })
}

fn packed(
    product: &Product,
    manifest: &Value,
    documents: &[Entry],
    program: Entry,
    compression: Compression,
) -> Result<Vec<u8>> {
    let mut entries = documents.to_vec();
    entries.push(Entry::file("package.json", format!("{manifest:#}\n")));
    entries.push(program);
    gzip(&tar(FOLDER, &entries, product.time)?, compression)
}
