//! Detection of a missing network from the output of a command.
//!
//! A cell without a network has no resolver or proxy that would see the requested names, so the
//! output is the only evidence.

use sandbox::{CellSpec, Exit, Outcome};

/// Messages, in lower case, of programs that cannot reach another machine: the C libraries,
/// libcurl, git, ssh, Node, Go, Rust, Python, Java, .NET, package managers, database clients. A
/// refused connection is none of these.
const PHRASES: [&str; 29] = [
    "could not resolve host",
    "couldn't resolve host",
    "could not resolve proxy",
    "unable to resolve host",
    "nameresolutionerror",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "no address associated with hostname",
    "nodename nor servname provided",
    "network is unreachable",
    "network unreachable",
    "getaddrinfo failed",
    "getaddrinfo for host",
    "eai_again",
    "enotfound",
    "enetunreach",
    "dial tcp: lookup ",
    "dns error",
    "failed to lookup address",
    "could not translate host name",
    "unknown mysql server host",
    "unknownhostexception",
    "bad address '",
    "bad hostname '",
    "no servers could be reached",
    "err_name_not_resolved",
    "err_internet_disconnected",
    "resource temporarily unavailable (",
];

/// Messages for any failed connection. A message counts only if its line names the host, and the
/// host is another machine.
const OF_ANY_CONNECTION: [&str; 3] =
    ["could not connect to server", "couldn't connect to server", "failed to open tcp connection to "];

/// Messages of package managers that are offline or do not report the network, with the host that
/// they would have used.
const OFFLINE: [(&str, &str); 3] = [
    ("offline mode (--offline)", "index.crates.io"),
    ("but --offline was specified", "index.crates.io"),
    ("(from versions: none)", "pypi.org"),
];

/// Texts, in lower case, that precede the name of a host.
const BEFORE_A_HOST: [&str; 23] = [
    "resolve host: ",
    "resolve host ",
    "resolve hostname ",
    "resolve host address ",
    "resolve address for ",
    "failed to resolve ",
    "resolving ",
    "host=",
    "host name ",
    "server host ",
    "for host ",
    "bad address ",
    "bad hostname ",
    "lookup ",
    "eai_again ",
    "enotfound ",
    "enetunreach ",
    "unknownhostexception: ",
    "connect to ",
    "connection to ",
    "unavailable (",
    "not known (",
    "ping: ",
];

/// Maximum number of hosts that are reported.
const MAX_HOSTS: usize = 5;

/// Operators of a shell line that merge standard error into standard output.
pub(crate) const MERGES: [&str; 3] = ["2>&1", "&>", "|&"];

/// Returns the hosts that an ended command could not reach, as [`missed_hosts`] does.
pub(crate) fn missed_by(outcome: &Outcome, line: &str, cell: &CellSpec) -> Option<Vec<String>> {
    let merges = cell.terminal.is_some() || MERGES.iter().any(|merge| line.contains(merge));
    let [stderr, stdout] =
        [&outcome.stderr, &outcome.stdout].map(|stream| [&stream.head[..], &stream.tail[..]]);
    // If the streams are merged or the command failed, the reason may be in standard output.
    let is_told_there = merges || outcome.exit != Exit::Code(0);
    let told = if is_told_there { [stderr, stdout].concat() } else { stderr.to_vec() };
    // A program that succeeds without a network may report the failure on standard output. A
    // program that only reads may print the reports of others.
    let goes_on = || missed_hosts(&stdout, line).filter(|hosts| !hosts.is_empty() && !cell.reads_only);
    missed_hosts(&told, line).or_else(goes_on)
}

/// Returns the hosts that a command could not reach, according to its output and its line. Returns
/// `None` if it missed none, and an empty list if no text names the host.
pub(crate) fn missed_hosts(output: &[&[u8]], line: &str) -> Option<Vec<String>> {
    let mut missed = false;
    let mut hosts: Vec<String> = Vec::new();
    let texts: Vec<String> = output.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let small = line.to_ascii_lowercase();
        let tells = |phrases: &[&str]| phrases.iter().any(|phrase| small.contains(phrase));
        if let Some((_, host)) = OFFLINE.iter().find(|(phrase, _)| small.contains(phrase)) {
            missed = true;
            add(&mut hosts, (*host).to_owned());
        } else if tells(&PHRASES) {
            missed = true;
            if let Some(host) = host_of(&small) {
                add(&mut hosts, host);
            }
        } else if tells(&OF_ANY_CONNECTION)
            && let Some(host) = host_of(&small)
        {
            missed = true;
            add(&mut hosts, host);
        }
    }
    if missed && hosts.is_empty() {
        // The line with the reason is not always the line with the host.
        let of_url = |text: &String| text.lines().find_map(|line| url_host(&line.to_ascii_lowercase()));
        hosts.extend(texts.iter().find_map(of_url).or_else(|| url_host(line)));
    }
    missed.then_some(hosts)
}

fn add(hosts: &mut Vec<String>, host: String) {
    if hosts.len() < MAX_HOSTS && !hosts.contains(&host) {
        hosts.push(host);
    }
}

