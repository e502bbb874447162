use proptest::prelude::*;
use tool::subset_violations;

use super::*;

fn converted(schema: &Value) -> PortableSchema {
    let converted = portable_schema(schema).unwrap_or_else(|error| panic!("{schema:#}: {error}"));
    assert_eq!(subset_violations(&converted.schema), Vec::<String>::new(), "{:#}", converted.schema);
    converted
}

/// Returns the converted schema of one property.
fn property(schema: &Value) -> Value {
    converted(&json!({"type": "object", "properties": {"x": schema}})).schema["properties"]["x"].clone()
}

fn fault(schema: &Value) -> SchemaError {
    portable_schema(schema).unwrap_err()
}

#[test]
fn an_ordinary_schema_stays_and_is_closed() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The path."},
            "head": {"type": "number", "minimum": 1},
        },
        "required": ["path"],
    });
    assert_eq!(
        converted(&schema).schema,
        json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "The path."},
                "head": {"type": "number", "minimum": 1, "description": "The field `head`."},
            },
            "additionalProperties": false,
        })
    );
    let open = converted(&json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true}));
    assert_eq!(open.schema.get("additionalProperties"), None);
    assert_eq!(converted(&json!({})).schema, json!({"type": "object", "properties": {}}));
    assert_eq!(converted(&json!(true)).schema["type"], "object");
}

#[test]
fn null_is_left_out_because_an_optional_property_may_be() {
    for schema in [
        json!({"type": ["string", "null"], "description": "d"}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "description": "d"}),
        json!({"type": "string", "nullable": true, "description": "d"}),
    ] {
        assert_eq!(property(&schema), json!({"type": "string", "description": "d"}));
    }
}

#[test]
fn references_are_put_in_their_places() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/P%61th", "description": "Own words."}, "b": {"$ref": "#/$defs/Path"}},
        "$defs": {"Path": {"type": "string", "title": "A path", "minLength": 1}},
    });
    let found = converted(&schema).schema;
    assert_eq!(
        found["properties"]["a"],
        json!({"description": "Own words.", "type": "string", "minLength": 1})
    );
    assert_eq!(found["properties"]["b"]["description"], "A path");
    let root = json!({"$ref": "#/definitions/Args", "definitions": {"Args": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    assert_eq!(converted(&root).schema["properties"]["n"]["type"], "integer");
}

#[test]
fn references_that_lead_in_circles_outside_or_nowhere_are_refused() {
    let tree = json!({
        "type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}},
    });
    assert_eq!(fault(&tree), SchemaError::Cycle { reference: "#/$defs/Node".to_owned() });
    let own = json!({"type": "object", "properties": {"x": {"$ref": "#"}}});
    assert_eq!(fault(&own), SchemaError::Cycle { reference: "#".to_owned() });
    let outside = json!({"type": "object", "properties": {"x": {"$ref": "http://169.254.169.254/latest"}}});
    assert!(matches!(fault(&outside), SchemaError::External { .. }));
    let nowhere = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/None"}}});
    assert!(matches!(fault(&nowhere), SchemaError::Unresolved { .. }));
}

#[test]
fn a_schema_that_grows_without_end_is_refused() {
    // Each definition refers to the next one twice: 2^40 parts when written out.
    let mut definitions = Map::new();
    for level in 0..20 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions
            .insert(format!("d{level}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
    }
    definitions.insert("d20".to_owned(), json!({"type": "string"}));
    let bomb = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    assert!(matches!(fault(&bomb), SchemaError::TooManyParts { .. } | SchemaError::TooDeep { .. }));
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"type": "array", "items": deep});
    }
    assert_eq!(
        fault(&json!({"type": "object", "properties": {"x": deep}})),
        SchemaError::TooDeep { limit: DEEPEST }
    );
    let long = json!({"type": "object", "description": "x".repeat(LONGEST_SCHEMA)});
    assert!(matches!(fault(&long), SchemaError::TooLong { .. }));
}

