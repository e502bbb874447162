//! Rules that let calls use a login: entries of lists in the user's configuration.

use policy::{List, Policy};

use crate::cli::Global;
use crate::commands::Failure;
use crate::config::USER_FILE;
use crate::configuration::Configuration;
use crate::host_environment::HostEnvironment;
use crate::report::note;
use crate::screen::lists;
use crate::screen::profile;
use crate::screen::state::Entry;

/// Returns the entries without which calls cannot use a secret at its hosts.
pub(super) fn missing(
    global: &Global,
    secret: &str,
    hosts: &[String],
    port: Option<u16>,
) -> Result<Vec<Entry>, Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let policy = Policy::compile(&configuration.setup()).map_err(Failure::usage)?;
    let mut entries = Vec::new();
    for host in hosts {
        if policy.host_verdict(host, port.unwrap_or(443)).is_err() {
            let text = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
            entries.push(Entry { list: List::AllowedHosts, text });
        }
    }
    for host in hosts.iter().filter(|host| !policy.lists_secret(secret, host)) {
        entries.push(Entry { list: List::AllowedSecrets, text: format!("{secret} at {host}") });
    }
    Ok(entries)
}

/// Describes the entries as the configuration would have them.
pub(super) fn shown(entries: &[Entry]) -> String {
    let of = |list: List| {
        let texts: Vec<String> = entries
            .iter()
            .filter(|entry| entry.list == list)
            .map(|entry| format!("{:?}", entry.text))
            .collect();
        (!texts.is_empty()).then(|| format!("{}: [{}]", list.key(), texts.join(", ")))
    };
    [List::AllowedHosts, List::AllowedSecrets].into_iter().filter_map(of).collect::<Vec<_>>().join("\n")
}

/// Adds the entries to the user's configuration.
pub(super) fn add(global: &Global, entries: &[Entry]) -> Result<(), Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let file = host_environment
        .configuration
        .map(|folder| folder.join(USER_FILE))
        .ok_or("there is no home folder for a configuration")?;
    let profile = profile(global, Some(&file));
    for entry in entries {
        lists::add(&file, &profile, entry)?;
    }
    note(&format!("profile `{profile}` in {} has the rules", file.display()));
    Ok(())
}
