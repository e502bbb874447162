//! Check of a plugin's arguments by the conversion that the schemas of other servers' tools go through: a schema that
//! loses something there is one that a provider of models refuses, or does not read.

use mcp_client::schema::portable_schema;
use plugins::{Manifest, ManifestError};

/// Maximum number of places that a fault names.
const MOST_TOLD: usize = 5;

/// Checks that every provider of models accepts the arguments of a plugin as its manifest has them.
///
/// # Errors
/// [`ManifestError`] with the place in `input_schema`, and what to write instead.
pub fn check_provider_schema(manifest: &Manifest) -> Result<(), ManifestError> {
    const FIELD: &str = "input_schema";
    let portable = portable_schema(&manifest.input_schema).map_err(|error| {
        let problem = format!("is accepted by no provider of models: {error}; write fewer and flatter properties, and the rest of the data as a text");
        ManifestError::of(FIELD, tool::visible(&problem))
    })?;
    if portable.notes.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = portable.notes.iter().take(MOST_TOLD).map(|note| told(note)).collect();
    let problem = format!("is outside of what every provider of models accepts: {}", told.join("; "));
    Err(ManifestError::of(FIELD, tool::visible(&problem)))
}

/// Adds what to write instead to a note of the conversion.
fn told(note: &str) -> String {
    let instead = if note.ends_with("because of its name") {
        "name it with letters, digits, `_`, `.` and `-`, at most 64"
    } else if note.contains("properties are offered") {
        "write fewer properties"
    } else if note.contains("accepts no value") {
        "write a type that a value can have, or leave the property out"
    } else if note.contains("choices") {
        "write the choices as texts, and fewer of them"
    } else {
        "leave it out; the program answers EVALIDATION to what does not fit"
    };
    format!("{} ({instead})", note.replace("the server alone checks", "no provider reads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(properties: &str) -> Result<(), ManifestError> {
        let text = format!(
            "name: p\ndescription: A test.\ncommand: [sh, main.sh]\ninput_schema: {{type: object, properties: {{{properties}}}}}\n\
             output_schema: {{type: object, properties: {{}}}}\nexample: {{arguments: {{}}, result: {{}}}}\n"
        );
        check_provider_schema(&Manifest::parse(&text, |_| true).unwrap())
    }

    #[test]
    fn what_no_provider_accepts_is_refused_with_its_place_and_what_to_write() {
        checked("a: {type: string, description: d, enum: [b, c]}, b: {type: array, description: d, items: {type: integer}}")
            .unwrap();
        let deep = format!(
            "a: {}{{type: string, description: d}}{}",
            "{type: object, description: d, properties: {a: ".repeat(30),
            "}}".repeat(30)
        );
        let wide: Vec<String> = (0..250).map(|n| format!("p{n}: {{type: string, description: d}}")).collect();
        let long = format!("a: {{type: string, description: {}}}", "d".repeat(70_000));
        for (properties, place, instead) in [
            ("'a b': {type: string, description: d}", "\"a b\"", "name it with"),
            (
                "a: {type: object, description: d, properties: {}, patternProperties: {x: {}}}",
                "/a: ",
                "EVALIDATION",
            ),
            (
                "a: {type: array, description: d, items: {}, contains: {}}",
                "/a: no provider reads `contains`",
                "leave it out",
            ),
            ("a: {type: string, description: d, enum: [1]}", "\"a\"", "write a type"),
            (deep.as_str(), "nested more than", "flatter"),
            (&wide.join(", "), "first 200 properties", "fewer"),
            (&long, "bytes", "fewer"),
        ] {
            let error = checked(properties).expect_err(place);
            assert_eq!(error.field, "input_schema");
            assert!(error.problem.contains(place) && error.problem.contains(instead), "{place}: {error}");
        }
    }
}