#[test]
fn alternatives_become_one_part() {
    let choices =
        property(&json!({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}, {"enum": ["c", null]}]}));
    assert_eq!((&choices["type"], &choices["enum"]), (&json!("string"), &json!(["a", "b", "c"])));
    let several =
        property(&json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}));
    assert_eq!((&several["type"], &several["items"]), (&json!("array"), &json!({"type": "string"})));
    assert_eq!(property(&json!({"type": ["integer", "number"]}))["type"], "number");
    let union = property(&json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
        {"type": "object", "properties": {"kind": {"const": "text"}, "text": {"type": "string"}}, "required": ["kind", "text"]},
    ]}));
    assert_eq!(union["required"], json!(["kind"]));
    assert_eq!(union["properties"]["kind"]["enum"], json!(["file", "text"]));
    let whole = converted(&json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "type": "object"}));
    assert_eq!(whole.notes.len(), 2, "{:?}", whole.notes);
}

#[test]
fn conditions_on_required_properties_at_the_root_are_left_to_the_server() {
    let found = converted(&json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
    }));
    assert_eq!(found.schema["properties"]["id"]["type"], "integer");
    assert_eq!(found.schema["properties"]["name"]["type"], "string");
    assert_eq!(found.schema.get("required"), None);
}

#[test]
fn all_parts_of_a_conjunction_count() {
    let found = converted(&json!({
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ],
    }));
    assert_eq!(found.schema["required"], json!(["a", "b"]));
    assert_eq!(found.schema["properties"]["b"]["type"], "integer");
}

#[test]
fn bounds_that_providers_refuse_become_words_or_other_bounds() {
    let found =
        property(&json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 10, "exclusiveMaximum": true}));
    assert_eq!((&found["minimum"], &found["maximum"]), (&json!(1), &json!(9)));
    assert_eq!(
        property(&json!({"type": "number", "exclusiveMinimum": 0.5}))["description"],
        "More than 0.5."
    );
    let text =
        property(&json!({"type": "string", "format": "uri", "pattern": "^(?=h)", "description": "Where."}));
    assert_eq!(text, json!({"type": "string", "description": "Where. Format: uri. Pattern: ^(?=h)."}));
    let numbers = property(&json!({"enum": [4, 1, 2]}));
    assert_eq!(
        numbers,
        json!({"type": "integer", "minimum": 1, "maximum": 4, "description": "One of: 4, 1, 2."})
    );
    assert_eq!(property(&json!({"const": true}))["description"], "One of: true.");
}

#[test]
fn arrays_always_have_items() {
    assert_eq!(property(&json!({"type": "array"}))["items"], json!({}));
    assert_eq!(property(&json!({"type": "array", "items": true}))["items"], json!({}));
    let point = property(&json!({"type": "array", "items": [{"type": "number"}, {"type": "number"}]}));
    assert_eq!(point["items"], json!({"type": "number"}));
    let mixed = property(&json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}));
    assert_eq!(mixed["items"], json!({}));
}

#[test]
fn boolean_schemas_and_missing_properties_have_a_meaning() {
    let found = converted(
        &json!({"type": "object", "properties": {"any": true, "never": false}, "required": ["other", "any"]}),
    );
    assert_eq!(found.schema["properties"]["any"], json!({"description": "The field `any`."}));
    assert_eq!(found.schema["properties"].get("never"), None);
    assert_eq!(found.schema["required"], json!(["other", "any"]));
    assert!(found.notes.iter().any(|note| note.contains("never")));
}

#[test]
fn schemas_that_no_call_can_follow_are_refused() {
    for schema in [json!(false), json!({"type": "string"}), json!({"type": "array"}), json!({"enum": ["a"]})]
    {
        assert_eq!(fault(&schema), SchemaError::NotAnObject);
    }
    assert!(matches!(fault(&json!({"type": "object", "properties": {"x": 5}})), SchemaError::Invalid { .. }));
    let named = json!({"type": "object", "properties": {"a b": {"type": "string"}}, "required": ["a b"]});
    assert_eq!(fault(&named), SchemaError::PropertyName { name: "a b".to_owned() });
    let optional = converted(&json!({"type": "object", "properties": {"a b": {"type": "string"}}}));
    assert_eq!(optional.schema["properties"], json!({}));
}

