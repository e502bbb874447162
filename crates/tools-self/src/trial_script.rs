//! The scripts that a cell runs for self-development: git, and the tests. Pure: it only writes text and reads
//! what a script has printed.

use crate::test_command::{REPORT, Runner, quoted};
use crate::test_report::RunnerOutput;

/// Names of the files in the cell's home that a script reads.
pub(crate) const CONTENT_FILE: &str = ".handfast-content";
/// Name of the file with the message of the commit.
pub(crate) const MESSAGE_FILE: &str = ".handfast-message";
/// Folder of the worktree below the project. It exists in the cell's copy of the workspace alone.
pub(crate) const TRIAL_FOLDER: &str = ".handfast-trial";
/// Maximum bytes of a report and of a difference.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Functions of every script. `refuse WORD DETAILS` ends the script with a reason.
///
/// The repository's own configuration can name programs: hooks, filters, the file system monitor, signing. Hooks,
/// the monitor and signing are switched off. A filter or a merge driver could commit other files than those that were shown, and
/// another work tree would be changed in place of the project, so both are refused. Replaced and grafted objects
/// would show another difference than the one that is committed, and a revert would follow renames to other files.
const FUNCTIONS: &str = r#"set -u
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_LITERAL_PATHSPECS=1 GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null GIT_EDITOR=true GIT_PAGER=cat
export GIT_AUTHOR_NAME=Handfast GIT_AUTHOR_EMAIL=handfast@localhost GIT_COMMITTER_NAME=Handfast GIT_COMMITTER_EMAIL=handfast@localhost
say() { printf '\n%s %s\n' "$mark" "$1"; }
refuse() { say "refused $1"; printf '%s\n' "${2-}" | head -c 20000; exit 3; }
g() { git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false -c commit.gpgSign=false -c submodule.recurse=false -c core.quotePath=false -c merge.renames=false -c merge.directoryRenames=false -c diff.renames=false -c advice.graftFileDeprecated=false "$@"; }
no_links() {
  at=$1; rest=$2
  while [ -n "$rest" ]; do
    at=$at/${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    [ -L "$at" ] && refuse link
    [ -n "$rest" ] && [ -e "$at" ] && [ ! -d "$at" ] && refuse kind
  done
  [ -d "$at" ] && refuse kind
  return 0
}
command -v git >/dev/null || refuse no_git
cd "$project" || refuse no_project
elsewhere=$(g config --get core.worktree 2>/dev/null) && refuse elsewhere "$elsewhere"
filters=$(g config --name-only --get-regexp '^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$' 2>/dev/null) && refuse filters "$filters"
[ -z "$(g rev-parse --show-prefix 2>/dev/null)" ] && g rev-parse --git-dir >/dev/null 2>&1 || refuse no_repository
base=$(g rev-parse --verify -q 'HEAD^{commit}') || refuse no_commit
"#;

/// Checks before a change: nothing is under way, and the tracked files are those of the commit.
const CLEAN: &str = r#"for name in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG rebase-merge rebase-apply; do
  [ -e "$(g rev-parse --git-path "$name")" ] && refuse busy "$name"
done
dirty=$(g status --porcelain --untracked-files=no 2>&1) || refuse git "$dirty"
[ -z "$dirty" ] || refuse dirty "$dirty"
"#;

/// Makes the worktree, with the untracked folders that the configuration shares.
const WORKTREE: &str = r#"[ -e "$trial" ] && refuse leftover
made=$(g worktree add --detach --quiet "$trial" "$base" 2>&1) || refuse git "$made"
for name in $shared; do
  [ -d "$project/$name" ] && [ ! -e "$trial/$name" ] && ln -s "$project/$name" "$trial/$name"
done
cd "$trial" || refuse git
"#;

/// A change to try or to apply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScriptChange<'a> {
    /// Replaces or adds a file, with the content of the file in the cell's home.
    File(&'a str),
    /// Takes a commit back.
    Revert(&'a str),
    /// Adds a folder with these paths in it, with the contents of the numbered files in the cell's home.
    Folder(&'a str, &'a [String]),
}

/// Facts of a script.
pub(crate) struct Script<'a> {
    /// Text that begins each line of the script's own.
    pub(crate) mark: &'a str,
    /// Folder of the project, absolute.
    pub(crate) project: &'a str,
    /// Untracked folders that the trial sees.
    pub(crate) shared: &'a [String],
}

impl Script<'_> {
    fn begin(&self) -> String {
        let value = |text: &str| quoted(&[text.to_owned()]);
        let shared: Vec<String> = self.shared.iter().filter(|name| is_plain(name)).cloned().collect();
        format!(
            "mark={}\nproject={}\ntrial=$project/{TRIAL_FOLDER}\nshared={}\n{FUNCTIONS}",
            value(self.mark),
            value(self.project),
            value(&shared.join(" "))
        )
    }

    /// Returns the script that runs the tests on the project as it is.
    pub(crate) fn tests(&self, runner: Runner, words: &[String]) -> String {
        let value = |text: &str| quoted(&[text.to_owned()]);
        format!(
            "mark={}\nproject={}\nsay() {{ printf '\\n%s %s\\n' \"$mark\" \"$1\"; }}\ncd \"$project\" || exit 3\n{}",
            value(self.mark),
            value(self.project),
            run(runner, words)
        )
    }

    /// Returns the script that runs the tests on the last commit.
    pub(crate) fn before(&self, runner: Runner, words: &[String]) -> String {
        format!("{}{CLEAN}say \"base $base\"\n{WORKTREE}{}", self.begin(), run(runner, words))
    }

    /// Returns the script that prints what a commit changes: its subject and its paths.
    pub(crate) fn commit_facts(&self, commit: &str) -> String {
        format!(
            "{}commit=$(g rev-parse --verify -q '{commit}^{{commit}}') || refuse no_such_commit\n\
             g rev-parse --verify -q \"$commit^2\" >/dev/null && refuse merge\n\
             g merge-base --is-ancestor \"$commit\" \"$base\" || refuse no_ancestor\n\
             say \"commit $commit\"\nsay subject\ng log -1 --format=%s \"$commit\"\nsay paths\n\
             g diff-tree --root --no-commit-id --name-only -r \"$commit\"\nsay end\n",
            self.begin()
        )
    }

    /// Returns the script that prints the last commits.
    pub(crate) fn log(&self, format: &str, most: u32) -> String {
        format!("{}say log\ng log -n {most} --format='{format}'\nsay end\n", self.begin())
    }

    /// Returns the script that makes a change on the commit `base`, and runs the tests.
    pub(crate) fn after(
        &self,
        base: &str,
        change: ScriptChange<'_>,
        runner: Runner,
        words: &[String],
    ) -> String {
        format!(
            "{}{CLEAN}{}{WORKTREE}{}tree=$(g write-tree) || refuse git\nsay \"tree $tree\"\nsay diff\n\
             g diff --cached --text --no-renames --no-color --no-ext-diff --no-textconv | head -c {MOST_BYTES}\n{}",
            self.begin(),
            same(base),
            make(change),
            run(runner, words)
        )
    }

    /// Returns the script that makes a change on the last commit, without tests.
    pub(crate) fn stage(&self, change: ScriptChange<'_>) -> String {
        format!(
            "{}{CLEAN}say \"base $base\"\n{WORKTREE}{}tree=$(g write-tree) || refuse git\nsay \"tree $tree\"\nsay diff\n\
             g diff --cached --text --no-renames --no-color --no-ext-diff --no-textconv | head -c {MOST_BYTES}\nsay end\n",
            self.begin(),
            make(change),
        )
    }

    /// Returns the script that makes the change in the project and commits it, if its tree is the one that was
    /// tested.
    pub(crate) fn apply(&self, base: &str, change: ScriptChange<'_>, tree: &str) -> String {
        format!(
            "{}{CLEAN}{}{}[ \"$(g write-tree)\" = '{tree}' ] || refuse other_tree\n\
             made=$(g commit --quiet --no-verify --no-edit -F \"$HOME/{MESSAGE_FILE}\" 2>&1) || refuse git \"$made\"\n\
             [ \"$(g rev-parse 'HEAD^{{tree}}')\" = '{tree}' ] || refuse other_tree\n\
             say \"commit $(g rev-parse HEAD)\"\nsay end\n",
            self.begin(),
            same(base),
            make(change),
        )
    }
}

