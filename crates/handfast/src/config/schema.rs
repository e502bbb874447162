//! The JSON Schema of a configuration file, for editors and for the page of all keys.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Settings;

/// Returns the JSON Schema of a configuration file, in the draft that editors of YAML know.
pub(crate) fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<Settings>().to_value();
    if let Value::Object(root) = &mut schema {
        root.insert("title".to_owned(), "Configuration of Handfast".into());
    }
    without_null(&mut schema);
    schema
}

/// Removes `null` from every type, because a key without a value is written by leaving it out.
// BOUNDED: by the depth of the types of a configuration file.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            flatten_optional(fields);
            for field in fields.values_mut() {
                without_null(field);
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(without_null),
        _ => {}
    }
}

fn flatten_optional(fields: &mut Map<String, Value>) {
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with each key that the schema describes: its name and its own schema.
    fn keys(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                visit(name, property);
            }
        }
        let parts = value.as_object().into_iter().flat_map(Map::values);
        parts.chain(value.as_array().into_iter().flatten()).for_each(|part| keys(part, visit));
    }

    #[test]
    fn every_key_has_a_description_and_every_key_of_a_type_an_example() {
        let mut without = Vec::new();
        keys(&schema(), &mut |name, key| {
            let is_part = ["rule", "match", "not_match", "allowed_paths"].contains(&name);
            if !is_part && (key.get("description").is_none() || key.get("examples").is_none()) {
                without.push(name.to_owned());
            }
        });
        assert_eq!(without, Vec::<String>::new());
    }

    #[test]
    fn every_example_is_accepted_by_the_parser_and_by_the_schema() {
        let whole = schema();
        let validator = jsonschema::validator_for(&whole).unwrap();
        let definitions = whole["definitions"].as_object().unwrap();
        let around = |definition: &str, key: &str, value: &Value| -> Option<Value> {
            let inner = serde_json::json!({ key: value });
            let with = |mut whole: Value, key: &str| {
                whole[key] = value.clone();
                whole
            };
            Some(match definition {
                "ProfileSource" => serde_json::json!({ "sandbox_config": { "normal": inner } }),
                "Limits" => serde_json::json!({ "sandbox_config": { "normal": { "limits": inner } } }),
                "BrowserRules" => serde_json::json!({ "sandbox_config": { "normal": { "browser": inner } } }),
                "ImpactRules" => serde_json::json!({ "sandbox_config": { "normal": { "impact": inner } } }),
                "GitPush" => serde_json::json!({ "sandbox_config": { "normal": { "git_push": inner } } }),
                "ProviderPlace" => {
                    let provider = with(serde_json::json!({"api": "ollama"}), key);
                    serde_json::json!({ "models": { "providers": { "local": provider } } })
                }
                "BudgetPlace" => serde_json::json!({ "models": { "providers": {}, "budget": inner } }),
                "OwnProject" => {
                    let project = with(serde_json::json!({"folder": "."}), key);
                    serde_json::json!({ "self": { "app": project } })
                }
                "TestCommands" => serde_json::json!({ "self": { "app": { "folder": ".", "tests": inner } } }),
                "Scopes" => {
                    let mut oauth = whole["properties"]["oauth"]["examples"][0].clone();
                    oauth["scopes"] = inner;
                    serde_json::json!({ "oauth": oauth })
                }
                _ => {
                    let holder = whole["properties"].as_object()?.iter().find(|(_, property)| {
                        property.to_string().contains(&format!("#/definitions/{definition}\""))
                    })?;
                    let complete = holder.1["examples"][0].clone();
                    serde_json::json!({ holder.0: with(complete, key) })
                }
            })
        };
        let mut tried = 0;
        let mut accept = |file: &Value| {
            assert!(validator.is_valid(file), "{file}: {:?}", validator.iter_errors(file).next());
            super::super::parse(&file.to_string()).unwrap_or_else(|error| panic!("{file}: {error:?}"));
            tried += 1;
        };
        for (key, property) in whole["properties"].as_object().unwrap() {
            for example in property["examples"].as_array().unwrap() {
                accept(&serde_json::json!({ key: example }));
            }
        }
        for (name, definition) in definitions {
            let properties = definition.get("properties").and_then(Value::as_object);
            for (key, property) in properties.into_iter().flatten() {
                for example in property["examples"].as_array().into_iter().flatten() {
                    accept(&around(name, key, example).unwrap());
                }
            }
        }
        assert!(tried > 60, "{tried}");
    }

    #[test]
    fn the_schema_refuses_what_the_parser_refuses() {
        let whole = schema();
        let validator = jsonschema::validator_for(&whole).unwrap();
        for text in [
            r#"{"modus": "smart_auto"}"#,
            r#"{"mode": "sometimes"}"#,
            r#"{"sandbox_config": {"normal": {"allow": []}}}"#,
            r#"{"sandbox_config": {"normal": {"limits": {"memory_bytes": "4 gigs"}}}}"#,
            r#"{"sandbox_config": {"normal": {"limits": {"session_seconds": "1 week"}}}}"#,
            r#"{"sandbox_config": {"normal": {"deny_hosts": [{"match": []}]}}}"#,
            r#"{"linear": {}}"#,
        ] {
            let file: Value = serde_json::from_str(text).unwrap();
            assert!(!validator.is_valid(&file), "{text}");
            assert!(super::super::parse(text).is_err(), "{text}");
        }
    }
}
