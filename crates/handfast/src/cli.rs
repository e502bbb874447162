//! The shape of the command line. The modules in `commands` implement each command.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use dialects::{CatalogueKind, Dialect};
use policy::{EffectKind, Mode};

use crate::cli_agents::{AgentsArgs, ChatArgs, RunArgs};
use crate::cli_approvals::{ApprovalsCommand, ChangesCommand};
use crate::cli_attach::{AttachArgs, DetachArgs};
use crate::cli_audit::{AuditCommand, LogArgs};
use crate::cli_browser::BrowserCommand;
use crate::cli_config::{CheckArgs, ConfigCommand, InitArgs};
use crate::cli_graph::GraphCommand;
use crate::cli_login::{LoginCommand, LogoutCommand};
use crate::cli_packages::PackageCommand;
use crate::cli_plugin::PluginCommand;
use crate::cli_schedule::ScheduleCommand;
use crate::cli_setup::SetupCommand;
use crate::cli_values::{EXAMPLES, Since, id, not_one_of, since, time};
use crate::cli_vault::VaultCommand;
use crate::run_options::RunOptions;

/// The hands of an AI agent, held fast.
///
/// Offers tools that an agent can call. Every call is typed, checked by one policy, run in a
/// sandbox and recorded in an audit log.
#[derive(Debug, Parser)]
#[command(
    name = "handfast",
    version,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that may stand before or after a command. `cli_options` lists which command accepts which.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct Global {
    /// Folder that the tools work in [default: the current directory].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Profile of `sandbox_config` that the policy uses [default: normal].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Label of the model's provider: selects the profile that `labels` of the configuration binds to it.
    #[arg(long, global = true, value_name = "LABEL", conflicts_with = "profile")]
    pub(crate) label: Option<String>,
    /// Mode of asking a human: ask_always, smart_auto or full_auto [default: smart_auto].
    #[arg(long, global = true, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<Mode>,
    /// Tool names and schemas to use: handfast, elophanto, sluagh, msc, sage or csp1 [default: handfast].
    #[arg(long, global = true, value_name = "DIALECT", value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// Tools to list: core (for most work; tool_search finds the others), full (all) or compact
    /// (only those that find and call others). Unlisted tools can be called as well [default: core;
    /// full in another dialect].
    #[arg(long, global = true, value_name = "CATALOGUE", value_parser = catalogue)]
    pub(crate) catalogue: Option<CatalogueKind>,
    /// Offer only tools that read. All other tools are unavailable under any name.
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    /// Change nothing: calls and undo only report what they would do. Tools that change something
    /// and have no dry run are unavailable.
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Permitted kinds of effect, within the policy: read, write, delete, run, connect, use_secret,
    /// database_write, schedule or change_handfast; may be given several times [default: all kinds].
    #[arg(long, global = true, value_name = "KIND", value_parser = crate::cli_values::permission)]
    pub(crate) permission: Vec<EffectKind>,
    /// Folder for the audit log and all other durable state [default: $XDG_STATE_HOME/handfast].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Ask no questions: a call that needs an approval fails with EAPPROVAL.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
}

impl Global {
    /// Returns the choices that precede the configuration files.
    pub(crate) fn run_options(&self) -> RunOptions {
        RunOptions {
            workspace: self.workspace.clone(),
            state: self.state.clone(),
            profile: self.profile.clone(),
            label: self.label.clone(),
            mode: self.mode,
            dialect: self.dialect,
            catalogue: self.catalogue,
            read_only: self.read_only,
            dry_run: self.dry_run,
            permissions: self.permission.clone(),
            ..RunOptions::default()
        }
    }
}