/// Returns true if a name can be a word of a script.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    !name.is_empty() && !name.starts_with(['-', '/']) && !name.contains("..") && name.chars().all(is_plain)
}

fn same(base: &str) -> String {
    format!("[ \"$base\" = '{base}' ] || refuse moved\n")
}

fn make(change: ScriptChange<'_>) -> String {
    match change {
        ScriptChange::File(path) => format!(
            "path={}\nno_links \"$project\" \"$path\"\nno_links \"$PWD\" \"$path\"\n\
             [ -e \"$project/$path\" ] && ! g ls-files --error-unmatch -- \"$path\" >/dev/null 2>&1 && refuse untracked\n\
             case $path in */*) mkdir -p \"${{path%/*}}\" || refuse kind ;; esac\n\
             cat \"$HOME/{CONTENT_FILE}\" > \"$path\" || refuse kind\n\
             made=$(g add -- \"$path\" 2>&1) || refuse ignored \"$made\"\n\
             g diff --cached --quiet && refuse no_change\n",
            quoted(&[path.to_owned()])
        ),
        ScriptChange::Folder(folder, paths) => {
            let folder = quoted(&[folder.to_owned()]);
            let each = paths
                .iter()
                .enumerate()
                .map(|(number, path)| format!("add {} {number}\n", quoted(std::slice::from_ref(path))));
            format!(
                "folder={folder}\nno_links \"$project\" \"$folder/x\"\nno_links \"$PWD\" \"$folder/x\"\n\
                 if [ -e \"$project/$folder\" ] || [ -L \"$project/$folder\" ]; then refuse exists; fi\n\
                 [ -z \"$(g ls-files -- \"$folder\")\" ] || refuse exists\n\
                 add() {{\n\
                 path=$folder/$1; mkdir -p \"${{path%/*}}\" || refuse kind\n\
                 cat \"$HOME/{CONTENT_FILE}-$2\" > \"$path\" || refuse kind\n\
                 made=$(g add -- \"$path\" 2>&1) || refuse ignored \"$made\"\n\
                 }}\n{}",
                each.collect::<String>()
            )
        }
        ScriptChange::Revert(commit) => format!(
            "made=$(g revert --no-commit '{commit}' 2>&1) || {{\n\
             names=$(g diff --name-only --diff-filter=U)\n\
             later=$(printf '%s\\n' \"$names\" | while IFS= read -r name; do g log --format='%h %s' '{commit}..HEAD' -- \"$name\"; done | sort -u)\n\
             refuse conflict \"later commits changed the same lines: $later\n\
files: $names\n\
$made\"\n\
             }}\ng diff --cached --quiet && refuse no_change\n"
        ),
    }
}

