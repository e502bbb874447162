//! Hosts that a line requests, as far as it names them. The list is for messages to callers without
//! a network.

use tool::CommandLine;

use super::programs::{DOWNLOADERS, base_name};
use super::reach::ReachedCommands;
use crate::host::normal_host;

/// Short options of programs that fetch, after which a value stands and not a host.
const WITH_A_VALUE: &str = "AbcCdDeEFHKmoPQrtTuUwxXyYz";

/// Lists the hosts in a line that are passed to programs which fetch from other machines, in order,
/// each once.
///
/// A host in this list may never be reached, so no caller may be let through because of it.
pub fn hosts_fetched(command: &CommandLine) -> Vec<String> {
    if !may_fetch(command) {
        return Vec::new();
    }
    let reached = ReachedCommands::by(command);
    let mut hosts: Vec<String> = Vec::new();
    for start in reached.starts().filter(|start| !start.inert) {
        let Some((program, operands)) = start.words.split_first() else { continue };
        if !DOWNLOADERS.contains(&base_name(program)) {
            continue;
        }
        let named = operands.iter().filter_map(|word| host_of_url(word));
        let mut found: Vec<String> = named.collect();
        if found.is_empty() {
            found.extend(bare_host(operands));
        }
        for host in found {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    hosts
}

/// Searches the text for the name of a program that fetches, which takes no time.
fn may_fetch(command: &CommandLine) -> bool {
    let names_one = |text: &String| DOWNLOADERS.iter().any(|program| text.contains(program));
    match command {
        CommandLine::Shell(line) => names_one(line),
        CommandLine::Argv(words) => words.iter().any(names_one),
        CommandLine::Typed { text, .. } => names_one(text),
    }
}

/// Returns the host of a word that is a URL, or that contains one as an option does:
/// `--url=https://example.com`.
fn host_of_url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    if scheme.ends_with("file") {
        return None;
    }
    host_of_authority(rest)
}

fn host_of_authority(text: &str) -> Option<String> {
    let authority = text.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next()?,
    };
    normal_host(host)
}

/// Returns the first operand that looks like a host, as in `curl example.com/a`.
fn bare_host(operands: &[String]) -> Option<String> {
    let mut before: Option<&String> = None;
    for word in operands {
        let is_value = before.is_some_and(|option| takes_a_value(option));
        before = Some(word);
        if is_value || word.starts_with(['-', '.', '/', '>', '<']) {
            continue;
        }
        let host = host_of_authority(word)?;
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        return (is_address || host.contains('.')).then_some(host);
    }
    None
}

fn takes_a_value(option: &str) -> bool {
    if option == ">" || option == "<" {
        return true;
    }
    let Some(short) = option.strip_prefix('-') else { return false };
    short.starts_with('-') && !short.contains('=') || short.ends_with(|last| WITH_A_VALUE.contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(line: &str) -> Vec<String> {
        hosts_fetched(&CommandLine::Shell(line.to_owned()))
    }

    #[test]
    fn hosts_of_programs_that_fetch_are_found_wherever_they_stand() {
        for (line, found) in [
            ("curl -s https://API.Example.com:8443/a?b", &["api.example.com"][..]),
            ("curl -sf http://user:pw@example.com/x | jq .", &["example.com"]),
            ("cd a && wget -q ftp://[2001:db8::1]/f -O out.html", &["2001:db8::1"]),
            ("timeout 5 curl --url=https://a.example https://b.example", &["a.example", "b.example"]),
            ("sh -c 'curl https://a.example'", &["a.example"]),
            ("curl -s -o page.html example.com/a", &["example.com"]),
            ("wget -qO- 93.184.216.34", &["93.184.216.34"]),
            ("for i in 1 2; do curl https://a.example/$i; done", &["a.example"]),
        ] {
            assert_eq!(hosts(line), found, "{line}");
        }
        let argv = ["/usr/bin/curl", "https://a.example"].map(str::to_owned).to_vec();
        assert_eq!(hosts_fetched(&CommandLine::Argv(argv)), ["a.example"]);
    }

    #[test]
    fn what_fetches_nothing_names_no_host() {
        for line in [
            "echo https://example.com",
            "grep -r curl https://example.com",
            "curl --version",
            "curl -o out.html",
            "curl file:///etc/passwd",
            "curl https://$HOST/a",
            "ls example.com",
        ] {
            assert_eq!(hosts(line), Vec::<String>::new(), "{line}");
        }
    }
}
