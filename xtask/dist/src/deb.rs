//! The Debian package: the program, man pages, completions and licences, where Debian has them.
//!
//! It has no dependencies, because the program is static. On a machine that permits user namespaces only to
//! programs with an AppArmor profile, its scripts install and remove that profile.

use flate2::Compression;

use crate::archive::{Entry, gzip, length, tar};
use crate::artefacts::Contents;
use crate::command::{Failure, Result};
use crate::product::{MAINTAINER, NAME, Product};

/// Scripts that dpkg runs.
const SCRIPTS: [(&str, &str); 2] =
    [("postinst", include_str!("../files/postinst")), ("prerm", include_str!("../files/prerm"))];

/// Returns the version in Debian's form, in which a pre-release precedes its release.
pub(crate) fn version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// Returns the package and the name of its file.
pub(crate) fn package(contents: &Contents<'_>) -> Result<(String, Vec<u8>)> {
    let (product, compression) = (contents.product, contents.compression);
    let files = files(contents)?;
    let control = control(contents, &files);
    let mut about = vec![Entry::file("control", control)];
    about.extend(SCRIPTS.map(|(name, text)| Entry::program(name, text)));
    let about = gzip(&tar("./", &about, product.time)?, compression)?;
    let data = gzip(&tar("./", &files, product.time)?, compression)?;
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &about), ("data.tar.gz", &data)]
    {
        let mut header = ar::Header::new(name.into(), length(bytes)?);
        header.set_mode(0o100_644);
        header.set_mtime(product.time);
        archive
            .append(&header, bytes)
            .map_err(|error| Failure(format!("cannot add {name} to the package: {error}")))?;
    }
    let name = format!("{NAME}_{}_{}.deb", version(&product.version), contents.program.target.debian());
    let bytes =
        archive.into_inner().map_err(|error| Failure(format!("cannot finish the package: {error}")))?;
    Ok((name, bytes))
}

fn files(contents: &Contents<'_>) -> Result<Vec<Entry>> {
    let Contents { product, program, texts, documents, .. } = contents;
    let documentation = |name: &str| format!("usr/share/doc/{NAME}/{name}");
    let mut files = vec![
        Entry::program("usr/bin/handfast", program.bytes.clone()),
        Entry::file("usr/share/bash-completion/completions/handfast", texts.bash.clone()),
        Entry::file("usr/share/fish/vendor_completions.d/handfast.fish", texts.fish.clone()),
        Entry::file("usr/share/zsh/vendor-completions/_handfast", texts.zsh.clone()),
        Entry::file(documentation("copyright"), copyright(product)?),
    ];
    for page in &texts.pages {
        let path = format!("usr/share/man/man1/{}.gz", page.path);
        files.push(Entry::file(path, gzip(&page.bytes, Compression::best())?));
    }
    for document in documents.iter().filter(|document| !document.path.starts_with("LICENSE-")) {
        let is_changelog = document.path == "CHANGELOG.md";
        let name = if is_changelog { "changelog" } else { &document.path };
        files.push(Entry::file(
            documentation(&format!("{name}.gz")),
            gzip(&document.bytes, Compression::best())?,
        ));
    }
    Ok(files)
}

fn control(contents: &Contents<'_>, files: &[Entry]) -> String {
    let product = contents.product;
    let kibibytes = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum::<usize>();
    let fields = [
        ("Package", NAME.to_owned()),
        ("Version", version(&product.version)),
        ("Architecture", contents.program.target.debian().to_owned()),
        ("Maintainer", MAINTAINER.to_owned()),
        ("Installed-Size", kibibytes.to_string()),
        ("Suggests", "git, bubblewrap".to_owned()),
        ("Section", "devel".to_owned()),
        ("Priority", "optional".to_owned()),
        ("Homepage", product.repository.clone()),
        ("Description", format!("tools for AI agents, in a sandbox\n {}", product.description)),
    ];
    fields.map(|(name, value)| format!("{name}: {value}\n")).concat()
}

/// Returns the copyright file in Debian's machine-readable form.
fn copyright(product: &Product) -> Result<String> {
    let mit = product.read("LICENSE-MIT")?;
    let holder = mit.lines().next().unwrap_or_default().trim_start_matches("Copyright (c) ");
    let terms =
        mit.lines().skip(2).map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: {NAME}\nSource: {}\n\
         Comment: LICENSES-THIRD-PARTY.txt.gz has the licences of everything that is linked into the program.\n\n\
         Files: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n\n\
         License: Expat\n{}\n\n\
         License: Apache-2.0\n On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.\n",
        product.repository,
        terms.collect::<Vec<_>>().join("\n")
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pre_release_sorts_before_its_release() {
        assert_eq!(super::version("1.2.0"), "1.2.0");
        assert_eq!(super::version("1.2.0-rc.1"), "1.2.0~rc.1");
    }
}
