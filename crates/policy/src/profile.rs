//! Profiles as written in a configuration file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ImpactRules, ListEntry, ParentAnswers, size};

/// One profile of `sandbox_config`, as written.
///
/// An absent list and an empty list differ: an absent one takes the inherited or built-in entries,
/// an empty one has no entries. The shape is that of the MSC source, whose example is valid
/// unchanged. `deny_ignore_case` and the keys from `allowed_hosts` on are additions to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSource {
    /// Profile whose allow lists are added to this one's. No other key is inherited.
    #[schemars(extend("x-default" = "none", "examples" = ["base"]))]
    pub inherit: Option<String>,
    /// Entries for both of the lists that follow, as the MSC source names them in its principles.
    #[schemars(extend("x-default" = "none", "examples" = [["./src"]]))]
    pub allowed_paths: Option<Vec<ListEntry>>,
    /// Paths that may be read. Absent: the workspace.
    #[schemars(extend("x-default" = "the workspace", "examples" = [["./", "~/reference"]]))]
    pub allowed_read_paths: Option<Vec<ListEntry>>,
    /// Paths that may be written; paths listed here are written without a question. Absent: the
    /// workspace, by the table.
    #[schemars(extend("x-default" = "the workspace, by the table of modes and levels", "examples" = [["./src", "./tests"]]))]
    pub allowed_write_paths: Option<Vec<ListEntry>>,
    /// Paths that are never read. Commands see the folders of the system, such as `/usr` and `/opt`, without
    /// the paths in them that an entry names without a wildcard. Absent: the usual places of secrets.
    #[schemars(extend("x-default" = "`.env`, `.env.*`, `!.env.example`, `*.pem`, `*.key`, `.netrc`", "examples" = [[".env", "*.pem", "/private/"]]))]
    pub deny_read_paths: Option<Vec<ListEntry>>,
    /// Paths that are never written.
    #[schemars(extend("x-default" = "none", "examples" = [["/migrations/", "*.lock"]]))]
    pub deny_write_paths: Option<Vec<ListEntry>>,
    /// Paths through which a later program would run code, in addition to the built-in ones.
    /// Writing one is always asked about, whatever the mode and the other lists say.
    #[schemars(extend("x-default" = "the built-in list only", "examples" = [["tools/startup/", "*.launch"]]))]
    pub auto_run_paths: Option<Vec<ListEntry>>,
    /// `true`: patterns of `deny_read_paths` and `deny_write_paths` match in any case. A pattern
    /// with `!` takes back paths in its own case only, so this key only ever denies more.
    #[schemars(extend("x-default" = "`false`", "examples" = [true]))]
    pub deny_ignore_case: Option<bool>,
    /// First words of commands that run without a question, in addition to the read-only ones.
    #[schemars(extend("x-default" = "read-only commands only", "examples" = [["cargo test", "npm test"]]))]
    pub allowed_exec_command: Option<Vec<ListEntry>>,
    /// First words of commands that are of level `moderate` and not `destructive`. This list alone
    /// lets no call pass.
    #[schemars(extend("x-default" = "none", "examples" = [["make"]]))]
    pub moderate_exec_command: Option<Vec<ListEntry>>,
    /// First words of commands that never run.
    #[schemars(extend("x-default" = "none", "examples" = [["git push"]]))]
    pub deny_exec_command: Option<Vec<ListEntry>>,
    /// Hosts that may be connected to. Absent: none.
    #[schemars(extend("x-default" = "none", "examples" = [["docs.rs", "*.example.org"]]))]
    pub allowed_hosts: Option<Vec<ListEntry>>,
    /// Treatment of a connection that a command makes to a host on no list.
    #[schemars(extend("x-default" = "`ask`", "examples" = ["deny"]))]
    pub unlisted_hosts: Option<UnlistedHosts>,
    /// Highest level of a sub-agent's question that the agent above it may answer in place of a human, if
    /// that agent could make the call itself without a question.
    #[schemars(extend("x-default" = "`never`", "examples" = ["moderate"]))]
    pub parent_may_answer: Option<ParentAnswers>,
    /// Hosts that are never connected to.
    #[schemars(extend("x-default" = "none", "examples" = [["tracker.example.org"]]))]
    pub deny_hosts: Option<Vec<ListEntry>>,
    /// Secrets that are handed out without a question: `NAME`, or `NAME at HOST`. The host must
    /// also be allowed.
    #[schemars(extend("x-default" = "none", "examples" = [["api_key at api.example.com"]]))]
    pub allowed_secrets: Option<Vec<ListEntry>>,
    /// Secrets that are never handed out.
    #[schemars(extend("x-default" = "none", "examples" = [["aws_* at *"]]))]
    pub deny_secrets: Option<Vec<ListEntry>>,
    /// Branches to which commands push with a login of the vault.
    #[schemars(extend("x-default" = "every push is asked about", "examples" = [{"allow": ["agent/*"], "deny": ["main"]}]))]
    #[serde(skip_serializing_if = "GitPush::is_unset")]
    pub git_push: GitPush,
    /// Origins of the pages that the browser uses.
    #[schemars(extend("x-default" = "every submission is asked about", "examples" = [{"submit": ["https://tracker.example.com"], "deny": ["https://*.bank.example"]}]))]
    #[serde(skip_serializing_if = "BrowserRules::is_unset")]
    pub browser: BrowserRules,
    /// First words of the kinds of statements that change a database without a question, for
    /// example `insert`.
    #[schemars(extend("x-default" = "none", "examples" = [["insert"]]))]
    pub allowed_database_statements: Option<Vec<ListEntry>>,
    /// First words of the kinds of statements that are never run, for example `drop`.
    #[schemars(extend("x-default" = "none", "examples" = [["drop"]]))]
    pub deny_database_statements: Option<Vec<ListEntry>>,
    /// Parts of Handfast itself that no call may change. There is no allow list: every call of this
    /// kind is asked about.
    #[schemars(extend("x-default" = "none", "examples" = [["policy"]]))]
    pub deny_handfast_changes: Option<Vec<ListEntry>>,
    /// Tools that are never called.
    #[schemars(extend("x-default" = "none", "examples" = [["file_delete"]]))]
    pub deny_tools: Option<Vec<ListEntry>>,
    /// Mode that decides when to ask.
    #[schemars(extend("x-default" = "`smart_auto`", "examples" = ["ask_always"]))]
    pub mode: Option<Mode>,
    /// Treatment of a dangerous pattern.
    #[schemars(extend("x-default" = "`deny`; `ask` in the dialect `elophanto`", "examples" = ["ask"]))]
    pub dangerous: Option<Dangerous>,
    /// Treatment of a call whose changes can all be undone.
    #[schemars(extend("x-default" = "`pass` in the profile `normal`", "examples" = ["table"]))]
    pub undoable: Option<Undoable>,
    /// Part of the workspace that the cells of commands show.
    #[schemars(extend("x-default" = "`workspace`; `listed` in the dialect `msc` with a read list", "examples" = ["listed"]))]
    pub commands_see: Option<CommandsSee>,
    /// Isolation of commands.
    #[schemars(extend("x-default" = "`auto`", "examples" = ["namespaces"]))]
    pub isolation: Option<Isolation>,
    /// Refuse to run anything in a sandbox that is weaker than requested.
    #[schemars(extend("x-default" = "`false`", "examples" = [true]))]
    pub strict: Option<bool>,
    /// Edits of code that are asked about because of who calls it.
    #[schemars(extend("x-default" = "no edit is asked about because of its callers", "examples" = [{"callers_over": 20}]))]
    #[serde(skip_serializing_if = "ImpactRules::is_unset")]
    pub impact: ImpactRules,
    /// Limits of one command.
    #[schemars(extend("x-default" = "the limits below", "examples" = [{"cpus": 2}]))]
    pub limits: Limits,
}

