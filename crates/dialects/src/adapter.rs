//! Adapter that offers a canonical tool under the name and schema of a dialect.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tool::{AnyTool, Code, Data, Effect, Place, PreparedCall, Presentation, ShapeFacts, Spec, ToolError};

use crate::dialect::Programs;
use crate::sluagh;
use crate::table::{self, ExternalTool, Kind, ValueSource};

/// A canonical tool, the table row that describes how to call it, and the translation of its errors.
pub(crate) struct Adapter {
    outside: &'static ExternalTool,
    inner: Arc<dyn AnyTool>,
    spec: Spec,
    programs: Programs,
    input_schema: Value,
    output_schema: Value,
    words: Words,
}

/// Translations of canonical words in error messages.
#[derive(Clone, Default)]
struct Words {
    /// Pairs of a canonical word and the dialect's word, each in the form that it has in a text.
    known: Vec<(String, String)>,
    /// Canonical words without an equivalent in the dialect. A hint that contains one is dropped.
    unknown: Vec<String>,
}

impl Adapter {
    /// Wraps `inner` as the tool that `outside` describes. `dialect` lists all tools of the
    /// dialect, `canonical` all canonical tools.
    pub(crate) fn tool(
        outside: &'static ExternalTool,
        inner: Arc<dyn AnyTool>,
        programs: Programs,
        dialect: &[&'static ExternalTool],
        canonical: &[Arc<dyn AnyTool>],
    ) -> Arc<dyn AnyTool> {
        let spec = Spec {
            title: outside.title,
            description: outside.description,
            example: outside.example,
            timeout: outside.timeout.unwrap_or(inner.spec().timeout),
            presentation: Presentation::Record,
            ..inner.spec().clone()
        };
        Arc::new(Self {
            words: Words::of(outside, inner.as_ref(), dialect, canonical),
            input_schema: table::object(outside.takes),
            output_schema: table::given(outside.gives),
            outside,
            inner,
            spec,
            programs,
        })
    }
}

impl AnyTool for Adapter {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn name(&self) -> &str {
        self.outside.name
    }

    fn is_listed(&self) -> bool {
        self.outside.is_listed
    }

    fn description(&self) -> Cow<'_, str> {
        let Some(text) = self.spec.description.strip_suffix(':') else { return self.spec.description.into() };
        match (self.programs)().as_slice() {
            [] => format!("{text}.").into(),
            there => format!("{text}: {}.", there.join(", ")).into(),
        }
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    fn takes_secrets(&self) -> bool {
        self.inner.takes_secrets()
    }

    fn is_secret(&self, argument: &str) -> bool {
        let row = self.outside.takes.iter().find(|row| row.name == argument);
        // An argument that no row maps may end up in any canonical argument.
        row.is_none_or(|row| row.becomes.is_none_or(|canonical| self.inner.is_secret(canonical)))
    }

    fn keeps_empty(&self, argument: &str) -> bool {
        let row = self.outside.takes.iter().find(|row| row.name == argument);
        // A field within an object has the same name in both forms.
        self.inner.keeps_empty(row.map_or(argument, |row| row.becomes.unwrap_or(row.name)))
    }

    fn translate(&self, arguments: &Value) -> Result<Option<Value>, ToolError> {
        let empty = Map::new();
        let given = arguments.as_object().unwrap_or(&empty);
        let mut canonical = table::canonical(self.outside.takes, given);
        if let Value::Object(settled) = (self.outside.settled)() {
            canonical.extend(settled);
        }
        if let Some(adapt) = self.outside.adapt {
            adapt(given, &mut canonical)?;
        }
        let canonical = Value::Object(canonical);
        Ok(Some(self.inner.translate(&canonical)?.unwrap_or(canonical)))
    }

    fn prepare(&self, arguments: Value, place: &Place) -> Result<PreparedCall, ToolError> {
        let file = arguments.get("path").and_then(Value::as_str).map(str::to_owned);
        self.lies_within(&arguments, place)?;
        let prepared = self.inner.prepare(arguments, place).map_err(|error| self.words.put_into(error))?;
        if let Some(file) = file.filter(|_| self.outside.one_file) {
            let path = place.resolve("path", &file).map_err(|error| self.words.put_into(error))?;
            self.touches_only(&prepared.plan.effects, &path, place)?;
        }
        Ok(prepared)
    }

    fn shows_difference(&self) -> bool {
        self.outside.gives.iter().any(|given| matches!(given.from, ValueSource::OptionalText("diff")))
    }