impl From<&Global> for RunOptions {
    fn from(global: &Global) -> Self {
        global.run_options()
    }
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Serves agents over HTTP on this machine, and prints how to reach it.
    ///
    /// One token permits calls, another one answers questions. Both are stored in the state folder
    /// and stay the same. Ctrl-C or SIGTERM ends the server, after running calls had time to
    /// finish.
    #[command(visible_alias = "serve")]
    Up(UpArgs),
    /// Attaches an agent client: writes Handfast's entry into the client's configuration, and checks it.
    ///
    /// Keeps everything else in the configuration, shows the difference and saves a copy. The client
    /// starts Handfast in the folder that it works in; with `--scope project`, in this workspace. With
    /// --dry-run, only shows the difference.
    ///
    /// Exits with 1 if Handfast does not answer as the client will ask it.
    Attach(AttachArgs),
    /// Takes back what `attach` wrote into a client's configuration.
    Detach(DetachArgs),
    /// Serves an agent over the Model Context Protocol on standard input and output.
    Mcp {
        /// Lists the tools of the configured MCP servers alone, as `--catalogue gateway` does.
        #[arg(long)]
        gateway: bool,
    },
    /// Answers CSP/1 requests on standard input. An empty line ends a request and an answer.
    ///
    /// Answers come as commands end, each with the ID of its request if the request has one. At the
    /// end of the input, the program waits for running commands. Ctrl-C stops them. The full output
    /// of every command is in memory/exec-logs/ of the workspace.
    Csp,
    /// Makes one call and prints its result as JSON.
    ///
    /// Exits with 0 if the call worked, and 1 if the tool failed. Exits with 2 if the tool or its
    /// arguments are wrong, 3 if the call was denied, and 4 if it needs an approval that nobody
    /// could give.
    Call {
        #[command(flatten)]
        call: CallArgs,
        /// Answers yes to every question of this call. Never overrides a denial.
        #[arg(long, short)]
        yes: bool,
    },
    /// Shows what the policy would decide on a command line or a call, and why. Runs nothing.
    ///
    /// `handfast check -- npm test` answers in words. It exits with 0 if the command would run
    /// without a question, 3 if it would be denied, 4 if a human would be asked, and 2 if the line
    /// or the configuration is wrong.
    ///
    /// `handfast check TOOL JSON` answers in JSON and exits with 0 whatever the decision is. With
    /// `-`, standard input may contain several JSON values, one per line. Each value gets one line
    /// of answer.
    Check(CheckArgs),
    /// Describes configuration files: docs/CONFIGURATION.md has every key.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Lists the tools: all tools, or those of the given `--catalogue`. Shows the arguments of one tool.
    Tools {
        /// Tool to show, with its arguments.
        name: Option<String>,
        /// Print JSON, with the schemas.
        #[arg(long)]
        json: bool,
    },
    /// Shows the audit log, or proves that nobody changed it.
    Audit {
        #[command(subcommand)]
        command: Option<AuditCommand>,
    },
    /// Shows the state of the workspace: its rules, who is served, and what waits for you.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows what happened in the workspace, newest first: calls, decisions, changes and questions.
    ///
    /// Each call has its outcome, the hosts that it reached and the files that it changed. Times are
    /// local. Reading the log is recorded in the audit.
    Log(LogArgs),
    /// Answers calls that wait for an approval, and revokes temporary permissions.
    ///
    /// On a terminal and without a command, opens a screen that shows questions as they arrive. One
    /// approval is valid for one call with exactly the plan in the question, and remains valid
    /// after the asking program has ended.
    ///
    /// Exits with 1 if the answer does not count because somebody else was faster or it is too
    /// late, 2 on wrong usage.
    Approvals {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Shows changes of commands that are set aside, and applies or discards them.
    ///
    /// The changes of a command reach the workspace when the command has ended, all of them or
    /// none. If others changed the same files meanwhile, or if a change needs a separate approval,
    /// the changes are set aside for a week instead.
    Changes {
        #[command(subcommand)]
        command: Option<ChangesCommand>,
    },
    /// Shows the rules that apply, each with its origin, or checks the examples in them.
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Undoes the changes of a call, all of them or none. Saves the present state first, so an undo
    /// can be undone.
    ///
    /// Without an id, lists the newest changes and asks which one to undo. Touches only what the call
    /// changed. If something was changed since, nothing is undone and the difference is shown. With
    /// --dry-run, only shows what would be done.
    Undo(UndoArgs),
    /// Lists what can be undone in the workspace, and shows the earlier states.
    Checkpoints {
        #[command(subcommand)]
        command: Option<CheckpointsCommand>,
    },
    /// Trusts the workspace's handfast.yaml in its present form, so that it may also loosen rules.
    Trust {
        /// The file [default: handfast.yaml of the workspace].
        file: Option<PathBuf>,
    },
    /// Stores, lists and removes secrets that calls may use and nobody sees.
    Vault {
        #[command(subcommand)]
        command: Option<VaultCommand>,
    },
    /// Lets calls use an account of yours, with tokens in the vault that nobody sees.
    Login {
        #[command(subcommand)]
        command: LoginCommand,
    },
    /// Ends a login.
    Logout {
        #[command(subcommand)]
        command: LogoutCommand,
    },
    /// Lends your own browser to agents: writes its extension, and pairs with it.
    Browser {
        #[command(subcommand)]
        command: BrowserCommand,
    },
    /// Lets an agent carry out a task with a model that you have configured.
    ///
    /// The agent works until its model answers without a further call. Its calls are decided on like all
    /// others, and asked about here. The answer is printed on standard output, and the progress on
    /// standard error. Ctrl-C stops the agent, and a second time the program. docs/AGENTS.md has more.
    ///
    /// Exits with 0 if the agent has answered, 1 if it failed or a limit ended it, 2 on wrong usage.
    Run(RunArgs),
    /// Talks with an agent on this terminal, and asks about its calls there.
    ///
    /// /help on the screen lists its commands and keys. docs/AGENTS.md has more.
    Chat(ChatArgs),
    /// Lists the agents of the workspace, each below the one that has started it.
    ///
    /// Shows what each has spent, and how many messages were never delivered.
    Agents(AgentsArgs),
    /// Runs tasks later or repeatedly, while `handfast up` serves the workspace.
    Schedule {
        #[command(subcommand)]
        command: Option<ScheduleCommand>,
    },
    /// Makes programs of your own tools: makes, tests, lists, enables, disables and removes plugins.
    ///
    /// A plugin is a folder with a plugin.yaml and a program. docs/PLUGINS.md has more.
    Plugin {
        #[command(subcommand)]
        command: PluginCommand,
    },
    #[command(flatten)]
    Packages(PackageCommand),
    /// Asks the graph of the workspace's code: who calls, imports or inherits what.
    Graph {
        #[command(subcommand)]
        command: GraphCommand,
    },
    /// Tests what this machine can enforce: attempts to break out of a cell, each with a control.
    ///
    /// Exits with 1 if a promise of docs/GUARANTEES.md does not hold here, or could not be tested.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Installs what a mechanism needs on this machine.
    Setup {
        #[command(subcommand)]
        command: SetupCommand,
    },
    /// Prints the completions of a shell, which complete commands, options and their values.
    ///
    /// The archives and the Debian package contain them already. For bash:
    /// handfast completions bash > ~/.local/share/bash-completion/completions/handfast
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Writes a man page for each command to a folder.
    #[command(hide = true)]
    ManPages {
        /// An existing folder.
        folder: PathBuf,
    },
    /// Prints the OpenAPI document of `up`.
    #[command(hide = true, name = "openapi")]
    OpenApi,
    /// Makes one attempt of `doctor` from within a cell.
    #[command(hide = true)]
    ProbeAttempt {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Enters a cell that the system's bwrap has created.
    #[command(hide = true)]
    EnterCell { control: i32 },
    /// Asks five questions and writes a handfast.yaml that changes what you answered, and nothing else.
    ///
    /// Without a terminal it asks nothing. Every other setting stands in the file as a comment.
    Init(InitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Address to listen on: an address, a port on this machine only, or both. Port 0 selects a
    /// free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7411", value_parser = crate::cli_values::listen)]
    pub(crate) listen: SocketAddr,
    /// Further host name that requests may use, in addition to localhost and addresses; may be
    /// given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Origin of web pages that may send requests, for example https://console.example; may be
    /// given several times.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// Let everybody on this machine make calls without a token. Answers to questions still need a token.
    #[arg(long)]
    pub(crate) no_token: bool,
    /// Maximum time for a client to send a request's head, or the next part of a body. Also applies
    /// to reading the next part of an answer, up to ten seconds.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) patience: std::time::Duration,
    /// Time that running calls may still take after the server was asked to end.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) drain: std::time::Duration,
    /// Print one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Name of the tool; `handfast tools` lists them.
    pub(crate) tool: String,
    /// Arguments of the tool as a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON")]
    pub(crate) arguments: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Checkpoint of the call (`meta.checkpoint`), or the first or last part of it.
    #[arg(conflicts_with_all = ["since", "last"], value_parser = id)]
    pub(crate) id: Option<String>,
    /// Undo the newest change that is not undone yet and is no undo itself.
    #[arg(long, conflicts_with = "since")]
    pub(crate) last: bool,
    /// Undo all changes since a time, such as 1h or `yesterday 14:00`, or since a call,
    /// including that call.
    #[arg(long, value_name = "TIME|CALL", value_parser = since)]
    pub(crate) since: Option<Since>,
    /// Undo only this file or folder; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// Overwrite later changes as well; with --path, only there.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// Lists checkpoints, newest first.
    List {
        /// Maximum number of checkpoints.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows every path that a call changed.
    Show {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows the difference between the state before the call and the present state.
    Diff {
        /// The id, or the first or last part of it.
        #[arg(value_parser = id)]
        id: String,
        /// Show only this file or folder; may be given several times.
        #[arg(long, value_name = "PATH")]
        path: Vec<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Shows every setting and list entry under the chosen profile, with its file and line. Also
    /// shows what is ignored because its file is not trusted.
    Show {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Suggests entries of lists by what you approved one by one among the last 1,000 calls here.
    ///
    /// Each entry was tried on these calls. Nothing is changed: write the entries that you want into
    /// your configuration.
    Suggest {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks the examples (`match`, `not_match`) of all rules of all profiles, and looks for rules
    /// that can never apply.
    ///
    /// Exits with 1 if an example fails.
    Test {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn dialect(text: &str) -> Result<Dialect, String> {
    Dialect::named(text).ok_or_else(|| not_one_of(text, &Dialect::ALL.map(Dialect::as_str)))
}

fn catalogue(text: &str) -> Result<CatalogueKind, String> {
    CatalogueKind::named(text).ok_or_else(|| not_one_of(text, &["core", "full", "compact", "gateway"]))
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "ask_always" => Ok(Mode::AskAlways),
        "smart_auto" => Ok(Mode::SmartAuto),
        "full_auto" => Ok(Mode::FullAuto),
        other => Err(not_one_of(other, &["ask_always", "smart_auto", "full_auto"])),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[test]
    fn a_misspelt_value_is_answered_with_the_nearest_one() {
        for (option, typed, meant) in [
            ("--mode", "full-autp", "full_auto"),
            ("--dialect", "elofanto", "elophanto"),
            ("--catalogue", "ful", "full"),
        ] {
            let error =
                super::Cli::try_parse_from(["handfast", option, typed, "tools"]).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{meant}`?")), "{error}");
        }
    }
}
