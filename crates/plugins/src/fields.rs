//! Reading of a manifest's fields, with errors that name the field.

use serde_json::{Map, Value};

/// Fault of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {problem}")]
pub struct ManifestError {
    /// Field at fault, such as `effects.hosts`.
    pub field: String,
    /// Fault, with what to do.
    pub problem: String,
}

impl ManifestError {
    /// Makes the fault of a field.
    pub fn of(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// The fields of one object of a manifest. Each is taken once, so the rest is unknown.
pub(crate) struct Fields {
    prefix: String,
    values: Map<String, Value>,
    known: &'static [&'static str],
}

impl Fields {
    /// Takes an object, which may have these fields alone.
    pub(crate) fn of(
        prefix: &str,
        value: Value,
        known: &'static [&'static str],
    ) -> Result<Self, ManifestError> {
        let Value::Object(values) = value else {
            let field = if prefix.is_empty() { "plugin.yaml" } else { prefix };
            return Err(ManifestError::of(
                field,
                format!("is no mapping; write the fields {}", known.join(", ")),
            ));
        };
        let own = Self { prefix: prefix.to_owned(), values, known };
        own.refuse_unknown()?;
        Ok(own)
    }

    fn refuse_unknown(&self) -> Result<(), ManifestError> {
        let Some(unknown) = self.values.keys().find(|name| !self.known.contains(&name.as_str())) else {
            return Ok(());
        };
        let advice = match tool::nearest(unknown, self.known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the fields are {}", self.known.join(", ")),
        };
        Err(self.fault(unknown, format!("is no field of a plugin; {advice}")))
    }

    /// Makes the fault of a field.
    pub(crate) fn fault(&self, name: &str, problem: impl Into<String>) -> ManifestError {
        let field = if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) };
        ManifestError::of(field, problem)
    }

    /// Takes a field. A field without a value counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field that must be there.
    pub(crate) fn required(&mut self, name: &str, advice: &str) -> Result<Value, ManifestError> {
        self.take(name).ok_or_else(|| self.fault(name, format!("is missing; {advice}")))
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str, longest: usize) -> Result<Option<String>, ManifestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= longest => Ok(Some(text)),
            Some(Value::String(text)) => {
                Err(self.fault(name, format!("has {} bytes; {longest} are the most", text.len())))
            }
            Some(_) => Err(self.fault(name, "is no text; put it into quotation marks")),
        }
    }

    /// Takes one of some words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>, ManifestError> {
        let Some(text) = self.text(name, 64)? else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near =
            tool::nearest(&text, names.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
        let advice = near.unwrap_or_default();
        Err(self.fault(
            name,
            format!("is `{}`, and must be one of {}{advice}", tool::visible(&text), names.join(", ")),
        ))
    }

    /// Takes a list of texts.
    pub(crate) fn texts(&mut self, name: &str, most: usize) -> Result<Vec<String>, ManifestError> {
        let values = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            Some(_) => return Err(self.fault(name, "is no list; write it as `[one, two]`")),
        };
        if values.len() > most {
            return Err(self.fault(name, format!("has {} entries; {most} are the most", values.len())));
        }
        let text = |value: Value| match value {
            Value::String(text) if !text.is_empty() && text.len() <= 1024 && !text.contains('\0') => Ok(text),
            _ => Err(self
                .fault(name, "has an entry that is no text of 1 to 1024 bytes; put it into quotation marks")),
        };
        values.into_iter().map(text).collect()
    }
}
