//! The Python wheel: the program as a script, without Python code.

use std::io::{Cursor, Write};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::archive::Entry;
use crate::artefacts::Contents;
use crate::command::{Failure, Result};
use crate::product::{LANGUAGES, NAME, Product};

/// A program that a wheel installs.
struct Installed<'a> {
    /// Name of the program and of its package.
    name: &'a str,
    bytes: &'a [u8],
    summary: &'a str,
    description: String,
}

/// Returns the wheel and the name of its file.
pub(crate) fn package(contents: &Contents<'_>) -> Result<(String, Vec<u8>)> {
    let Contents { product, program, .. } = contents;
    let description = product.read("README.md")?;
    let (bytes, summary) = (program.bytes.as_slice(), product.description.as_str());
    wheel(contents, &Installed { name: NAME, bytes, summary, description })
}

/// Returns the wheel of the program with further languages, if there is one, and the name of its file.
pub(crate) fn languages(contents: &Contents<'_>) -> Result<Option<(String, Vec<u8>)>> {
    let Some(bytes) = &contents.program.languages else { return Ok(None) };
    let summary = "The grammars of C++ and C# for the code graph of Handfast";
    let description = format!(
        "{summary}. `handfast setup languages` installs it; by itself it does nothing for a person.\n"
    );
    wheel(contents, &Installed { name: LANGUAGES, bytes, summary, description }).map(Some)
}

fn wheel(contents: &Contents<'_>, installed: &Installed<'_>) -> Result<(String, Vec<u8>)> {
    let Contents { product, program, documents, .. } = contents;
    let version = version(&product.version)?;
    let (name, file) = (installed.name, installed.name.replace('-', "_"));
    let machine = program.target.python();
    // A static program runs with either C library; these are the oldest systems that the tags can name.
    let platforms = [
        format!("manylinux_2_17_{machine}"),
        format!("manylinux2014_{machine}"),
        format!("musllinux_1_1_{machine}"),
    ];
    let folder = format!("{file}-{version}.dist-info");
    let mut entries = vec![Entry::program(format!("{file}-{version}.data/scripts/{name}"), installed.bytes)];
    let licences = documents.iter().filter(|document| document.path.starts_with("LICENSE"));
    entries.extend(
        licences
            .clone()
            .map(|licence| Entry::file(format!("{folder}/licenses/{}", licence.path), licence.bytes.clone())),
    );
    let licences: Vec<&str> = licences.map(|licence| licence.path.as_str()).collect();
    entries
        .push(Entry::file(format!("{folder}/METADATA"), metadata(product, installed, &version, &licences)));
    entries.push(Entry::file(format!("{folder}/WHEEL"), about(product, &platforms)));
    let record = record(&entries, &folder);
    entries.push(Entry::file(format!("{folder}/RECORD"), record));
    let level = i64::from(contents.compression.level());
    let bytes =
        zipped(&entries, level).map_err(|error| Failure(format!("cannot write the wheel: {error}")))?;
    Ok((format!("{file}-{version}-py3-none-{}.whl", platforms.join(".")), bytes))
}

/// Returns the version in Python's form.
fn version(version: &str) -> Result<String> {
    let Some((release, before)) = version.split_once('-') else { return Ok(version.to_owned()) };
    let (phase, number) = before.split_once('.').unwrap_or((before, "0"));
    let phase = match phase {
        "alpha" => "a",
        "beta" => "b",
        "rc" => "rc",
        _ => {
            return Err(Failure(format!(
                "Python has no form of the version {version}; use alpha.N, beta.N or rc.N"
            )));
        }
    };
    Ok(format!("{release}{phase}{number}"))
}

fn metadata(product: &Product, installed: &Installed<'_>, version: &str, licences: &[&str]) -> String {
    let files: String = licences.iter().map(|licence| format!("License-File: {licence}\n")).collect();
    let Installed { name, summary, description, .. } = installed;
    format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: {summary}\nLicense-Expression: {}\n{files}\
         Project-URL: Source, {}\nClassifier: Operating System :: POSIX :: Linux\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{description}",
        product.licence, product.repository
    )
}

fn about(product: &Product, platforms: &[String]) -> String {
    let tags: String = platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    format!("Wheel-Version: 1.0\nGenerator: xtask-dist {}\nRoot-Is-Purelib: false\n{tags}", product.version)
}

/// Returns the list of the files with their hashes. It names itself without a hash.
fn record(entries: &[Entry], folder: &str) -> String {
    let lines = entries.iter().map(|entry| {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&entry.bytes));
        format!("{},sha256={hash},{}\n", entry.path, entry.bytes.len())
    });
    lines.chain([format!("{folder}/RECORD,,\n")]).collect()
}

fn zipped(entries: &[Entry], level: i64) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level))
            // The oldest time that the format has.
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode());
        archive.start_file(entry.path.as_str(), options)?;
        archive.write_all(&entry.bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_as_python_has_them() {
        assert_eq!(version("1.2.0").unwrap(), "1.2.0");
        assert_eq!(version("1.2.0-rc.3").unwrap(), "1.2.0rc3");
        assert!(version("1.2.0-nightly").unwrap_err().0.contains("1.2.0-nightly"));
    }

    #[test]
    fn the_record_has_every_file_in_the_hash_of_the_standard() {
        // The hash of the empty text, as RFC 4648 writes it for URLs.
        let record = record(&[Entry::file("a", "")], "x.dist-info");
        assert_eq!(record, "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx.dist-info/RECORD,,\n");
    }
}
