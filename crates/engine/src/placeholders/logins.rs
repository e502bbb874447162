//! Environment with which git, `gh`, `glab` and npm use the logins of a session by placeholders.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use vault::{ForgeKind, ForgeLogin};

/// Number of configuration values in git's environment, whose keys and values are in the variables
/// `GIT_CONFIG_KEY_<n>` and `GIT_CONFIG_VALUE_<n>` (`git-config(1)`).
const GIT_COUNT: &str = "GIT_CONFIG_COUNT";

/// A login that the programs of a session may use.
pub(super) struct SessionLogin<'a> {
    pub(super) login: &'a ForgeLogin,
    /// Hosts to which the login may be sent, each named by itself.
    pub(super) hosts: Vec<&'a str>,
    pub(super) placeholder: String,
}

impl SessionLogin<'_> {
    /// Returns a host with the port, as URLs name both.
    fn place(&self, host: &str) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        self.login.port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }

    /// Returns the places at which programs use the login.
    fn places(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().map(|host| self.place(host))
    }

    /// Returns the place that stands for the forge itself: the first host.
    fn forge(&self) -> Option<String> {
        self.places().next()
    }
}

/// Returns the variables by which git, `gh` and `glab` use the logins. Variables in `taken` stay.
pub(super) fn variables(
    logins: &[SessionLogin<'_>],
    taken: &BTreeMap<OsString, OsString>,
) -> Vec<(OsString, OsString)> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        if !taken.contains_key(OsStr::new(name)) {
            variables.entry(name.into()).or_insert_with(|| value.into());
        }
    };
    for login in logins {
        let Some(forge) = login.forge() else { continue };
        match login.login.kind {
            // `gh help environment`: one variable for github.com and ghe.com, the other for servers.
            ForgeKind::Github if forge == "github.com" => set("GH_TOKEN", &login.placeholder),
            ForgeKind::Github if forge.ends_with(".ghe.com") => {
                set("GH_TOKEN", &login.placeholder);
                set("GH_HOST", &forge);
            }
            ForgeKind::Github => {
                set("GH_ENTERPRISE_TOKEN", &login.placeholder);
                set("GH_HOST", &forge);
            }
            ForgeKind::Gitlab => {
                set("GITLAB_TOKEN", &login.placeholder);
                if forge != "gitlab.com" {
                    set("GITLAB_HOST", &forge);
                }
            }
            ForgeKind::Git | ForgeKind::Npm => {}
        }
    }
    variables.into_iter().chain(git_configuration(logins, taken)).collect()
}

