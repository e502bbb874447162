//! Recognition of the files in which toolchains and their users keep keys, by name and in some
//! cases by content.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Judgement of a file by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file is shown.
    Plain,
    /// The file holds a key or may hold one, and is hidden.
    Key,
    /// The content decides; see [`is_harmless`].
    AskContent,
}

/// Names of files that hold keys, alone or followed by one of [`DATA`]. Leading dots and
/// underscores do not count.
///
/// Sources: the manuals of cargo, npm, yarn, pip, twine, curl, `PostgreSQL`, git, Maven, Gradle,
/// `NuGet`, conda, `RubyGems`, Docker, `OpenSSH`, uv, Deno, SDKMAN, Composer and Google Cloud.
const KEYS: &[&str] = &[
    "access_token",
    "anaconda_token",
    "api_key",
    "apikey",
    "auth",
    "condarc",
    "credential",
    "credentials",
    "curlrc",
    "dockercfg",
    "dockerconfigjson",
    "env",
    "gemrc",
    "git-credentials",
    "gradle.properties",
    "htpasswd",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "mambarc",
    "netrc",
    "npmrc",
    "nuget.config",
    "pgpass",
    "pip.conf",
    "pip.ini",
    "pypirc",
    "secret",
    "service-account",
    "service_account",
    "settings-security.xml",
    "token",
    "wgetrc",
    "yarnrc",
];

/// Extensions of files that hold data and are no programs.
const DATA: &[&str] =
    &["cfg", "conf", "config", "db", "ini", "json", "json5", "properties", "toml", "xml", "yaml", "yml"];

/// Extensions of keys, certificates with keys, and stores of keys.
const KEY_ENDINGS: &[&str] = &["jks", "key", "keystore", "kdbx", "p12", "pem", "pfx", "ppk"];

/// Files that programs need and that hold a key only if somebody wrote one into them.
const ASKED: &[&str] = &[
    "config",
    "config.toml",
    "config.worktree",
    "fetch_head",
    "gitconfig",
    "head",
    "hooks.json",
    "pipx_metadata.json",
    "settings.xml",
    "uv-receipt.toml",
];

/// Bundles of public certificates, with which programs verify their peers.
const BUNDLES: &[&str] = &["ca-bundle.pem", "cacert.pem", "cert.pem", "roots.pem"];

/// Suffixes by which editors, package managers and people mark an older version of a file.
const BACKUPS: &[&str] = &[
    "~",
    ".backup",
    ".bak",
    ".bk",
    ".bkp",
    ".copy",
    ".disabled",
    ".dpkg-dist",
    ".dpkg-new",
    ".dpkg-old",
    ".new",
    ".off",
    ".old",
    ".orig",
    ".prev",
    ".rpmnew",
    ".rpmsave",
    ".save",
    ".saved",
    ".swn",
    ".swo",
    ".swp",
    ".tmp",
    "-backup",
    "-bak",
    "-copy",
    "-old",
    "_backup",
    "_bak",
    "_copy",
    "_old",
    " (copy)",
    " copy",
];

/// Maximum size in bytes of a file whose content is judged; a larger file is hidden.
const LARGEST: u64 = 1 << 20;

/// Extensions of programs and documents, which are most of a toolchain and need no further check.
const PROGRAMS: &[&[u8]] = &[
    b".a", b".c", b".cjs", b".css", b".go", b".h", b".hpp", b".html", b".js", b".md", b".mjs", b".mts",
    b".o", b".py", b".pyc", b".pyi", b".rb", b".rlib", b".rs", b".rst", b".so", b".ts", b".txt",
];

/// Returns true if the name of a file or folder may be relevant. Fast, because it runs for every entry.
pub(super) fn may_matter(name: &[u8]) -> bool {
    !PROGRAMS.iter().any(|ending| name.ends_with(ending))
}

/// Returns true if the name is that of a key or of a program, which the permission bits distinguish.
pub(super) fn is_ambiguous(name: &str) -> bool {
    !name.contains('.') && judge(name) == Verdict::Key
}

