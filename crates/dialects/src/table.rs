//! The elements of a dialect's table: one [`ExternalTool`] per tool, with a row for each argument and
//! for each field of the answer.
//!
//! Schemas and mappings are both derived from these rows, so they cannot disagree.

use serde_json::{Map, Value, json};
use tool::{Example, Timeout, ToolError, name_every_type};

/// One tool of a dialect.
pub(crate) struct ExternalTool {
    /// Name in the dialect.
    pub(crate) name: &'static str,
    /// Name of the canonical tool that does the work.
    pub(crate) canonical: &'static str,
    /// Short title for people.
    pub(crate) title: &'static str,
    /// Description for models.
    pub(crate) description: &'static str,
    /// Arguments.
    pub(crate) takes: &'static [Field],
    /// Arguments of the canonical tool that the source fixes.
    pub(crate) settled: fn() -> Value,
    /// Mapping beyond the rows: receives the caller's arguments and the canonical arguments that
    /// the rows produced.
    pub(crate) adapt: Option<Adapt>,
    /// Fields of the answer.
    pub(crate) gives: &'static [AnswerField],
    /// False for a part of another tool, which callers do not see.
    pub(crate) is_listed: bool,
    /// Timeout of the source, or `None` for that of the canonical tool.
    pub(crate) timeout: Option<Timeout>,
    /// True if a call may touch only the file that its arguments name.
    pub(crate) one_file: bool,
    /// Argument of the canonical tool that names a folder and must lie in the workspace.
    pub(crate) within: Option<&'static str>,
    /// A worked example, which also serves as a test.
    pub(crate) example: Example,
}

/// Values that most rows share. A row states everything else.
pub(crate) const DEFAULTS: ExternalTool = ExternalTool {
    name: "",
    canonical: "",
    title: "",
    description: "",
    takes: &[],
    settled: nothing,
    adapt: None,
    gives: &[],
    is_listed: true,
    timeout: None,
    one_file: false,
    within: None,
    example: Example { files: &[], arguments: "{}", result: "{}" },
};

/// Type of [`ExternalTool::adapt`].
pub(crate) type Adapt = fn(&Map<String, Value>, &mut Map<String, Value>) -> Result<(), ToolError>;

/// Fixes no arguments.
fn nothing() -> Value {
    Value::Object(Map::new())
}

/// One argument.
pub(crate) struct Field {
    /// Name in the dialect.
    pub(crate) name: &'static str,
    /// Argument of the canonical tool that receives the value, or `None` if [`ExternalTool::adapt`] maps it.
    pub(crate) becomes: Option<&'static str>,
    /// Type of the value.
    pub(crate) kind: Kind,
    /// Requirement: required, optional, or optional with a default.
    pub(crate) need: Need,
    /// Description for models.
    pub(crate) says: &'static str,
}

/// Builds an argument that has the same name in the canonical tool.
pub(crate) const fn field(name: &'static str, kind: Kind, need: Need, says: &'static str) -> Field {
    Field { name, becomes: Some(name), kind, need, says }
}

/// Builds a text argument that has the same name in the canonical tool.
pub(crate) const fn text(name: &'static str, need: Need, says: &'static str) -> Field {
    field(name, Kind::Text, need, says)
}

impl Field {
    /// Gives the value to another argument of the canonical tool.
    pub(crate) const fn becoming(self, canonical: &'static str) -> Self {
        Self { becomes: Some(canonical), ..self }
    }

    /// Leaves the value to [`ExternalTool::adapt`].
    pub(crate) const fn adapted(self) -> Self {
        Self { becomes: None, ..self }
    }
}

