//! The shape of `handfast schedule` on the command line.

#![allow(clippy::doc_markdown, reason = "the comments here are what `--help` prints, as plain text")]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Lists the schedules of the workspace, with their next and last runs.
    List {
        /// List schedules that have ended, too.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stores a task that runs at its times while `handfast up` serves the workspace.
    ///
    /// The task may do what you may do now: a later change of the configuration can narrow it, and never
    /// widen it. With --dry-run, only tells the times.
    ///
    /// handfast schedule add tests "every day at 3am" -- cargo test
    Add(AddArgs),
    /// Runs a task now, and prints its outcome. Exits with 1 if it fails.
    Run {
        /// Name or id of the schedule.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stops a task from running until it is resumed.
    Pause {
        /// Name or id of the schedule.
        name: String,
    },
    /// Lets a paused task run again, and forgets its failures.
    Resume {
        /// Name or id of the schedule.
        name: String,
    },
    /// Removes a task with its history.
    Remove {
        /// Name or id of the schedule.
        name: String,
    },
    /// Lists the runs of a task, newest first, with their outcomes.
    History {
        /// Name or id of the schedule.
        name: String,
        /// Maximum number of runs.
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes a systemd unit of your user that runs `handfast up` for this workspace, so that its schedules
    /// fire from your login on.
    Install {
        /// Folder to write the unit to [default: ~/.config/systemd/user].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name, which no other schedule of the workspace has.
    pub(crate) name: String,
    /// Times: a cron line, or a phrase such as "every monday at 2pm", "in 2 hours" or "at 15:30".
    pub(crate) times: String,
    /// Command to run, after `--`.
    #[arg(last = true, required_unless_present = "tool", conflicts_with = "tool")]
    pub(crate) command: Vec<String>,
    /// Tool to call instead of a command.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Arguments of the tool, a JSON object.
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) arguments: Option<String>,
    /// Description, for people.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Times that a failed run is tried again.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub(crate) retries: u32,
    /// Treatment of runs that were missed because no server was there.
    #[arg(long, value_name = "RULE", default_value = "once")]
    pub(crate) missed: MissedRule,
    /// Treatment of a run that is due while an earlier one goes on.
    #[arg(long, value_name = "RULE", default_value = "skip")]
    pub(crate) overlap: OverlapRule,
    /// Maximum random delay of a run, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(crate) jitter: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MissedRule {
    /// Leave them out.
    Skip,
    /// Make up for the last one.
    Once,
    /// Make up for all, one after another, at most 100.
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OverlapRule {
    /// Leave the run out.
    Skip,
    /// Let the run wait for the earlier one. One may wait.
    Queue,
    /// Run both.
    Allow,
}

impl MissedRule {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

impl OverlapRule {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Allow => "allow",
        }
    }
}
