//! Permission: from rules, mode, level and effects to one answer, `pass`, `check` or `deny`, with
//! the rule that decided.
//!
//! [`Policy::compile`] merges the profiles of several files into one set of rules, and
//! [`Policy::decide`] answers for a call. Both are pure: this crate does no input or output, and
//! knows neither the clock nor the environment nor the targets of links. The caller reads the
//! files, the guard protects the rules against races, and the sandbox is the boundary. A mistake
//! here costs a missing question, never the sandbox.

mod auto_run;
mod ceiling;
mod command;
mod decide;
mod decision;
mod each;
mod error;
mod examples;
mod findings;
mod frozen;
mod host;
mod impact;
mod judge;
mod judge_command;
mod judge_impact;
mod judge_page;
mod judge_paths;
mod lease;
mod lines;
mod list;
mod merge;
mod moderate;
mod names;
mod narrow;
mod outgoing;
mod pages;
mod parent_answers;
mod path;
mod policy;
mod profile;
mod programs;
mod push;
mod push_verdict;
mod rule;
mod sees;
mod show;
mod size;
mod spell;
mod suggest;

pub use auto_run::{AutoRun, Entry, GitSetting, auto_run, git_settings, may_auto_run};
pub use ceiling::{Ceiling, EffectKind, EffectKinds};
pub use command::{Runs, StatementFile, dangerous_statements, hosts_fetched, statement_files};
pub use decision::{Decision, Line, NamedWrites, Part, Request, Verdict};
pub use error::PolicyError;
pub use examples::{Example, examples};
pub use findings::{Finding, findings};
pub use frozen::FrozenCeiling;
pub use host::AddressVerdict;
pub use impact::{CallersOver, Impact, ImpactRules};
pub use judge_command::READ_ONLY_COMMANDS;
pub use lease::{LeasePattern, as_read};
pub use lines::Lines;
pub use list::{List, ListEntry};
pub use merge::{Source, Trust, Warning};
pub use outgoing::ConnectionVerdict;
pub use parent_answers::ParentAnswers;
pub use path::{DeniedPaths, FolderMatches, Kind, LocatedPath, Names, PathVerdict, RootRight};
pub use policy::{Dialect, Policy, Setup};
pub use profile::{
    BUILT_IN_DENIED_READS, BrowserRules, CommandsSee, DEFAULT_PROFILE, Dangerous, GitPush, Isolation, Limits,
    Mode, ProfileSource, Profiles, Undoable, UnlistedHosts,
};
pub use programs::{ProgramFile, Programs, project_folders};
pub use push_verdict::{PushVerdict, PushedRef};
pub use rule::{FilePlace, Origin, Rule};
pub use sees::Sees;
pub use show::{ShownEntry, show};
pub use suggest::Suggestion;
