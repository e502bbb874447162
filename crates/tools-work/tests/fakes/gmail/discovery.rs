//! Checks of Gmail's requests and answers, by Google's discovery document or the part of it that is
//! used here.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Map, Value};
use url::form_urlencoded::parse;

use testkit::web::Request;

/// A discovery document.
pub(crate) struct Discovery {
    methods: Map<String, Value>,
    schemas: Value,
    /// Parameters of every method.
    parameters: Value,
}

/// A valid request.
#[derive(Debug)]
pub(crate) struct ValidRequest {
    /// Id of the method, such as `gmail.users.messages.get`.
    pub(crate) method: String,
    /// Parameters by name, including those of the path.
    pub(crate) parameters: HashMap<String, Vec<String>>,
    /// Metadata of an uploaded message, and the message.
    pub(crate) body: (Value, Vec<u8>),
}

impl Discovery {
    /// Returns the part that is used here.
    pub(crate) fn own() -> Self {
        Self::parse(include_str!("discovery.json"))
    }

    /// Parses a whole document.
    pub(crate) fn parse(text: &str) -> Self {
        let document: Value = serde_json::from_str(text).expect("a discovery document is JSON");
        let mut methods = Map::new();
        collect(&document, &mut methods);
        Self { methods, schemas: document["schemas"].clone(), parameters: document["parameters"].clone() }
    }

    /// Returns true if a token with these scopes may call this method.
    pub(super) fn lets(&self, method: &str, scopes: &str) -> bool {
        let listed = self.methods[method]["scopes"].as_array();
        listed.into_iter().flatten().any(|one| scopes.split(' ').any(|scope| *one == scope))
    }

    /// Parses a request.
    ///
    /// # Errors
    /// Returns a description of the first deviation from the document.
    pub(crate) fn asked(&self, request: &Request) -> Result<ValidRequest, String> {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let path = path.trim_start_matches('/');
        let found = self.methods.iter().find_map(|(id, method)| {
            let is_method = method["httpMethod"] == request.method.as_str();
            let upload = method["mediaUpload"]["protocols"]["simple"]["path"].as_str();
            let upload = upload.map(|path| path.trim_start_matches('/'));
            let in_path =
                of_path(method["path"].as_str().unwrap_or_default(), path).map(|found| (found, false));
            let in_path = in_path.or_else(|| Some((of_path(upload?, path)?, true)));
            in_path.filter(|_| is_method).map(|(parameters, uploads)| (id, method, parameters, uploads))
        });
        let (id, method, mut parameters, uploads) =
            found.ok_or_else(|| format!("{} {path} is no method", request.method))?;
        for (name, value) in parse(query.as_bytes()) {
            let known = method["parameters"].get(&*name).or_else(|| self.parameters.get(&*name));
            let known = known.filter(|known| known["location"] == "query");
            let known = known.ok_or_else(|| format!("{id} takes no {name}"))?;
            if !is_of_type(known, &value) {
                return Err(format!("{name} of {id} is {value:?}"));
            }
            let all: &mut Vec<String> = parameters.entry(name.to_string()).or_default();
            if !all.is_empty() && known["repeated"] != true {
                return Err(format!("{name} of {id} comes twice"));
            }
            all.push(value.into_owned());
        }
        let body = if uploads {
            self.uploaded(id, method, request, &parameters)?
        } else {
            (Value::Null, Vec::new())
        };
        if !uploads && !request.body.is_empty() {
            return Err(format!("{id} has a body"));
        }
        Ok(ValidRequest { method: id.clone(), parameters, body })
    }

    /// Returns the two parts of an upload.
    fn uploaded(
        &self,
        id: &str,
        method: &Value,
        request: &Request,
        parameters: &HashMap<String, Vec<String>>,
    ) -> Result<(Value, Vec<u8>), String> {
        let upload = &method["mediaUpload"];
        let is_multipart = parameters.get("uploadType").is_some_and(|all| all == &["multipart"]);
        if !is_multipart || upload["protocols"]["simple"]["multipart"] != true {
            return Err(format!("{id} is uploaded in another way"));
        }
        let kind = request.header("content-type");
        let boundary =
            kind.strip_prefix("multipart/related; boundary=\"").and_then(|rest| rest.strip_suffix('"'));
        let boundary = boundary.ok_or_else(|| format!("{kind} is no type of an upload"))?;
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
        let [before, about, media, behind] = parts.as_slice() else {
            return Err(format!("an upload has {} parts", parts.len()));
        };
        if !before.is_empty() || behind.trim() != "--" {
            return Err("an upload has more than its parts".to_owned());
        }
        let split = |part: &str| {
            let (head, body) = part.trim_start_matches("\r\n").split_once("\r\n\r\n").unwrap_or((part, ""));
            (head.to_ascii_lowercase(), body.strip_suffix("\r\n").unwrap_or(body).to_owned())
        };
        let ((about_head, about), (media_head, media)) = (split(about), split(media));
        if !about_head.starts_with("content-type: application/json")
            || media_head != "content-type: message/rfc822"
        {
            return Err(format!("the parts are {about_head} and {media_head}"));
        }
        let accepts =
            upload["accept"].as_array().is_some_and(|all| all.iter().any(|kind| *kind == "message/*"));
        let most: usize = upload["maxSize"].as_str().and_then(|size| size.parse().ok()).unwrap_or(0);
        if !accepts || media.len() > most {
            return Err(format!("{} bytes are uploaded, and {most} are taken", media.len()));
        }
        let about: Value = serde_json::from_str(&about).map_err(|error| error.to_string())?;
        match self.fault(&method["request"], &about, id) {
            Some(fault) => Err(fault),
            None => Ok((about, media.into_bytes())),
        }
    }

