//! Tools that come and go while a runtime runs: those of plugins and of other servers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::tool::{AnyTool, PreparedCall, QuestionPicture, Ready};
use crate::{BoxFuture, Context, Data, Place, Plan, PlanContext, RunResult, Spec, ToolError};

/// Maximum number of names and titles of dynamic tools in one process. They are never freed.
const MOST_NAMES: usize = 20_000;

/// Tool whose name, description and schemas are known only at run time.
pub trait DynamicTool: Send + Sync + 'static {
    /// Returns the properties of the tool. Its description is that of [`DynamicTool::description`].
    fn spec(&self) -> &Spec;

    /// Returns the description by which a model decides when to use the tool.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments, within the subset of every tool.
    fn input_schema(&self) -> &Value;

    /// Returns the JSON Schema of the output.
    fn output_schema(&self) -> &Value;

    /// Returns the arguments with the facts that plan, preview and run of one call must agree on.
    fn with_facts(&self, arguments: Value) -> Value {
        arguments
    }

    /// Returns the effects of a call with these arguments, which the schema has accepted.
    ///
    /// # Errors
    /// `EVALIDATION` naming the field at fault.
    fn plan(&self, arguments: &Value, place: &Place) -> Result<Plan, ToolError>;

    /// Returns text for the human who decides about a call.
    fn preview(&self, _arguments: &Value) -> Option<String> {
        None
    }

    /// Returns the maximum number of bytes of an answer.
    fn answer_bytes(&self) -> u64;

    /// Returns true for a plugin, which the user has made a tool.
    fn is_plugin(&self) -> bool {
        false
    }

    /// Returns true if a call only waits for others. Such a call must not block, because it has no thread of
    /// its own.
    fn only_waits(&self) -> bool {
        true
    }

    /// Makes a call. It may await, and it may block unless [`DynamicTool::only_waits`] is true.
    fn run<'a>(&'a self, context: &'a Context, arguments: Value) -> BoxFuture<'a, RunResult<Data>>;
}

/// Returns a name that lives as long as the process; `None` beyond the number of names that a process keeps.
pub fn static_name(name: &str) -> Option<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Some(known);
    }
    if names.len() >= MOST_NAMES {
        return None;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    Some(leaked)
}

/// Makes a registry's tool of a dynamic one.
pub fn dynamic_tool(tool: impl DynamicTool) -> Arc<dyn AnyTool> {
    Arc::new(Erased(Arc::new(tool)))
}

struct Erased<T>(Arc<T>);

impl<T: DynamicTool> AnyTool for Erased<T> {
    fn spec(&self) -> &Spec {
        self.0.spec()
    }

    fn description(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0.description())
    }

    fn is_plugin(&self) -> bool {
        self.0.is_plugin()
    }

    fn input_schema(&self) -> &Value {
        self.0.input_schema()
    }

    fn output_schema(&self) -> &Value {
        self.0.output_schema()
    }

    fn prepare(&self, arguments: Value, place: &Place) -> Result<PreparedCall, ToolError> {
        let arguments = self.0.with_facts(arguments);
        let plan = self.0.plan(&arguments, place)?;
        let call = ReadyDynamic { tool: self.0.clone(), arguments };
        Ok(PreparedCall {
            plan,
            timeout: None,
            answer_bytes: self.0.answer_bytes(),
            answers_with_file: false,
            only_waits: self.0.only_waits(),
            call: Box::new(call),
        })
    }
}

struct ReadyDynamic<T> {
    tool: Arc<T>,
    arguments: Value,
}

impl<T: DynamicTool> Ready for ReadyDynamic<T> {
    fn plans_now(&self) -> bool {
        false
    }

    fn plan_now<'a>(
        &'a self,
        _now: &'a PlanContext<'_>,
        plan: Plan,
    ) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(std::future::ready(Ok(plan)))
    }

    fn preview(&self, _context: &Context) -> Option<String> {
        self.tool.preview(&self.arguments)
    }

    fn picture<'a>(&'a self, _now: &'a PlanContext<'_>) -> BoxFuture<'a, Option<QuestionPicture>> {
        Box::pin(std::future::ready(None))
    }

    fn run(self: Box<Self>, context: &Context) -> BoxFuture<'_, RunResult<Data>> {
        Box::pin(async move { self.tool.run(context, self.arguments).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let (first, second) = (static_name("one__tool").unwrap(), static_name("one__tool").unwrap());
        assert!(std::ptr::eq(first, second));
        assert_ne!(static_name("another__tool"), Some(first));
    }
}