    fn shape(&self, answer: Result<Data, ToolError>, facts: &mut ShapeFacts) -> Result<Data, ToolError> {
        let milliseconds = u64::try_from(facts.ran.as_millis()).unwrap_or(u64::MAX);
        let shaped = |data: &Value| table::shaped(self.outside.gives, data, milliseconds);
        match answer {
            Ok(data) => {
                let data = data.into_value().map_err(|error| {
                    ToolError::internal("the tool's output cannot be read").because(error)
                })?;
                let truncated = data.get("truncated").is_some_and(|truncated| *truncated == true);
                if truncated {
                    facts.warnings.push(format!("{} returned only a part of the result", self.outside.name));
                }
                // If the source has no field for the note, the note becomes a warning.
                let has_note = self.outside.gives.iter().any(|given| given.name == "note");
                if let Some(note) = data.get("note").and_then(Value::as_str).filter(|_| !has_note) {
                    facts.warnings.push(self.words.translated(note));
                }
                Ok(shaped(&data).into())
            }
            Err(mut error) => {
                error.data = error.data.as_ref().filter(|data| data.is_object()).map(shaped);
                Err(self.words.put_into(error))
            }
        }
    }
}

impl Adapter {
    fn lies_within(&self, arguments: &Value, place: &Place) -> Result<(), ToolError> {
        let Some(canonical) = self.outside.within else { return Ok(()) };
        let Some(given) = arguments.get(canonical).and_then(Value::as_str) else { return Ok(()) };
        let taken = self.outside.takes.iter().find(|field| field.becomes == Some(canonical));
        let field = taken.map_or(canonical, |field| field.name);
        if place.resolve(field, given)?.starts_with(&place.workspace) {
            return Ok(());
        }
        let outside = format!("{field} {given} is outside the project root");
        Err(ToolError::new(Code::Permission, outside).hint("name a folder of the project, or leave it out"))
    }

    fn touches_only(&self, effects: &[Effect], path: &Path, place: &Place) -> Result<(), ToolError> {
        let other = effects.iter().filter_map(Effect::path).find(|(_, touched)| *touched != path);
        let Some((_, other)) = other else { return Ok(()) };
        let patch = self.outside.takes.iter().find(|field| field.becomes == Some("patch"));
        let field = patch.map_or("path", |field| field.name);
        let problem = format!("it changes {}, but the call names {}", place.show(other), place.show(path));
        Err(ToolError::validation(field, problem).hint("a call changes one file, and both must name it"))
    }
}

impl Words {
    fn of(
        outside: &ExternalTool,
        inner: &dyn AnyTool,
        dialect: &[&'static ExternalTool],
        canonical: &[Arc<dyn AnyTool>],
    ) -> Self {
        let mut words = Self::default();
        let fields = inner.input_schema()["properties"].as_object();
        for field in fields.into_iter().flatten().map(|(name, _)| name) {
            // Errors quote a field, an item of a field, and a field of a field.
            for end in ["`", "[", "."] {
                let quoted = |name: &str| format!("`{name}{end}");
                match outside.takes.iter().find(|taken| taken.becomes == Some(field)) {
                    Some(taken) if taken.name == field => {}
                    Some(taken) => words.known.push((quoted(field), quoted(taken.name))),
                    None => words.unknown.push(quoted(field)),
                }
            }
        }
        for (taken, fields) in outside.takes.iter().filter_map(|taken| match &taken.kind {
            Kind::Object(fields) => Some((taken.name, *fields)),
            _ => None,
        }) {
            words.known.extend(sluagh::words_for(taken, fields.iter().map(|field| field.name)));
        }
        for tool in canonical.iter().map(|tool| tool.spec().name) {
            match dialect.iter().find(|outside| outside.canonical == tool) {
                Some(outside) if outside.name == tool => {}
                Some(outside) => words.known.push((tool.to_owned(), outside.name.to_owned())),
                None => words.unknown.push(tool.to_owned()),
            }
        }
        words
    }

    /// Translates the error into the words of the dialect.
    fn put_into(&self, mut error: ToolError) -> ToolError {
        // An approval error addresses a human, not the caller, so it stays unchanged.
        if error.code == Code::Approval {
            return error;
        }
        error.message = self.translated(&error.message);
        let advice = error.hint.take();
        let usable = |hint: &String| !self.unknown.iter().any(|word| hint.contains(word.as_str()));
        error.hint = advice.filter(usable).map(|hint| self.translated(&hint));
        error
    }

    fn translated(&self, text: &str) -> String {
        self.known.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
    }
}
