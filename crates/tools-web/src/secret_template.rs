//! Secrets in the query of a URL and in a body. There `$NAME` is a placeholder only if the caller
//! lists the name, because a dollar sign has other meanings in many URLs and documents.

use fetch::Bytes;
use fetch::address::Target;
use serde_json::Value;
use tool::{Context, ToolError};
use tool_support::RequestPart;

use crate::fetch_url::{Args, body_and_type};
use crate::placeholders::{Part, listed};

/// Maximum number of listed names.
const MOST: usize = 20;

/// The parts of a request that are filled in before it is sent.
pub(crate) struct FilledParts {
    names: Vec<String>,
    body: Option<Value>,
    written: Encoding,
    in_query: Vec<String>,
    in_body: Vec<String>,
}

/// An encoding of a value at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    AsItIs,
    Percent,
    Json,
}

impl FilledParts {
    /// Finds the places of the listed secrets.
    ///
    /// # Errors
    /// `EVALIDATION` if a secret has no place, or one in the path.
    pub(crate) fn read(args: &Args, target: &Target) -> Result<Self, ToolError> {
        let wrong = |problem: String| Err(ToolError::validation("secrets", problem));
        if args.secrets.len() > MOST {
            return wrong(format!("at most {MOST} names"));
        }
        let kind = args.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let kind = kind.map_or("", |(_, value)| value).split(';').next().unwrap_or_default().trim();
        let written = match &args.body {
            Some(Value::String(_)) if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") => {
                Encoding::Percent
            }
            Some(Value::String(_)) if kind.to_ascii_lowercase().ends_with("json") => Encoding::Json,
            _ => Encoding::AsItIs,
        };
        let (path, query) = target.path_and_query().split_once('?').unwrap_or((target.path_and_query(), ""));
        let (mut in_query, mut in_body) = (Vec::new(), Vec::new());
        find(query, &args.secrets, &mut in_query);
        if let Some(body) = &args.body {
            find_in(body, &args.secrets, &mut in_body);
        }
        for name in &args.secrets {
            if !vault::is_name(name) {
                return wrong(format!("{name:?} is not a valid secret name"));
            }
            let mut in_path = Vec::new();
            find(path, std::slice::from_ref(name), &mut in_path);
            if !in_path.is_empty() {
                return wrong(format!("${name} is in the path of the URL, where secrets are not allowed"));
            }
            if !in_query.contains(name) && !in_body.contains(name) {
                return wrong(format!("${name} is neither in the query of the URL nor in the body"));
            }
        }
        let body = args.body.clone().filter(|_| !in_body.is_empty());
        Ok(Self { names: args.secrets.clone(), body, written, in_query, in_body })
    }

    /// Returns the names of the secrets that are sent to the first server.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the names of the secrets in the body, while the body is sent.
    pub(crate) fn names_in_body(&self) -> &[String] {
        &self.in_body
    }

    /// Drops the body after a redirection without one.
    pub(crate) fn without_body(&mut self) {
        self.body = None;
        self.in_body.clear();
    }

    /// Returns the URL as it is sent.
    ///
    /// # Errors
    /// The errors of [`tool_support::secret`].
    pub(crate) fn query(&self, context: &Context, target: &Target) -> Result<Target, ToolError> {
        let host = target.host().to_string();
        match target.path_and_query().split_once('?').filter(|_| !self.in_query.is_empty()) {
            None => Ok(target.clone()),
            Some((_, query)) => {
                let filled = self.fill(context, query, &host, (RequestPart::Query, Encoding::Percent))?;
                Ok(target.with_query(&filled))
            }
        }
    }

    /// Returns the body as it is sent, if it contains a secret.
    ///
    /// # Errors
    /// The errors of [`tool_support::secret`].
    pub(crate) fn body(&self, context: &Context, host: &str) -> Result<Option<Bytes>, ToolError> {
        let Some(body) = &self.body else { return Ok(None) };
        let filled = match body {
            Value::String(text) => {
                Value::String(self.fill(context, text, host, (RequestPart::Body, self.written))?)
            }
            json => {
                let mut json = json.clone();
                self.fill_in(context, &mut json, host)?;
                json
            }
        };
        body_and_type(Some(&filled)).map(|(bytes, _)| Some(bytes))
    }

    // BOUNDED: by the depth of JSON that is read, 128.
    fn fill_in(&self, context: &Context, value: &mut Value, host: &str) -> Result<(), ToolError> {
        match value {
            // The serializer escapes the value.
            Value::String(text) => {
                *text = self.fill(context, text, host, (RequestPart::Body, Encoding::AsItIs))?;
                Ok(())
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill_in(context, item, host)),
            Value::Object(fields) => {
                fields.values_mut().try_for_each(|field| self.fill_in(context, field, host))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn fill(
        &self,
        context: &Context,
        text: &str,
        host: &str,
        (position, written): (RequestPart, Encoding),
    ) -> Result<String, ToolError> {
        let mut filled = String::with_capacity(text.len());
        for part in listed(text, &self.names) {
            match part {
                Part::Text(text) => filled.push_str(&text),
                Part::Secret(name) => {
                    let value = tool_support::secret(context, &name, host, position)?;
                    let value = std::str::from_utf8(&value)
                        .map_err(|error| ToolError::internal("the secret is not text").because(error))?;
                    written.write(value, &mut filled);
                }
            }
        }
        Ok(filled)
    }
}

impl Encoding {
    fn write(self, value: &str, to: &mut String) {
        match self {
            Self::AsItIs => to.push_str(value),
            Self::Json => {
                let quoted = Value::from(value).to_string();
                to.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
            }
            Self::Percent => {
                for byte in value.bytes() {
                    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                        to.push(char::from(byte));
                    } else {
                        to.push_str(&format!("%{byte:02X}"));
                    }
                }
            }
        }
    }
}

fn find(text: &str, names: &[String], found: &mut Vec<String>) {
    for part in listed(text, names) {
        if let Part::Secret(name) = part
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
}

// BOUNDED: by the depth of JSON that is read, 128.
fn find_in(value: &Value, names: &[String], found: &mut Vec<String>) {
    match value {
        Value::String(text) => find(text, names, found),
        Value::Array(items) => items.iter().for_each(|item| find_in(item, names, found)),
        Value::Object(fields) => fields.values().for_each(|field| find_in(field, names, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