impl ProfileSource {
    /// Returns the profile with `allowed_paths` moved to the two lists that it stands for, after
    /// their own entries.
    #[must_use]
    pub fn spelled_out(mut self) -> Self {
        let Some(paths) = self.allowed_paths.take() else { return self };
        for list in [&mut self.allowed_read_paths, &mut self.allowed_write_paths] {
            list.get_or_insert_default().extend(paths.iter().cloned());
        }
        self
    }
}

/// Profiles of one file, by name.
pub type Profiles = BTreeMap<String, ProfileSource>;

/// Profile that is used if none is chosen. It always exists.
pub const DEFAULT_PROFILE: &str = "normal";

/// Paths that no profile lets a tool read unless it names `deny_read_paths` itself: the usual
/// places of secrets.
pub const BUILT_IN_DENIED_READS: [&str; 6] = [".env", ".env.*", "!.env.example", "*.pem", "*.key", ".netrc"];

/// Mode that decides when a human is asked, from the three modes of the EloPhanto source.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Ask only about critical calls.
    FullAuto,
    /// Ask about calls that change something.
    #[default]
    SmartAuto,
    /// Ask about every call.
    AskAlways,
}

impl Mode {
    /// Returns the name of the mode in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::FullAuto => "full_auto",
            Mode::SmartAuto => "smart_auto",
            Mode::AskAlways => "ask_always",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Treatment of a dangerous pattern, in every mode.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Dangerous {
    /// A human is asked.
    Ask,
    /// The call is denied.
    #[default]
    Deny,
}

impl Dangerous {
    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Dangerous::Ask => "ask",
            Dangerous::Deny => "deny",
        }
    }
}