/// Returns the variables that tell git the credentials, and that remotes over SSH are reached over
/// HTTPS. Values that the environment already has for git come first.
fn git_configuration(
    logins: &[SessionLogin<'_>],
    taken: &BTreeMap<OsString, OsString>,
) -> Vec<(OsString, OsString)> {
    let present = match taken.get(OsStr::new(GIT_COUNT)).map(|count| count.to_str()) {
        None => 0_usize,
        Some(count) => match count.and_then(|count| count.trim().parse().ok()) {
            Some(count) => count,
            // Git itself refuses such a count, so nothing is added to it.
            None => return Vec::new(),
        },
    };
    let mut values: Vec<(String, String)> = Vec::new();
    for login in logins.iter().filter(|login| login.login.kind != ForgeKind::Npm) {
        for host in &login.hosts {
            let place = login.place(host);
            values.push(("credential.helper".to_owned(), credential_command(login, &place)));
            // A large push over HTTP/2 can hang: libcurl before 8.2 asks git for more of a body that has
            // ended, and git waits for itself (git's pull request 1608, curl's 11342).
            values.push((format!("http.https://{place}/.version"), "HTTP/1.1".to_owned()));
            let key = format!("url.https://{place}/.insteadOf");
            let mut remotes =
                vec![format!("git@{host}:"), format!("ssh://git@{host}/"), format!("ssh://git@{host}:22/")];
            if login.login.kind == ForgeKind::Github && *host == "github.com" {
                // SSH through the port of HTTPS, as GitHub's documentation describes it.
                remotes.push("ssh://git@ssh.github.com:443/".to_owned());
            }
            values.extend(remotes.into_iter().map(|remote| (key.clone(), remote)));
        }
    }
    if values.is_empty() {
        return Vec::new();
    }
    let count = present.saturating_add(values.len());
    let numbered = values.into_iter().zip(present..).flat_map(|((key, value), number)| {
        [(format!("GIT_CONFIG_KEY_{number}"), key), (format!("GIT_CONFIG_VALUE_{number}"), value)]
    });
    let all = numbered.chain([(GIT_COUNT.to_owned(), count.to_string())]);
    all.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Returns git's credential helper for one place: a function of the shell that answers only questions
/// about this place over HTTPS (`gitcredentials(7)`).
fn credential_command(login: &SessionLogin<'_>, place: &str) -> String {
    let (user, place) = (quoted(&login.login.user), quoted(&format!("host={place}")));
    let password = &login.placeholder;
    format!(
        "!f() {{ test \"$1\" = get || return 0; p= h=; while read -r line; do case \"$line\" in \
         protocol=https) p=1;; {place}) h=1;; esac; done; test \"$p$h\" = 11 || return 0; \
         printf 'username=%s\\npassword=%s\\n' {user} {password}; }}; f"
    )
}

/// Quotes a text for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the lines of npm's configuration for the logins at registries.
pub(super) fn npm_configuration(logins: &[SessionLogin<'_>]) -> String {
    let registries = logins.iter().filter(|login| login.login.kind == ForgeKind::Npm);
    let lines = registries.flat_map(|login| {
        login.places().map(|place| format!("//{place}/:_authToken={}\n", login.placeholder))
    });
    lines.collect()
}

/// Returns the variable that leads npm to its configuration. The user's and the project's own
/// configuration stay in force.
pub(super) fn npm_variable(
    file: &Path,
    taken: &BTreeMap<OsString, OsString>,
) -> Option<(OsString, OsString)> {
    const NAME: &str = "npm_config_globalconfig";
    let is_taken = taken.keys().any(|name| name.eq_ignore_ascii_case(NAME));
    (!is_taken).then(|| (NAME.into(), file.into()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn login(kind: ForgeKind, port: Option<u16>) -> ForgeLogin {
        ForgeLogin::new(kind, "o'me", port).unwrap()
    }

    fn session<'a>(login: &'a ForgeLogin, hosts: &[&'a str]) -> SessionLogin<'a> {
        SessionLogin { login, hosts: hosts.to_vec(), placeholder: "handfast_secret_1".to_owned() }
    }

    fn set(variables: &[(OsString, OsString)], name: &str) -> Option<String> {
        let found = variables.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    }

    /// Runs git with the variables alone.
    #[expect(clippy::disallowed_methods, reason = "the test asks git itself")]
    fn git(variables: &[(OsString, OsString)], arguments: &[&str], input: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        std::fs::write(&file, input).unwrap();
        let run = Command::new("git")
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(variables.iter().cloned())
            .current_dir(folder.path())
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    }

    #[test]
    fn git_gets_the_credentials_of_its_host_and_of_no_other() {
        let (one, two) = (login(ForgeKind::Github, None), login(ForgeKind::Git, Some(8443)));
        let logins = [session(&one, &["github.com", "api.github.com"]), session(&two, &["forge.example"])];
        let variables = variables(&logins, &BTreeMap::new());
        for (protocol, host, gets) in [
            ("https", "github.com", true),
            ("https", "forge.example:8443", true),
            ("https", "forge.example", false),
            ("https", "github.com.evil.example", false),
            ("https", "githubxcom", false),
            ("http", "github.com", false),
        ] {
            let filled =
                git(&variables, &["credential", "fill"], &format!("protocol={protocol}\nhost={host}\n\n"));
            let credentials = filled.contains("username=o'me\npassword=handfast_secret_1\n");
            assert_eq!(credentials, gets, "{protocol} {host}: {filled}");
        }
        for (remote, url) in [
            ("git@github.com:me/site.git", "https://github.com/me/site.git"),
            ("ssh://git@github.com/me/site.git", "https://github.com/me/site.git"),
            ("ssh://git@github.com:22/me/site.git", "https://github.com/me/site.git"),
            ("ssh://git@ssh.github.com:443/me/site.git", "https://github.com/me/site.git"),
            ("git@forge.example:me/site.git", "https://forge.example:8443/me/site.git"),
            ("git@other.example:me/site.git", "git@other.example:me/site.git"),
        ] {
            assert_eq!(git(&variables, &["ls-remote", "--get-url", remote], "").trim(), url);
        }
        for (url, version) in
            [("https://forge.example:8443/me/site.git", "HTTP/1.1"), ("https://other.example/x.git", "")]
        {
            let matching = git(&variables, &["config", "--get-urlmatch", "http.version", url], "");
            assert_eq!(matching.trim(), version);
        }
    }

    #[test]
    fn each_client_gets_its_own_variables_and_none_that_the_user_set() {
        let github = login(ForgeKind::Github, None);
        let server = login(ForgeKind::Github, Some(8443));
        let gitlab = login(ForgeKind::Gitlab, None);
        let none = BTreeMap::new();
        let own = variables(&[session(&github, &["github.com"])], &none);
        assert_eq!((set(&own, "GH_TOKEN").is_some(), set(&own, "GH_HOST")), (true, None));
        let own = variables(&[session(&server, &["git.example.com"])], &none);
        assert!(set(&own, "GH_TOKEN").is_none() && set(&own, "GH_ENTERPRISE_TOKEN").is_some());
        assert_eq!(set(&own, "GH_HOST").as_deref(), Some("git.example.com:8443"));
        let own = variables(&[session(&gitlab, &["gitlab.com"])], &none);
        assert_eq!((set(&own, "GITLAB_TOKEN").is_some(), set(&own, "GITLAB_HOST")), (true, None));
        // Variables of the user's configuration stay, also for git.
        let taken: BTreeMap<OsString, OsString> =
            [("GH_TOKEN", "own"), (GIT_COUNT, "2")].map(|(name, value)| (name.into(), value.into())).into();
        let own = variables(&[session(&github, &["github.com"])], &taken);
        assert_eq!((set(&own, "GH_TOKEN"), set(&own, "GIT_CONFIG_KEY_1")), (None, None));
        assert_eq!(set(&own, "GIT_CONFIG_KEY_2").as_deref(), Some("credential.helper"));
        assert_eq!(set(&own, GIT_COUNT).as_deref(), Some("8"));
        // A login that goes to no host by name sets nothing.
        assert!(variables(&[session(&github, &[])], &none).is_empty());
    }

    #[test]
    fn npm_finds_the_token_of_each_registry() {
        let (one, two) = (login(ForgeKind::Npm, None), login(ForgeKind::Npm, Some(4873)));
        let github = login(ForgeKind::Github, None);
        let logins = [
            session(&one, &["registry.npmjs.org"]),
            session(&two, &["localhost"]),
            session(&github, &["github.com"]),
        ];
        assert_eq!(
            npm_configuration(&logins),
            "//registry.npmjs.org/:_authToken=handfast_secret_1\n//localhost:4873/:_authToken=handfast_secret_1\n"
        );
        let taken = BTreeMap::from([("NPM_CONFIG_GLOBALCONFIG".into(), "/own".into())]);
        assert!(npm_variable(Path::new("/f"), &taken).is_none());
        assert!(npm_variable(Path::new("/f"), &BTreeMap::new()).is_some());
    }
}