/// Requirement of an argument.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// The caller must give the argument.
    Required,
    /// The caller may omit the argument, and no value replaces it.
    Optional,
    /// The caller may omit the argument, and this JSON value replaces it.
    Default(&'static str),
    /// The caller may omit the argument, and the schema names this JSON value. Nothing replaces it: the
    /// tool can tell the omission from the value.
    Named(&'static str),
}

/// Type of an argument.
pub(crate) enum Kind {
    /// A text.
    Text,
    /// An integer within inclusive bounds.
    Integer(i64, i64),
    /// Milliseconds, converted to seconds for the canonical tool.
    Milliseconds,
    /// A number.
    Number,
    /// True or false.
    Switch,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of values of any type.
    Values,
    /// An object whose values are texts.
    TextByName,
    /// An object whose values are of any type.
    ValueByName,
    /// An object of fields that keep their names.
    Object(&'static [Field]),
    /// Any JSON value.
    Any,
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Kind::Text => json!({"type": "string"}),
            Kind::Integer(least, i64::MAX) => json!({"type": "integer", "minimum": least}),
            Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Milliseconds => json!({"type": "number", "minimum": 1}),
            Kind::Number => json!({"type": "number"}),
            Kind::Switch => json!({"type": "boolean"}),
            Kind::OneOf(names) => json!({"type": "string", "enum": names}),
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Values => json!({"type": "array", "items": {}}),
            Kind::TextByName => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            Kind::ValueByName => json!({"type": "object", "additionalProperties": true}),
            Kind::Object(fields) => object(fields),
            Kind::Any => json!({}),
        }
    }

    /// Converts the value to the form of the canonical tool.
    fn canonical(&self, value: &Value) -> Value {
        match (self, value.as_f64()) {
            (Kind::Milliseconds, Some(milliseconds)) => json!(milliseconds / 1_000.0),
            _ => value.clone(),
        }
    }
}

/// One field of an answer.
pub(crate) struct AnswerField {
    /// Name in the dialect.
    pub(crate) name: &'static str,
    /// Source of the value.
    pub(crate) from: ValueSource,
    /// Description for programs.
    pub(crate) says: &'static str,
}

/// Builds a field of an answer.
pub(crate) const fn gives(name: &'static str, from: ValueSource, says: &'static str) -> AnswerField {
    AnswerField { name, from, says }
}

