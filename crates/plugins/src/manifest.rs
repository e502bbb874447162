//! The manifest of a plugin: `plugin.yaml`.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use serde_json::{Map, Value};
use tool::Level;

use crate::fields::{Fields, ManifestError};
use crate::name::is_plugin_name;
use crate::portable;

/// Maximum size of a manifest, in bytes.
pub(crate) const LARGEST_MANIFEST: usize = 128 * 1024;
/// Maximum length of a description, in bytes. Every client reads it with every list of tools.
const LONGEST_DESCRIPTION: usize = 2_000;
/// Maximum number of tests.
const MOST_TESTS: usize = 100;
/// Maximum number of hosts, of secrets, and of words of a command.
const MOST_ENTRIES: usize = 50;
/// Default and maximum time of a call, in seconds.
const TIMEOUT: (f64, f64) = (30.0, 3_600.0);
/// Maximum length of a test's files together, in bytes.
const LARGEST_TEST_FILES: usize = 64 * 1024;

/// Description of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Name of the tool: `[a-z][a-z0-9_]*`, at most 40 characters.
    pub name: String,
    /// Description by which a model decides when to use the tool.
    pub description: String,
    /// Lowest level of a call. The declared effects can only raise it.
    pub level: Level,
    /// JSON Schema of the arguments, within the subset of every tool.
    pub input_schema: Value,
    /// JSON Schema of the answer's data.
    pub output_schema: Value,
    /// Effects that the plugin declares. Its cell permits no others.
    pub effects: DeclaredEffects,
    /// Program and its arguments. A word that names a file of the folder stands for the path of that file.
    pub command: Vec<String>,
    /// Life of the process.
    pub mode: RunMode,
    /// Time that a call may take.
    pub timeout: Duration,
    /// Worked example, which is the first test.
    pub example: PluginTest,
    /// Further tests.
    pub tests: Vec<PluginTest>,
}

/// Effects that a plugin declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredEffects {
    /// Use of the workspace.
    pub workspace: WorkspaceUse,
    /// Hosts that the program connects to, as in `allowed_hosts`.
    pub hosts: Vec<String>,
    /// Names of the secrets that the program sends to those hosts.
    pub secrets: Vec<String>,
}

/// Use of the workspace by a plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkspaceUse {
    /// The program does not see the workspace.
    #[default]
    None,
    /// The program sees the files of the workspace, and changes none.
    Read,
    /// The program changes files of the workspace.
    Write,
}

impl WorkspaceUse {
    /// Returns the word for this use in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Life of a plugin's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunMode {
    /// One process for each call.
    #[default]
    Once,
    /// A process that answers one call after the other.
    Serve,
}

impl RunMode {
    /// Returns the word for this mode in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Serve => "serve",
        }
    }
}

/// A test of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginTest {
    /// Name of the test.
    pub name: String,
    /// Files of the workspace before the call.
    pub files: BTreeMap<String, String>,
    /// Arguments of the call.
    pub arguments: Value,
    /// Expected outcome.
    pub expected: TestOutcome,
}

/// Expected outcome of a test.
#[derive(Debug, Clone, PartialEq)]
pub enum TestOutcome {
    /// Fields that the data of the answer must have. Other fields may have any value.
    Result(Map<String, Value>),
    /// Code of the error.
    Error(String),
}

impl DeclaredEffects {
    /// Returns the lowest level of a call with these effects.
    pub fn least_level(&self) -> Level {
        let acts =
            self.workspace == WorkspaceUse::Write || !self.hosts.is_empty() || !self.secrets.is_empty();
        if acts { Level::Moderate } else { Level::Safe }
    }

    /// Describes the effects for a human, one a line.
    pub fn described(&self) -> Vec<String> {
        let workspace = match self.workspace {
            WorkspaceUse::None => "does not see the workspace",
            WorkspaceUse::Read => "reads the workspace",
            WorkspaceUse::Write => "changes the workspace",
        };
        let listed = |what: &str, names: &[String]| format!("{what} {}", names.join(", "));
        let hosts = if self.hosts.is_empty() {
            "has no network".to_owned()
        } else {
            listed("connects to", &self.hosts)
        };
        let secrets = (!self.secrets.is_empty()).then(|| listed("sends the secrets", &self.secrets));
        [Some(workspace.to_owned()), Some(hosts), secrets].into_iter().flatten().collect()
    }
}