#[test]
fn descriptions_are_cleaned_and_bounded() {
    let found = property(
        &json!({"type": "string", "description": format!("a\u{202e}b\u{e0041}{}", "x".repeat(5_000))}),
    );
    let words = found["description"].as_str().unwrap();
    assert!(words.starts_with("abxx") && words.len() <= LONGEST_PROPERTY_DESCRIPTION, "{words}");
}

/// Returns schemas of all kinds, valid and not.
fn any_schema() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        (-3_i64..9).prop_map(|value| json!(value)),
        Just(json!(1.5)),
        "[a-c]{0,2}".prop_map(|value| json!(value)),
    ];
    let leaf = prop_oneof![
        Just(json!(true)), Just(json!(false)), Just(json!({})), Just(json!({"$ref": "#/$defs/A"})),
        Just(json!({"$ref": "#/$defs/B"})), Just(json!({"$ref": "#"})),
        prop::collection::vec(scalar.clone(), 0..4).prop_map(|values| json!({"enum": values})),
        scalar.clone().prop_map(|value| json!({"const": value})),
        (prop::sample::subsequence(vec!["string", "null", "integer", "number", "boolean", "array", "object"], 0..4))
            .prop_map(|types| json!({"type": types})),
        (prop::sample::select(vec!["string", "integer", "number"]), -5_i64..5, scalar).prop_map(|(kind, bound, default)| json!({
            "type": kind, "minimum": bound, "exclusiveMaximum": bound + 3, "minLength": 1, "pattern": "^a", "format": "uri",
            "default": default, "description": "Words.",
        })),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..4);
        let named = prop::collection::vec((prop::sample::select(vec!["a", "b", "c d", "e"]), inner.clone()), 0..4);
        prop_oneof![
            (named, prop::sample::subsequence(vec!["a", "b", "z"], 0..3), inner.clone(), several.clone()).prop_map(
                |(named, required, additional, all)| {
                    let properties: Map<String, Value> = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": additional, "allOf": all})
                }
            ),
            (inner.clone(), several.clone()).prop_map(|(items, prefix)| json!({"type": "array", "items": items, "prefixItems": prefix})),
            several.clone().prop_map(|parts| json!({"anyOf": parts})),
            (several, inner).prop_map(|(parts, not)| json!({"oneOf": parts, "not": not, "type": ["string", "object"]})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Schemas that can be converted are in the subset, are valid JSON Schema, and stay when they are converted again.
    #[test]
    fn converted_schemas_are_in_the_subset(schema in any_schema(), a in any_schema(), b in any_schema()) {
        let mut whole = schema;
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("$defs".to_owned(), json!({"A": a, "B": b}));
        }
        if let Ok(converted) = portable_schema(&whole) {
            prop_assert_eq!(subset_violations(&converted.schema), Vec::<String>::new(), "{:#}", converted.schema);
            prop_assert!(jsonschema::validator_for(&converted.schema).is_ok(), "{:#}", converted.schema);
            // An object that was open says nothing about further properties, and is closed the second time.
            let root = |mut schema: Value| {
                schema.as_object_mut().unwrap().remove("additionalProperties");
                schema
            };
            let again = portable_schema(&converted.schema).unwrap();
            prop_assert_eq!(root(again.schema), root(converted.schema));
        }
    }

    /// Arguments that fit the converted form of a plain schema are accepted by the original one.
    #[test]
    fn calls_by_the_converted_schema_are_valid_for_the_server(kind in 0_usize..4, number in -3_i64..9, text in "[a-c]{0,3}") {
        let schemas = [
            json!({"type": ["integer", "null"], "exclusiveMinimum": 0}),
            json!({"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"const": "c"}]}),
            json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
            json!({"type": "number", "maximum": 5}),
        ];
        let schema = json!({"type": "object", "properties": {"x": schemas[kind]}, "required": ["x"]});
        let converted = portable_schema(&schema).unwrap().schema;
        for value in [json!(number), json!(text), json!([text]), json!(null)] {
            let arguments = json!({"x": value});
            if jsonschema::is_valid(&converted, &arguments) {
                prop_assert!(jsonschema::is_valid(&schema, &arguments), "{} fits {} and not {}", arguments, converted, schema);
            }
        }
    }
}
