//! `file_list`: the entries of a folder.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use roots::{Entry, Folder, Roots, RootsError, Step, Visit, Walk};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::files::failure;
use tool_support::left_out::is_hidden;

use crate::rows::{ListedEntry, Names, Rows};
use crate::selection::{Cursor, NameGlob};

/// The `file_list` tool.
pub(crate) struct FileList;

const DESCRIPTION: &str = "List a folder, or with `recursive` everything below it. Links are not followed.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path, relative or absolute.
    path: String,
    /// Include all folders below.
    #[serde(default)]
    recursive: bool,
    /// Glob: `*.rs`, or `a/**/*.rs` below `path`.
    pattern: Option<String>,
    /// Include names that start with a dot.
    #[serde(default)]
    include_hidden: bool,
    /// Return entries, not only `names`.
    #[serde(default = "yes")]
    details: bool,
    /// Maximum entries.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 20_000))]
    limit: usize,
    /// `next_cursor` of the last page.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Entries, sorted by path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<ListedEntry<'_>>>")]
    entries: Option<Rows>,
    /// Paths below `path`; `a/` is a folder, `b@` a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    names: Option<Names>,
    /// True if there are more.
    truncated: bool,
    /// Cursor for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Number of entries that the policy hides.
    hidden_by_policy: u64,
    /// Missing parts, with reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

const DEFAULT_LIMIT: usize = 1_000;
/// Maximum number of entries per page: about 3 MB of JSON.
const LARGEST_LIMIT: usize = 20_000;

/// Usual maximum number of JSON bytes per entry.
const DETAILED_ENTRY: u64 = 300;
const BARE_ENTRY: u64 = 80;

fn yes() -> bool {
    true
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl Tool for FileList {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_list",
        title: "List a folder",
        description: DESCRIPTION,
        example: Example {
            files: &[("src/lib.rs", "pub mod a;\n"), ("src/a/mod.rs", ""), ("README.md", "")],
            arguments: r#"{"path": "src", "recursive": true, "pattern": "*.rs"}"#,
            result: r#"{"entries": [{"name": "mod.rs", "path": "src/a/mod.rs", "type": "file", "size_bytes": 0},
                                    {"name": "lib.rs", "path": "src/lib.rs", "type": "file", "size_bytes": 11}],
                        "truncated": false, "hidden_by_policy": 0}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(30),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if args.limit == 0 || args.limit > LARGEST_LIMIT {
            return Err(ToolError::validation(
                "limit",
                format!("{} is not between 1 and {LARGEST_LIMIT}", args.limit),
            ));
        }
        NameGlob::parse("pattern", args.pattern.as_deref())?;
        args.cursor.as_deref().map(Cursor::decode).transpose()?;
        Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        args.limit as u64 * if args.details { DETAILED_ENTRY } else { BARE_ENTRY }
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        let outward = failure(context);
        let folder = context.service::<Roots>()?.open_folder(&path).map_err(outward)?;
        let mut listing = Listing {
            context,
            shown: shown_prefix(&context.place, &path),
            glob: NameGlob::parse("pattern", args.pattern.as_deref())?,
            include_hidden: args.include_hidden,
            limit: args.limit,
            entries: args.details.then(Rows::default),
            looks_up_later: !args.recursive,
            names: (!args.details).then(Names::default),
            listed: 0,
            last: None,
        };
        let after = args.cursor.as_deref().map(Cursor::decode).transpose()?.map(|cursor| cursor.path);
        let walk = Walk { recursive: args.recursive, after };
        let walked = walk.over(&folder, &mut listing).map_err(outward)?;
        if let Some(rows) = &mut listing.entries {
            rows.look_up(&folder, &context.stop).map_err(outward)?;
        }
        let note = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let notes = [
            note(walked.unreadable, "folders cannot be read"),
            note(walked.too_deep, "folders are too deep: list them by their own path"),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        let last = listing.last.filter(|_| walked.ended);
        Ok(Output {
            entries: listing.entries,
            names: listing.names,
            truncated: walked.ended,
            next_cursor: last.map(|path| Cursor { path, number: 0 }.encode()),
            hidden_by_policy: walked.refused,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        })
    }
}

struct Listing<'a> {
    context: &'a Context,
    /// Prefix of the paths in the answer: the requested folder, so that callers can use the paths
    /// as they are.
    shown: String,
    glob: Option<NameGlob>,
    include_hidden: bool,
    limit: usize,
    entries: Option<Rows>,
    /// True if all entries lie in one folder and are looked up together after the walk.
    looks_up_later: bool,
    names: Option<Names>,
    listed: usize,
    last: Option<PathBuf>,
}