/// Treatment of a call that can only change the workspace, if every change can be undone.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Undoable {
    /// The call passes.
    Pass,
    /// The table of modes and levels decides.
    #[default]
    Table,
}

impl Undoable {
    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Undoable::Pass => "pass",
            Undoable::Table => "table",
        }
    }
}

/// Treatment of a connection that a command makes to a host on no list.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum UnlistedHosts {
    /// The connection is held, and a human is asked.
    #[default]
    Ask,
    /// The connection is refused.
    Deny,
}

impl UnlistedHosts {
    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            UnlistedHosts::Ask => "ask",
            UnlistedHosts::Deny => "deny",
        }
    }
}

/// Part of the workspace that the cells of commands show. Paths on the deny lists are hidden either way.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CommandsSee {
    /// The whole workspace.
    #[default]
    Workspace,
    /// Paths on the list of readable paths, and the files that the programs of the project need to
    /// run: the folders where they are installed, and the manifests of build tools in folders that
    /// lead to a listed path.
    Listed,
}

impl CommandsSee {
    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            CommandsSee::Workspace => "workspace",
            CommandsSee::Listed => "listed",
        }
    }
}

/// Isolation of commands. A choice that the machine does not offer is refused, and never replaced.
///
/// The order is meaningful: a later variant is stricter. [`Isolation::Auto`] counts as stricter than
/// the lesser kinds, because it takes them only on a machine without namespaces.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Landlock and a system call filter alone.
    Landlock,
    /// Namespaces that the system's bwrap makes.
    Bubblewrap,
    /// The strongest isolation that the machine offers.
    #[default]
    Auto,
    /// Namespaces that Handfast makes.
    Namespaces,
}

impl Isolation {
    /// All values, from the least strict to the strictest.
    pub const ALL: [Self; 4] = [Self::Landlock, Self::Bubblewrap, Self::Auto, Self::Namespaces];

    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Landlock => "landlock",
            Isolation::Bubblewrap => "bubblewrap",
            Isolation::Auto => "auto",
            Isolation::Namespaces => "namespaces",
        }
    }
}

/// Branches to which commands push with a login of the vault. Pushes that are on neither list, and
/// those that delete a branch or have options, are asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GitPush {
    /// Branches that are pushed to without a question. `*` stands for any characters. An entry that
    /// begins with `refs/` is about full names.
    #[schemars(extend("x-default" = "none", "examples" = [["agent/*"]]))]
    pub allow: Option<Vec<ListEntry>>,
    /// Branches and other refs that are never pushed to, in upper or lower case.
    #[schemars(extend("x-default" = "none", "examples" = [["main", "release/*"]]))]
    pub deny: Option<Vec<ListEntry>>,
}

impl GitPush {
    /// Returns true if neither list is there.
    fn is_unset(&self) -> bool {
        self.allow.is_none() && self.deny.is_none()
    }
}

/// Origins of the pages that the browser uses: `https://HOST`, with `:PORT` if the port is not the usual
/// one. `*` stands for any characters. The host must also be allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrowserRules {
    /// Origins whose pages submit forms, download files and show their cookies without a question.
    #[schemars(extend("x-default" = "none", "examples" = [["https://tracker.example.com"]]))]
    pub submit: Option<Vec<ListEntry>>,
    /// Origins whose pages are never opened.
    #[schemars(extend("x-default" = "none", "examples" = [["https://*.bank.example"]]))]
    pub deny: Option<Vec<ListEntry>>,
}

impl BrowserRules {
    /// Returns true if neither list is there.
    fn is_unset(&self) -> bool {
        self.submit.is_none() && self.deny.is_none()
    }
}

