//! Snapshots of all text in the list of tools, one for each family and dialect. A change of wording
//! shows up in review.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::harness::Fixture;

/// Adds the descriptions below a schema, each with the path of its field.
fn add_texts(schema: &Value, path: &str, text: &mut String) {
    if !schema.is_object() {
        return;
    }
    if let Some(description) = schema["description"].as_str().filter(|_| !path.is_empty()) {
        writeln!(text, "  {path}: {description}").unwrap();
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        add_texts(field, &path, text);
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        add_texts(&schema[keyword], &format!("{path}{mark}"), text);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for option in schema[keyword].as_array().into_iter().flatten() {
            add_texts(option, path, text);
        }
    }
}

/// Returns the texts of one tool, a line each.
fn texts(tool: &Value) -> String {
    let word = |name: &str| tool[name].as_str().unwrap_or_default();
    let mut text = format!("{} ({}): {}\n", word("name"), word("title"), word("description"));
    add_texts(&tool["input_schema"], "", &mut text);
    let mut result = String::new();
    add_texts(&tool["output_schema"], "", &mut result);
    if !result.is_empty() {
        write!(text, "  result\n{}", result.replace("  ", "    ")).unwrap();
    }
    text
}

#[test]
fn the_texts_of_all_tools_are_those_that_were_reviewed() {
    let fixture = Fixture::new();
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    for dialect in ["handfast", "elophanto", "sluagh", "msc", "sage", "csp1"] {
        let tools = fixture.run(&["tools", "--json", "--dialect", dialect]).json();
        for tool in tools.as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let family = match dialect {
                "handfast" => name.split('_').next().unwrap(),
                other => other,
            };
            families.entry(family.to_owned()).or_default().push_str(&texts(tool));
        }
    }
    assert!(families.len() > 10, "{:?}", families.keys());
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "tool_texts"}, {
        for (family, text) in &families {
            insta::assert_snapshot!(family.as_str(), text);
        }
    });
}
