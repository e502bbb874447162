//! Strict reader of git's configuration files, which reports the programs that their settings run.
//!
//! The syntax is that of git-config(1), section "Configuration file". Unreadable text counts as a
//! reason to ask.

/// One setting of git's configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitSetting {
    /// Name of the section, in lower case.
    pub section: String,
    /// Name of the subsection, as written.
    pub subsection: Option<String>,
    /// Name of the key, in lower case.
    pub key: String,
    /// Value, or `true` if the key stands alone.
    pub value: String,
}

impl GitSetting {
    /// Returns the name as git spells it: section, subsection and key.
    pub fn name(&self) -> String {
        let subsection = self.subsection.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
        format!("{}{subsection}.{}", self.section, self.key)
    }

    /// Returns true if the setting is known to run no program and to lead git nowhere else.
    /// Examples are `user.name` and `remote.origin.url`.
    pub fn runs_nothing(&self) -> bool {
        // `ext::COMMAND` is a transport that runs a command, and other helpers are programs too. A
        // leading dash may start an option.
        if self.value.contains("::") || self.value.starts_with('-') {
            return false;
        }
        let listed = |table: &[(&str, &[&str])]| {
            table.iter().any(|(name, keys)| *name == self.section && keys.contains(&self.key.as_str()))
        };
        // `!COMMAND` is the only value of this key that runs a program.
        if (self.section.as_str(), self.key.as_str()) == ("submodule", "update") {
            return ["none", "checkout", "rebase", "merge"].contains(&self.value.as_str());
        }
        let is_shown = SHOWN.contains(&self.section.as_str());
        is_shown || if self.subsection.is_some() { listed(NAMED) } else { listed(PLAIN) }
    }

    /// Returns the file of further settings that this setting includes, always or on a condition.
    pub fn included(&self) -> Option<&str> {
        let includes = self.key == "path" && ["include", "includeif"].contains(&self.section.as_str());
        includes.then_some(self.value.as_str())
    }
}

