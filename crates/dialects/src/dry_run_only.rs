//! Tools of a runtime that changes nothing: every call is a dry run.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use tool::{AnyTool, Data, Place, PreparedCall, ShapeFacts, Spec, ToolError};

/// Name of the canonical argument that requests a dry run.
const DRY_RUN: &str = "dry_run";

/// A canonical tool whose every call is a dry run, regardless of its arguments.
pub struct DryRunOnly(Arc<dyn AnyTool>);

impl DryRunOnly {
    /// Returns the tool in the form that changes nothing: unchanged if it only reads, wrapped if it
    /// supports dry runs, and `None` otherwise.
    pub fn tool(inner: Arc<dyn AnyTool>) -> Option<Arc<dyn AnyTool>> {
        if inner.spec().class.reads_only {
            return Some(inner);
        }
        inner.input_schema()["properties"].get(DRY_RUN)?;
        Some(Arc::new(Self(inner)))
    }
}

fn as_dry_run(mut arguments: Value) -> Value {
    if let Some(fields) = arguments.as_object_mut() {
        fields.insert(DRY_RUN.to_owned(), Value::Bool(true));
    }
    arguments
}

impl AnyTool for DryRunOnly {
    fn spec(&self) -> &Spec {
        self.0.spec()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> Cow<'_, str> {
        self.0.description()
    }

    fn input_schema(&self) -> &Value {
        self.0.input_schema()
    }

    fn output_schema(&self) -> &Value {
        self.0.output_schema()
    }

    fn keeps_empty(&self, argument: &str) -> bool {
        self.0.keeps_empty(argument)
    }

    fn names_another(&self, arguments: &Value) -> Option<(String, Value)> {
        self.0.names_another(arguments)
    }

    /// Adds the dry run to the canonical arguments, so that the audit records what was done.
    fn translate(&self, arguments: &Value) -> Result<Option<Value>, ToolError> {
        let canonical = self.0.translate(arguments)?.unwrap_or_else(|| arguments.clone());
        Ok(Some(as_dry_run(canonical)))
    }

    /// INVARIANT: no prepared call changes anything, even if its arguments were never translated.
    fn prepare(&self, arguments: Value, place: &Place) -> Result<PreparedCall, ToolError> {
        self.0.prepare(as_dry_run(arguments), place)
    }

    fn shows_difference(&self) -> bool {
        self.0.shows_difference()
    }

    fn shape(&self, answer: Result<Data, ToolError>, facts: &mut ShapeFacts) -> Result<Data, ToolError> {
        self.0.shape(answer, facts)
    }
}
