//! `knowledge_write`: a markdown file of the base, created, replaced or appended to, and indexed
//! immediately.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roots::{EntryKind, LastLink, Roots, RootsError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout,
    Tool, ToolError,
};
use tool_support::files::failure;

use crate::base::{FOLDER, KnowledgeBase, within};
use crate::shelf::is_markdown;

/// Maximum size of a file that is appended to, in bytes.
const LARGEST: u64 = 32 * 1024 * 1024;

/// Maximum time for the vectors of the new text; the background computes later ones.
const SHORT: Duration = Duration::from_secs(20);

/// The `knowledge_write` tool.
pub struct KnowledgeWrite(pub(crate) Arc<KnowledgeBase>);

/// Arguments of `knowledge_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path relative to knowledge/, such as learned/boats.md.
    path: String,
    /// Markdown text.
    content: String,
    /// `create` fails if the file exists; `replace` and `append` create a missing file.
    mode: Mode,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// A treatment of existing content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Mode {
    Create,
    Replace,
    Append,
}

/// Result of `knowledge_write`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Path relative to the workspace.
    path: String,
    /// `created`, `replaced` or `appended`.
    action: String,
    /// True if all sections have vectors; false without a model (search by words only).
    indexed: bool,
}

impl Tool for KnowledgeWrite {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "knowledge_write",
        title: "Write knowledge",
        description: "Create, replace or append to a markdown file in knowledge/, for knowledge_search.",
        example: Example {
            files: &[],
            arguments: r##"{"path": "learned/boats.md", "content": "# Boats\n\nThey float.\n", "mode": "create"}"##,
            result: r#"{"path": "knowledge/learned/boats.md", "action": "created", "indexed": false}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(120),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let path = file(&args.path)?;
        // The comparison ignores case, because some file systems do.
        let first = path.components().next().map(|part| part.as_os_str().to_string_lossy().to_lowercase());
        let is_system = first.as_deref() == Some("system") && path.components().count() > 1;
        let level = if is_system { Level::Critical } else { Level::Moderate };
        let path = place.resolve("path", &tool::path_text(&Path::new(FOLDER).join(path)))?;
        Ok(Plan { level: Some(level), ..Plan::of(vec![Effect::Write { path }]) })
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let what = match args.mode {
            Mode::Create => "a new file",
            Mode::Replace => "the whole file, replacing its content",
            Mode::Append => "after the existing content",
        };
        Some(format!("{what}:\n{}", args.content))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let roots = context.service::<Roots>()?;
        let relative = file(&args.path)?;
        let path = context.place.workspace.join(FOLDER).join(&relative);
        no_links(context, &roots, &path)?;
        let folders = roots.create_parents(&path).map_err(failure(context))?;
        let action = match write(context, &roots, &path, &args) {
            Ok(action) => action,
            Err(error) => {
                folders.take_back();
                return Err(error);
            }
        };
        // The file is written even if indexing fails: the next search indexes it.
        let indexed =
            self.0.sync(context, false, Some(&relative)).and_then(|_| self.0.embed(context, Some(SHORT)));
        let indexed = match indexed {
            Ok(embedded) => self.0.index.has_model() && embedded.left == 0,
            Err(error) => {
                context.warn(format!("the file is written but not indexed: {}", error.message));
                false
            }
        };
        Ok(Output { path: context.place.show(&path), action: action.to_owned(), indexed })
    }
}

/// Returns the file that an argument names, relative to the base.
fn file(path: &str) -> Result<PathBuf, ToolError> {
    let relative = within(path)?;
    if !is_markdown(&relative) || path.ends_with('/') {
        return Err(ToolError::validation("path", "must end in .md")
            .hint("knowledge/ holds markdown; file_write writes other files"));
    }
    if relative.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".")) {
        return Err(ToolError::validation("path", "has a name that begins with a dot, which is not indexed"));
    }
    Ok(relative)
}

/// Refuses symbolic links in the path below the workspace: a write to `learned/` must not end in
/// `system/` or elsewhere.
fn no_links(context: &Context, roots: &Roots, path: &Path) -> Result<(), ToolError> {
    let below = path.ancestors().take_while(|above| *above != context.place.workspace);
    for above in below {
        match roots.metadata(above, LastLink::Keep) {
            Ok(found) if found.kind == EntryKind::Link => return Err(is_link(context, above)),
            // A missing path is no link, and a refused path is refused again by the write.
            _ => {}
        }
    }
    Ok(())
}

fn is_link(context: &Context, path: &Path) -> ToolError {
    ToolError::new(Code::Permission, format!("{} is a link, or is behind one", context.place.show(path)))
        .hint("knowledge_write writes only in knowledge/ itself; give the path to which the link leads")
}

