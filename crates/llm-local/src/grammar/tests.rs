//! Answers of a model with random scores: whatever it prefers, a call parses and fits its schema.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tool::StopReason;

use super::*;
use crate::answer::Piece;
use crate::guide::Rules;
use crate::run::{Order, Outcome, Predictor, RunError, run};
use crate::sample::Dice;
use crate::tokens::{Vocabulary, letters};

/// Model with random scores, of which some tokens have higher ones.
struct Monkey {
    dice: Dice,
    scores: Vec<f32>,
    favourites: Vec<usize>,
}

impl Predictor for Monkey {
    fn read(&mut self, _: &[u32], _: &dyn Fn() -> Option<StopReason>) -> Result<&[f32], StopReason> {
        for score in &mut self.scores {
            *score = f32::from(u16::try_from(self.dice.next() >> 48).unwrap()) / 10_000.0;
        }
        for favourite in &self.favourites {
            self.scores[*favourite] += 3.0;
        }
        Ok(&self.scores)
    }
}

/// Returns a vocabulary of all bytes, some merges, and the end as the last token.
fn vocabulary() -> Vocabulary {
    let mut texts: Vec<(u8, String)> =
        letters().into_iter().map(|(letter, byte)| (byte, letter.to_string())).collect();
    texts.sort();
    let mut texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
    let merges = [
        ("{", "\""),
        ("\"", ":"),
        ("\":", "Ġ"),
        (",", "Ġ"),
        (",Ġ", "\""),
        ("\"", "}"),
        ("}", "}"),
        ("1", "2"),
        ("n", "a"),
        ("na", "me"),
        ("m", "e"),
        ("Ã", "©"),
        ("[", "]"),
        ("\\", "\""),
        ("<", "t"),
        ("\"", ","),
        ("tool", "_call"),
        ("t", "o"),
        ("to", "ol"),
        ("o", "l"),
        ("_", "call"),
        ("c", "all"),
        ("a", "ll"),
        ("l", "l"),
        (">", "Ċ"),
        ("t", "r"),
        ("u", "e"),
        ("tr", "ue"),
        ("-", "1"),
        ("0", "."),
    ];
    texts.extend(merges.iter().map(|(one, other)| format!("{one}{other}")));
    texts.push("<|im_end|>".to_owned());
    let controls: Vec<bool> = texts.iter().map(|text| text == "<|im_end|>").collect();
    Vocabulary::new(&texts, &controls, &merges, None, true).unwrap()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

fn write(rules: Rules, most: usize, seed: u64, temperature: f64) -> Result<(Outcome, Vec<Piece>), RunError> {
    let vocabulary = vocabulary();
    let count = vocabulary.len();
    let mut dice = Dice::new(seed);
    let mut favourite = |text: &[u8]| {
        let of_text = |token: &usize| vocabulary.bytes(u32::try_from(*token).unwrap()) == text;
        (0..count).find(of_text).filter(|_| dice.next().is_multiple_of(2))
    };
    let favourites = ["\"", "}", "]", "{", "<", "\\", ",", "1"];
    let favourites = favourites.iter().filter_map(|text| favourite(text.as_bytes())).collect();
    let mut monkey = Monkey { dice, scores: vec![0.0; count], favourites };
    let order = Order { prompt: vec![1], rules, most, context: 4_000, temperature, seed, stops: &[] };
    let mut pieces = Vec::new();
    let outcome = run(&mut monkey, &vocabulary, &order, &mut |piece| pieces.push(piece), &|| None)?;
    Ok((outcome, pieces))
}

fn rules_of_calls(tools: &[(&str, &Value)], must_call: bool) -> Rules {
    let (grammar, root) = call(tools.iter().map(|(name, schema)| (*name, object(schema)))).unwrap();
    Rules { grammar, call: Some(root), format: None, must_call }
}

/// Checks that a call was made which parses and fits, and that its pieces are the whole.
fn check(outcome: &Outcome, pieces: &[Piece], tools: &[(&str, &Value)], most: usize) {
    assert!(outcome.tokens <= most, "{outcome:?}");
    assert_eq!(outcome.finish, llm::Finish::ToolCalls, "{outcome:?}");
    let (name, arguments) = outcome.call.as_ref().unwrap();
    let (_, schema) = tools.iter().find(|(known, _)| known == name).unwrap();
    let value: Value = serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {arguments}"));
    let validator = jsonschema::validator_for(schema).unwrap();
    assert!(validator.is_valid(&value), "{value} does not fit {schema}");
    let mut told = String::new();
    for piece in pieces {
        match piece {
            Piece::Arguments(text) => told.push_str(text),
            Piece::Call(told) => assert_eq!(told, name),
            Piece::Text(_) => {}
        }
    }
    assert_eq!(&told, arguments);
}

fn schema() -> impl Strategy<Value = Value> {
    let number = -1_000..1_000_i64;
    let leaf = prop_oneof![
        Just(json!({"type": "boolean"})),
        Just(json!({"type": "null"})),
        Just(json!({"type": "string"})),
        Just(json!({"type": "number"})),
        Just(json!({"type": "integer", "format": "uint8"})),
        Just(json!(true)),
        Just(json!({"type": "object"})),
        Just(json!({"type": "array", "maxItems": 3})),
        Just(json!({"enum": ["a", "ab", "é\"\n", 1, 12, 1.5, null, {"a": [1]}]})),
        Just(json!({"type": "string", "enum": ["read", "readonly", "write"]})),
        Just(json!({"const": "only"})),
        Just(json!({"type": ["string", "null"], "maxLength": 3})),
        (0..5_usize, 0..5_usize).prop_map(
            |(least, more)| json!({"type": "string", "minLength": least, "maxLength": least + more})
        ),
        (number.clone(), 0..300_i64)
            .prop_map(|(least, more)| json!({"type": "integer", "minimum": least, "maximum": least + more})),
        (number.clone(), 1..300_i64).prop_map(
            |(least, more)| json!({"type": "number", "minimum": least, "exclusiveMaximum": least + more})
        ),
        number.prop_map(|least| json!({"type": "integer", "exclusiveMinimum": least})),
        (1..9_i64).prop_map(|step| json!({"type": "integer", "multipleOf": step, "minimum": 5})),
        (1..9_u8)
            .prop_map(|of| json!({"type": "number", "minimum": 0.1, "maximum": 0.1 + 1.0 / f64::from(of)})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let named = prop::collection::vec(("[a-c\"é]{1,3}", inner.clone(), any::<bool>()), 0..4);
        prop_oneof![
            named.prop_map(|named| {
                let required: Vec<&String> = named.iter().filter(|part| part.2).map(|part| &part.0).collect();
                let required: std::collections::BTreeSet<&String> = required.into_iter().collect();
                let properties: Map<String, Value> =
                    named.iter().map(|(name, schema, _)| (name.clone(), schema.clone())).collect();
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }),
            (inner.clone(), 0..3_usize, 0..3_usize).prop_map(|(items, least, more)| {
                json!({"type": "array", "items": items, "minItems": least, "maxItems": least + more})
            }),
            inner.clone().prop_map(|value| json!({"type": "object", "additionalProperties": value, "maxProperties": 2})),
            prop::collection::vec(inner, 1..4).prop_map(|all| json!({"anyOf": all})),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-d]{1,2}", schema(), any::<bool>()), 0..4).prop_map(|named| {
        let required: std::collections::BTreeSet<&String> =
            named.iter().filter(|part| part.2).map(|part| &part.0).collect();
        let properties: Map<String, Value> =
            named.iter().map(|(name, schema, _)| (name.clone(), schema.clone())).collect();
        json!({"type": "object", "properties": properties, "required": required})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_call_always_parses_and_fits_its_schema(
        one in arguments(),
        other in arguments(),
        most in 60..900_usize,
        seed in any::<u64>(),
        temperature in prop_oneof![Just(0.0), Just(1.0)],
    ) {
        let tools = [("file_read", &one), ("file", &other)];
        match write(rules_of_calls(&tools, true), most, seed, temperature) {
            Ok((outcome, pieces)) => check(&outcome, &pieces, &tools, most),
            Err(error) => {
                let is_too_few = matches!(error, RunError::TooFewTokens(needed) if needed > most);
                prop_assert!(is_too_few, "{error:?}");
            }
        }
    }

    #[test]
    fn a_text_with_a_format_always_fits_it(schema in schema(), most in 80..900_usize, seed in any::<u64>()) {
        let Value::Object(schema) = schema else { return Ok(()) };
        let (grammar, root) = format(Grammar::new(), &schema).unwrap();
        let rules = Rules { grammar, call: None, format: Some(root), must_call: false };
        match write(rules, most, seed, 1.0) {
            Ok((outcome, _)) => {
                let value: Value = serde_json::from_str(&outcome.text).unwrap();
                let schema = Value::Object(schema);
                prop_assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value), "{value} {schema}");
            }
            Err(error) => prop_assert!(matches!(error, RunError::TooFewTokens(_)), "{error:?}"),
        }
    }

    #[test]
    fn every_beginning_has_a_completion_that_fits(schema in schema(), seed in any::<u64>(), length in 0..60_usize) {
        let Value::Object(schema) = schema else { return Ok(()) };
        let (grammar, root) = format(Grammar::new(), &schema).unwrap();
        let mut state = State::new(&grammar, root);
        let (mut dice, mut text) = (Dice::new(seed), Vec::new());
        for _ in 0..length {
            let possible: Vec<u8> = (0..=255).filter(|byte| state.step(&grammar, *byte).is_some()).collect();
            if possible.is_empty() {
                prop_assert!(state.may_end(&grammar));
                break;
            }
            let byte = possible[usize::try_from(dice.next() % 1_000_003).unwrap() % possible.len()];
            text.push(byte);
            state = state.step(&grammar, byte).unwrap();
        }
        let completion = state.completion(&grammar);
        for byte in &completion {
            state = state.step(&grammar, *byte).unwrap();
        }
        prop_assert!(state.may_end(&grammar));
        text.extend(completion);
        let value: Value = serde_json::from_slice(&text).unwrap();
        let schema = Value::Object(schema);
        prop_assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value), "{value} {schema}");
    }
}