    /// Returns a description of the answer's first deviation from the document, if there is one.
    pub(crate) fn answer_fault(&self, method: &str, answer: &Value) -> Option<String> {
        self.fault(&self.methods[method]["response"], answer, method)
    }

    fn fault(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let schema = schema["$ref"].as_str().map_or(schema, |name| &self.schemas[name]);
        let wrong = || Some(format!("{at} is {value}"));
        match schema["type"].as_str()? {
            "object" => {
                let Some(fields) = value.as_object() else { return wrong() };
                fields.iter().find_map(|(name, value)| match schema["properties"].get(name) {
                    Some(schema) => self.fault(schema, value, &format!("{at}.{name}")),
                    None => Some(format!("{at} has no {name}")),
                })
            }
            "array" => {
                let Some(items) = value.as_array() else { return wrong() };
                items.iter().find_map(|item| self.fault(&schema["items"], item, &format!("{at}[]")))
            }
            "string" => value.as_str().filter(|text| is_of_type(schema, text)).map_or_else(wrong, |_| None),
            "integer" => {
                if value.is_i64() {
                    None
                } else {
                    wrong()
                }
            }
            "boolean" => {
                if value.is_boolean() {
                    None
                } else {
                    wrong()
                }
            }
            _ => None,
        }
    }

    /// Returns everything in this document that `other` lacks.
    pub(crate) fn beyond(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (id, method) in &self.methods {
            match other.methods.get(id) {
                Some(theirs) => part_of(method, theirs, id, &mut found),
                None => found.push(id.clone()),
            }
        }
        part_of(&self.schemas, &other.schemas, "schemas", &mut found);
        part_of(&self.parameters, &other.parameters, "parameters", &mut found);
        found
    }
}

/// Collects everything in `own` that `theirs` lacks: fields at any depth, and items of lists in any
/// order.
fn part_of(own: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    match (own, theirs) {
        (Value::Object(own), Value::Object(theirs)) => {
            for (name, value) in own {
                part_of(value, theirs.get(name).unwrap_or(&Value::Null), &format!("{at}.{name}"), found);
            }
        }
        (Value::Array(own), Value::Array(theirs)) => {
            found
                .extend(own.iter().filter(|item| !theirs.contains(item)).map(|item| format!("{at}: {item}")));
        }
        _ if own == theirs => {}
        _ => found.push(format!("{at}: {own}")),
    }
}

fn collect(resource: &Value, into: &mut Map<String, Value>) {
    for method in resource["methods"].as_object().into_iter().flatten().map(|(_, method)| method) {
        into.insert(method["id"].as_str().unwrap_or_default().to_owned(), method.clone());
    }
    for within in resource["resources"].as_object().into_iter().flatten().map(|(_, within)| within) {
        collect(within, into);
    }
}

/// Returns the parameters of a path, if it has this form.
fn of_path(form: &str, path: &str) -> Option<HashMap<String, Vec<String>>> {
    let (form, path): (Vec<&str>, Vec<&str>) =
        (form.trim_start_matches('/').split('/').collect(), path.split('/').collect());
    if form.len() != path.len() {
        return None;
    }
    let mut found = HashMap::new();
    for (form, part) in form.iter().zip(path) {
        match form.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if !part.is_empty() => {
                // In a path, a plus sign is no space.
                let decoded: Vec<_> =
                    parse(format!("x={}", part.replace('+', "%2B")).as_bytes()).into_owned().collect();
                found.insert(name.to_owned(), decoded.into_iter().map(|(_, value)| value).collect());
            }
            _ if form == &part => {}
            _ => return None,
        }
    }
    Some(found)
}

fn is_of_type(schema: &Value, text: &str) -> bool {
    let listed = schema["enum"].as_array().is_none_or(|all| all.iter().any(|one| one == text));
    let typed = match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), Some("uint32")) => text.parse::<u32>().is_ok(),
        (Some("integer"), _) => text.parse::<i64>().is_ok(),
        (Some("boolean"), _) => ["true", "false"].contains(&text),
        (_, Some("byte")) => URL_SAFE.decode(text).is_ok(),
        (_, Some("int64")) => text.parse::<i64>().is_ok(),
        (_, Some("uint64")) => text.parse::<u64>().is_ok(),
        _ => true,
    };
    listed && typed
}
