//! An operation of CSP/1 whose `ACTION` names one of several parts. Each part is a row over a canonical tool,
//! so rules, levels, questions and the audit are those of that tool.

use std::sync::Arc;

use serde_json::{Map, Value};
use tool::{AnyTool, Place, PreparedCall, Spec, ToolError};

/// Characters that separate the name of the operation from its action in the name of a part.
const SEPARATOR: &str = ".";

/// The tool that callers see. The engine runs the part instead.
pub(crate) struct Operation {
    spec: &'static Spec,
    input_schema: Value,
    output_schema: Value,
}

impl Operation {
    /// Creates the tool of an operation.
    pub(crate) fn tool(spec: &'static Spec, input_schema: Value, output_schema: Value) -> Arc<dyn AnyTool> {
        Arc::new(Self { spec, input_schema, output_schema })
    }
}

impl AnyTool for Operation {
    fn spec(&self) -> &Spec {
        self.spec
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    fn names_another(&self, arguments: &Value) -> Option<(String, Value)> {
        let action = arguments.get("ACTION")?.as_str()?;
        let rest: Map<String, Value> = arguments
            .as_object()?
            .iter()
            .filter(|(key, _)| *key != "ACTION")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Some(([self.spec.name, action].join(SEPARATOR), Value::Object(rest)))
    }

    fn prepare(&self, _arguments: Value, _place: &Place) -> Result<PreparedCall, ToolError> {
        let name = self.spec.name;
        Err(ToolError::internal(format!("a call of the operation {name} was not led to its part")))
    }
}
