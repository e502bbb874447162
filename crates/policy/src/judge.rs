//! Judgement of one part of a call by each line of the decision list.

use std::path::Path;

use tool::{Access, Effect};

use crate::auto_run::{AutoRun, Entry, auto_run};
use crate::host::normal_host;
use crate::path::{LocatedPath, fold_path};
use crate::suggest::MissingEntry;
use crate::{BUILT_IN_DENIED_READS, List, NamedWrites, Origin, Part, PathVerdict, Policy, Rule};

/// Judgement of the lines on one part. A line that does not apply has no cause.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judgement {
    /// The part, as text for people.
    pub(crate) part: String,
    /// Cause of line 1.
    pub(crate) denied: Option<Cause>,
    /// Cause of line 2.
    pub(crate) dangerous: Option<Cause>,
    /// Cause of line 5, if the profile names `deny_exec_command`.
    pub(crate) uncertain: Option<Cause>,
    /// Cause of line 6.
    pub(crate) unlisted: Option<Cause>,
    /// Cause if a later program would run code through the part, regardless of other causes of line 6.
    pub(crate) runs_later: Option<Cause>,
    /// Cause of line 10.
    pub(crate) impact: Option<Cause>,
    /// Paths that line 6 is about, if they are written.
    pub(crate) named: NamedWrites,
    /// Cause of line 7.
    pub(crate) allowed: Option<Cause>,
    /// True if line 8 may apply to the part.
    pub(crate) changes_only_the_workspace: bool,
    /// Advice how to make line 7 apply.
    pub(crate) not_allowed: Option<String>,
    /// Command that prevents line 7, if the part is a line of several commands.
    pub(crate) not_allowed_at: Option<String>,
    /// Entries that lists would need so that lines 6 and 7 let the part pass, as far as they are known.
    pub(crate) missing: Vec<MissingEntry>,
    /// True if the part is a mere read of a path, which is the least informative kind.
    pub(crate) only_reads_a_path: bool,
}

/// The reason why a line applies.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) rule: Rule,
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

impl Policy {
    pub(crate) fn judge(&self, part: &Part) -> Judgement {
        match &part.effect {
            Effect::Read { path } => self.judge_path("read", Access::Read, path, part.real.as_deref(), false),
            Effect::Write { path } => {
                let mut judgement =
                    self.judge_path("write", Access::Write, path, part.real.as_deref(), false);
                if let Some(why) = &part.runs {
                    let cause = self.runs_by_itself(path, why);
                    judgement.runs_later.get_or_insert_with(|| cause.clone());
                    judgement.unlisted.get_or_insert(cause);
                    judgement.changes_only_the_workspace = false;
                }
                judgement
            }
            Effect::Delete { path } => {
                self.judge_path("delete", Access::Write, path, part.real.as_deref(), true)
            }
            Effect::Run { command, directory } => {
                let mut judgement = self.judge_command(command, directory, part.real.as_deref());
                if let (None, Some(why)) = (&judgement.dangerous, &part.states) {
                    let hint = "name the exact rows or the table; with `dangerous: ask` a human is asked";
                    judgement.dangerous = Some(self.dangerous_cause(why, hint));
                }
                judgement
            }
            Effect::Connect { host, port, .. } => {
                let judgement = self.judge_host(format!("connect {host}:{port}"), host, Some(*port));
                if part.effect.only_asks() { self.listed_reading(judgement, host, *port) } else { judgement }
            }
            Effect::Act { host, what } => self.judge_host(format!("{what} at {host}"), host, None),
            Effect::Browse { origin, host, port, access, what } => {
                self.judge_page((origin, host, *port), *access, what)
            }
            Effect::UseSecret { name, host } => self.judge_secret(name, host),
            Effect::DatabaseWrite { statement } => {
                let part = format!("database {statement}");
                let (denied, allowed) =
                    (self.denied_statements.find(statement), self.allowed_statements.find(statement));
                let missing = MissingEntry::Entry(List::AllowedDatabaseStatements, statement.clone());
                let shown = format!("the statement `{statement}`");
                Judgement {
                    dangerous: self.dangerous_statement(statement),
                    ..self.judge_name(part, &shown, denied, allowed, Some(missing))
                }
            }
            // No list lets this part pass: the mode decides.
            Effect::Schedule { what } => {
                self.judge_name(format!("schedule {what}"), "a scheduled task", None, None, None)
            }
            // Rules name such a tool by its whole name (`deny_tools`), and the mode decides about its level.
            Effect::UseTool { server, tool, .. } => {
                let shown = format!("the tool {tool} of {server}");
                // The tool may be offered under a shorter name, which the rule does not know.
                let denied = self.denied_tools.find(&format!("{server}__{tool}"));
                self.judge_name(format!("use {shown}"), &shown, denied, None, None)
            }
            Effect::ChangeHandfast { what } => {
                let denied = self.denied_changes.find(what);
                // No list lets this part pass: calls of its level are always asked about.
                self.judge_name(format!("change {what}"), &format!("a change of {what}"), denied, None, None)
            }
        }
    }