fn write(context: &Context, roots: &Roots, path: &Path, args: &Args) -> Result<&'static str, ToolError> {
    let outward = failure(context);
    let opened = match roots.open_file(path) {
        Ok(opened) => Some(opened),
        Err(RootsError::NotFound { .. } | RootsError::NoFolder { .. }) => None,
        Err(error) => return Err(outward(error)),
    };
    if let (Mode::Create, Some(_)) = (args.mode, &opened) {
        let message = format!("{} already exists", context.place.show(path));
        return Err(ToolError::new(Code::Conflict, message)
            .hint("`replace` overwrites the file, `append` adds to it"));
    }
    let mut content = Vec::new();
    if let (Mode::Append, Some(opened)) = (args.mode, &opened) {
        (&opened.file).take(LARGEST + 1).read_to_end(&mut content).map_err(|error| {
            ToolError::new(Code::Runtime, format!("{} cannot be read: {error}", context.place.show(path)))
        })?;
        if content.len() as u64 > LARGEST {
            let message = format!("{} has more than {LARGEST} bytes", context.place.show(path));
            return Err(ToolError::new(Code::Quota, message).hint("create another file"));
        }
        if !content.is_empty() && !content.ends_with(b"\n") {
            content.push(b'\n');
        }
    }
    content.extend_from_slice(args.content.as_bytes());
    let staged = roots.stage(path, &content).map_err(outward)?;
    // A link that was created after the check.
    if staged.real() != path {
        return Err(is_link(context, path));
    }
    context.stop.check()?;
    match &opened {
        // A write of another process since the read must not be lost.
        Some(opened) => staged.commit_over(opened).map_err(outward)?,
        None => staged.commit().map_err(outward)?,
    };
    Ok(match (args.mode, opened) {
        (_, None) => "created",
        (Mode::Append, Some(_)) => "appended",
        (_, Some(_)) => "replaced",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{DenyNames, Workspace};

    use super::*;
    use crate::tests::World;

    #[test]
    fn a_file_is_made_continued_and_replaced_and_found_at_once() {
        let world = World::with_model(Workspace::new());
        let write = |mode: &str, content: &str| {
            let arguments = json!({"path": "learned/deep/sea.md", "content": content, "mode": mode});
            world.run("knowledge_write", arguments)
        };
        let made = write("create", "# Sea\n\nSalt").unwrap();
        assert_eq!(
            made,
            json!({"path": "knowledge/learned/deep/sea.md", "action": "created", "indexed": true})
        );
        assert_eq!(write("create", "x").unwrap_err().code, Code::Conflict);
        assert_eq!(write("append", "\n# Tide\n\nlow\n").unwrap()["action"], "appended");
        assert_eq!(world.workspace.read("knowledge/learned/deep/sea.md"), "# Sea\n\nSalt\n\n# Tide\n\nlow\n");
        let found = world.run("knowledge_search", json!({"query": "tide"})).unwrap();
        assert_eq!((&found["results"][0]["section"], &found["waiting"]), (&json!("Tide"), &json!(0)));
        assert_eq!(write("replace", "# New\n").unwrap()["action"], "replaced");
        assert_eq!(world.workspace.read("knowledge/learned/deep/sea.md"), "# New\n");
        let new = json!({"path": "knowledge/plugins/p.md", "content": "p\n", "mode": "append"});
        assert_eq!(world.run("knowledge_write", new).unwrap()["action"], "created");
        assert_eq!(world.workspace.names("knowledge"), ["learned", "plugins"]);
    }

    #[test]
    fn the_level_is_critical_for_system_and_paths_that_leave_the_base_are_refused() {
        let world = World::new(Workspace::new());
        let plan = |path: &str| {
            world.plan("knowledge_write", json!({"path": path, "content": "", "mode": "create"}))
        };
        for (path, level) in [
            ("system/a.md", Level::Critical),
            ("knowledge/system/a.md", Level::Critical),
            ("./system//deep/a.md", Level::Critical),
            ("System/a.md", Level::Critical),
            ("learned/a.md", Level::Moderate),
            ("plugins/a.md", Level::Moderate),
            ("user/system/a.md", Level::Moderate),
            ("system.md", Level::Moderate),
        ] {
            let plan = plan(path).unwrap();
            assert_eq!(plan.level, Some(level), "{path}");
            assert!(
                matches!(&plan.effects[..], [Effect::Write { path }] if path.starts_with(world.workspace.at("knowledge")))
            );
        }
        for path in [
            "../a.md",
            "learned/../system/a.md",
            "/etc/a.md",
            "",
            "knowledge",
            ".",
            "a.txt",
            "a",
            "d.md/",
            ".git/a.md",
            "a\0.md",
        ] {
            let error = plan(path).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{path:?}");
            assert!(error.message.starts_with("`path`"), "{}", error.message);
        }
    }

    #[test]
    fn links_and_denied_places_are_refused_and_nothing_is_left() {
        let guard = DenyNames { write: &["locked.md"], read: &[] };
        let workspace = Workspace::new().guarded(guard).with_files(&[
            ("knowledge/system/rules.md", "rules\n"),
            ("knowledge/learned/locked.md", "l\n"),
            ("elsewhere/f.md", "f\n"),
        ]);
        workspace.link("knowledge/learned/rules.md", "../system/rules.md");
        workspace.link("knowledge/learned/folder", "../../elsewhere");
        workspace.link("knowledge/learned/out", "../../../outside");
        workspace.link("knowledge/learned/nowhere.md", "../system/new.md");
        let world = World::new(workspace);
        for path in [
            "learned/rules.md",
            "learned/folder/f.md",
            "learned/folder/new/g.md",
            "learned/out/x.md",
            "learned/nowhere.md",
            "learned/locked.md",
        ] {
            for mode in ["replace", "append"] {
                let arguments = json!({"path": path, "content": "x\n", "mode": mode});
                let error = world.run("knowledge_write", arguments).unwrap_err();
                assert_eq!(error.code, Code::Permission, "{path}: {error}");
            }
        }
        assert_eq!(world.workspace.read("knowledge/system/rules.md"), "rules\n");
        assert_eq!(world.workspace.names("knowledge/system"), ["rules.md"]);
        assert_eq!(world.workspace.names("elsewhere"), ["f.md"]);
        assert_eq!(world.workspace.names("../outside"), Vec::<String>::new());
    }
}