/// Limits of one command. An absent limit has the default of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory in bytes, of all processes together.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "half of the machine's memory", "examples" = ["4GiB"]))]
    pub memory_bytes: Option<u64>,
    /// Memory in bytes that one process has for itself.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "none", "examples" = ["1GiB"]))]
    pub process_memory_bytes: Option<u64>,
    /// Processor cores.
    #[schemars(extend("x-default" = "all", "examples" = [2]))]
    pub cpus: Option<u64>,
    /// Processes and threads at once.
    #[schemars(extend("x-default" = "512", "examples" = [256]))]
    pub processes: Option<u64>,
    /// Processes at once, without their threads.
    #[schemars(extend("x-default" = "none", "examples" = [64]))]
    pub process_count: Option<u64>,
    /// Open files of one process.
    #[schemars(extend("x-default" = "65536", "examples" = [4096]))]
    pub open_files: Option<u64>,
    /// Size of one file in bytes.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "none", "examples" = ["1GiB"]))]
    pub file_size_bytes: Option<u64>,
    /// Bytes written to disk in all.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "none", "examples" = ["10GiB"]))]
    pub disk_bytes: Option<u64>,
    /// Bytes of output that are retained.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "256MiB", "examples" = ["64MiB"]))]
    pub output_bytes: Option<u64>,
    /// Commands of one session that run at once, at least one.
    #[schemars(extend("x-default" = "5", "examples" = [5]))]
    pub commands: Option<u64>,
    /// Commands of one session that wait for a free slot; a further one is refused.
    #[schemars(extend("x-default" = "10", "examples" = [10]))]
    pub commands_waiting: Option<u64>,
    /// Commands of all sessions that run at once, at least one.
    #[schemars(extend("x-default" = "four for each processor, at least 16", "examples" = [16]))]
    pub commands_in_all: Option<u64>,
    /// Bytes of answers of all sessions that exist at once, from the start of a call until its
    /// answer is delivered. An answer that may need more reserves all of them.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "64MiB", "examples" = ["64MiB"]))]
    pub answer_bytes_in_all: Option<u64>,
    /// Background commands of one caller that run at once.
    #[schemars(extend("x-default" = "8", "examples" = [4]))]
    pub sessions: Option<u64>,
    /// Seconds that a background command lives after the last request about it.
    #[serde(deserialize_with = "size::seconds")]
    #[schemars(schema_with = "size::seconds_schema", extend("x-default" = "1h", "examples" = ["30m"]))]
    pub session_idle_seconds: Option<u64>,
    /// Seconds that a background command lives after its start.
    #[serde(deserialize_with = "size::seconds")]
    #[schemars(schema_with = "size::seconds_schema", extend("x-default" = "12h", "examples" = ["8h"]))]
    pub session_seconds: Option<u64>,
    /// Bytes that the caches in the home of the workspace's commands may keep from one command to
    /// the next; 0 keeps none.
    #[serde(deserialize_with = "size::bytes")]
    #[schemars(schema_with = "size::bytes_schema", extend("x-default" = "4GiB", "examples" = ["1GiB"]))]
    pub home_bytes: Option<u64>,
}

impl Limits {
    /// Returns, for each limit, the value of `self` if it has one, else that of `other`.
    #[must_use]
    pub fn or(self, other: Limits) -> Limits {
        self.zip(&other, Option::or)
    }

    /// Returns, for each limit, the lower value. A limit that only one of them names counts.
    #[must_use]
    pub fn lower(self, other: Limits) -> Limits {
        self.zip(&other, |one, two| match (one, two) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        })
    }

    fn zip(self, other: &Limits, choose: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Limits {
        Limits {
            memory_bytes: choose(self.memory_bytes, other.memory_bytes),
            process_memory_bytes: choose(self.process_memory_bytes, other.process_memory_bytes),
            cpus: choose(self.cpus, other.cpus),
            processes: choose(self.processes, other.processes),
            process_count: choose(self.process_count, other.process_count),
            open_files: choose(self.open_files, other.open_files),
            file_size_bytes: choose(self.file_size_bytes, other.file_size_bytes),
            disk_bytes: choose(self.disk_bytes, other.disk_bytes),
            output_bytes: choose(self.output_bytes, other.output_bytes),
            commands: choose(self.commands, other.commands),
            commands_waiting: choose(self.commands_waiting, other.commands_waiting),
            commands_in_all: choose(self.commands_in_all, other.commands_in_all),
            answer_bytes_in_all: choose(self.answer_bytes_in_all, other.answer_bytes_in_all),
            sessions: choose(self.sessions, other.sessions),
            session_idle_seconds: choose(self.session_idle_seconds, other.session_idle_seconds),
            session_seconds: choose(self.session_seconds, other.session_seconds),
            home_bytes: choose(self.home_bytes, other.home_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_list_and_an_empty_list_differ() {
        let source: ProfileSource = serde_json::from_str(r#"{"deny_read_paths": []}"#).unwrap();
        assert_eq!(source.deny_read_paths, Some(Vec::new()));
        assert_eq!(source.deny_write_paths, None);
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = serde_json::from_str::<ProfileSource>(r#"{"allow_read_paths": []}"#).unwrap_err();
        assert!(error.to_string().contains("allow_read_paths"), "{error}");
        let error = serde_json::from_str::<ProfileSource>(r#"{"limits": {"memory": 1}}"#).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn the_lower_limit_counts_and_a_single_one_too() {
        let one = Limits { cpus: Some(4), processes: Some(10), ..Limits::default() };
        let two = Limits { cpus: Some(2), open_files: Some(64), ..Limits::default() };
        let lower = one.lower(two);
        assert_eq!((lower.cpus, lower.processes, lower.open_files), (Some(2), Some(10), Some(64)));
        assert_eq!(one.or(two).cpus, Some(4));
    }
}
