//! `self_read_source`: a file of a project that Handfast may develop.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Context, Effect, Example, Place, Plan, Presentation, Spec, TextCap, Tool, ToolError};
use tool_support::files::failure;

use crate::protected_paths::normal;
use crate::self_projects::SelfDevelopment;

/// The `self_read_source` tool.
pub struct SelfReadSource(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_read_source`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path relative to the project root; `NAME:PATH` for another project than the first.
    path: String,
}

/// Result of `self_read_source`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Text of the file.
    content: String,
    /// Language, by the name of the file.
    language: String,
    /// Number of lines.
    line_count: u64,
}

/// Maximum size of a file in bytes, the same as for a modification.
pub(crate) const LARGEST_SOURCE: u64 = 1024 * 1024;

impl Tool for SelfReadSource {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Read own source",
        example: Example {
            files: &[("src/main.py", "print('hello')\n")],
            arguments: r#"{"path": "src/main.py"}"#,
            result: r#"{"content": "print('hello')\n", "language": "python", "line_count": 1}"#,
        },
        text: TextCap::Default,
        presentation: Presentation::Text { field: "content" },
        ..Spec::reading(
            "self_read_source",
            "Read a source file of the project that the configuration names for self-development.",
        )
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Read { path: self.path(args, place)? }]))
    }

    fn answer_bytes(&self, _args: &Args) -> u64 {
        LARGEST_SOURCE
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = self.path(&args, &context.place)?;
        let opened = context.service::<Roots>()?.open_file(&path).map_err(failure(context))?;
        let mut bytes = Vec::new();
        let read = opened.file.take(LARGEST_SOURCE + 1).read_to_end(&mut bytes);
        read.map_err(|error| ToolError::io("read", &path, error))?;
        if bytes.len() as u64 > LARGEST_SOURCE {
            return Err(ToolError::new(
                Code::Quota,
                format!("the file is larger than {LARGEST_SOURCE} bytes"),
            )
            .hint("file_read reads a part of it"));
        }
        let content = String::from_utf8(bytes).map_err(|error| {
            ToolError::validation("path", "the file is no UTF-8 text")
                .hint("file_read reads other encodings")
                .because(error)
        })?;
        let line_count = content.lines().count() as u64;
        Ok(Output { language: language(&args.path).to_owned(), line_count, content })
    }
}

impl SelfReadSource {
    fn path(&self, args: &Args, place: &Place) -> Result<PathBuf, ToolError> {
        let named = self.0.named(&args.path)?;
        let path = normal(named.rest).map_err(|problem| ToolError::validation("path", problem))?;
        Ok(place.resolve("path", &named.project.folder.to_string_lossy())?.join(path))
    }
}

/// Returns the language of a file by its name; `text` if the name tells none.
fn language(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map_or(name, |(_, ending)| ending) {
        "rs" => "rust",
        "py" | "pyi" => "python",
        "js" | "mjs" | "cjs" | "jsx" => "javascript",
        "ts" | "mts" | "cts" | "tsx" => "typescript",
        "go" => "go",
        "java" => "java",
        "kt" => "kotlin",
        "c" | "h" => "c",
        "cc" | "cpp" | "cxx" | "hpp" => "cpp",
        "cs" => "csharp",
        "rb" => "ruby",
        "php" => "php",
        "swift" => "swift",
        "sh" | "bash" => "shell",
        "sql" => "sql",
        "html" => "html",
        "css" => "css",
        "json" => "json",
        "yaml" | "yml" => "yaml",
        "toml" => "toml",
        "md" => "markdown",
        "Makefile" => "makefile",
        "Dockerfile" => "dockerfile",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{DenyNames, Workspace};
    use tool::ErasedTool;

    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn a_path_out_of_the_project_is_denied_and_so_is_a_denied_file() {
        let project = crate::own_project::Project { folder: "app".into(), ..project(&[]) };
        let tool = ErasedTool::tool(SelfReadSource(Arc::new(SelfDevelopment::new(vec![project]))));
        let workspace = Workspace::new()
            .with_files(&[("app/a.rs", "one\ntwo\n"), ("app/.env", "K=1\n"), ("b.rs", "x")])
            .guarded(DenyNames { read: &[".env"], write: &[] });
        let read = |path: &str| testkit::run_tool(tool.as_ref(), &workspace, json!({"path": path}));
        let found = read("sample:a.rs").unwrap();
        assert_eq!((&found["line_count"], &found["language"]), (&json!(2), &json!("rust")));
        assert_eq!(read("../b.rs").unwrap_err().code, Code::Validation);
        assert_eq!(read("/etc/passwd").unwrap_err().code, Code::Validation);
        assert_eq!(read(".env").unwrap_err().code, Code::Permission);
        workspace.sparse("app/big.rs", LARGEST_SOURCE + 1);
        assert_eq!(read("big.rs").unwrap_err().code, Code::Quota);
    }
}