impl Manifest {
    /// Reads a manifest. `has_file` tells whether the folder has a file of this relative path.
    ///
    /// # Errors
    /// [`ManifestError`], which names the field and what to do.
    pub fn parse(text: &str, has_file: impl Fn(&str) -> bool) -> Result<Self, ManifestError> {
        const KNOWN: &[&str] = &[
            "name",
            "description",
            "level",
            "input_schema",
            "output_schema",
            "effects",
            "command",
            "mode",
            "timeout",
            "example",
            "tests",
        ];
        if text.len() > LARGEST_MANIFEST {
            return Err(ManifestError::of(
                "plugin.yaml",
                format!("has {} bytes; {LARGEST_MANIFEST} are the most", text.len()),
            ));
        }
        let whole: Value = serde_saphyr::from_str(text).map_err(|error| yaml_fault(&error))?;
        let mut fields = Fields::of("", whole, KNOWN)?;
        let name = fields.text("name", 64)?;
        let name = name.ok_or_else(|| fields.fault("name", "is missing; write the name of the tool"))?;
        if !is_plugin_name(&name) {
            let problem = "must begin with a small letter, and have small letters, digits and single `_` alone, at most 40; `__` is for tools of servers";
            return Err(fields.fault("name", problem));
        }
        let description = fields.text("description", LONGEST_DESCRIPTION)?.unwrap_or_default();
        if description.trim().is_empty() {
            return Err(fields.fault("description", "is missing; say in a sentence what the tool does"));
        }
        let level = fields.word("level", &LEVELS)?.unwrap_or(Level::Safe);
        let input_schema = input_schema(&mut fields)?;
        let output_schema = output_schema(&mut fields)?;
        let effects = effects(&mut fields)?;
        let command = command(&mut fields, has_file)?;
        let mode =
            fields.word("mode", &[("once", RunMode::Once), ("serve", RunMode::Serve)])?.unwrap_or_default();
        if mode == RunMode::Serve && effects.workspace == WorkspaceUse::Write {
            let problem = "is `serve`, and such a process cannot change the workspace; use `once`, or `workspace: read`";
            return Err(fields.fault("mode", problem));
        }
        let timeout = timeout(&mut fields)?;
        let example = fields.required("example", "write `arguments` and the `result` that they give")?;
        let example = plugin_test("example", example)?;
        if matches!(example.expected, TestOutcome::Error(_)) {
            return Err(ManifestError::of("example.error", "an example must succeed; write its `result`"));
        }
        let tests = match fields.take("tests") {
            None => Vec::new(),
            Some(Value::Array(tests)) if tests.len() <= MOST_TESTS => tests
                .into_iter()
                .enumerate()
                .map(|(index, test)| plugin_test(&format!("tests[{index}]"), test))
                .collect::<Result<_, _>>()?,
            Some(_) => {
                return Err(fields.fault("tests", format!("is no list of at most {MOST_TESTS} tests")));
            }
        };
        let manifest = Self {
            name,
            description,
            level,
            input_schema,
            output_schema,
            effects,
            command,
            mode,
            timeout,
            example,
            tests,
        };
        manifest.check_example()?;
        Ok(manifest)
    }

    /// Returns the lowest level of a call: the declared one, or that of the effects if it is higher.
    pub fn least_level(&self) -> Level {
        self.level.max(self.effects.least_level())
    }

    /// Returns the example and the further tests.
    pub fn all_tests(&self) -> impl Iterator<Item = &PluginTest> {
        std::iter::once(&self.example).chain(&self.tests)
    }

    /// Checks that the example's arguments fit the schema. A test of wrong arguments may not fit it.
    fn check_example(&self) -> Result<(), ManifestError> {
        let validator = validator("input_schema", &self.input_schema)?;
        match validator.validate(&self.example.arguments) {
            Ok(()) => Ok(()),
            Err(error) => {
                let problem = format!("do not fit `input_schema`: {}", tool::visible(&error.to_string()));
                Err(ManifestError::of("example.arguments", problem))
            }
        }
    }
}

const LEVELS: [(&str, Level); 4] = [
    ("safe", Level::Safe),
    ("moderate", Level::Moderate),
    ("destructive", Level::Destructive),
    ("critical", Level::Critical),
];

/// Describes YAML that cannot be read, with its line and what to do.
fn yaml_fault(error: &serde_saphyr::Error) -> ManifestError {
    use serde_saphyr::Error;
    let mut bare = error;
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = bare {
        bare = inner;
    }
    let problem = match bare {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("has the key `{}` for the second time; remove one of the two", tool::visible(key))
        }
        Error::DuplicateMappingKey { key: None, .. } => {
            "has a key for the second time; remove one of the two".to_owned()
        }
        _ => "is no valid YAML; look there for a missing quotation mark or bracket, a tab, or text with `: `, `*` or `&` that has no quotation marks".to_owned(),
    };
    let place = error.location().map(|place| format!("line {}: ", place.line()));
    ManifestError::of("plugin.yaml", format!("{}{problem}", place.unwrap_or_default()))
}

fn validator(field: &str, schema: &Value) -> Result<jsonschema::Validator, ManifestError> {
    jsonschema::validator_for(schema).map_err(|error| {
        ManifestError::of(field, format!("is no valid JSON Schema: {}", tool::visible(&error.to_string())))
    })
}

