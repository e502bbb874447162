//! `file_search`: a regular expression search in file contents.

use std::io;
use std::path::{Path, PathBuf};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use roots::{Entry, EntryKind, Folder, LastLink, OpenedFile, Roots, RootsError, Step, Visit, Walk};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::files::failure;
use tool_support::left_out::{IgnoreRules, is_hidden};

use crate::matches::{Hits, Match, Pattern, StoppableFile};
use crate::selection::{Cursor, NameGlob};

/// The `file_search` tool.
pub(crate) struct FileSearch;

const DESCRIPTION: &str = "Search file contents by line with a Rust regex. Skips binary and ignored files.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Regex or plain text to find.
    pattern: String,
    /// File or folder to search.
    #[serde(default = "here")]
    path: String,
    /// Treat `pattern` as plain text.
    #[serde(default)]
    literal: bool,
    /// Match case.
    #[serde(default = "yes")]
    case_sensitive: bool,
    /// Search only files like `src/**/*.rs`.
    glob: Option<String>,
    /// Lines around each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context_lines: usize,
    /// Maximum matches.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: usize,
    /// Include names that start with a dot, except .git.
    #[serde(default)]
    include_hidden: bool,
    /// `next_cursor` of the last page.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// One match per line.
    matches: Vec<Match>,
    /// Number of files.
    files_searched: u64,
    /// True if there are more.
    truncated: bool,
    /// Cursor for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Missing parts, with reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

const DEFAULT_LIMIT: usize = 200;
const LARGEST_LIMIT: usize = 1_000;
const MAX_CONTEXT_LINES: usize = 20;
/// Maximum length of a page: matches and context, in the default text limit of an answer.
const PAGE_BYTES: usize = TextCap::DEFAULT_CHARACTERS;
/// Maximum memory for one line and its context. A file is searched up to a line that exceeds it.
const LONGEST_LINE_BYTES: usize = 8 << 20;

fn here() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl Tool for FileSearch {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_search",
        title: "Search in files",
        description: DESCRIPTION,
        example: Example {
            files: &[
                ("src/lib.rs", "mod a;\nfn main() {}\n"),
                ("target/x.rs", "fn main"),
                (".gitignore", "target"),
            ],
            arguments: r#"{"pattern": "fn \\w+", "glob": "*.rs", "context_lines": 1}"#,
            result: r#"{"matches": [{"path": "src/lib.rs", "line": 2, "column": 1, "text": "fn main() {}",
                                     "before": ["mod a;"]}], "files_searched": 1, "truncated": false}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let within = |field: &str, value: usize, least: usize, most: usize| {
            let problem = || format!("{value} is not between {least} and {most}");
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ToolError::validation(field, problem()))
            }
        };
        within("limit", args.limit, 1, LARGEST_LIMIT)?;
        within("context_lines", args.context_lines, 0, MAX_CONTEXT_LINES)?;
        matcher(args)?;
        NameGlob::parse("glob", args.glob.as_deref())?;
        args.cursor.as_deref().map(Cursor::decode).transpose()?;
        Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let roots = context.service::<Roots>()?;
        let path = context.place.resolve("path", &args.path)?;
        let outward = failure(context);
        let cursor = args.cursor.as_deref().map(Cursor::decode).transpose()?;
        let mut search = Search::new(context, &args, path.clone(), cursor.clone())?;
        let kind = roots.metadata(&path, LastLink::Follow).map_err(outward)?.kind;
        let walked = if kind == EntryKind::Folder {
            let folder = roots.open_folder(&path).map_err(outward)?;
            search.enter_around(&roots, folder.real());
            search.walk(&folder, cursor).map_err(outward)?
        } else {
            let opened = roots.open_file(&path).map_err(outward)?;
            search.file(opened, Path::new("")).map_err(outward)?;
            roots::WalkSummary::default()
        };
        context.stop.check()?;
        Ok(search.output(walked))
    }
}

fn matcher(args: &Args) -> Result<RegexMatcher, ToolError> {
    let pattern = Pattern { text: &args.pattern, literal: args.literal, case_sensitive: args.case_sensitive };
    pattern.compile("pattern")
}