/// Returns true if the name is that of a bundle of public certificates.
pub(super) fn is_bundle(name: &str) -> bool {
    BUNDLES.contains(&&*name.to_lowercase())
}

/// Returns true if files of this name hold keys.
pub fn is_key_name(name: &str) -> bool {
    judge(name) == Verdict::Key
}

/// Judges a file by its name.
pub(super) fn judge(name: &str) -> Verdict {
    let lower = name.to_lowercase();
    if BUNDLES.contains(&&*lower) || ASKED.contains(&&*lower) {
        return Verdict::AskContent;
    }
    let is_key = |name: &str| {
        let bare = name.trim_start_matches(['.', '_']);
        let (stem, ending) = bare.rsplit_once('.').unwrap_or((bare, ""));
        KEYS.contains(&bare)
            || DATA.contains(&ending) && KEYS.contains(&stem)
            || KEY_ENDINGS.contains(&ending)
            // `.env.local` and similar names are keys; `env.py` is a program.
            || name.starts_with(".env.") && ending != "example"
    };
    // `env` without a dot is the script with which rustup, ghcup and others set variables.
    if lower != "env" && is_key(&lower) || versions_before(&lower).iter().any(|name| is_key(name)) {
        return Verdict::Key;
    }
    let was_asked = |name: &String| ASKED.contains(&&**name);
    if versions_before(&lower).iter().any(was_asked) { Verdict::AskContent } else { Verdict::Plain }
}

/// Returns the names of which this one is a backup: without its last backup suffix, without its
/// last two, and so on.
pub(super) fn versions_before(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = Cow::Borrowed(name);
    while let Some(before) = version_before(&rest).filter(|before| !before.is_empty() && found.len() < 4) {
        found.push(before.clone());
        rest = Cow::Owned(before);
    }
    found
}

fn version_before(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    // Files that Emacs saves automatically, and the links with which it locks.
    if let Some(inner) = name.strip_prefix('#').and_then(|name| name.strip_suffix('#')) {
        return Some(inner.to_owned());
    }
    if let Some(inner) = name.strip_prefix(".#") {
        return Some(inner.to_owned());
    }
    for ending in BACKUPS {
        if lower.ends_with(ending) && name.is_char_boundary(name.len() - ending.len()) {
            let inner = &name[..name.len() - ending.len()];
            // The swap file of `x` in Vim is `.x.swp`.
            let inner =
                if ending.starts_with(".sw") { inner.strip_prefix('.').unwrap_or(inner) } else { inner };
            return Some(inner.to_owned());
        }
    }
    // `x.1`, `x.~1~`, `x.20240131`, `x-2024-01-31`.
    let without = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "-_:~.T".contains(letter));
    let cut = &name[without.len()..];
    (cut.len() < name.len() && cut.starts_with(['.', '-', '_']) && cut.len() > 1).then(|| without.to_owned())
}

/// Returns true if a file that is judged by its content holds no key. A file that cannot be read is
/// not harmless.
pub(super) fn is_harmless(path: &Path) -> bool {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut content));
    if read.is_err() || content.len() as u64 > LARGEST {
        return false;
    }
    let text = String::from_utf8_lossy(&content);
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    if BUNDLES.contains(&&*name) || text.contains("-----BEGIN ") {
        return is_public_bundle(&text);
    }
    if name.starts_with("settings.xml") {
        return !has_credentials_in_address(&text) && has_only_sample_secrets(&text);
    }
    !has_credentials_in_address(&text) && !has_word_of_keys(&text)
}

/// Returns true if the text holds certificates and no other blocks.
fn is_public_bundle(text: &str) -> bool {
    const PUBLIC: [&str; 3] = ["CERTIFICATE-----", "TRUSTED CERTIFICATE-----", "X509 CRL-----"];
    let mut blocks = text.split("-----BEGIN ").skip(1).peekable();
    blocks.peek().is_some() && blocks.all(|block| PUBLIC.iter().any(|kind| block.starts_with(kind)))
}

