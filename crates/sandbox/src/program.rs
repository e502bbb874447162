//! Conversion of a command into the arguments of `execve`.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::child::blueprint::{Start, c_string};
use crate::error::SandboxError;
use crate::spec::{CellSpec, Command, Program};
use crate::sys::StringArray;
use crate::system::HOME;
use crate::system::{SEARCH_PATH, shell};

/// Maximum number of bytes of one argument: `MAX_ARG_STRLEN` of linux/binfmts.h, with 4 KiB pages,
/// less the NUL at its end.
const LONGEST_ARGUMENT: usize = 32 * 4096 - 1;

/// Prepares the start of `command` in a cell of `spec`.
pub(crate) fn prepare(spec: &CellSpec, command: &Command, announced: bool) -> Result<Start, SandboxError> {
    if !command.working_directory.is_absolute() {
        return Err(invalid("working directory", "it is not absolute"));
    }
    let search_path = search_path(spec)?;
    let arguments = match &command.program {
        // After `--`, a line that begins with a dash is not taken for an option.
        Program::Shell(line) => vec![shell().into(), "-c".into(), "--".into(), line.into()],
        Program::Argv(arguments) => arguments.clone(),
    };
    let program = arguments.first().ok_or_else(|| invalid("command", "it has no program"))?.clone();
    if program.is_empty() {
        return Err(invalid("command", "its program is an empty string"));
    }
    let candidates = if program.as_bytes().contains(&b'/') {
        vec![c_string("command", &program)?]
    } else {
        std::env::split_paths(&search_path)
            .map(|folder| c_string("command", folder.join(&program)))
            .collect::<Result<_, _>>()?
    };
    let arguments = arguments.iter().map(argument).collect::<Result<_, _>>()?;
    let environment = environment(spec, &search_path, &command.working_directory)?;
    Ok(Start {
        working_directory: c_string("working directory", &command.working_directory)?,
        candidates,
        arguments: StringArray::new(arguments),
        environment: StringArray::new(environment),
        bounds: Vec::new(),
        processors: Vec::new(),
        announced,
        hands_over: false,
    })
}

/// Returns the name of the program of `command` for messages.
pub(crate) fn name(command: &Command) -> String {
    match &command.program {
        Program::Shell(_) => shell().to_owned(),
        Program::Argv(arguments) => {
            arguments.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
        }
    }
}

fn argument(text: &OsString) -> Result<CString, SandboxError> {
    if text.len() > LONGEST_ARGUMENT {
        return Err(SandboxError::Invalid {
            field: "command",
            reason: format!(
                "an argument has {} bytes, but the kernel accepts at most {LONGEST_ARGUMENT}; put it \
                 into a file",
                text.len()
            ),
        });
    }
    c_string("command", text)
}

fn search_path(spec: &CellSpec) -> Result<OsString, SandboxError> {
    if spec.search_path.is_empty() {
        return Ok(SEARCH_PATH.into());
    }
    std::env::join_paths(&spec.search_path)
        .map_err(|_| invalid("search path", "a folder of it has a colon in its name"))
}

/// Builds the environment from scratch.
fn environment(
    spec: &CellSpec,
    search_path: &OsStr,
    working_directory: &Path,
) -> Result<Vec<CString>, SandboxError> {
    let mut variables: BTreeMap<&OsStr, &OsStr> = [
        ("HOME", HOME),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", "agent"),
        ("SHELL", shell()),
        // Without a terminal, programs that do not check for one should not colour their output.
        ("TERM", if spec.terminal.is_some() { "xterm-256color" } else { "dumb" }),
        ("TMPDIR", "/tmp"),
        ("USER", "agent"),
    ]
    .map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
    .into();
    variables.insert(OsStr::new("PATH"), search_path);
    variables.insert(OsStr::new("PWD"), working_directory.as_os_str());
    for (name, value) in &spec.environment {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(invalid("environment", "a name is empty or contains `=`"));
        }
        variables.insert(name, value);
    }
    variables
        .into_iter()
        .map(|(name, value)| {
            let text = [name.as_bytes(), b"=", value.as_bytes()].concat();
            c_string("environment", OsString::from_vec(text))
        })
        .collect()
}

fn invalid(field: &'static str, reason: &str) -> SandboxError {
    SandboxError::Invalid { field, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> CellSpec {
        CellSpec { workspace: "/w".into(), ..CellSpec::default() }
    }

    fn argv(arguments: &[&str]) -> Command {
        Command {
            program: Program::Argv(arguments.iter().map(Into::into).collect()),
            working_directory: "/w".into(),
        }
    }

    #[test]
    fn a_bare_name_is_looked_for_in_the_search_path() {
        let spec = CellSpec { search_path: vec!["/a".into(), "/b".into()], ..spec() };
        assert_eq!(
            prepare(&spec, &argv(&["git"]), false).unwrap().candidates,
            [c"/a/git".to_owned(), c"/b/git".to_owned()]
        );
        assert_eq!(prepare(&spec, &argv(&["./git"]), false).unwrap().candidates, [c"./git".to_owned()]);
    }

    #[test]
    fn the_environment_is_built_from_nothing_and_can_be_replaced() {
        let mut spec = spec();
        spec.environment.insert("HOME".into(), "/w/home".into());
        spec.environment.insert("CI".into(), "1".into());
        let environment = environment(&spec, OsStr::new("/bin"), Path::new("/w")).unwrap();
        let names: Vec<_> = environment.iter().map(|text| text.to_str().unwrap()).collect();
        assert!(names.contains(&"HOME=/w/home") && names.contains(&"CI=1") && names.contains(&"PATH=/bin"));
        assert_eq!(names.len(), 10, "{names:?}");
    }

    #[test]
    fn what_execve_could_not_take_is_refused_with_its_field() {
        let field = |result: Result<Start, SandboxError>| match result {
            Err(SandboxError::Invalid { field, .. }) => field,
            other => panic!("{:?}", other.map(|_| ())),
        };
        assert_eq!(field(prepare(&spec(), &argv(&[]), false)), "command");
        assert_eq!(field(prepare(&spec(), &argv(&[""]), false)), "command");
        assert_eq!(field(prepare(&spec(), &argv(&["a\0b"]), false)), "command");
        assert_eq!(field(prepare(&spec(), &argv(&["a", &"x".repeat(200_000)]), false)), "command");
        let relative = Command { working_directory: "w".into(), ..argv(&["a"]) };
        assert_eq!(field(prepare(&spec(), &relative, false)), "working directory");
        let mut bad = spec();
        bad.environment.insert("A=B".into(), "x".into());
        assert_eq!(field(prepare(&bad, &argv(&["a"]), false)), "environment");
    }
}