struct Search<'a> {
    context: &'a Context,
    matcher: RegexMatcher,
    searcher: Searcher,
    glob: Option<NameGlob>,
    include_hidden: bool,
    limit: usize,
    /// The requested path.
    path: PathBuf,
    /// Real path of the searched folder.
    real: PathBuf,
    rules: IgnoreRules,
    /// The file and the line at which the previous page ended.
    resume: Option<Cursor>,
    matches: Vec<Match>,
    bytes_left: usize,
    last: Option<Cursor>,
    truncated: bool,
    searched: u64,
    binary: u64,
    long_lines: Vec<String>,
    unreadable: u64,
    /// Files that the guard hides because of another of their names.
    refused: u64,
}

impl<'a> Search<'a> {
    fn new(
        context: &'a Context,
        args: &Args,
        path: PathBuf,
        resume: Option<Cursor>,
    ) -> Result<Self, ToolError> {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(args.context_lines)
            .after_context(args.context_lines)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LONGEST_LINE_BYTES))
            .build();
        Ok(Self {
            context,
            matcher: matcher(args)?,
            searcher,
            glob: NameGlob::parse("glob", args.glob.as_deref())?,
            include_hidden: args.include_hidden,
            limit: args.limit,
            path,
            real: PathBuf::new(),
            rules: IgnoreRules::default(),
            resume,
            matches: Vec::new(),
            bytes_left: PAGE_BYTES,
            last: None,
            truncated: false,
            searched: 0,
            binary: 0,
            long_lines: Vec::new(),
            unreadable: 0,
            refused: 0,
        })
    }

    /// Reads the ignore files of the folders from the workspace to the searched folder.
    fn enter_around(&mut self, roots: &Roots, real: &Path) {
        let around: Vec<&Path> = real.ancestors().skip(1).collect();
        for folder in around.into_iter().rev().filter(|path| path.starts_with(&self.context.place.workspace))
        {
            // An unreadable folder has no rules.
            if let Ok(folder) = roots.open_folder(folder) {
                self.rules.enter(&folder);
            }
        }
    }

    fn walk(&mut self, folder: &Folder, cursor: Option<Cursor>) -> roots::Result<roots::WalkSummary> {
        folder.real().clone_into(&mut self.real);
        let after = cursor.map(|cursor| cursor.path);
        // The file at which the previous page ended is searched again from its last line, unless it was
        // deleted.
        if let Some(path) = &after
            && let Ok(opened) = open_again(folder, path)
            && self.file(opened, path)? == Step::End
        {
            return Ok(roots::WalkSummary { ended: true, ..roots::WalkSummary::default() });
        }
        Walk { recursive: true, after }.over(folder, self)
    }

    fn file(&mut self, opened: OpenedFile, relative: &Path) -> roots::Result<Step> {
        let passed = self.resume.take_if(|cursor| cursor.path == relative).map_or(0, |cursor| cursor.number);
        let shown =
            if relative.as_os_str().is_empty() { self.path.clone() } else { self.path.join(relative) };
        let real = opened.real.clone();
        let room = self.limit - self.matches.len();
        let mut hits =
            Hits::new(&self.matcher, self.context.place.show(&shown), passed, room, self.bytes_left);
        let reader = StoppableFile { file: opened.file, context: self.context };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut hits);
        self.searched += 1;
        match searched {
            Ok(()) => {}
            Err(_) if self.context.stop.requested().is_some() => return Err(RootsError::Stopped),
            // Errors of the system have a number; the one error without a number is that of the searcher's
            // buffer.
            Err(error) if error.raw_os_error().is_none() => self.long_lines.push(hits.path.clone()),
            Err(source) => return Err(RootsError::Io { doing: "search", path: real, source }),
        }
        if hits.binary {
            self.binary += 1;
            return Ok(Step::Next);
        }
        if let Some(last) = hits.found.last() {
            self.last = Some(Cursor { path: relative.to_owned(), number: last.line });
        }
        self.bytes_left = hits.bytes_left;
        self.truncated = hits.full;
        self.matches.append(&mut hits.found);
        Ok(if self.truncated { Step::End } else { Step::Next })
    }

    fn output(self, walked: roots::WalkSummary) -> Output {
        let count = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let long = self.long_lines.first().map(|first| {
            let others = self.long_lines.len() - 1;
            let others = if others == 0 { String::new() } else { format!(" and {others} more files") };
            format!("{first}{others}: searched only up to a line longer than {LONGEST_LINE_BYTES} bytes")
        });
        let notes = [
            count(self.binary, "binary files skipped"),
            count(self.unreadable + walked.unreadable, "files or folders cannot be read"),
            count(self.refused + walked.refused, "files or folders hidden by the policy"),
            count(walked.too_deep, "folders are too deep: search them by their own path"),
            long,
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        Output {
            matches: self.matches,
            files_searched: self.searched,
            truncated: self.truncated,
            next_cursor: self.last.filter(|_| self.truncated).map(|last| last.encode()),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }
}

/// Opens the file at which the previous page ended.
fn open_again(folder: &Folder, path: &Path) -> roots::Result<OpenedFile> {
    let mut names = path.iter();
    let name = names.next_back().unwrap_or_default();
    match names.next() {
        None => folder.open_file(name),
        Some(first) => {
            let around =
                names.try_fold(folder.open_folder(first)?, |folder, name| folder.open_folder(name))?;
            around.open_file(name)
        }
    }
}

impl Visit for Search<'_> {
    fn enter(&mut self, folder: &Folder, _relative: &Path) -> roots::Result<()> {
        self.rules.enter(folder);
        Ok(())
    }

    fn leave(&mut self) {
        self.rules.leave();
    }

    fn wants(&mut self, entry: Entry<'_>, relative: &Path) -> bool {
        let is_folder = entry.kind == EntryKind::Folder;
        let chosen = match entry.kind {
            EntryKind::Folder => entry.name != ".git",
            EntryKind::File => self.glob.as_ref().is_none_or(|glob| glob.matches(relative)),
            _ => false,
        };
        chosen
            && (self.include_hidden || !is_hidden(entry.name))
            && !self.rules.ignores(&self.real.join(relative), is_folder)
    }

    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> roots::Result<Step> {
        if self.context.stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        if entry.kind != EntryKind::File {
            return Ok(Step::Next);
        }
        match folder.open_file(entry.name) {
            Ok(opened) => self.file(opened, relative),
            Err(RootsError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                self.unreadable += 1;
                Ok(Step::Next)
            }
            Err(RootsError::Refused { .. }) => {
                self.refused += 1;
                Ok(Step::Next)
            }
            // The entry was deleted or replaced after its name was read.
            Err(RootsError::NotFound { .. } | RootsError::WrongKind { .. }) => Ok(Step::Next),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{Code, ErasedTool, StopReason};

    use super::*;

    fn search(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FileSearch).as_ref(), workspace, arguments)
    }

    /// Returns each match as `path:line:column:text`.
    fn lines(output: &Value) -> Vec<String> {
        let line = |found: &Value| {
            let text = |field: &str| found[field].as_str().unwrap().to_owned();
            format!("{}:{}:{}:{}", text("path"), found["line"], found["column"], text("text"))
        };
        output["matches"].as_array().unwrap().iter().map(line).collect()
    }

    fn found(workspace: &Workspace, arguments: Value) -> Vec<String> {
        lines(&search(workspace, arguments).unwrap())
    }

    #[test]
    fn a_pattern_is_a_regex_or_literal_text_with_or_without_case() {
        let workspace = Workspace::new().with_files(&[("f", "a.b\naxb\r\nöö A.B\n")]);
        assert_eq!(found(&workspace, json!({"pattern": "a.b"})), ["f:1:1:a.b", "f:2:1:axb"]);
        assert_eq!(found(&workspace, json!({"pattern": "a.b", "literal": true})), ["f:1:1:a.b"]);
        let any_case = json!({"pattern": "a.b", "literal": true, "case_sensitive": false, "path": "f"});
        assert_eq!(found(&workspace, any_case), ["f:1:1:a.b", "f:3:4:öö A.B"]);
        assert_eq!(found(&workspace, json!({"pattern": "nowhere"})), Vec::<String>::new());
    }

    #[test]
    fn a_line_may_end_like_on_windows() {
        let workspace = Workspace::new().with_files(&[("f", "one\r\ntwo\r\n")]);
        for pattern in ["two$", "^two$", "^.{3}$"] {
            assert_eq!(
                found(&workspace, json!({"pattern": pattern})).last().unwrap(),
                "f:2:1:two",
                "{pattern}"
            );
        }
        // A carriage return can be searched for, in order to find files that have it.
        assert_eq!(found(&workspace, json!({"pattern": "\\r"})).len(), 2);
    }

    #[test]
    fn context_is_given_once() {
        let workspace = Workspace::new().with_files(&[("f", "1\n2\nX\n4\nX\n6\n7\n")]);
        let output = search(&workspace, json!({"pattern": "X", "context_lines": 2})).unwrap();
        assert_eq!(output["matches"][0]["before"], json!(["1", "2"]));
        assert_eq!(output["matches"][0]["after"], json!(["4"]));
        assert_eq!(output["matches"][1]["after"], json!(["6", "7"]));
        assert!(output["matches"][1].get("before").is_none());
    }

    #[test]
    fn a_page_of_long_lines_ends_early() {
        let workspace = Workspace::new().with_files(&[("f", &format!("{}\n", "X".repeat(400)).repeat(200))]);
        let page = search(&workspace, json!({"pattern": "X"})).unwrap();
        assert!(page["truncated"] == true && page["matches"].as_array().unwrap().len() < 100);
        assert!(page.to_string().len() < 40_000, "{}", page.to_string().len());
    }

    #[test]
    fn binary_files_are_left_out_and_counted() {
        let workspace = Workspace::new().with_files(&[("text", "X")]);
        workspace.write("binary", b"X\n\0");
        workspace.write("wide", b"\xff\xfeX\0\n\0");
        let output = search(&workspace, json!({"pattern": "X"})).unwrap();
        assert_eq!(lines(&output), ["text:1:1:X", "wide:1:1:X"]);
        assert_eq!(
            (&output["files_searched"], &output["note"]),
            (&json!(3), &json!("1 binary files skipped"))
        );
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_position() {
        let workspace = Workspace::new();
        for (arguments, text) in [
            (json!({"pattern": "a(b"}), "`pattern`: unclosed group at character 2"),
            (json!({"pattern": "a\\nb"}), "`pattern`"),
            (json!({"pattern": "x", "glob": "["}), "`glob`"),
            (json!({"pattern": "x", "limit": 1001}), "1000"),
            (json!({"pattern": "x", "context_lines": 21}), "`context_lines`"),
            (json!({"pattern": "x", "cursor": "?"}), "`cursor`"),
            (json!({"pattern": "(a{1000}){1000}"}), "`pattern`"),
        ] {
            let error = search(&workspace, arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(text), "{}", error.message);
        }
        assert_eq!(found(&workspace, json!({"pattern": "a(b", "literal": true})), Vec::<String>::new());
    }

    #[test]
    fn a_denied_file_is_not_searched_under_any_name() {
        let guard = DenyNames { read: &["secret"], ..DenyNames::default() };
        let workspace = Workspace::new().guarded(guard).with_files(&[
            ("secret", "X"),
            ("d/secret/x", "X"),
            ("f", "X"),
            ("../outside/o", "X"),
        ]);
        workspace.link("link", "secret");
        workspace.link("out", "../outside");
        let output = search(&workspace, json!({"pattern": "X"})).unwrap();
        assert_eq!(lines(&output), ["f:1:1:X"]);
        assert_eq!(output["note"], "2 files or folders hidden by the policy");
        for path in ["secret", "link", "d/secret", "out", "../outside"] {
            let error = search(&workspace, json!({"pattern": "X", "path": path})).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{path}");
        }
    }

    #[test]
    fn a_long_search_ends_with_the_call() {
        let workspace = Workspace::new().with_files(&[("f", "x")]);
        let context = workspace.context();
        context.stop.request(StopReason::Deadline);
        let tool = ErasedTool::tool(FileSearch);
        for path in [".", "f"] {
            let arguments = json!({"pattern": "x", "path": path});
            assert_eq!(testkit::run_in(tool.as_ref(), &context, arguments).unwrap_err().code, Code::Timeout);
        }
    }
}