    pub(crate) fn judge_path(
        &self,
        verb: &str,
        access: Access,
        path: &Path,
        real: Option<&Path>,
        removes: bool,
    ) -> Judgement {
        let list = allow_key(access);
        let mut verdict = self.path_verdict(access, path);
        let mut judged = path;
        let mut denied_removal = removes.then(|| self.removal_denied(path)).flatten();
        if let Some(real) = real {
            let behind = self.path_verdict(access, real);
            if behind.stricter(verdict) != verdict {
                (verdict, judged) = (behind, real);
            }
            denied_removal = denied_removal.or_else(|| removes.then(|| self.removal_denied(real)).flatten());
        }
        let in_workspace =
            path.starts_with(&self.workspace) && real.is_none_or(|real| real.starts_with(&self.workspace));
        let leads = if judged == path { String::new() } else { format!(", where {} leads,", path.display()) };
        let shown = judged.display();
        let mut judgement = Judgement {
            part: format!("{verb} {}", path.display()),
            changes_only_the_workspace: in_workspace || access == Access::Read,
            only_reads_a_path: access == Access::Read,
            ..Judgement::default()
        };
        let hint_for_list = self.add_path(access);
        if self.dialect.only_workspace && !in_workspace {
            judgement.denied = Some(Cause {
                reason: format!("Path {shown}{leads} is outside workspace"),
                hint: Some("name a path in the workspace; this dialect reaches no others".to_owned()),
                rule: self.setting("dialect", "only paths in the workspace", Origin::BuiltIn),
            });
            return judgement;
        }
        match (denied_removal, verdict) {
            (Some(rule), _) => {
                judgement.denied = Some(Cause {
                    reason: format!("{shown}{leads} is denied, or contains a path denied, by {rule}"),
                    hint: Some(self.how_to_change(rule)),
                    rule: rule.clone(),
                });
            }
            (None, PathVerdict::Denied(rule)) => {
                judgement.denied = Some(Cause {
                    reason: self.why_denied(rule, || format!("{shown}{leads} is denied by {rule}")),
                    hint: Some(self.how_to_change(rule)),
                    rule: rule.clone(),
                });
            }
            (None, PathVerdict::Outside) => {
                if access == Access::Write {
                    judgement.named.unlisted.push(judged.to_owned());
                }
                judgement.missing.push(MissingEntry::Path(access, judged.to_owned()));
                judgement.unlisted = Some(Cause {
                    rule: self.no_entry(list),
                    reason: format!("{shown}{leads} is not listed in `{list}`"),
                    hint: Some(hint_for_list),
                });
            }
            (None, PathVerdict::Workspace) if access == Access::Read => {
                judgement.allowed = Some(Cause {
                    rule: self.no_entry(list),
                    reason: format!("{shown}{leads} is in the workspace"),
                    hint: None,
                });
            }
            (None, PathVerdict::Workspace) => {
                judgement.missing.push(MissingEntry::Path(access, judged.to_owned()));
                judgement.not_allowed = Some(hint_for_list);
            }
            (None, PathVerdict::Listed(rule)) => {
                judgement.allowed = Some(Cause {
                    reason: format!("{shown}{leads} is listed by {rule}"),
                    rule: rule.clone(),
                    hint: None,
                });
            }
        }
        if access == Access::Write && !removes {
            for path in std::iter::once(path).chain(real) {
                if let Some(cause) = self.runs_later(path) {
                    judgement.named.run_later.push(path.to_owned());
                    // This applies to a listed path too: an entry that lists a folder was not
                    // written with this in mind.
                    judgement.runs_later.get_or_insert_with(|| cause.clone());
                    judgement.unlisted.get_or_insert(cause);
                    judgement.changes_only_the_workspace = false;
                }
            }
        }
        judgement
    }