/// Returns the host that a line, in lower case, is about.
fn host_of(line: &str) -> Option<String> {
    let named = BEFORE_A_HOST.iter().find_map(|before| {
        let (_, rest) = line.split_once(before)?;
        host(rest)
    });
    named.or_else(|| url_host(line))
}

/// Returns the host of the first URL in a line.
fn url_host(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("://")?;
    let authority = rest.split(['/', '?', '#', ' ', '"', '\'', '`']).next()?;
    host(authority.rsplit('@').next()?)
}

/// Parses the host at the start of a text, with or without quotes and port.
fn host(text: &str) -> Option<String> {
    let text = text.trim_start_matches(|before: char| "'\"`‘’“”([{<".contains(before));
    let is_part =
        |character: &char| character.is_ascii_alphanumeric() || ['.', '-', '_', ':'].contains(character);
    let word: String = text.chars().take_while(is_part).collect();
    if word.trim_end_matches(':').parse::<std::net::IpAddr>().is_ok() {
        return Some(word.trim_end_matches(':').to_owned());
    }
    let name = word.split(':').next()?.trim_end_matches('.');
    let letters = name.chars().any(|character| character.is_ascii_alphabetic());
    let is_host =
        letters && name.contains('.') || name.parse::<std::net::IpAddr>().is_ok() || name == "localhost";
    is_host.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(output: &str) -> Option<Vec<String>> {
        missed_hosts(&[output.as_bytes()], "run it")
    }

    #[test]
    fn the_host_that_a_program_misses_is_read_from_what_it_says() {
        for (said, host) in [
            ("curl: (6) Could not resolve host: example.com", "example.com"),
            ("curl: (6) Couldn't resolve host 'example.com'", "example.com"),
            ("wget: unable to resolve host address ‘example.com’", "example.com"),
            ("wget: bad address 'example.com:80'", "example.com"),
            (
                "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
                "github.com",
            ),
            (
                "ssh: Could not resolve hostname github.com: Temporary failure in name resolution",
                "github.com",
            ),
            (
                "npm error request to https://registry.npmjs.org/a failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
                "registry.npmjs.org",
            ),
            ("Error: getaddrinfo ENOTFOUND api.example.com", "api.example.com"),
            (
                "urllib3: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded (Caused by NameResolutionError(\"Failed to resolve 'pypi.org' ([Errno -3] Temporary failure in name resolution)\"))",
                "pypi.org",
            ),
            (
                "error: Failed to fetch: `https://pypi.org/simple/a/`\n  Caused by: dns error: failed to lookup address information",
                "pypi.org",
            ),
            (
                "go: a@v1: Get \"https://proxy.golang.org/a\": dial tcp: lookup proxy.golang.org: connection refused",
                "proxy.golang.org",
            ),
            (
                "W: Failed to fetch http://deb.debian.org/debian  Temporary failure resolving 'deb.debian.org'",
                "deb.debian.org",
            ),
            ("java.net.UnknownHostException: repo.maven.org: Name or service not known", "repo.maven.org"),
            (
                "psql: error: could not translate host name \"db.example.com\" to address: Name or service not known",
                "db.example.com",
            ),
            ("ping: example.com: Temporary failure in name resolution", "example.com"),
            ("error NU1301: Name or service not known (api.nuget.org:443)", "api.nuget.org"),
            ("Error: connect ENETUNREACH 93.184.216.34:443", "93.184.216.34"),
            (
                "curl: (7) Failed to connect to 93.184.216.34 port 443 after 0 ms: Could not connect to server",
                "93.184.216.34",
            ),
            (
                "error: no matching package named `serde` found\nAs a reminder, you're using offline mode (--offline) which",
                "index.crates.io",
            ),
        ] {
            assert_eq!(missed(said), Some(vec![host.to_owned()]), "{said}");
        }
    }

    #[test]
    fn a_program_that_does_not_say_which_host_it_missed_misses_one() {
        for said in [
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "connect: Network is unreachable",
        ] {
            assert_eq!(missed(said), Some(Vec::new()), "{said}");
            let named = missed_hosts(&[said.as_bytes()], "python3 -c 'get(\"https://example.com/a\")'");
            assert_eq!(named, Some(vec!["example.com".to_owned()]), "{said}");
        }
    }

    #[test]
    fn other_failures_are_no_missing_network() {
        for said in [
            "",
            "curl: (7) Failed to connect to host",
            "error: test failed",
            "error[E0433]: failed to resolve: use of undeclared crate or module `a`",
            "Could not resolve \"react\"",
            "undefined reference to `getaddrinfo'",
            "connect ECONNREFUSED 127.0.0.1:3000",
            "see https://example.com for more",
        ] {
            assert_eq!(missed(said), None, "{said}");
        }
    }

    #[test]
    fn many_hosts_are_named_once_each_and_no_more_than_a_few() {
        let all: String =
            (0..20).map(|number| format!("Could not resolve host: h{}.example\n", number / 2)).collect();
        let hosts = missed(&all).unwrap();
        assert_eq!((hosts.len(), hosts[1].as_str()), (MAX_HOSTS, "h1.example"));
    }
}