/// Keys of sections without a subsection.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "quotepath",
            "abbrev",
            "compression",
            "loosecompression",
            "bigfilethreshold",
            "untrackedcache",
            "preloadindex",
            "trustctime",
            "checkstat",
            "commentchar",
            "commentstring",
            "whitespace",
            "sparsecheckout",
            "sparsecheckoutcone",
            "protecthfs",
            "protectntfs",
            "longpaths",
            "commitgraph",
            "multipackindex",
        ],
    ),
    ("user", &["name", "email", "signingkey", "useconfigonly"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff", "octopus"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("fetch", &["prune", "prunetags", "parallel", "fsckobjects", "output"]),
    (
        "merge",
        &["conflictstyle", "ff", "log", "renames", "renamelimit", "stat", "autostash", "directoryrenames"],
    ),
    (
        "rebase",
        &["autosquash", "autostash", "updaterefs", "stat", "missingcommitscheck", "abbreviatecommands"],
    ),
    (
        "diff",
        &[
            "algorithm",
            "renames",
            "renamelimit",
            "colormoved",
            "colormovedws",
            "mnemonicprefix",
            "noprefix",
            "context",
            "interhunkcontext",
            "submodule",
            "wserrorhighlight",
            "ignoresubmodules",
            "indentheuristic",
            "relative",
            "statgraphwidth",
            "suppressblankempty",
        ],
    ),
    ("commit", &["verbose", "cleanup", "status"]),
    ("tag", &["sort"]),
    ("rerere", &["enabled", "autoupdate"]),
    ("gc", &["auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire", "writecommitgraph"]),
    ("index", &["version", "threads", "sparse", "skiphash"]),
    ("feature", &["manyfiles", "experimental"]),
    ("pack", &["threads", "window", "depth", "writebitmaphashcache", "compression"]),
    ("receive", &["denycurrentbranch", "denynonfastforwards", "denydeletes", "fsckobjects"]),
    ("transfer", &["fsckobjects"]),
    (
        "extensions",
        &[
            "objectformat",
            "refstorage",
            "partialclone",
            "compatobjectformat",
            "worktreeconfig",
            "relativeworktrees",
        ],
    ),
    ("submodule", &["recurse", "active"]),
    ("log", &["date", "decorate", "follow", "abbrevcommit", "graphcolors"]),
    ("status", &["short", "branch", "showuntrackedfiles", "submodulesummary", "renames", "aheadbehind"]),
    ("stash", &["showincludeuntracked", "showpatch", "showstat"]),
    ("apply", &["whitespace", "ignorewhitespace"]),
    ("checkout", &["defaultremote", "guess", "workers"]),
    ("clean", &["requireforce"]),
    ("i18n", &["commitencoding", "logoutputencoding"]),
    ("lfs", &["repositoryformatversion"]),
];

/// Keys of sections with a subsection.
const NAMED: &[(&str, &[&str])] = &[
    (
        "remote",
        &[
            "url",
            "pushurl",
            "fetch",
            "push",
            "tagopt",
            "prune",
            "prunetags",
            "mirror",
            "skipdefaultupdate",
            "skipfetchall",
            "promisor",
            "partialclonefilter",
            "followremotehead",
            "gh-resolved",
        ],
    ),
    (
        "branch",
        &["remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base", "gh-merge-base"],
    ),
    ("submodule", &["url", "active", "path", "branch", "ignore", "shallow", "fetchrecursesubmodules"]),
];

/// Sections in which every key only changes the display.
const SHOWN: &[&str] = &["color", "advice", "column"];

/// Reads all settings in their order. Returns `None` if the text is not plainly git's configuration.
pub fn git_settings(text: &[u8]) -> Option<Vec<GitSetting>> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    if text.contains(['\r', '\0']) {
        return None;
    }
    let mut rest = Cursor(text.as_str());
    let mut header: Option<(String, Option<String>)> = None;
    let mut settings = Vec::new();
    loop {
        rest.skip(|letter| letter.is_ascii_whitespace());
        match rest.peek() {
            None => return Some(settings),
            Some('#' | ';') => rest.skip(|letter| letter != '\n'),
            Some('[') => header = Some(rest.header()?),
            Some(_) => {
                let (section, subsection) = header.clone()?;
                let (key, value) = rest.entry()?;
                settings.push(GitSetting { section, subsection, key, value });
            }
        }
    }
}

