//! The artefacts of a release: what each contains, their files, their checksums.

use std::path::{Path, PathBuf};

use flate2::Compression;
use sha2::{Digest, Sha256};

use crate::archive::{Entry, gzip, tar};
use crate::command::{Failure, Result};
use crate::packages::Package;
use crate::product::{NAME, Product};
use crate::program::Program;
use crate::target::Target;
use crate::texts::Texts;
use crate::{deb, licences, npm, packages, sbom, wheel};

/// The form of an artefact, which decides how it is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Archive,
    Deb,
    /// The npm package with the program of one architecture.
    NpmProgram,
    /// The npm package that users name. It starts the program of the other package.
    NpmLauncher,
    Wheel,
    /// The wheel of the program with further languages, which the main one installs.
    Languages,
    Text,
}

/// One file of a release.
pub(crate) struct Artefact {
    pub(crate) form: Form,
    /// The architecture, unless the artefact is for all.
    pub(crate) target: Option<Target>,
    pub(crate) path: PathBuf,
    pub(crate) size: usize,
    pub(crate) hash: String,
}

/// The contents that every form packs.
pub(crate) struct Contents<'a> {
    pub(crate) product: &'a Product,
    pub(crate) program: &'a Program,
    pub(crate) texts: &'a Texts,
    /// Licences and the read-me, at the top of every archive.
    pub(crate) documents: &'a [Entry],
    pub(crate) compression: Compression,
}

/// Writes every artefact, the checksums last.
pub(crate) fn write_all(
    product: &Product,
    programs: &[Program],
    out: &Path,
    compression: Compression,
) -> Result<Vec<Artefact>> {
    let targets: Vec<Target> = programs.iter().map(|program| program.target).collect();
    let packages = packages::all(product, &targets)?;
    let texts = Texts::of_one(programs)?;
    let documents = documents(product, &packages)?;
    let mut artefacts = Vec::new();
    let mut add = |form, target, name: String, bytes: &[u8]| -> Result<()> {
        let path = out.join(name);
        std::fs::write(&path, bytes)
            .map_err(|error| Failure(format!("cannot write {}: {error}", path.display())))?;
        artefacts.push(Artefact { form, target, path, size: bytes.len(), hash: sha256(bytes) });
        Ok(())
    };
    for program in programs {
        let contents = Contents { product, program, texts: &texts, documents: &documents, compression };
        let target = Some(program.target);
        let (name, bytes) = archive(&contents)?;
        add(Form::Archive, target, name, &bytes)?;
        let (name, bytes) = deb::package(&contents)?;
        add(Form::Deb, target, name, &bytes)?;
        let (name, bytes) = npm::program(&contents)?;
        add(Form::NpmProgram, target, name, &bytes)?;
        let (name, bytes) = wheel::package(&contents)?;
        add(Form::Wheel, target, name, &bytes)?;
        if let Some((name, bytes)) = wheel::languages(&contents)? {
            add(Form::Languages, target, name, &bytes)?;
        }
    }
    let (name, bytes) = npm::launcher(product, &documents, compression)?;
    add(Form::NpmLauncher, None, name, &bytes)?;
    add(Form::Text, None, "Containerfile".to_owned(), containerfile(product).as_bytes())?;
    let sbom = sbom::document(product, &packages)?;
    add(Form::Text, None, format!("{NAME}-{}.cdx.json", product.version), sbom.as_bytes())?;
    let sums = checksums(&artefacts);
    let path = out.join("SHA256SUMS");
    std::fs::write(&path, sums)
        .map_err(|error| Failure(format!("cannot write {}: {error}", path.display())))?;
    Ok(artefacts)
}

/// Returns the lines that are printed at the end: each artefact, its size, and how it was tried.
pub(crate) fn summary(artefacts: &[Artefact], tried: &[(PathBuf, String)]) -> String {
    let line = |artefact: &Artefact| {
        let trial = tried.iter().find(|(path, _)| *path == artefact.path);
        let trial = trial.map_or("", |(_, outcome)| outcome);
        format!("{:>10}  {}  {}  {trial}", artefact.size, artefact.hash, file_name(&artefact.path))
            .trim_end()
            .to_owned()
    };
    artefacts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the hash in lower-case hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the last part of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the texts that go into every artefact.
fn documents(product: &Product, packages: &[Package]) -> Result<Vec<Entry>> {
    let mut documents = Vec::new();
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        documents.push(Entry::file(name, product.read(name)?));
    }
    documents.push(Entry::file("LICENSES-THIRD-PARTY.txt", licences::text(packages)?));
    Ok(documents)
}

/// Returns the archive for every system: program, texts of the shells, man pages, licences.
fn archive(contents: &Contents<'_>) -> Result<(String, Vec<u8>)> {
    let Contents { product, program, texts, documents, compression } = contents;
    let name = format!("{NAME}-{}-{}", product.version, program.target);
    let mut entries = documents.to_vec();
    entries.push(Entry::program(NAME, program.bytes.clone()));
    entries.push(Entry::file("completions/handfast.bash", texts.bash.clone()));
    entries.push(Entry::file("completions/handfast.fish", texts.fish.clone()));
    entries.push(Entry::file("completions/_handfast", texts.zsh.clone()));
    let pages =
        texts.pages.iter().map(|page| Entry::file(format!("man/man1/{}", page.path), page.bytes.clone()));
    entries.extend(pages);
    let bytes = tar(&format!("{name}/"), &entries, product.time)?;
    Ok((format!("{name}.tar.gz"), gzip(&bytes, *compression)?))
}

/// Returns the container file, which installs the Debian package next to it.
fn containerfile(product: &Product) -> String {
    include_str!("../files/Containerfile").replace("@VERSION@", &deb::version(&product.version))
}

/// Returns the checksums in the form of `sha256sum`.
fn checksums(artefacts: &[Artefact]) -> String {
    let mut lines: Vec<(String, &str)> =
        artefacts.iter().map(|artefact| (file_name(&artefact.path), artefact.hash.as_str())).collect();
    lines.sort();
    lines.into_iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect()
}