#[test]
fn with_a_free_choice_a_call_that_is_begun_is_made_whole() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path"]});
    let tools = [("file_read", &schema)];
    let (mut calls, mut texts) = (0, 0);
    for seed in 0..300 {
        let (outcome, pieces) = write(rules_of_calls(&tools, false), 300, seed, 1.0).unwrap();
        if outcome.call.is_some() {
            check(&outcome, &pieces, &tools, 300);
            calls += 1;
        } else {
            assert!(matches!(outcome.finish, llm::Finish::Complete | llm::Finish::MaxTokens), "{outcome:?}");
            texts += 1;
        }
        assert!(!outcome.text.contains("<tool_call>"), "{outcome:?}");
    }
    // Random scores write the tag by themselves about never.
    assert!(texts > calls, "{texts} texts, {calls} calls");
}

#[test]
fn recursive_schemas_end_where_they_may() {
    let tree = json!({
        "type": "object", "properties": {"tree": {"$ref": "#/$defs/tree"}}, "required": ["tree"],
        "$defs": {"tree": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
            "name": {"type": "string", "maxLength": 5},
            "left": {"$ref": "#/$defs/tree"},
        }}},
    });
    for seed in 0..50 {
        let tools = [("plant", &tree)];
        let (outcome, pieces) = write(rules_of_calls(&tools, true), 500, seed, 1.0).unwrap();
        check(&outcome, &pieces, &tools, 500);
    }
    let endless = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}}});
    let refused = call([("endless", object(&endless))]).map(|_| ()).unwrap_err();
    assert_eq!(refused, ("endless".to_owned(), SchemaFault::NoValue));
}

