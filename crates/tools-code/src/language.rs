//! The languages of scripts, and the files with which each runs.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox::{CellSpec, FoundProgram};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::{Code, ToolError};

/// Program that runs scripts in JavaScript where Node is missing. The path of the script's folder follows the
/// arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaScriptEngine {
    /// Absolute path.
    pub program: PathBuf,
    /// Arguments before the folder.
    pub arguments: Vec<OsString>,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Language of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Language {
    #[default]
    Python,
    JavaScript,
}

impl Language {
    /// Returns the name of the program on the search path.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::JavaScript => "node",
        }
    }
}

/// Interpreter of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interpreter {
    Python,
    Node,
    BuiltIn(JavaScriptEngine),
}

impl Interpreter {
    /// Chooses the interpreter for a cell.
    ///
    /// # Errors
    /// `EPERMISSION` if a rule denies the program of the language, and `EUNAVAILABLE` if it is missing.
    pub(crate) fn of(
        language: Language,
        engine: Option<&JavaScriptEngine>,
        cell: &CellSpec,
    ) -> Result<Self, ToolError> {
        let program = language.program();
        let is_shown = |engine: &&JavaScriptEngine| {
            let program = engine.program.to_str();
            program.is_some_and(|program| FoundProgram::of(program, cell) == FoundProgram::Shown)
        };
        match (FoundProgram::of(program, cell), language, engine.filter(is_shown)) {
            (FoundProgram::Shown, Language::Python, _) => Ok(Self::Python),
            (FoundProgram::Shown, Language::JavaScript, _) => Ok(Self::Node),
            (FoundProgram::Missing, Language::JavaScript, Some(engine)) => Ok(Self::BuiltIn(engine.clone())),
            (FoundProgram::Denied, _, _) => {
                let message = format!("denied: a rule closes {program}, which scripts of this language need");
                Err(ToolError::new(Code::Permission, message).hint("call the tools one by one"))
            }
            (FoundProgram::Missing, _, engine) => Err(missing(language, engine.is_some())),
        }
    }

    /// Returns the names of the file that runs the script, and of the script.
    pub(crate) fn files(&self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("run.py", "script.py"),
            Self::Node => ("run.mjs", "script.mjs"),
            Self::BuiltIn(_) => ("run.js", "script.mjs"),
        }
    }

    /// Returns the content of the file that runs the script.
    pub(crate) fn bootstrap(&self) -> &'static str {
        match self {
            Self::Python => include_str!("scripts/python.py"),
            Self::Node => concat!(
                include_str!("scripts/node_begin.mjs"),
                include_str!("scripts/tools.js"),
                include_str!("scripts/node_end.mjs")
            ),
            Self::BuiltIn(_) => concat!(
                include_str!("scripts/embedded_begin.js"),
                include_str!("scripts/tools.js"),
                include_str!("scripts/inspect.js"),
                include_str!("scripts/embedded_end.js")
            ),
        }
    }

    /// Returns the command line by which `program` runs the script in a folder with the file `runner`.
    pub(crate) fn words(self, program: PathBuf, runner: PathBuf) -> Vec<OsString> {
        // Python takes no module from the folder or the environment, and looks for installed packages when a script
        // imports one.
        let options: Vec<OsString> = match self {
            Self::Python => ["-I", "-S"].map(OsString::from).into(),
            Self::Node => vec!["--no-warnings".into()],
            Self::BuiltIn(JavaScriptEngine { program, arguments }) => {
                let folder = runner.parent().unwrap_or(&runner).into();
                return std::iter::once(program.into()).chain(arguments).chain([folder]).collect();
            }
        };
        std::iter::once(program.into()).chain(options).chain([runner.into()]).collect()
    }
}

/// Makes the error for a language whose program is missing. `has_engine` is true if JavaScript needs none.
pub(crate) fn missing(language: Language, has_engine: bool) -> ToolError {
    let hint = if language == Language::Python && has_engine {
        "write the script in JavaScript with `language: javascript`, which needs no program here, or call the tools \
         one by one"
    } else {
        "use the other language, or call the tools one by one"
    };
    let message = format!("there is no {} for scripts here", language.program());
    ToolError::new(Code::Unavailable, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_built_in_engine_runs_javascript_where_node_is_missing_and_only_there() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let cell = CellSpec { search_path: vec![folder.path().to_owned()], ..CellSpec::default() };
        let engine = JavaScriptEngine { program: program("engine"), arguments: vec!["run".into()] };
        let of = |language, engine, cell: &CellSpec| {
            Interpreter::of(language, engine, cell).map_err(|error| error.code)
        };
        let chosen = |language, cell: &CellSpec| of(language, Some(&engine), cell);
        assert_eq!(chosen(Language::JavaScript, &cell), Ok(Interpreter::BuiltIn(engine.clone())));
        assert_eq!(of(Language::JavaScript, None, &cell), Err(Code::Unavailable));
        assert_eq!(chosen(Language::Python, &cell), Err(Code::Unavailable));
        let words = Interpreter::BuiltIn(engine.clone()).words("node".into(), "/s/1/run.js".into());
        assert_eq!(words, [engine.program.as_os_str(), "run".as_ref(), "/s/1".as_ref()]);
        let node = program("node");
        assert_eq!(chosen(Language::JavaScript, &cell), Ok(Interpreter::Node));
        let denied = CellSpec { covered: vec![node.clone()], ..cell.clone() };
        assert_eq!(
            chosen(Language::JavaScript, &denied),
            Err(Code::Permission),
            "a denied program is not replaced"
        );
        fs::remove_file(node).unwrap();
        let denied = CellSpec { covered: vec![engine.program.clone()], ..cell };
        assert_eq!(
            chosen(Language::JavaScript, &denied),
            Err(Code::Unavailable),
            "nor is a denied engine used"
        );
    }
}