/// Returns the part of a script that runs the tests in the present folder and prints their report.
fn run(runner: Runner, words: &[String]) -> String {
    let exports: Vec<String> =
        runner.environment().iter().map(|(name, value)| format!("export {name}={value}\n")).collect();
    // The crates of other packages are built already in the project's own target folder.
    let target = match runner {
        Runner::Cargo | Runner::Nextest => {
            "export CARGO_TARGET_DIR=\"${CARGO_TARGET_DIR:-$project/target}\"\n"
        }
        _ => "",
    };
    format!(
        "{}{target}say output\n( {} ) 2>&1 </dev/null\nexit_code=$?\nsay \"exit $exit_code\"\n\
         if [ -f {REPORT} ]; then say report; head -c {MOST_BYTES} {REPORT}; fi\nsay end\n",
        exports.concat(),
        quoted(words)
    )
}

/// Text that a script has printed, by the marks in it.
pub(crate) struct Printed<'a> {
    mark: &'a str,
    text: &'a str,
}

impl<'a> Printed<'a> {
    pub(crate) fn of(mark: &'a str, text: &'a str) -> Self {
        Self { mark, text }
    }

    /// Returns the value behind the first line of this kind: `base HASH`.
    pub(crate) fn value(&self, kind: &str) -> Option<&'a str> {
        let begin = format!("\n{} {kind} ", self.mark);
        self.text.split_once(&begin)?.1.lines().next()
    }

    /// Returns the text from the first line of this kind to the next line of the other kind.
    pub(crate) fn part(&self, kind: &str, until: &str) -> Option<&'a str> {
        let (begin, end) = (format!("\n{} {kind}\n", self.mark), format!("\n{} {until}", self.mark));
        let (_, rest) = self.text.split_once(&begin)?;
        Some(rest.split_once(&end).map_or(rest, |(part, _)| part))
    }

    /// Returns the reason with which the script has ended early, and its details.
    pub(crate) fn refusal(&self) -> Option<(&'a str, &'a str)> {
        // The tests print after every refusal, so theirs are none.
        let own =
            self.text.split_once(&format!("\n{} output\n", self.mark)).map_or(self.text, |(own, _)| own);
        let (_, rest) = own.split_once(&format!("\n{} refused ", self.mark))?;
        Some(rest.split_once('\n').unwrap_or((rest, "")))
    }

    /// Returns the output of the runner; `None` if the script did not come that far.
    pub(crate) fn runner(&self, timed_out: bool) -> Option<RunnerOutput> {
        let (_, rest) = self.text.split_once(&format!("\n{} output\n", self.mark))?;
        // The last marks count: the tests can print what looks like one.
        let exit = format!("\n{} exit ", self.mark);
        let Some((output, after)) = rest.rsplit_once(&exit) else {
            let (output, report) = (rest.to_owned(), String::new());
            return Some(RunnerOutput { output, report, exit_code: -1, timed_out });
        };
        let exit_code = after.lines().next().and_then(|code| code.trim().parse().ok()).unwrap_or(-1);
        let report = after.split_once(&format!("\n{} report\n", self.mark)).map_or("", |(_, report)| report);
        let report = report.rsplit_once(&format!("\n{} end", self.mark)).map_or(report, |(report, _)| report);
        Some(RunnerOutput { output: output.to_owned(), report: report.to_owned(), exit_code, timed_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_script_are_told_apart_from_what_tests_print() {
        let text = "\nM base abc\n\nM output\nM exit 0\nline\n\nM exit 0\nforged\n\nM refused dirty\n\nM exit 1\n\nM report\n<x/>\n\nM end\n";
        let printed = Printed::of("M", text);
        assert_eq!((printed.value("base"), printed.refusal()), (Some("abc"), None));
        let ran = printed.runner(false).unwrap();
        assert_eq!((ran.exit_code, ran.report.as_str()), (1, "<x/>\n"));
        assert!(ran.output.contains("forged"));
        let refused = Printed::of("M", "\nM refused dirty\n M a.rs\n");
        assert_eq!(refused.refusal(), Some(("dirty", " M a.rs\n")));
        let cut = Printed::of("M", "\nM output\npart").runner(true).unwrap();
        assert_eq!((cut.exit_code, cut.timed_out, cut.output.as_str()), (-1, true, "part"));
        assert!(Printed::of("M", "").runner(false).is_none());
    }

    #[test]
    fn a_word_of_the_configuration_cannot_become_a_command_and_is_refused() {
        let shared = ["node_modules".to_owned(), "$(id)".to_owned(), "../x".to_owned(), "-x".to_owned()];
        let script = Script { mark: "M", project: "/w/a'b", shared: &shared };
        let text = script.before(Runner::Pytest, &["pytest".to_owned(), "a;b'c".to_owned()]);
        assert!(text.contains("shared='node_modules'\n") && text.contains(r"project='/w/a'\''b'"), "{text}");
        assert!(text.contains(r"( 'pytest' 'a;b'\''c' )"), "{text}");
    }
}