/// Source of an answer's field. A name refers to a field of the canonical answer.
pub(crate) enum ValueSource {
    /// Constant text.
    Fixed(&'static str),
    /// A text.
    Text(&'static str),
    /// An integer.
    Integer(&'static str),
    /// A number.
    Number(&'static str),
    /// An integer that may be missing and is then 0.
    IntegerOrNone(&'static str),
    /// True or false.
    Switch(&'static str),
    /// A text that may be missing.
    OptionalText(&'static str),
    /// The exit code. If the command was killed and has none, the code of a process killed by SIGKILL.
    ExitCode(&'static str),
    /// Duration of the call in milliseconds.
    Milliseconds,
    /// Any JSON value.
    Any(&'static str),
    /// Any JSON value, which may be missing.
    OptionalAny(&'static str),
    /// An object whose values are texts.
    TextByName(&'static str),
    /// An integer that may be missing.
    OptionalInteger(&'static str),
    /// A list of texts.
    Texts(&'static str),
    /// A list of objects whose fields are unknown in advance.
    Objects(&'static str),
    /// The items of a list, each mapped by these rows.
    Items(&'static str, &'static [AnswerField]),
    /// The items of a list that may be missing.
    OptionalItems(&'static str, &'static [AnswerField]),
    /// True or false, or missing.
    OptionalSwitch(&'static str),
}

/// Exit code that a shell reports for a process ended by SIGKILL: 128 plus the number of the signal.
const KILLED: i64 = 128 + 9;

impl ValueSource {
    fn schema(&self) -> Value {
        match self {
            ValueSource::Fixed(_) | ValueSource::Text(_) | ValueSource::OptionalText(_) => {
                json!({"type": "string"})
            }
            ValueSource::Integer(_)
            | ValueSource::IntegerOrNone(_)
            | ValueSource::OptionalInteger(_)
            | ValueSource::ExitCode(_) => {
                json!({"type": "integer"})
            }
            ValueSource::Texts(_) => json!({"type": "array", "items": {"type": "string"}}),
            ValueSource::Objects(_) => json!({"type": "array", "items": {"type": "object"}}),
            ValueSource::Milliseconds | ValueSource::Number(_) => json!({"type": "number"}),
            ValueSource::Switch(_) | ValueSource::OptionalSwitch(_) => json!({"type": "boolean"}),
            ValueSource::Any(_) | ValueSource::OptionalAny(_) => json!({}),
            ValueSource::TextByName(_) => {
                json!({"type": "object", "additionalProperties": {"type": "string"}})
            }
            ValueSource::Items(_, gives) | ValueSource::OptionalItems(_, gives) => {
                json!({"type": "array", "items": given(gives)})
            }
        }
    }

    fn value(&self, data: &Value, milliseconds: u64) -> Option<Value> {
        match self {
            ValueSource::Fixed(text) => Some(json!(text)),
            ValueSource::Text(field)
            | ValueSource::Integer(field)
            | ValueSource::Number(field)
            | ValueSource::Switch(field)
            | ValueSource::OptionalSwitch(field)
            | ValueSource::OptionalText(field)
            | ValueSource::Any(field)
            | ValueSource::OptionalAny(field)
            | ValueSource::TextByName(field)
            | ValueSource::OptionalInteger(field)
            | ValueSource::Texts(field)
            | ValueSource::Objects(field) => data.get(field).cloned(),
            ValueSource::IntegerOrNone(field) => Some(data.get(field).cloned().unwrap_or(json!(0))),
            ValueSource::ExitCode(field) => {
                data.get(field).map(|code| if code.is_null() { json!(KILLED) } else { code.clone() })
            }
            ValueSource::Milliseconds => Some(json!(milliseconds)),
            ValueSource::Items(field, gives) | ValueSource::OptionalItems(field, gives) => {
                let items = data.get(field)?.as_array()?;
                Some(items.iter().map(|item| shaped(gives, item, milliseconds)).collect())
            }
        }
    }
}

/// Returns the schema of an object with these arguments.
pub(crate) fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = field.kind.schema();
            schema["description"] = json!(field.says);
            if let Need::Default(default) | Need::Named(default) = field.need {
                schema["default"] = serde_json::from_str(default).unwrap_or_default();
            }
            (field.name.to_owned(), schema)
        })
        .collect();
    let required = fields.iter().filter(|field| matches!(field.need, Need::Required));
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = json!(false);
    schema
}

/// Returns the schema of an answer.
pub(crate) fn given(gives: &[AnswerField]) -> Value {
    let properties: Map<String, Value> = gives
        .iter()
        .map(|given| {
            let mut schema = given.from.schema();
            schema["description"] = json!(given.says);
            (given.name.to_owned(), schema)
        })
        .collect();
    let always = gives.iter().filter(|given| {
        !matches!(
            given.from,
            ValueSource::OptionalText(_)
                | ValueSource::OptionalInteger(_)
                | ValueSource::OptionalAny(_)
                | ValueSource::OptionalItems(..)
                | ValueSource::OptionalSwitch(_)
        )
    });
    let required: Vec<&str> = always.map(|given| given.name).collect();
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    name_every_type(&mut schema);
    schema
}

/// Maps arguments to their canonical form. The schema has already accepted the arguments.
pub(crate) fn canonical(fields: &[Field], arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut canonical = Map::new();
    for field in fields {
        let default = match field.need {
            Need::Default(default) => serde_json::from_str(default).ok(),
            Need::Required | Need::Optional | Need::Named(_) => None,
        };
        let value = arguments.get(field.name).or(default.as_ref());
        if let (Some(name), Some(value)) = (field.becomes, value) {
            canonical.insert(name.to_owned(), field.kind.canonical(value));
        }
    }
    canonical
}

/// Maps data of the canonical tool to the answer.
pub(crate) fn shaped(gives: &[AnswerField], data: &Value, milliseconds: u64) -> Value {
    let field = |given: &AnswerField| Some((given.name.to_owned(), given.from.value(data, milliseconds)?));
    Value::Object(gives.iter().filter_map(field).collect())
}