/// The unread rest of a text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut letters = self.0.chars();
        let letter = letters.next();
        self.0 = letters.as_str();
        letter
    }

    fn skip(&mut self, passes: impl Fn(char) -> bool) {
        self.0 = self.0.trim_start_matches(passes);
    }

    fn name(&mut self, passes: impl Fn(char) -> bool) -> String {
        let end = self.0.find(|letter| !passes(letter)).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        self.0 = rest;
        name.to_ascii_lowercase()
    }

    /// Reads `[section]`, `[section.subsection]` or `[section "subsection"]`.
    fn header(&mut self) -> Option<(String, Option<String>)> {
        self.next();
        let name = self.name(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.');
        if name.is_empty() {
            return None;
        }
        let (name, mut subsection) = match name.split_once('.') {
            Some((name, subsection)) => (name.to_owned(), Some(subsection.to_owned())),
            None => (name, None),
        };
        if self.peek() == Some(' ') || self.peek() == Some('\t') {
            self.skip(|letter| letter == ' ' || letter == '\t');
            if self.next() != Some('"') || subsection.is_some() {
                return None;
            }
            let mut quoted = String::new();
            loop {
                match self.next()? {
                    '"' => break,
                    '\\' => quoted.push(self.next().filter(|letter| *letter != '\n')?),
                    '\n' => return None,
                    letter => quoted.push(letter),
                }
            }
            subsection = Some(quoted);
        }
        (self.next() == Some(']')).then_some((name, subsection))
    }

    /// Reads `key`, or `key = value` up to the end of the line.
    fn entry(&mut self) -> Option<(String, String)> {
        if !self.peek()?.is_ascii_alphabetic() {
            return None;
        }
        let key = self.name(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        self.skip(|letter| letter == ' ' || letter == '\t');
        match self.peek() {
            None | Some('\n' | '#' | ';') => {
                self.skip(|letter| letter != '\n');
                return Some((key, "true".to_owned()));
            }
            Some('=') => self.next(),
            Some(_) => return None,
        };
        self.skip(|letter| letter == ' ' || letter == '\t');
        self.value().map(|value| (key, value))
    }

    fn value(&mut self) -> Option<String> {
        let mut value = String::new();
        // Blanks up to this length belong to the value, because they were quoted or escaped.
        let mut kept = 0;
        let mut quoted = false;
        loop {
            match self.next() {
                None | Some('\n') if quoted => return None,
                None | Some('\n') => break,
                Some('#' | ';') if !quoted => {
                    self.skip(|letter| letter != '\n');
                    break;
                }
                Some('"') => {
                    quoted = !quoted;
                    kept = value.len();
                }
                Some('\\') => {
                    match self.next()? {
                        '\n' => continue,
                        'n' => value.push('\n'),
                        't' => value.push('\t'),
                        'b' => value.push('\u{8}'),
                        letter @ ('"' | '\\') => value.push(letter),
                        _ => return None,
                    }
                    kept = value.len();
                }
                Some(letter) => {
                    value.push(letter);
                    if quoted || !letter.is_ascii_whitespace() {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN_REPOSITORY: &str =
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";

    fn asks_about(text: &[u8]) -> bool {
        git_settings(text).is_none_or(|settings| settings.iter().any(|setting| !setting.runs_nothing()))
    }

    fn asks(added: &str) -> bool {
        asks_about(format!("{PLAIN_REPOSITORY}{added}").as_bytes())
    }

    #[test]
    fn what_init_commit_and_remote_add_write_passes() {
        assert!(!asks(""));
        for added in [
            "[user]\n\tname = Ann # me\n\temail = \"a@b\"\n",
            "[remote \"origin\"]\n\turl = https://example.org/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[color \"diff\"] meta = yellow\n",
            "[color] ui\n",
            "; nothing\n\n",
            "[submodule \"s\"]\n\tupdate = rebase\n",
            "[extensions]\n\tworktreeConfig = true\n",
        ] {
            assert!(!asks(added), "{added}");
        }
    }

    #[test]
    fn what_runs_a_program_or_leads_elsewhere_is_asked_about_in_any_spelling() {
        for added in [
            "[core]\n\thooksPath = x\n",
            "[CORE]\nFSMonitor=./x\n",
            "[core] sshCommand = \"x\"\n",
            "[alias]\n\tst = !x\n",
            "[filter \"f\"]\n\tclean = x\n",
            "[include]\n\tpath = x\n",
            "[submodule \"s\"]\n\tupdate = !x\n",
            "[includeIf \"gitdir:/\"]\n\tpath = x\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\tvcs = x\n",
            "[remote \"o\"]\n\tuploadpack = x\n",
            "[branch \"b\"]\n\tremote = ext::x\n",
            "[core]\n\tworktree = /home/ann\n",
            "[credential \"https://x\"]\n\thelper = !x\n",
            "[diff \"x\"]\n\ttextconv = x\n",
            "[diff]\n\texternal = x\n",
            "[core.x]\n\tname = y\n",
            "[user]\n\tname = a\\\n[core]hooksPath=x\n[core]\n\thooksPath = y\n",
            "[user \"x]\n",
            "name\n",
            "[user]\n\tname = \"open\n",
            "[user]\n\tname = a\\q\n",
            "\u{0}",
            "[user]\r[core]\rhooksPath=x\r",
        ] {
            assert!(asks(added), "{added:?}");
        }
        assert!(asks_about(b"[user]\n\xff"));
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = b"[a \"b\\\"c\"]k = \"x  \"  y ; z\n l = 1\\\n2\n m\n";
        let section = |key: &str, value: &str| GitSetting {
            section: "a".to_owned(),
            subsection: Some("b\"c".to_owned()),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(
            git_settings(text),
            Some(vec![section("k", "x    y"), section("l", "12"), section("m", "true")])
        );
    }
}