#[test]
fn alternatives_that_begin_alike_are_told_apart_later() {
    let schema = json!({"type": "object", "required": ["do"], "additionalProperties": false, "properties": {"do": {"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "read"}, "path": {"type": "string", "maxLength": 9}}, "required": ["kind", "path"]},
        {"type": "object", "properties": {"kind": {"const": "readall"}, "deep": {"type": "boolean"}}, "required": ["kind", "deep"]},
    ]}}});
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let tools = [("act", &schema)];
        let (outcome, pieces) = write(rules_of_calls(&tools, true), 200, seed, 1.0).unwrap();
        check(&outcome, &pieces, &tools, 200);
        let value: Value = serde_json::from_str(&outcome.call.unwrap().1).unwrap();
        kinds.insert(value["do"]["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds.len(), 2, "{kinds:?}");
}

#[test]
fn too_few_tokens_for_a_call_are_refused_before_anything_is_written() {
    let schema = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 30}}});
    let error = write(rules_of_calls(&[("say", &schema)], true), 20, 1, 0.0).map(|_| ()).unwrap_err();
    assert!(matches!(error, RunError::TooFewTokens(needed) if needed > 50), "{error:?}");
}

/// Model that wants to write a text, byte by byte, and then to end.
struct Script<'a> {
    text: &'a [u8],
    scores: Vec<f32>,
    vocabulary: &'a Vocabulary,
}

impl Predictor for Script<'_> {
    fn read(&mut self, _: &[u32], _: &dyn Fn() -> Option<StopReason>) -> Result<&[f32], StopReason> {
        let end = self.scores.len() - 1;
        let wanted = match self.text.split_first() {
            Some((first, rest)) => {
                self.text = rest;
                let is_wanted = |token: &u32| self.vocabulary.bytes(*token) == [*first];
                usize::try_from((0..300).find(is_wanted).unwrap()).unwrap()
            }
            None => end,
        };
        self.scores.fill(0.0);
        self.scores[wanted] = 9.0;
        Ok(&self.scores)
    }
}

fn dictate(rules: Rules, text: &str, stops: &[String]) -> (Outcome, Vec<Piece>) {
    let vocabulary = vocabulary();
    let scores = vec![0.0; vocabulary.len()];
    let mut script = Script { text: text.as_bytes(), scores, vocabulary: &vocabulary };
    let order = Order { prompt: vec![1], rules, most: 300, context: 4_000, temperature: 0.0, seed: 0, stops };
    let mut pieces = Vec::new();
    let outcome = run(&mut script, &vocabulary, &order, &mut |piece| pieces.push(piece), &|| None).unwrap();
    (outcome, pieces)
}