    /// Returns the cause why writing the path is always asked about: a later program would run code
    /// through it.
    pub(crate) fn runs_later(&self, path: &Path) -> Option<Cause> {
        if let Some(rule) = self.listed_auto_run().rule_at(&self.spot(path), false) {
            return Some(Cause { rule: rule.clone(), ..self.runs_by_itself(path, "the profile lists it") });
        }
        let root = self.roots.iter().map(|root| &root.path).filter(|root| path.starts_with(root));
        let relative = path.strip_prefix(root.max_by_key(|root| root.components().count())?).ok()?;
        let nowhere = |_: &Path| false;
        let found = auto_run(relative, Entry::File, &nowhere)
            .or_else(|| auto_run(relative, Entry::Tree, &nowhere))?;
        let why = match found {
            AutoRun::Any(why) | AutoRun::Git(why) => why,
        };
        Some(self.runs_by_itself(path, why))
    }

    fn runs_by_itself(&self, path: &Path, why: &str) -> Cause {
        Cause {
            rule: self.setting(AUTO_RUN, "(built in)", Origin::BuiltIn),
            reason: format!("{} is a run-later file: {why}", path.display()),
            hint: Some("only a human can approve it; no mode or list lets it pass".to_owned()),
        }
    }

    /// Returns a rule against removing or moving the path. A file that must not be read must not be moved
    /// away either. A folder with a protected or denied path below it must not be moved or removed.
    fn removal_denied(&self, path: &Path) -> Option<&Rule> {
        let spot = LocatedPath::of(path, &self.workspace);
        let folded = fold_path(path);
        let protected =
            self.protected.iter().find(|(protected, _)| fold_path(protected).starts_with(&folded));
        protected
            .map(|(_, rule)| rule)
            .or_else(|| self.reads.denied_by(&spot, crate::Kind::Unknown))
            .or_else(|| self.reads.denied_below(path))
            .or_else(|| self.writes.denied_below(path))
    }

    /// Returns true if the rule comes from the dialect.
    fn is_of_dialect(&self, rule: &Rule) -> bool {
        rule.origin == Origin::BuiltIn && self.dialect.denied_paths.contains(&rule.entry.as_str())
    }

    /// Returns the reason why a rule denies a path, in the words of the dialect if it has any.
    pub(crate) fn why_denied(&self, rule: &Rule, usual: impl FnOnce() -> String) -> String {
        let of_dialect = self.dialect.denied_reason.filter(|_| self.is_of_dialect(rule));
        of_dialect.map_or_else(usual, str::to_owned)
    }

    /// Returns advice about a rule that denies.
    pub(crate) fn how_to_change(&self, rule: &Rule) -> String {
        match self.dialect.denied_hint.filter(|_| self.is_of_dialect(rule)) {
            Some(hint) => hint.to_owned(),
            None => change_rule(rule),
        }
    }

