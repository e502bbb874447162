//! The merged result of all files, each entry with its origin: the output of `handfast policy show`.

use serde::Serialize;

use crate::merge::MergedSources;
use crate::policy::built_in_denied_reads;
use crate::{Limits, List, Origin, Policy, PolicyError, Rule, Setup, Trust, Warning};

/// One entry or setting, with its validity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownEntry {
    /// Entry, with its key, its profile and its place.
    #[serde(flatten)]
    pub rule: Rule,
    /// True if the entry counts. An entry that an untrusted file may not set does not count.
    pub counts: bool,
    /// Further remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Returns everything that decides under the chosen profile, in the order of the keys, and the ignored keys
/// of untrusted files. `built_in` gives the limits that are in force if no file names them.
///
/// # Errors
/// Returns the errors of [`Policy::compile`].
pub fn show(setup: &Setup<'_>, built_in: Limits) -> Result<Vec<ShownEntry>, PolicyError> {
    let policy = Policy::compile(setup)?;
    let merged = MergedSources::new(setup.sources);
    let lineage = merged.lineage(setup.profile)?;
    let mut shown = Vec::new();
    let mut add = |rule: Rule, note: Option<&str>| {
        shown.push(ShownEntry { rule, counts: true, note: note.map(str::to_owned) });
    };
    for child in &lineage {
        if let Some((parent, origin)) = merged.parent(child) {
            let rule = Rule { key: "inherit", entry: parent, profile: child.as_str().into(), origin };
            add(rule, None);
        }
    }
    let (mode, origin) = &policy.mode;
    add(policy.setting("mode", mode.as_str(), origin.clone()), None);
    let (dangerous, origin) = &policy.dangerous;
    add(policy.setting("dangerous", dangerous.as_str(), origin.clone()), None);
    let (undoable, origin) = &policy.undoable;
    add(policy.setting("undoable", undoable.as_str(), origin.clone()), None);
    let (unlisted_hosts, origin) = &policy.unlisted_hosts;
    add(policy.setting("unlisted_hosts", unlisted_hosts.as_str(), origin.clone()), None);
    let (commands_see, origin) = &policy.commands_see;
    add(policy.setting("commands_see", commands_see.as_str(), origin.clone()), None);
    let (parent_may_answer, origin) = &policy.parent_may_answer;
    add(policy.setting("parent_may_answer", parent_may_answer.as_str(), origin.clone()), None);
    let (callers_over, origin) = &policy.callers_over;
    if let Some(rule) = callers_over.entry() {
        add(policy.setting("impact", &rule, origin.clone()), None);
    }
    let (isolation, origin) = &policy.isolation;
    add(policy.setting("isolation", isolation.as_str(), origin.clone()), None);
    for (key, (on, origin)) in [
        ("strict", merged.is_on(setup.profile, "strict", |source| source.strict)),
        (
            "deny_ignore_case",
            merged.is_on(setup.profile, "deny_ignore_case", |source| source.deny_ignore_case),
        ),
    ] {
        add(policy.setting(key, if on { "true" } else { "false" }, origin), None);
    }
    for (key, value) in policy.limits_over(built_in).named() {
        let origin = merged.limit_origin(setup.profile, key, value);
        add(policy.setting(key, &value.to_string(), origin), None);
    }
    for list in List::ALL {
        if list.denies() {
            let denied = merged.denied(setup.profile, list);
            if list == List::DenyReadPaths && !denied.named {
                for rule in built_in_denied_reads(setup.profile) {
                    add(rule, None);
                }
            }
            for rule in denied.lists.into_iter().flatten() {
                add(rule, None);
            }
            continue;
        }
        let allowed = merged.allowed(&lineage, list);
        if allowed.default && matches!(list, List::AllowedReadPaths | List::AllowedWritePaths) {
            add(policy.setting(list.key(), "(the workspace)", Origin::BuiltIn), Some("no list is set"));
        }
        for rule in allowed.lists.into_iter().flatten() {
            let inherited = (*rule.profile != *setup.profile).then_some("inherited");
            add(rule, inherited);
        }
    }
    for (path, rule) in &policy.protected {
        let entry = path.display().to_string();
        add(Rule { entry, ..rule.clone() }, Some("no tool can write it"));
    }
    shown.extend(of_untrusted(&policy, setup));
    Ok(shown)
}

/// Returns the keys of untrusted files in the chosen profile that do not count as written, and
/// their allow lists.
fn of_untrusted(policy: &Policy, setup: &Setup<'_>) -> Vec<ShownEntry> {
    let profile = setup.profile;
    let ignored =
        |rule| ShownEntry { rule, counts: false, note: Some("ignored: the file is not trusted".to_owned()) };
    let mut shown = Vec::new();
    for source in setup.sources.iter().filter(|source| source.trust == Trust::Untrusted) {
        for list in List::ALL.into_iter().filter(|list| !list.denies()) {
            let rules = source.entries(profile, list).unwrap_or_default().into_iter().map(|(rule, _)| rule);
            let note = "can only narrow: the file is not trusted";
            shown.extend(rules.map(|rule| ShownEntry { rule, counts: true, note: Some(note.to_owned()) }));
        }
    }
    let settings = policy.warnings().iter().filter(|warning| warning.profile == profile && !warning.narrows);
    shown.extend(
        settings.map(|Warning { key, origin, .. }| ignored(policy.setting(key, "(set)", origin.clone()))),
    );
    shown
}

impl Limits {
    /// Returns every limit that has a value, with its key.
    pub fn named(self) -> Vec<(&'static str, u64)> {
        let Limits {
            memory_bytes,
            process_memory_bytes,
            cpus,
            processes,
            process_count,
            open_files,
            file_size_bytes,
            disk_bytes,
            output_bytes,
            commands,
            commands_waiting,
            commands_in_all,
            answer_bytes_in_all,
            sessions,
            session_idle_seconds,
            session_seconds,
            home_bytes,
        } = self;
        let all = [
            ("memory_bytes", memory_bytes),
            ("process_memory_bytes", process_memory_bytes),
            ("cpus", cpus),
            ("processes", processes),
            ("process_count", process_count),
            ("open_files", open_files),
            ("file_size_bytes", file_size_bytes),
            ("disk_bytes", disk_bytes),
            ("output_bytes", output_bytes),
            ("commands", commands),
            ("commands_waiting", commands_waiting),
            ("commands_in_all", commands_in_all),
            ("answer_bytes_in_all", answer_bytes_in_all),
            ("sessions", sessions),
            ("session_idle_seconds", session_idle_seconds),
            ("session_seconds", session_seconds),
            ("home_bytes", home_bytes),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}