#[test]
fn a_tag_in_free_text_begins_a_call_and_nobody_sees_it() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tools = [("file_read", &schema)];
    let text = "I look <tool at é.<<tool_call>\n{\"name\": \"file_read\", \"arguments\": {\"path\": \"a}\"}}and more";
    let (outcome, pieces) = dictate(rules_of_calls(&tools, false), text, &[]);
    assert_eq!(outcome.text, "I look <tool at é.<");
    assert_eq!(outcome.call, Some(("file_read".to_owned(), "{\"path\": \"a}\"}".to_owned())));
    check(&outcome, &pieces, &tools, 300);
    let told = pieces
        .iter()
        .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None });
    assert_eq!(told.collect::<String>(), outcome.text);
    // A model that wants something else after the tag must call all the same.
    let (outcome, pieces) = dictate(rules_of_calls(&tools, false), "<tool_call> no {}", &[]);
    check(&outcome, &pieces, &tools, 300);
    // Without tools, the tag is a text.
    let free = Rules { grammar: Grammar::new(), call: None, format: None, must_call: false };
    assert_eq!(dictate(free, text, &[]).0.text, text);
}

#[test]
fn a_text_with_a_format_may_be_a_call_instead() {
    let schema = json!({"type": "object"});
    let rules = || {
        let (grammar, call) = call([("look", object(&schema))]).unwrap();
        let (grammar, format) = format(grammar, object(&json!({"type": "integer"}))).unwrap();
        Rules { grammar, call: Some(call), format: Some(format), must_call: false }
    };
    let (outcome, _) = dictate(rules(), "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}", &[]);
    assert_eq!(outcome.call, Some(("look".to_owned(), "{}".to_owned())));
    assert_eq!(outcome.text, "");
    let (outcome, _) = dictate(rules(), "-42", &[]);
    assert_eq!((outcome.text.as_str(), outcome.finish), ("-42", llm::Finish::Complete));
}

#[test]
fn a_stop_text_is_found_across_tokens_and_nothing_of_it_is_told() {
    let free = || Rules { grammar: Grammar::new(), call: None, format: None, must_call: false };
    let stops = ["END".to_owned(), "ENOUGH".to_owned()];
    let (outcome, pieces) = dictate(free(), "an ENtry, ENEND of it", &stops);
    assert_eq!((outcome.text.as_str(), outcome.finish), ("an ENtry, EN", llm::Finish::StopText));
    let told = pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" });
    assert_eq!(told.collect::<String>(), "an ENtry, EN");
    let (outcome, _) = dictate(free(), "almost EN", &stops);
    assert_eq!((outcome.text.as_str(), outcome.finish), ("almost EN", llm::Finish::Complete));
}

#[test]
fn strings_lists_and_numbers_keep_to_their_limits() {
    let accepts = |schema: Value, text: &str| {
        let (grammar, root) = format(Grammar::new(), object(&schema)).unwrap();
        let mut bytes = text.bytes();
        let state = bytes.try_fold(State::new(&grammar, root), |state, byte| state.step(&grammar, byte));
        state.is_some_and(|state| state.may_end(&grammar))
    };
    let text = json!({"type": "string", "minLength": 2, "maxLength": 3});
    for (value, fits) in [
        ("\"a\"", false),
        ("\"aé\"", true),
        ("\"\\n\\\"é\"", true),
        ("\"abcd\"", false),
        ("\"a\nb\"", false),
        ("\"\\u0041b\"", false),
    ] {
        assert_eq!(accepts(text.clone(), value), fits, "{value}");
    }
    let list = json!({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2});
    for (value, fits) in [
        ("[]", false),
        ("[true]", true),
        ("[true, false]", true),
        ("[true, true, true]", false),
        ("[true,true]", false),
    ] {
        assert_eq!(accepts(list.clone(), value), fits, "{value}");
    }
    let number = json!({"type": "number", "minimum": -1.5, "exclusiveMaximum": 12});
    for (value, fits) in [
        ("-1", true),
        ("-1.5", false),
        ("-0.5", true),
        ("0.25", true),
        ("10.999", true),
        ("12", false),
        ("012", false),
        ("1.", false),
        ("5", true),
    ] {
        assert_eq!(accepts(number.clone(), value), fits, "{value}");
    }
    let whole = json!({"type": "integer", "minimum": 95, "maximum": 120});
    for (value, fits) in [
        ("9", false),
        ("94", false),
        ("95", true),
        ("100", true),
        ("121", false),
        ("1200", false),
        ("100.0", false),
    ] {
        assert_eq!(accepts(whole.clone(), value), fits, "{value}");
    }
}
