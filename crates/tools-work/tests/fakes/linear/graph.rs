//! GraphQL documents, validated by a schema and executed on JSON records.

use apollo_compiler::executable::{Selection, SelectionSet};
use apollo_compiler::request::coerce_variable_values;
use apollo_compiler::resolvers::{Execution, FieldError, ObjectValue, ResolveInfo, ResolvedValue};
use apollo_compiler::response::JsonMap;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Node};
use serde_json::Value;

use super::records::Records;

/// A schema that documents are validated by.
pub(crate) struct Schema(Valid<apollo_compiler::Schema>);

/// Reason why a query is refused.
pub(super) enum Fault {
    Invalid(String),
    TooComplex(f64),
    Refused(String),
}

/// Default size of a page (Linear's documentation, "Pagination").
const PAGE: f64 = 50.0;

impl Schema {
    /// Returns the part of the schema that the server has.
    pub(crate) fn own() -> Self {
        Self::parse(include_str!("schema.graphql"), "schema.graphql")
    }

    /// Parses a schema.
    pub(crate) fn parse(text: &str, name: &str) -> Self {
        let schema = apollo_compiler::Schema::parse_and_validate(text, name);
        Self(schema.unwrap_or_else(|faults| panic!("{name} is no schema: {}", faults.errors)))
    }

    /// Returns the fault of a document and its variables, or `None` if both are valid.
    pub(crate) fn fault(&self, document: &str, variables: &Value) -> Option<String> {
        self.read(document, variables).err()
    }

    fn read(&self, document: &str, variables: &Value) -> Result<Question, String> {
        let document = ExecutableDocument::parse_and_validate(&self.0, document, "question.graphql");
        let document = document.map_err(|faults| faults.errors.to_string())?;
        let variables: JsonMap =
            serde_json::from_value(variables.clone()).map_err(|error| format!("its variables: {error}"))?;
        let operation = document.operations.get(None).map_err(|error| format!("{error:?}"))?;
        let variables = coerce_variable_values(&self.0, operation, &variables);
        let variables = variables.map_err(|error| format!("its variables: {}", error.message()))?;
        Ok(Question { document, variables })
    }

    /// Returns every name and type of this schema that `other` lacks or defines differently.
    pub(crate) fn beyond(&self, other: &Self) -> Vec<String> {
        use apollo_compiler::schema::ExtendedType::{Enum, InputObject, Object, Scalar};
        let mut beyond = Vec::new();
        let types = self.0.types.iter().filter(|(_, of)| !of.is_built_in());
        for (name, of) in types {
            match (of, other.0.types.get(name)) {
                (Scalar(_), Some(Scalar(_))) => {}
                (Enum(own), Some(Enum(theirs))) => {
                    let more = own.values.keys().filter(|value| !theirs.values.contains_key(*value));
                    beyond.extend(more.map(|value| format!("{name}.{value}")));
                }
                (InputObject(own), Some(InputObject(theirs))) => {
                    for (field, definition) in &own.fields {
                        let same = theirs.fields.get(field).is_some_and(|of| of.ty == definition.ty);
                        beyond.extend((!same).then(|| format!("{name}.{field}: {}", definition.ty)));
                    }
                    let needed = theirs.fields.iter().filter(|(_, of)| of.is_required());
                    let missing = needed.filter(|(field, _)| !own.fields.contains_key(*field));
                    beyond.extend(missing.map(|(field, _)| format!("{name}.{field} is missing")));
                }
                (Object(own), Some(Object(theirs))) => {
                    for (field, definition) in &own.fields {
                        let same = theirs.fields.get(field).is_some_and(|of| {
                            let takes = |argument: &Node<apollo_compiler::ast::InputValueDefinition>| {
                                of.argument_by_name(&argument.name).is_some_and(|of| of.ty == argument.ty)
                            };
                            of.ty == definition.ty && definition.arguments.iter().all(takes)
                        });
                        beyond.extend((!same).then(|| format!("{name}.{field}: {}", definition.ty)));
                    }
                }
                _ => beyond.push(name.to_string()),
            }
        }
        beyond
    }

