use super::*;

const GOOD: &str = r#"
name: word_count
description: Counts the words of a text.
level: safe
input_schema:
  type: object
  properties: {text: {type: string, description: Text to count.}}
  required: [text]
output_schema:
  type: object
  properties: {words: {type: integer}}
command: [python3, main.py]
example: {arguments: {text: "a b"}, result: {words: 2}}
"#;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, |file| file == "main.py")
}

#[test]
fn a_manifest_has_safe_defaults() {
    let manifest = parse(GOOD).unwrap();
    assert_eq!(manifest.effects, DeclaredEffects::default());
    assert_eq!((manifest.mode, manifest.timeout), (RunMode::Once, Duration::from_secs(30)));
    assert_eq!(manifest.input_schema["additionalProperties"], false);
    assert_eq!(manifest.least_level(), Level::Safe);
    assert_eq!(manifest.effects.described(), ["does not see the workspace", "has no network"]);
}

#[test]
fn declared_effects_raise_the_level_and_never_lower_it() {
    let with = |effects: &str| parse(&format!("{GOOD}effects: {effects}\n")).unwrap();
    assert_eq!(with("{workspace: write}").least_level(), Level::Moderate);
    assert_eq!(with("{hosts: [a.example]}").least_level(), Level::Moderate);
    assert_eq!(with("{workspace: read}").least_level(), Level::Safe);
    let high = parse(&GOOD.replace("level: safe", "level: destructive")).unwrap();
    assert_eq!(high.least_level(), Level::Destructive);
}

#[test]
fn a_schema_that_no_provider_accepts_is_refused_with_its_place_and_what_to_write() {
    let own = "{text: {type: string, description: Text to count.}}";
    let properties = |text: &str| GOOD.replace(own, text);
    let top = |text: &str| {
        GOOD.replace("type: object\n  properties: {text", &format!("{text}\n  properties: {{text"))
    };
    let items = |text: &str| properties(&format!("{{text: {{type: array, description: d, {text}}}}}"));
    for (text, place, instead) in [
        (top("type: object\n  anyOf: [{required: [text]}]"), "the top: uses anyOf", "the one form"),
        (top("type: array"), "must be of type object", "`type: object` at its top"),
        (top("type: [object, 'null']"), "must be of type object", "`type: object` at its top"),
        (top("description: d"), "must be of type object", "`type: object` at its top"),
        (top("type: object\n  $defs: {}"), "the top: uses $defs", "in the place of the reference"),
        (
            properties("{text: {$ref: '#', description: d}}"),
            "/text: uses $ref",
            "in the place of the reference",
        ),
        (properties("{text: {type: [string, integer], description: d}}"), "/text: a type array", "one type"),
        (properties("{text: {const: a, description: d}}"), "/text: uses const", "`enum`"),
        (properties("{text: true}"), "/text: a boolean schema", "{type: string}"),
        (properties("{text: {oneOf: [], description: d}}"), "/text: uses oneOf", "the one form"),
        (properties("{text: {type: string}}"), "/text: no description", "in a sentence"),
        (items("items: [{type: string}, {type: integer}]"), "/text/items: a boolean schema", "one for all"),
        (
            items("prefixItems: [{type: string}], items: {type: string}"),
            "/text: uses prefixItems",
            "one schema",
        ),
        (items("minItems: 1"), "/text: an array without items", "under `items`"),
        (
            properties("{text: {type: object, description: d, additionalProperties: {$ref: '#'}}}"),
            "/text/additionalProperties: uses $ref",
            "in the place of the reference",
        ),
    ] {
        assert_ne!(text, GOOD);
        let error = parse(&text).expect_err(&text);
        assert_eq!(error.field, "input_schema", "{error}");
        assert!(error.problem.contains(place) && error.problem.contains(instead), "{place}: {error}");
    }
    let large = properties(&format!("{{text: {{type: string, description: {}}}}}", "d".repeat(2 << 20)));
    assert!(parse(&large).unwrap_err().problem.contains("are the most"));
}

#[test]
fn a_fault_names_its_field_and_what_to_do() {
    let replaced = |from: &str, to: &str| GOOD.replace(from, to);
    for (text, field, told) in [
        (replaced("name: word_count", "name: Word-Count"), "name", "small letter"),
        (replaced("name: word_count\n", ""), "name", "missing"),
        (replaced("description: Counts", "descripton: Counts"), "descripton", "did you mean `description`?"),
        (replaced("level: safe", "level: save"), "level", "did you mean `safe`?"),
        (replaced(", description: Text to count.", ""), "input_schema", "no description"),
        (replaced("{type: string, d", "{type: [string, 'null'], d"), "input_schema", "a type array"),
        (replaced("words: {type: integer}", "words: {anyOf: [{type: integer}]}"), "output_schema", "anyOf"),
        (replaced("[python3, main.py]", "[/bin/sh, main.py]"), "command", "outside of the folder"),
        (replaced("[python3, main.py]", "[../x]"), "command", "outside of the folder"),
        (replaced("[python3, main.py]", "[./other]"), "command", "does not have"),
        (replaced("[python3, main.py]", "[]"), "command", "missing"),
        (replaced("{text: \"a b\"}", "{txt: x}"), "example.arguments", "do not fit"),
        (replaced(", result: {words: 2}", ""), "example.result", "either"),
        (replaced(", result: {words: 2}", ", error: EVALIDATION"), "example.error", "must succeed"),
        (format!("{GOOD}effects: {{host: [a.example]}}\n"), "effects.host", "did you mean `hosts`?"),
        (format!("{GOOD}effects: {{hosts: ['https://a.example/']}}\n"), "effects.hosts", "no host"),
        (format!("{GOOD}effects: {{secrets: [key]}}\n"), "effects.secrets", "needs `hosts`"),
        (format!("{GOOD}effects: {{hosts: [a.example], secrets: ['*']}}\n"), "effects.secrets", "in full"),
        (format!("{GOOD}mode: serve\neffects: {{workspace: write}}\n"), "mode", "cannot change"),
        (format!("{GOOD}timeout: 0\n"), "timeout", "seconds"),
        (format!("{GOOD}tests: [{{arguments: {{}}, error: EWRONG}}]\n"), "tests[0].error", "none of"),
        (
            format!("{GOOD}tests: [{{arguments: {{}}, files: {{../x: a}}, result: {{}}}}]\n"),
            "tests[0].files",
            "relative",
        ),
        ("- a\n".to_owned(), "plugin.yaml", "no mapping"),
        ("a: [\n".to_owned(), "plugin.yaml", "YAML"),
        ("x".repeat(LARGEST_MANIFEST + 1), "plugin.yaml", "bytes"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.contains(told), "{error}");
    }
}