fn input_schema(fields: &mut Fields) -> Result<Value, ManifestError> {
    let mut schema = fields.required("input_schema", "write a JSON Schema of type object")?;
    if let Some(root) = schema.as_object_mut() {
        // A model that invents an argument should hear of it.
        root.entry("additionalProperties").or_insert(Value::Bool(false));
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    if let Some(fault) = portable::fault(&schema, true) {
        return Err(fields.fault("input_schema", fault));
    }
    validator("input_schema", &schema)?;
    Ok(schema)
}

fn output_schema(fields: &mut Fields) -> Result<Value, ManifestError> {
    let schema = fields.required("output_schema", "write a JSON Schema of type object")?;
    if let Some(fault) = portable::fault(&schema, false) {
        return Err(fields.fault("output_schema", fault));
    }
    validator("output_schema", &schema)?;
    Ok(schema)
}

fn effects(fields: &mut Fields) -> Result<DeclaredEffects, ManifestError> {
    let Some(value) = fields.take("effects") else { return Ok(DeclaredEffects::default()) };
    let mut own = Fields::of("effects", value, &["workspace", "hosts", "secrets"])?;
    let uses = [("none", WorkspaceUse::None), ("read", WorkspaceUse::Read), ("write", WorkspaceUse::Write)];
    let workspace = own.word("workspace", &uses)?.unwrap_or_default();
    let hosts = own.texts("hosts", MOST_ENTRIES)?;
    if let Some(wrong) = hosts.iter().find(|host| host.contains('/') || host.contains(char::is_whitespace)) {
        let problem = format!(
            "has `{}`, which is no host; write `example.com` or `example.com:8443`",
            tool::visible(wrong)
        );
        return Err(own.fault("hosts", problem));
    }
    let secrets = own.texts("secrets", MOST_ENTRIES)?;
    if let Some(wrong) = secrets.iter().find(|name| name.contains('*') || name.contains(char::is_whitespace))
    {
        let problem = format!(
            "has `{}`, which is no name of one secret; write each name in full",
            tool::visible(wrong)
        );
        return Err(own.fault("secrets", problem));
    }
    if !secrets.is_empty() && hosts.is_empty() {
        return Err(own.fault("secrets", "needs `hosts`: a secret is only sent to a declared host"));
    }
    Ok(DeclaredEffects { workspace, hosts, secrets })
}

fn command(fields: &mut Fields, has_file: impl Fn(&str) -> bool) -> Result<Vec<String>, ManifestError> {
    let words = fields.texts("command", MOST_ENTRIES)?;
    let Some(program) = words.first() else {
        return Err(fields
            .fault("command", "is missing; write the program and its arguments, as `[python3, main.py]`"));
    };
    if program.starts_with('/') || program.split('/').any(|part| part == "..") {
        let problem =
            "names a program outside of the folder; write the name of a program, or a file of the folder";
        return Err(fields.fault("command", problem));
    }
    if program.contains('/') && !has_file(program.trim_start_matches("./")) {
        return Err(fields.fault(
            "command",
            format!("names `{}`, which the folder does not have", tool::visible(program)),
        ));
    }
    Ok(words)
}

fn timeout(fields: &mut Fields) -> Result<Duration, ManifestError> {
    let (default, most) = TIMEOUT;
    let seconds = match fields.take("timeout") {
        None => default,
        Some(value) => value
            .as_f64()
            .filter(|seconds| (0.1..=most).contains(seconds))
            .ok_or_else(|| fields.fault("timeout", format!("is no number of seconds from 0.1 to {most}")))?,
    };
    Ok(Duration::from_secs_f64(seconds))
}

fn plugin_test(field: &str, value: Value) -> Result<PluginTest, ManifestError> {
    let mut own = Fields::of(field, value, &["name", "files", "arguments", "result", "error"])?;
    let name = own.text("name", 200)?.unwrap_or_else(|| field.to_owned());
    let arguments = own.required("arguments", "write the arguments of the call")?;
    if !arguments.is_object() {
        return Err(own.fault("arguments", "is no mapping; write one field for each argument"));
    }
    let mut files = BTreeMap::new();
    match own.take("files") {
        None => {}
        Some(Value::Object(named)) => {
            for (path, content) in named {
                let is_inside =
                    Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
                let (Value::String(content), true) = (content, is_inside && !path.is_empty()) else {
                    return Err(own.fault("files", "must map relative paths to texts"));
                };
                files.insert(path, content);
            }
        }
        Some(_) => return Err(own.fault("files", "must map relative paths to texts")),
    }
    if files.values().map(String::len).sum::<usize>() > LARGEST_TEST_FILES {
        return Err(own.fault("files", format!("have more than {LARGEST_TEST_FILES} bytes")));
    }
    let expected = match (own.take("result"), own.text("error", 64)?) {
        (Some(Value::Object(result)), None) => TestOutcome::Result(result),
        (None, Some(code)) if tool::Code::ALL.iter().any(|known| known.as_str() == code) => {
            TestOutcome::Error(code)
        }
        (None, Some(_)) => {
            let codes: Vec<&str> = tool::Code::ALL.iter().map(|code| code.as_str()).collect();
            return Err(own.fault("error", format!("is none of {}", codes.join(", "))));
        }
        (Some(_), None) => {
            return Err(own.fault("result", "is no mapping; write the fields that the answer has"));
        }
        _ => return Err(own.fault("result", "write either `result` or `error`")),
    };
    Ok(PluginTest { name, files, arguments, expected })
}

#[cfg(test)]
mod tests;
