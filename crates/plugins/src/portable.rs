//! Check of a manifest's schemas against the subset of JSON Schema that every provider of models accepts
//! (`tool::subset_violations`): each place outside of it, with what to write instead.

use serde_json::Value;

/// Maximum number of places that a fault names.
const MOST_TOLD: usize = 5;

/// Replacement for each violation, by the end of its text.
const REMEDIES: [(&str, &str); 13] = [
    ("uses oneOf", ONE_FORM),
    ("uses anyOf", ONE_FORM),
    ("uses allOf", "write all of it in one schema"),
    ("uses not", LEAVE_OUT),
    ("uses if", LEAVE_OUT),
    ("uses const", "write `enum` with the one value"),
    ("uses $ref", IN_PLACE),
    ("uses $defs", IN_PLACE),
    ("a type array", "write one type; an argument that may be missing is one that `required` does not name"),
    ("an array without items", "write one schema for all items under `items`"),
    (
        "a boolean schema",
        "write one schema, as `{type: string}`; the items of an array have one for all of them",
    ),
    ("no description", "describe it in a sentence"),
    ("no type", "write its `type`"),
];
const ONE_FORM: &str = "write the one form that most calls need, or a property for each form";
const LEAVE_OUT: &str = "leave it out; the program answers EVALIDATION to what does not fit";
const IN_PLACE: &str =
    "write the schema itself in the place of the reference, and take data that nests at will as a text";

/// Returns the fault of a schema outside of the subset. An output's fields need no description, because no provider
/// reads them.
pub(crate) fn fault(schema: &Value, needs_descriptions: bool) -> Option<String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let problem = "must be of type object, because arguments and answers have names; write `type: object` at its top, and what it has as its `properties`";
        return Some(problem.to_owned());
    }
    let mut violations = tool::subset_violations(schema);
    walk(schema, "", &mut violations);
    violations.retain(|violation| needs_descriptions || !violation.ends_with(": no description"));
    if violations.is_empty() {
        return None;
    }
    let told: Vec<String> = violations.iter().take(MOST_TOLD).map(|violation| told(violation)).collect();
    let more = violations.len().saturating_sub(MOST_TOLD);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    Some(format!(
        "is outside of what every provider of models accepts: {}{more}",
        tool::visible(&told.join("; "))
    ))
}

/// Adds what to write instead to a violation.
fn told(violation: &str) -> String {
    let violation =
        if violation.starts_with(':') { format!("the top{violation}") } else { violation.to_owned() };
    match REMEDIES.iter().find(|(end, _)| violation.ends_with(&format!(": {end}"))) {
        Some((_, instead)) => format!("{violation} ({instead})"),
        None => violation,
    }
}

/// Finds tuples, and violations in the schemas of further properties, which `tool::subset_violations` does not look at
/// because no tool of Handfast has them.
// BOUNDED: by the depth that the reader of YAML permits.
fn walk(schema: &Value, at: &str, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return };
    if object.contains_key("prefixItems") {
        found.push(format!(
            "{at}: uses prefixItems (write one schema for all items under `items`, or an object with a property for each)"
        ));
    }
    if let Some(further) = object.get("additionalProperties").filter(|further| further.is_object()) {
        let place = format!("{at}/additionalProperties");
        let violations = tool::subset_violations(further).into_iter();
        found.extend(
            violations.filter(|each| each.starts_with(['/', ':'])).map(|each| format!("{place}{each}")),
        );
        walk(further, &place, found);
    }
    if let Some(items) = object.get("items") {
        walk(items, &format!("{at}/items"), found);
    }
    for (name, property) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(property, &format!("{at}/{name}"), found);
    }
}