/// Returns true if a URL in the text has a user or a password.
fn has_credentials_in_address(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let host =
            rest.split(|letter: char| letter == '/' || letter.is_whitespace() || "\"'<>".contains(letter));
        host.take(1).any(|host| host.contains('@') && !host.starts_with("git@"))
    })
}

/// Returns true if the text has a word that occurs in the names of settings for keys.
fn has_word_of_keys(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "_auth",
        "api-key",
        "api_key",
        "apikey",
        "authorization",
        "bearer",
        "credential",
        "extraheader",
        "passphrase",
        "passwd",
        "password",
        "private",
        "secret",
        "token",
    ];
    let text = text.to_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// Returns true if the text holds no secrets but the samples in the comments of Maven's own
/// settings file.
fn has_only_sample_secrets(text: &str) -> bool {
    const ELEMENTS: [&str; 4] = ["password", "passphrase", "privatekey", "value"];
    const SAMPLES: [&str; 5] =
        ["", "repopwd", "proxypass", "optional; leave empty if not used.", "/path/to/private/key"];
    let text = text.to_lowercase();
    ELEMENTS.iter().all(|element| {
        text.split(&format!("<{element}>")).skip(1).all(|rest| {
            let value = rest.split('<').next().unwrap_or(rest).trim();
            SAMPLES.contains(&value)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_their_backups_are_told_from_programs() {
        for name in [
            "credentials",
            "credentials.toml",
            "credentials.toml.bak",
            "Credentials.TOML~",
            ".credentials.json",
            "npmrc",
            ".npmrc",
            ".npmrc.orig",
            "pip.conf",
            "pip.conf.old",
            ".pypirc",
            "x.pem",
            "x.pem~",
            "x.key.2024-01-31",
            "#npmrc#",
            ".#auth.json",
            ".auth.json.swp",
            "auth.json",
            "token",
            ".env",
            ".env.local",
            "env~",
            "id_ed25519",
            "id_rsa.bak.1",
            "credentials (copy)",
            "settings-security.xml",
            ".condarc",
            "gemrc.bak",
            "netrc.~1~",
            "server.p12",
        ] {
            assert_eq!(judge(name), Verdict::Key, "{name}");
        }
        for name in [
            "credentials.py",
            "credentials.rs",
            "token.py",
            "auth.js",
            "secrets.py",
            "env",
            "env.sh",
            "tokenize.py",
            ".env.example",
            "key.rs",
            "keyring.py",
            "config.h",
            "npmrc.js",
            "netrc.py",
            "README",
            "libauth.so.1",
            "cargo",
        ] {
            assert_eq!(judge(name), Verdict::Plain, "{name}");
        }
        for name in [
            "config",
            "config.toml",
            "FETCH_HEAD",
            "settings.xml",
            "cacert.pem",
            "config.toml.bak",
            "uv-receipt.toml",
        ] {
            assert_eq!(judge(name), Verdict::AskContent, "{name}");
        }
    }

    #[test]
    fn content_is_harmless_only_without_anything_like_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let harmless = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            is_harmless(&path)
        };
        assert!(harmless("config.toml", "[net]\nretry = 3\n"));
        assert!(!harmless("config.toml", "[registry]\ntoken = \"x\"\n"));
        assert!(!harmless("config.toml", "index = \"https://me:x@host/index\"\n"));
        assert!(harmless("config", "[remote \"origin\"]\n\turl = https://host/a/b@v1\n"));
        assert!(!harmless("config", "[remote \"origin\"]\n\turl = https://x@host/a\n"));
        assert!(!harmless("config", "[http]\n\textraHeader = x\n"));
        assert!(harmless("settings.xml", "<settings><!-- <password>repopwd</password> --></settings>"));
        assert!(!harmless("settings.xml", "<settings><!-- <password>mine</password> --></settings>"));
        assert!(harmless(
            "cacert.pem",
            "# a name\n-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
        ));
        let with_key = "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\ny\n";
        assert!(!harmless("cacert.pem", with_key) && !harmless("cacert.pem", "anything"));
        assert!(!is_harmless(&folder.path().join("absent")));
    }
}