    /// Executes a document.
    pub(super) fn execute(
        &self,
        document: &str,
        variables: &Value,
        most_complex: f64,
        records: &mut Records,
    ) -> Result<Value, Fault> {
        let Question { document, variables } = self.read(document, variables).map_err(Fault::Invalid)?;
        let operation =
            document.operations.get(None).map_err(|error| Fault::Invalid(format!("{error:?}")))?;
        let worth = complexity(&document, &variables, &operation.selection_set);
        if worth > most_complex {
            return Err(Fault::TooComplex(worth));
        }
        let root = operation.object_type().to_string();
        // The server supports one field at the root. A refusal of that field is the answer.
        let mut fields = operation.root_fields(&document);
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return Err(Fault::Invalid("one field at the root is what this server knows".to_owned()));
        };
        let arguments: serde_json::Map<String, Value> = field
            .arguments
            .iter()
            .map(|argument| (argument.name.to_string(), value(&argument.value, &variables)))
            .collect();
        let resolved = records.resolve(&field.name, &Value::Object(arguments)).map_err(Fault::Refused)?;
        let root = Object { kind: root, fields: serde_json::json!({field.name.as_str(): resolved}) };
        let execution = Execution::new(&self.0, &document).coerced_variable_values(&variables);
        let response =
            execution.execute_sync(&root).map_err(|error| Fault::Invalid(error.message().to_string()))?;
        assert!(response.errors.is_empty(), "the records are not as the schema says: {:?}", response.errors);
        Ok(serde_json::to_value(response.data).expect("an answer is JSON"))
    }
}

struct Question {
    document: Valid<ExecutableDocument>,
    variables: Valid<JsonMap>,
}

/// A record, as an object of the schema.
struct Object {
    kind: String,
    fields: Value,
}

impl ObjectValue for Object {
    fn type_name(&self) -> &str {
        &self.kind
    }

    fn resolve_field<'a>(&'a self, info: &'a ResolveInfo<'a>) -> Result<ResolvedValue<'a>, FieldError> {
        let value = self.fields.get(info.field_name()).cloned().unwrap_or_default();
        let kind = info.field_definition().ty.inner_named_type();
        let is_object = info.schema().get_object(kind).is_some();
        Ok(resolved(kind.as_str(), is_object, value))
    }
}

fn resolved<'a>(kind: &str, is_object: bool, value: Value) -> ResolvedValue<'a> {
    match value {
        Value::Array(items) => {
            let kind = kind.to_owned();
            ResolvedValue::list(items.into_iter().map(move |item| resolved(&kind, is_object, item)))
        }
        fields @ Value::Object(_) if is_object => {
            ResolvedValue::object(Object { kind: kind.to_owned(), fields })
        }
        // An integer is a valid float, if the schema has one.
        Value::Number(number) if kind == "Float" => ResolvedValue::leaf(number.as_f64().expect("a number")),
        leaf => ResolvedValue::leaf(
            serde_json::from_value::<apollo_compiler::response::JsonValue>(leaf).expect("JSON"),
        ),
    }
}

/// Returns the value of an argument with its variables replaced.
fn value(of: &apollo_compiler::ast::Value, variables: &Valid<JsonMap>) -> Value {
    use apollo_compiler::ast::Value as Ast;
    match of {
        Ast::Null => Value::Null,
        Ast::Enum(name) => Value::from(name.as_str()),
        Ast::Variable(name) => {
            let value = variables.get(name.as_str());
            value.map_or(Value::Null, |value| serde_json::to_value(value).expect("JSON"))
        }
        Ast::String(text) => Value::from(text.as_str()),
        Ast::Float(number) => number.try_to_f64().map(Value::from).unwrap_or_default(),
        Ast::Int(number) => number.try_to_i32().map(Value::from).unwrap_or_default(),
        Ast::Boolean(is) => Value::from(*is),
        Ast::List(items) => items.iter().map(|item| value(item, variables)).collect(),
        Ast::Object(fields) => {
            Value::Object(fields.iter().map(|(name, of)| (name.to_string(), value(of, variables))).collect())
        }
    }
}

/// Computes the complexity of a query: 0.1 for a field, 1 for an object, times the size of a page.
fn complexity(document: &ExecutableDocument, variables: &Valid<JsonMap>, of: &SelectionSet) -> f64 {
    let worth = |selection: &Selection| match selection {
        Selection::Field(field) if field.selection_set.selections.is_empty() => 0.1,
        Selection::Field(field) => {
            let inner = complexity(document, variables, &field.selection_set);
            if field.ty().inner_named_type().ends_with("Connection") {
                let first = field.specified_argument_by_name("first");
                let first = first.and_then(|first| value(first, variables).as_f64());
                first.unwrap_or(PAGE) * inner
            } else {
                1.0 + inner
            }
        }
        Selection::FragmentSpread(spread) => spread
            .fragment_def(document)
            .map_or(0.0, |fragment| complexity(document, variables, &fragment.selection_set)),
        Selection::InlineFragment(fragment) => complexity(document, variables, &fragment.selection_set),
    };
    of.selections.iter().map(worth).sum()
}
