//! What a table of a dialect is made of: one [`Outside`] a tool, with a row for each field that it takes and gives.
//!
//! The schemas that callers see, and how arguments and answers are mapped, both come from these rows, so that they cannot differ.

use serde_json::{Map, Value, json};
use tool::{Example, Timeout, ToolError, name_every_type};

/// One tool as a dialect has it.
pub(crate) struct Outside {
    /// The name it is called by.
    pub(crate) name: &'static str,
    /// The canonical tool that does the work.
    pub(crate) canonical: &'static str,
    /// A short name for people.
    pub(crate) title: &'static str,
    /// What a model reads.
    pub(crate) description: &'static str,
    /// What it takes.
    pub(crate) takes: &'static [Field],
    /// Arguments of the canonical tool that the source settles.
    pub(crate) settled: fn() -> Value,
    /// What else of the arguments has to be brought into the canonical form: what the caller gave, and what came of the rows.
    pub(crate) adapt: Option<Adapt>,
    /// What it gives.
    pub(crate) gives: &'static [Given],
    /// The limits of the source, where it has some of its own.
    pub(crate) timeout: Option<Timeout>,
    /// Whether a call may touch no file but the one that its arguments name.
    pub(crate) one_file: bool,
    /// The argument of the canonical tool that names a folder which has to lie in the workspace.
    pub(crate) within: Option<&'static str>,
    /// One worked example, which is also a test.
    pub(crate) example: Example,
}

/// See [`Outside::adapt`].
pub(crate) type Adapt = fn(&Map<String, Value>, &mut Map<String, Value>) -> Result<(), ToolError>;

/// No argument is settled.
pub(crate) fn nothing() -> Value {
    Value::Object(Map::new())
}

/// One argument.
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// The argument of the canonical tool that it becomes; none where [`Outside::adapt`] sees to it.
    pub(crate) becomes: Option<&'static str>,
    /// What it may be.
    pub(crate) kind: Kind,
    /// Whether it may be left out.
    pub(crate) need: Need,
    /// What a model reads.
    pub(crate) says: &'static str,
}

/// Whether an argument may be left out.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// It may not.
    Required,
    /// It may, and nothing stands in for it.
    Optional,
    /// It may, and is this then, as JSON.
    Default(&'static str),
}

/// What a value may be.
pub(crate) enum Kind {
    /// A text.
    Text,
    /// A whole number from the first to the second.
    Integer(i64, i64),
    /// Milliseconds, which the canonical tool takes as seconds.
    Milliseconds,
    /// True or false.
    Switch,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of values of any kind.
    Values,
    /// An object whose values are texts.
    TextByName,
    /// An object of fields that keep their names.
    Object(&'static [Field]),
    /// Any value of JSON.
    Any,
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Kind::Text => json!({"type": "string"}),
            Kind::Integer(least, i64::MAX) => json!({"type": "integer", "minimum": least}),
            Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Milliseconds => json!({"type": "number", "minimum": 1}),
            Kind::Switch => json!({"type": "boolean"}),
            Kind::OneOf(names) => json!({"type": "string", "enum": names}),
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Values => json!({"type": "array", "items": {}}),
            Kind::TextByName => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            Kind::Object(fields) => object(fields),
            Kind::Any => json!({}),
        }
    }

    /// The value as the canonical tool takes it.
    fn canonical(&self, value: &Value) -> Value {
        match (self, value.as_f64()) {
            (Kind::Milliseconds, Some(milliseconds)) => json!(milliseconds / 1_000.0),
            _ => value.clone(),
        }
    }
}

/// One field of an answer.
pub(crate) struct Given {
    /// Its name.
    pub(crate) name: &'static str,
    /// Where it comes from.
    pub(crate) from: From,
    /// What a program reads.
    pub(crate) says: &'static str,
}