    pub(crate) fn judge_host(&self, shown: String, host: &str, port: Option<u16>) -> Judgement {
        let mut judgement = Judgement { part: shown, ..Judgement::default() };
        let Some(host) = normal_host(host) else {
            judgement.denied = Some(Cause {
                rule: self.setting("hosts", "well-formed", Origin::BuiltIn),
                reason: format!("{host:?} is neither a host name nor an address in its usual form"),
                hint: Some("write the host name in its DNS form, or the full address".to_owned()),
            });
            return judgement;
        };
        if let Some(rule) = self.denied_hosts.find(&host, port) {
            judgement.denied = Some(Cause {
                reason: format!("{host} is denied by {rule}"),
                hint: Some(self.how_to_change(rule)),
                rule: rule.clone(),
            });
        } else if self.allowed_hosts.find(&host, port).is_none() {
            judgement.missing.push(MissingEntry::Entry(List::AllowedHosts, host.clone()));
            judgement.unlisted = Some(Cause {
                rule: self.no_entry("allowed_hosts"),
                reason: format!("{host} is not listed in `allowed_hosts`"),
                hint: Some(self.add_entry("allowed_hosts", &host)),
            });
        }
        judgement
    }

    /// Allows a request that only asks a listed host for data: it is a read, as of a listed path.
    pub(crate) fn listed_reading(&self, judged: Judgement, host: &str, port: u16) -> Judgement {
        let rule = normal_host(host).and_then(|host| self.allowed_hosts.find(&host, Some(port)));
        let Some(rule) = rule.filter(|_| judged.denied.is_none()) else { return judged };
        let reason = format!("{host} is listed by {rule}");
        Judgement { allowed: Some(Cause { rule: rule.clone(), reason, hint: None }), ..judged }
    }

    /// Judges the use of a secret. A secret goes to a host, so both must be allowed.
    fn judge_secret(&self, name: &str, host: &str) -> Judgement {
        let judged = self.judge_host(format!("use secret {name} at {host}"), host, None);
        let host = normal_host(host);
        let host = host.as_deref();
        let (denied, allowed) =
            (self.denied_secrets.find_at(name, host), self.allowed_secrets.find_at(name, host));
        let missing = MissingEntry::Entry(List::AllowedSecrets, format!("{name} at {}", host.unwrap_or("*")));
        let named =
            self.judge_name(String::new(), &format!("the secret {name}"), denied, allowed, Some(missing));
        Judgement {
            denied: judged.denied.or(named.denied),
            allowed: named.allowed,
            not_allowed: named.not_allowed,
            missing: [judged.missing, named.missing].concat(),
            ..judged
        }
    }

    /// Returns the cause if a statement is dangerous: it drops a database, or empties a table.
    fn dangerous_statement(&self, statement: &str) -> Option<Cause> {
        let words = || statement.split_whitespace().map(str::to_ascii_lowercase);
        let begins = |pattern: &[&str]| words().take(pattern.len()).eq(pattern.iter().copied());
        let found =
            [(&["drop", "database"][..], "it drops a database"), (&["truncate"], "it empties a table")]
                .into_iter()
                .find_map(|(pattern, found)| begins(pattern).then_some(found))?;
        Some(self.dangerous_cause(
            found,
            "name the exact rows or the table; with `dangerous: ask` a human is asked",
        ))
    }

    /// Builds the cause for a dangerous pattern.
    pub(crate) fn dangerous_cause(&self, found: &str, hint: &str) -> Cause {
        let (setting, origin) = &self.dangerous;
        Cause {
            rule: self.setting("dangerous", setting.as_str(), origin.clone()),
            reason: format!("it is a dangerous pattern: {found}"),
            hint: Some(hint.to_owned()),
        }
    }

