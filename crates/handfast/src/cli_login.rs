//! The shape of `handfast login` and `handfast logout` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use vault::HostRule;

use crate::cli_values::time;
use crate::cli_vault::Forge;

#[derive(Debug, Subcommand)]
pub(crate) enum LoginCommand {
    /// Lets calls read and send the mail of a Gmail account.
    ///
    /// Prints the address at which you give access, and waits for the answer of your browser on a
    /// port of this machine. Ctrl-C ends the wait. From another machine, forward the port: `ssh -L
    /// 8765:127.0.0.1:8765 HOST`, then `handfast login gmail --port 8765` there.
    ///
    /// Google has to know the program that asks. Create an OAuth client of the type "Desktop app"
    /// in Google's console, download its file and name the file once with --client. Later logins
    /// take the client from the vault.
    ///
    /// Exits with 1 if access was refused, or nobody answered in time.
    Gmail(GmailLogin),
    /// Lets git, gh and other programs in calls use an account at GitHub.
    ///
    /// Takes a token, asks GitHub whose it is, and stores it in the vault. Calls get a placeholder:
    /// `git fetch`, `gh pr view` and whatever else reads pass where the hosts are allowed, and what
    /// writes asks first, with what it would do. Remotes over SSH are reached over HTTPS.
    ///
    /// A fine-grained token for the repositories that agents may see is the safest:
    /// https://github.com/settings/personal-access-tokens/new
    ///
    /// Exits with 1 if nobody was logged in.
    Github(KnownForgeLogin),
    /// Lets git, glab and other programs in calls use an account at GitLab.
    ///
    /// Works like `handfast login github`. A project access token is the safest.
    Gitlab(KnownForgeLogin),
    /// Lets git or npm in calls use an account at another host.
    Host(HostLogin),
    /// Lets calls use an MCP server of the configuration that wants a login.
    ///
    /// Asks the server for its authorization server, prints the address at which you give access,
    /// and waits for the answer of your browser on a port of this machine. Ctrl-C ends the wait. The
    /// tokens go to the vault, for the server alone; calls renew them.
    ///
    /// Exits with 1 if access was refused, or nobody answered in time.
    Mcp(McpLogin),
}

#[derive(Debug, Args)]
pub(crate) struct McpLogin {
    /// Key of the server in `mcp_servers`.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    /// Id of an OAuth client that the authorization server knows [default: a new one is registered].
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Requested scope; may be given several times [default: those that the server names].
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Port of this machine on which the browser answers [default: any free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Time to wait for the browser.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) wait: std::time::Duration,
    /// Open the address in this machine's browser as well.
    #[arg(long)]
    pub(crate) open: bool,
    /// Answer yes: add the rules to your configuration.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Leave your configuration as it is.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) no_rules: bool,
}

/// A host, and the port of its HTTPS server if the port is not 443.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl Place {
    /// Builds the place of a host at port 443.
    pub(crate) fn named(host: &str) -> Self {
        Self { host: host.to_owned(), port: None }
    }

    /// Parses `HOST` or `HOST:PORT`; a URL's scheme and its final slash are ignored.
    fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("https://").unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let (host, port) = match bare.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (host, Some(port.ok_or_else(|| format!("`{text}` has no valid port"))?))
            }
            None => (bare, None),
        };
        let rule = HostRule::parse(host).map_err(|error| error.to_string())?;
        let host = rule.single_host().ok_or("a login belongs to one host; name it without `*.`")?;
        Ok(Self { host: host.to_owned(), port: port.filter(|port| *port != 443) })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Source of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenSource {
    /// Typed or pasted at the terminal, or read from standard input.
    Paste,
    /// The token that `gh` uses on this machine.
    Gh,
    /// The password that git's credential helper has on this machine.
    Git,
    /// A new token, after a code is entered in a browser. Needs the id of an OAuth client.
    Device,
}

#[derive(Debug, Args)]
pub(crate) struct KnownForgeLogin {
    /// The company's own server, HOST or HOST:PORT [default: github.com or gitlab.com].
    #[arg(long, value_name = "HOST", value_parser = Place::parse)]
    pub(crate) host: Option<Place>,
    #[command(flatten)]
    pub(crate) login: ForgeLoginOptions,
}

#[derive(Debug, Args)]
pub(crate) struct HostLogin {
    /// The host: HOST or HOST:PORT.
    #[arg(value_name = "HOST", value_parser = Place::parse)]
    pub(crate) host: Place,
    /// Kind of the host.
    #[arg(long, value_name = "KIND", default_value = "git")]
    pub(crate) kind: Forge,
    #[command(flatten)]
    pub(crate) login: ForgeLoginOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ForgeLoginOptions {
    /// Source of the token.
    #[arg(long, value_name = "SOURCE", default_value = "paste")]
    pub(crate) from: TokenSource,
    /// Name of the user [default: the one that the host names for the token].
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Name of the secret in the vault [default: github_token, gitlab_token, or one after the host].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Id of the OAuth client for `--from device` [default: the one of the host in `login_clients` of
    /// your configuration].
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Accept a token that can do more than work in repositories, such as delete them.
    #[arg(long)]
    pub(crate) any_scope: bool,
    /// Answer yes: take a token from gh or git, and add the rules to your configuration.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Leave your configuration as it is.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) no_rules: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GmailLogin {
    /// File of the OAuth client, as Google's console provides it [default: HANDFAST_GMAIL_CLIENT_ID
    /// and HANDFAST_GMAIL_CLIENT_SECRET, else the client of the previous login].
    #[arg(long, value_name = "FILE")]
    pub(crate) client: Option<PathBuf>,
    /// Id of the OAuth client alone; HANDFAST_GMAIL_CLIENT_SECRET provides its secret, if it has one.
    #[arg(long, value_name = "ID", conflicts_with = "client")]
    pub(crate) client_id: Option<String>,
    /// Requested scope, as Google names it, for example
    /// https://www.googleapis.com/auth/gmail.readonly; may be given several times [default:
    /// gmail.readonly and gmail.send].
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Account to suggest in the browser.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) account: Option<String>,
    /// Port of this machine on which the browser answers [default: any free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Time to wait for the browser.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) wait: std::time::Duration,
    /// Open the address in this machine's browser as well.
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogoutCommand {
    /// Revokes the login at Google and removes it from the vault.
    Gmail {
        /// Remove the OAuth client as well, so that the next login needs it again.
        #[arg(long)]
        forget_client: bool,
    },
    /// Removes the login at GitHub from the vault. The token stays valid at GitHub.
    Github {
        /// The company's own server [default: github.com].
        #[arg(long, value_name = "HOST", value_parser = Place::parse)]
        host: Option<Place>,
    },
    /// Removes the login at GitLab from the vault. The token stays valid at GitLab.
    Gitlab {
        /// The company's own server [default: gitlab.com].
        #[arg(long, value_name = "HOST", value_parser = Place::parse)]
        host: Option<Place>,
    },
    /// Removes the login at another host from the vault. The token stays valid there.
    Host {
        /// The host: HOST or HOST:PORT.
        #[arg(value_name = "HOST", value_parser = Place::parse)]
        host: Place,
    },
    /// Removes the login at an MCP server from the vault. The tokens stay valid there until they expire.
    Mcp {
        /// Key of the server in `mcp_servers`.
        #[arg(value_name = "SERVER")]
        server: String,
    },
}