/// Where a field of an answer comes from.
pub(crate) enum From {
    /// A text of the canonical answer.
    Text(&'static str),
    /// A whole number of it.
    Integer(&'static str),
    /// Any number of it.
    Number(&'static str),
    /// A whole number of it that is not always there; then it is 0.
    IntegerOrNone(&'static str),
    /// True or false.
    Switch(&'static str),
    /// A text that is not always there.
    OptionalText(&'static str),
    /// The exit code: that of a process which was killed, where a command did not end by itself.
    ExitCode(&'static str),
    /// How long the call ran, in milliseconds.
    Milliseconds,
    /// Any value of JSON.
    Any(&'static str),
    /// Any value of JSON that is not always there.
    OptionalAny(&'static str),
    /// An object whose values are texts.
    TextByName(&'static str),
    /// A whole number that is not always there.
    OptionalInteger(&'static str),
    /// A list of texts.
    Texts(&'static str),
    /// A list of objects whose fields are known when it is made.
    Objects(&'static str),
    /// Each item of a list.
    Items(&'static str, &'static [Given]),
}

/// What a process that SIGKILL ended exits with for a shell: 128 and the number of the signal.
const KILLED: i64 = 128 + 9;

impl From {
    fn schema(&self) -> Value {
        match self {
            From::Text(_) | From::OptionalText(_) => json!({"type": "string"}),
            From::Integer(_) | From::IntegerOrNone(_) | From::OptionalInteger(_) | From::ExitCode(_) => {
                json!({"type": "integer"})
            }
            From::Texts(_) => json!({"type": "array", "items": {"type": "string"}}),
            From::Objects(_) => json!({"type": "array", "items": {"type": "object"}}),
            From::Milliseconds | From::Number(_) => json!({"type": "number"}),
            From::Switch(_) => json!({"type": "boolean"}),
            From::Any(_) | From::OptionalAny(_) => json!({}),
            From::TextByName(_) => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            From::Items(_, gives) => json!({"type": "array", "items": given(gives)}),
        }
    }

    fn value(&self, data: &Value, milliseconds: u64) -> Option<Value> {
        match self {
            From::Text(field)
            | From::Integer(field)
            | From::Number(field)
            | From::Switch(field)
            | From::OptionalText(field)
            | From::Any(field)
            | From::OptionalAny(field)
            | From::TextByName(field)
            | From::OptionalInteger(field)
            | From::Texts(field)
            | From::Objects(field) => data.get(field).cloned(),
            From::IntegerOrNone(field) => Some(data.get(field).cloned().unwrap_or(json!(0))),
            From::ExitCode(field) => {
                data.get(field).map(|code| if code.is_null() { json!(KILLED) } else { code.clone() })
            }
            From::Milliseconds => Some(json!(milliseconds)),
            From::Items(field, gives) => {
                let items = data.get(field)?.as_array()?;
                Some(items.iter().map(|item| shaped(gives, item, milliseconds)).collect())
            }
        }
    }
}

/// The schema of the arguments.
pub(crate) fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = field.kind.schema();
            schema["description"] = json!(field.says);
            if let Need::Default(default) = field.need {
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

/// The schema of an answer.
pub(crate) fn given(gives: &[Given]) -> Value {
    let properties: Map<String, Value> = gives
        .iter()
        .map(|given| {
            let mut schema = given.from.schema();
            schema["description"] = json!(given.says);
            (given.name.to_owned(), schema)
        })
        .collect();
    let always = gives.iter().filter(|given| {
        !matches!(given.from, From::OptionalText(_) | From::OptionalInteger(_) | From::OptionalAny(_))
    });
    let required: Vec<&str> = always.map(|given| given.name).collect();
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    name_every_type(&mut schema);
    schema
}

/// The arguments that the rows come to. The schema has accepted them.
pub(crate) fn canonical(fields: &[Field], arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut canonical = Map::new();
    for field in fields {
        let default = match field.need {
            Need::Default(default) => serde_json::from_str(default).ok(),
            Need::Required | Need::Optional => None,
        };
        let value = arguments.get(field.name).or(default.as_ref());
        if let (Some(name), Some(value)) = (field.becomes, value) {
            canonical.insert(name.to_owned(), field.kind.canonical(value));
        }
    }
    canonical
}

/// The answer that the rows come to.
pub(crate) fn shaped(gives: &[Given], data: &Value, milliseconds: u64) -> Value {
    let field = |given: &Given| Some((given.name.to_owned(), given.from.value(data, milliseconds)?));
    Value::Object(gives.iter().filter_map(field).collect())
}