    /// Judges an object that is known by a name, by the lists about it.
    fn judge_name(
        &self,
        part: String,
        shown: &str,
        denied: Option<&Rule>,
        allowed: Option<&Rule>,
        missing: Option<MissingEntry>,
    ) -> Judgement {
        let mut judgement = Judgement { part, ..Judgement::default() };
        match (denied, allowed) {
            (Some(rule), _) => {
                judgement.denied = Some(Cause {
                    reason: format!("{shown} is denied by {rule}"),
                    hint: Some(self.how_to_change(rule)),
                    rule: rule.clone(),
                });
            }
            (None, Some(rule)) => {
                let reason = format!("{shown} is listed by {rule}");
                judgement.allowed = Some(Cause { rule: rule.clone(), reason, hint: None });
            }
            (None, None) => {
                if let Some(MissingEntry::Entry(list, entry)) = &missing {
                    judgement.not_allowed = Some(self.add_entry(list.key(), entry));
                }
                judgement.missing.extend(missing);
            }
        }
        judgement
    }

    /// Returns advice how to list an object that is not a path.
    pub(crate) fn add_entry(&self, key: &str, entry: &str) -> String {
        format!("add {entry:?} to `{key}` of profile `{}`", self.profile)
    }

    /// Returns true if the cell shows the path as part of a root, even if the root lies below a
    /// system folder such as `/tmp`.
    pub(crate) fn in_a_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(&root.path))
    }

    /// Returns advice how to list a path. A list with entries no longer stands for the workspace,
    /// which is easily overlooked.
    pub(crate) fn add_path(&self, access: Access) -> String {
        let rules = match access {
            Access::Read => &self.reads,
            Access::Write => &self.writes,
        };
        let beside = if rules.allowed.workspace { ", next to `.` for the workspace" } else { "" };
        format!("list it in `{}` of profile `{}`{beside}", allow_key(access), self.profile)
    }

    /// Returns the rule that is named if no entry of a list is the cause.
    pub(crate) fn no_entry(&self, key: &'static str) -> Rule {
        self.setting(key, "(no entry)", Origin::BuiltIn)
    }

    pub(crate) fn setting(&self, key: &'static str, entry: &str, origin: Origin) -> Rule {
        Rule { key, entry: entry.to_owned(), profile: self.profile.clone(), origin }
    }
}

/// Key that a decision names for a file through which a later program would run code.
pub(crate) const AUTO_RUN: &str = "auto_run";

/// Folders that every cell shows, read-only or as its own (design: what counts as readable for commands).
const SYSTEM_FOLDERS: [&str; 12] =
    ["/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/sbin", "/tmp", "/usr"];

/// Returns true if every cell shows the path, and the path does not lead from there to elsewhere.
pub(crate) fn is_system_path(path: &Path) -> bool {
    let mut below = path.components().skip(2);
    let leads_elsewhere = (path.starts_with("/proc")
        && below.any(|part| {
            ["cwd", "root", "fd", "map_files", "task", "environ"].iter().any(|name| part.as_os_str() == *name)
        }))
        || path.starts_with("/dev/fd");
    !leads_elsewhere && SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

pub(crate) fn allow_key(access: Access) -> &'static str {
    match access {
        Access::Read => "allowed_read_paths",
        Access::Write => "allowed_write_paths",
    }
}

pub(crate) fn change_rule(rule: &Rule) -> String {
    match &rule.origin {
        Origin::BuiltIn if rule.key == "protected" => {
            "no tool may write it; only a human can edit it, outside Handfast".to_owned()
        }
        Origin::BuiltIn
            if rule.key.ends_with("_paths") && !BUILT_IN_DENIED_READS.contains(&rule.entry.as_str()) =>
        {
            "it is blocked for every tool under every profile".to_owned()
        }
        Origin::BuiltIn => {
            format!("to allow it, set `{}` in profile `{}` without it", rule.key, rule.profile)
        }
        Origin::Package(name) => format!("to allow it, remove the package: `handfast remove {name}`"),
        origin => format!("to allow it, remove {:?} from `{}` in {origin}", rule.entry, rule.key),
    }
}