impl Listing<'_> {
    /// Adds an entry to the answer. Returns false if the entry was deleted after its name was read.
    fn add(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> roots::Result<bool> {
        // Nearly all names are UTF-8, and a check for that is faster than the conversion.
        let shown = relative.to_str().map_or_else(|| relative.to_string_lossy(), Cow::Borrowed);
        if let Some(names) = &mut self.names {
            names.push(&shown, entry.kind);
        }
        if let Some(rows) = &mut self.entries {
            // The conversion of a name that is not UTF-8 replaces bytes and allocates a text.
            let lossy = matches!(shown, Cow::Owned(_));
            if self.looks_up_later && !lossy {
                rows.push(&self.shown, &shown, lossy, None);
                return Ok(true);
            }
            match folder.metadata(entry.name) {
                Ok(metadata) => rows.push(&self.shown, &shown, lossy, Some(metadata)),
                Err(RootsError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Visit for Listing<'_> {
    fn wants(&mut self, entry: Entry<'_>, _relative: &Path) -> bool {
        self.include_hidden || !is_hidden(entry.name)
    }

    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> roots::Result<Step> {
        if self.context.stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        if self.glob.as_ref().is_some_and(|glob| !glob.matches(relative)) {
            return Ok(Step::Next);
        }
        // A page is truncated only if another entry would follow.
        if self.listed >= self.limit {
            return Ok(Step::End);
        }
        if self.add(folder, entry, relative)? {
            self.listed += 1;
            if self.listed == self.limit {
                self.last = Some(relative.to_owned());
            }
        }
        Ok(Step::Next)
    }
}

/// Returns the folder with a trailing slash, or an empty text for the workspace.
fn shown_prefix(place: &Place, folder: &Path) -> String {
    match place.show(folder).as_str() {
        "." => String::new(),
        shown if shown.ends_with('/') => shown.to_owned(),
        shown => format!("{shown}/"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{Code, ErasedTool, StopReason};

    use super::*;

    fn list(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FileList).as_ref(), workspace, arguments)
    }

    fn paths(output: &Value) -> Vec<&str> {
        output["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
    }

    #[test]
    fn entries_have_kind_size_and_time() {
        let workspace = Workspace::new().with_files(&[("b/x", ""), ("a.txt", "abc"), (".hidden", "")]);
        workspace.link("c", "../outside");
        let output = list(&workspace, json!({"path": "."})).unwrap();
        assert_eq!(paths(&output), ["a.txt", "b", "c"]);
        let kinds: Vec<_> = output["entries"].as_array().unwrap().iter().map(|e| &e["type"]).collect();
        assert_eq!(kinds, ["file", "directory", "symlink"]);
        let file = &output["entries"][0];
        assert_eq!((&file["name"], &file["size_bytes"]), (&json!("a.txt"), &json!(3)));
        file["modified_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
        let short = list(&workspace, json!({"path": ".", "details": false})).unwrap();
        assert_eq!(short["names"], json!(["a.txt", "b/", "c@"]));
        assert!(short.get("entries").is_none() && output.get("names").is_none());
        let all = list(&workspace, json!({"path": ".", "include_hidden": true})).unwrap();
        assert_eq!(paths(&all), [".hidden", "a.txt", "b", "c"]);
    }

    #[test]
    fn many_entries_have_each_their_own_size_in_order() {
        let workspace = Workspace::new();
        for number in 0..2_500 {
            workspace.write(&format!("many/f{number:04}"), "x".repeat(number % 11));
        }
        let output = list(&workspace, json!({"path": "many", "limit": 20_000})).unwrap();
        let entries = output["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 2_500);
        for (number, entry) in entries.iter().enumerate() {
            let name = format!("f{number:04}");
            assert_eq!((&entry["name"], &entry["path"]), (&json!(name), &json!(format!("many/{name}"))));
            assert_eq!((&entry["size_bytes"], &entry["type"]), (&json!(number % 11), &json!("file")));
        }
        let names = list(&workspace, json!({"path": "many", "limit": 20_000, "details": false})).unwrap();
        assert_eq!(names["names"].as_array().unwrap().len(), 2_500);
    }

    #[test]
    fn what_vanishes_before_it_is_looked_up_is_left_out_and_a_stop_ends_the_looking() {
        let workspace = Workspace::new().with_files(&[("a", "abc"), ("b", "")]);
        let context = workspace.context();
        let folder = context.service::<Roots>().unwrap().open_folder(workspace.path()).unwrap();
        let mut rows = Rows::default();
        for name in ["a", "gone", "b"] {
            rows.push("", name, false, None);
        }
        rows.look_up(&folder, &context.stop).unwrap();
        let shown = serde_json::to_value(&rows).unwrap();
        let names: Vec<_> = shown.as_array().unwrap().iter().map(|row| &row["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        rows.push("", "a", false, None);
        context.stop.request(StopReason::Cancelled);
        assert!(matches!(rows.look_up(&folder, &context.stop), Err(RootsError::Stopped)));
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        let workspace = Workspace::new();
        for number in 0..50 {
            workspace.write(&format!("d{}/f{number}", number % 7), "");
        }
        let all = list(&workspace, json!({"path": ".", "recursive": true})).unwrap();
        assert_eq!((paths(&all).len(), &all["truncated"]), (57, &json!(false)));
        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = json!({"path": ".", "recursive": true, "limit": 10});
            if !cursor.is_null() {
                arguments["cursor"] = cursor;
            }
            let page = list(&workspace, arguments).unwrap();
            pages.extend(paths(&page).into_iter().map(str::to_owned));
            cursor = page["next_cursor"].clone();
            if page["truncated"] == false {
                break;
            }
            assert_eq!(paths(&page).len(), 10);
        }
        assert_eq!(pages, paths(&all));
        // A page with exactly `limit` entries can be the last one.
        assert_eq!(list(&workspace, json!({"path": "d0", "limit": 8})).unwrap()["truncated"], false);
    }

    #[test]
    fn a_pattern_picks_by_name_or_by_path() {
        let workspace = Workspace::new().with_files(&[
            ("src/a.rs", ""),
            ("src/b/c.rs", ""),
            ("src/b/c.txt", ""),
            ("d.rs", ""),
        ]);
        let found = |pattern: &str| {
            let output =
                list(&workspace, json!({"path": ".", "recursive": true, "pattern": pattern})).unwrap();
            paths(&output).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(found("*.rs"), ["d.rs", "src/a.rs", "src/b/c.rs"]);
        assert_eq!(found("src/*.rs"), ["src/a.rs"]);
        assert_eq!(found("{b,d.*}"), ["d.rs", "src/b"]);
    }

    #[test]
    fn what_is_denied_is_hidden_and_counted_with_all_below_it() {
        let guard = DenyNames { read: &["secret"], ..DenyNames::default() };
        let workspace =
            Workspace::new().guarded(guard).with_files(&[("secret/a", ""), ("d/secret", ""), ("e", "")]);
        let output = list(&workspace, json!({"path": ".", "recursive": true})).unwrap();
        assert_eq!(paths(&output), ["d", "e"]);
        assert_eq!(output["hidden_by_policy"], 2);
        assert_eq!(list(&workspace, json!({"path": "secret"})).unwrap_err().code, Code::Permission);
    }

    #[test]
    fn a_link_out_is_shown_and_not_entered() {
        let workspace = Workspace::new().with_files(&[("../outside/secret", "")]);
        workspace.link("out", "../outside");
        let output = list(&workspace, json!({"path": ".", "recursive": true})).unwrap();
        assert_eq!(paths(&output), ["out"]);
        assert_eq!(list(&workspace, json!({"path": "out"})).unwrap_err().code, Code::Permission);
    }

    #[test]
    fn odd_names_are_shown_as_well_as_can_be() {
        let workspace = Workspace::new();
        workspace.write("new\nline \"quoted\"", "");
        let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"x\xff");
        rustix::fs::open(
            workspace.path().join(odd),
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
            rustix::fs::Mode::RUSR,
        )
        .unwrap();
        let output = list(&workspace, json!({"path": "."})).unwrap();
        assert_eq!(paths(&output), ["new\nline \"quoted\"", "x\u{fffd}"]);
        assert_eq!(output["entries"][1]["lossy"], true);
        assert!(output["entries"][0].get("lossy").is_none());
    }

    #[test]
    fn wrong_arguments_are_refused_with_their_field() {
        let workspace = Workspace::new().with_files(&[("f", "")]);
        for (arguments, text) in [
            (json!({"path": ".", "limit": 0}), "`limit`"),
            (json!({"path": ".", "limit": 20_001}), "20000"),
            (json!({"path": ".", "pattern": "a["}), "`pattern`"),
            (json!({"path": ".", "cursor": "nonsense"}), "`cursor`"),
            (json!({"path": "f"}), "a regular file"),
        ] {
            let error = list(&workspace, arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(text), "{}", error.message);
        }
        assert_eq!(list(&workspace, json!({"path": "gone"})).unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn a_long_listing_ends_with_the_call() {
        let workspace = Workspace::new().with_files(&[("f", "")]);
        let context = workspace.context();
        context.stop.request(StopReason::Cancelled);
        let tool = ErasedTool::tool(FileList);
        let error = testkit::run_in(tool.as_ref(), &context, json!({"path": "."})).unwrap_err();
        assert_eq!(error.code, Code::Cancelled);
    }
}
