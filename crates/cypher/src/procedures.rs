//! Procedures that `CALL` can call. The default ones describe the schema of the graph.
//!
//! A procedure reads: this interface gives it no way to change the graph.

use std::sync::Arc;

use crate::error::Result;
use crate::graph::Graph;
use crate::value::Value;

/// The type of an argument or an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Any type.
    Any,
    /// A truth value.
    Boolean,
    /// An integer.
    Integer,
    /// A float, or an integer in its place.
    Float,
    /// An integer or a float.
    Number,
    /// A text.
    String,
}

/// The name and the type of an argument or an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: Arc<str>,
    /// Type; every field can be null.
    pub field_type: FieldType,
}

/// The arguments and outputs of a procedure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// Arguments in order.
    pub arguments: Vec<Field>,
    /// Outputs in order.
    pub outputs: Vec<Field>,
}

/// A set of procedures.
pub trait Procedures: Sync {
    /// Returns the signature of a procedure.
    fn signature(&self, name: &str) -> Option<Signature>;

    /// Returns the names of all procedures.
    fn names(&self) -> Vec<String>;

    /// Calls a procedure, and returns its rows: one value for each output.
    ///
    /// # Errors
    /// Returns the error of the procedure, which becomes that of the query.
    fn call(&self, name: &str, arguments: &[Value], graph: &dyn Graph) -> Result<Vec<Vec<Value>>>;
}

/// The procedures of the schema: `db.labels`, `db.relationshipTypes` and `db.propertyKeys`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SchemaProcedures;

/// The procedures with the name of their output.
const SCHEMA: [(&str, &str); 3] = [
    ("db.labels", "label"),
    ("db.relationshipTypes", "relationshipType"),
    ("db.propertyKeys", "propertyKey"),
];

impl Procedures for SchemaProcedures {
    fn signature(&self, name: &str) -> Option<Signature> {
        let (_, output) = SCHEMA.iter().find(|(known, _)| *known == name)?;
        let output = Field { name: (*output).into(), field_type: FieldType::String };
        Some(Signature { arguments: Vec::new(), outputs: vec![output] })
    }

    fn names(&self) -> Vec<String> {
        SCHEMA.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn call(&self, name: &str, _: &[Value], graph: &dyn Graph) -> Result<Vec<Vec<Value>>> {
        let names = match name {
            "db.labels" => graph.labels(),
            "db.relationshipTypes" => graph.relationship_types(),
            _ => graph.property_keys(),
        };
        Ok(names.iter().cloned().map(|name| vec![Value::String(name)]).collect())
    }
}
