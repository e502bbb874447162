//! The trait of all tools and its object-safe form.

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    BoxFuture, Context, Data, EditedFile, Place, Plan, PlanContext, Presentation, RawJson, RunResult, Spec,
    TextCap, ToolError, ToolOutput, schema_of_input, schema_of_output,
};

/// Tool: its specification, the plan of a call, and the execution of a call.
///
/// The engine calls [`plan`](Tool::plan), asks the policy to decide on the effects, and only then
/// calls [`run`](Tool::run).
pub trait Tool: Send + Sync + 'static {
    /// Arguments of a call. The doc comment of each field becomes text of the schema. The type must
    /// deny unknown fields.
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// Output of a call, which becomes `data` of the result. A [`RunResult`] adds facts about the
    /// run, such as the treatment of its changes.
    type Output: ToolOutput;
    /// Fixed properties of the tool.
    const SPEC: Spec;
    /// Names of the arguments that are secrets. Secret arguments are never written down, and an
    /// approval of a call does not depend on their values. The tool mentions them neither in its
    /// plan and its preview nor in its output and its errors.
    const SECRETS: &'static [&'static str] = &[];

    /// False for a tool that callers do not see, because only a part of Handfast calls it.
    const IS_LISTED: bool = true;

    /// Names of the optional fields, at any depth, in which an empty text has a meaning. An empty
    /// text in any other optional field means that the field was left out.
    const EMPTY_TEXTS: &'static [&'static str] = &[];

    /// Returns the effects that a call with these arguments would have. Accesses and changes nothing.
    ///
    /// # Errors
    /// `EVALIDATION` if the arguments contradict each other in a way that the schema cannot express.
    fn plan(&self, args: &Self::Args, place: &Place) -> Result<Plan, ToolError>;

    /// Adds to the plan what only the present state of a thing outside of this process tells, such as
    /// the page of a browser. Changes nothing.
    ///
    /// An approval is bound to the plan, so a run must fail with `ECONFLICT` if the state has changed
    /// in a way that would change the plan.
    fn plan_now(
        &self,
        _now: &PlanContext<'_>,
        _args: &Self::Args,
        plan: Plan,
    ) -> impl Future<Output = Result<Plan, ToolError>> + Send {
        std::future::ready(Ok(plan))
    }

    /// Returns true if [`plan_now`](Tool::plan_now) has something to add to plans of the arguments.
    fn plans_now(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Returns a picture of what the call is about, for the human who decides about the call. Changes
    /// nothing, and is only asked for if there is a question.
    fn picture(
        &self,
        _now: &PlanContext<'_>,
        _args: &Self::Args,
    ) -> impl Future<Output = Option<QuestionPicture>> + Send {
        std::future::ready(None)
    }

    /// Returns the timeout that the arguments ask for instead of the default one. The engine bounds it.
    fn timeout(&self, _args: &Self::Args) -> Option<Duration> {
        None
    }

    /// Returns the maximum number of bytes of the response, by which the call is admitted. The
    /// default is the size of a bounded text.
    fn answer_bytes(&self, _args: &Self::Args) -> u64 {
        128 * 1024
    }

    /// Returns true if the response holds one file and little else, so that the size of this file
    /// bounds the response too.
    fn answers_with_file(&self) -> bool {
        false
    }

    /// Returns text for the human who decides about the call, in addition to its effects, such as
    /// the diff of a write. Changes nothing, and reads through the context's roots alone. Returns
    /// `None` if there is nothing to show.
    fn preview(&self, _context: &Context, _args: &Self::Args) -> Option<String> {
        None
    }

    /// Returns the lines that the call would change, for the files whose changed lines it knows. Of other
    /// files that the plan changes, all lines count as changed. Changes nothing, and reads through the
    /// context's roots alone. Only asked for if a rule is about such edits.
    fn edits(&self, _context: &Context, _args: &Self::Args) -> Vec<EditedFile> {
        Vec::new()
    }

    /// Returns true if a call with these arguments only waits for others, such as a server. The
    /// call must never block, and must process received data no slower than the layers do. The
    /// engine then runs it together with other calls, because waking another thread would take
    /// longer than the response of a nearby server.
    fn only_waits(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Executes the call. Runs on its own thread, so it may block, unless
    /// [`only_waits`](Tool::only_waits) is true. The run must end soon after the context's stop was
    /// requested.
    fn run(
        &self,
        context: &Context,
        args: Self::Args,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// Picture of what a call is about, for the human who decides about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionPicture {
    /// Content of a PNG file.
    pub png: Vec<u8>,
    /// Description of the picture, in a few words: "the page, with the element framed".
    pub shows: &'static str,
}

/// Call with parsed arguments and known effects, ready to run once.
pub struct PreparedCall {
    /// Plan of the call.
    pub plan: Plan,
    /// Timeout that the arguments ask for.
    pub timeout: Option<Duration>,
    /// Maximum number of bytes of the response.
    pub answer_bytes: u64,
    /// True if the size of the file that the call reads bounds the response too.
    pub answers_with_file: bool,
    /// True if the call needs no thread of its own.
    pub only_waits: bool,
    pub(crate) call: Box<dyn Ready>,
}

impl PreparedCall {
    /// Returns true if the plan is to be completed by [`complete`](PreparedCall::complete).
    pub fn plans_now(&self) -> bool {
        self.call.plans_now()
    }

    /// Completes the plan by the present state of things outside of this process.
    ///
    /// # Errors
    /// Returns the tool's error if the state makes the call impossible.
    pub async fn complete(&mut self, now: &PlanContext<'_>) -> Result<(), ToolError> {
        self.plan = self.call.plan_now(now, self.plan.clone()).await?;
        Ok(())
    }

    /// Returns text for the human who decides about the call, in addition to its effects.
    pub fn preview(&self, context: &Context) -> Option<String> {
        self.call.preview(context)
    }

    /// Returns the lines that the call would change, as far as its tool knows them.
    pub fn edits(&self, context: &Context) -> Vec<EditedFile> {
        self.call.edits(context)
    }

    /// Returns a picture for the human who decides about the call.
    pub async fn picture(&self, now: &PlanContext<'_>) -> Option<QuestionPicture> {
        self.call.picture(now).await
    }

    /// Executes the call.
    pub fn run(self, context: &Context) -> BoxFuture<'_, RunResult<Data>> {
        self.call.run(context)
    }
}

/// Tool together with its parsed arguments.
pub(crate) trait Ready: Send + Sync {
    fn plans_now(&self) -> bool;
    fn plan_now<'a>(&'a self, now: &'a PlanContext<'_>, plan: Plan)
    -> BoxFuture<'a, Result<Plan, ToolError>>;
    fn preview(&self, context: &Context) -> Option<String>;
    fn edits(&self, _context: &Context) -> Vec<EditedFile> {
        Vec::new()
    }
    fn picture<'a>(&'a self, now: &'a PlanContext<'_>) -> BoxFuture<'a, Option<QuestionPicture>>;
    fn run(self: Box<Self>, context: &Context) -> BoxFuture<'_, RunResult<Data>>;
}

struct ReadyCall<T: Tool> {
    tool: Arc<T>,
    args: T::Args,
    answer_bytes: u64,
}

impl<T: Tool> Ready for ReadyCall<T> {
    fn plans_now(&self) -> bool {
        self.tool.plans_now(&self.args)
    }

    fn plan_now<'a>(
        &'a self,
        now: &'a PlanContext<'_>,
        plan: Plan,
    ) -> BoxFuture<'a, Result<Plan, ToolError>> {
        Box::pin(self.tool.plan_now(now, &self.args, plan))
    }

    fn preview(&self, context: &Context) -> Option<String> {
        self.tool.preview(context, &self.args)
    }

    fn edits(&self, context: &Context) -> Vec<EditedFile> {
        self.tool.edits(context, &self.args)
    }

    fn picture<'a>(&'a self, now: &'a PlanContext<'_>) -> BoxFuture<'a, Option<QuestionPicture>> {
        Box::pin(self.tool.picture(now, &self.args))
    }

    fn run(self: Box<Self>, context: &Context) -> BoxFuture<'_, RunResult<Data>> {
        Box::pin(async move {
            let result = match self.tool.run(context, self.args).await {
                Ok(output) => output.into_result(),
                Err(error) => Err(error).into(),
            };
            result.and_then(|output| {
                data(&T::SPEC, &output, self.answer_bytes)
                    .map_err(|error| ToolError::internal("the tool's output is not JSON").because(error))
            })
        })
    }
}

/// Tool of any type, as stored in the registry. [`ErasedTool::tool`] creates it from a [`Tool`].
pub trait AnyTool: Send + Sync {
    /// Returns the fixed properties of the tool. Their name is the canonical one, which rules and
    /// the audit use.
    fn spec(&self) -> &Spec;
    /// Returns the name that callers use.
    fn name(&self) -> &str {
        self.spec().name
    }
    /// Returns false for a part of another tool, or of Handfast, which callers do not see.
    fn is_listed(&self) -> bool {
        true
    }
    /// Returns true for a plugin, which the user has made a tool. Such a tool is in the list of the core tools.
    fn is_plugin(&self) -> bool {
        false
    }
    /// Returns the description by which a model decides when to use the tool.
    fn description(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.spec().description)
    }
    /// Returns the JSON Schema of the arguments.
    fn input_schema(&self) -> &Value;
    /// Returns the JSON Schema of the output.
    fn output_schema(&self) -> &Value;
    /// Returns true if some arguments are secrets.
    fn takes_secrets(&self) -> bool {
        false
    }
    /// Returns true if the argument of this name is a secret.
    fn is_secret(&self, _argument: &str) -> bool {
        false
    }
    /// Returns true if an empty text has a meaning in the optional argument of this name, at any depth.
    fn keeps_empty(&self, _argument: &str) -> bool {
        false
    }
    /// Returns the tool and the arguments of the call that these arguments name, for a tool that
    /// only forwards calls.
    fn names_another(&self, _arguments: &Value) -> Option<(String, Value)> {
        None
    }
    /// Translates arguments that the tool's schema has accepted into those of the canonical tool.
    /// Returns `None` for a tool that uses the canonical arguments itself.
    ///
    /// # Errors
    /// `EVALIDATION` naming the field at fault by the name that the caller gave it.
    fn translate(&self, _arguments: &Value) -> Result<Option<Value>, ToolError> {
        Ok(None)
    }
    /// Parses the canonical arguments and plans the call.
    ///
    /// # Errors
    /// `EVALIDATION` naming the field at fault.
    fn prepare(&self, arguments: Value, place: &Place) -> Result<PreparedCall, ToolError>;
    /// Returns true if the response holds the diff of the call's changes to the workspace, as
    /// `diff`. The response of a dry run always holds it.
    fn shows_difference(&self) -> bool {
        false
    }
    /// Converts the response to the form of the tool's dialect.
    fn shape(&self, answer: Result<Data, ToolError>, _told: &mut ShapeFacts) -> Result<Data, ToolError> {
        answer
    }
}

/// Facts about a call, besides the tool's response, that are known when its dialect shapes the
/// response.
#[derive(Debug, Default)]
pub struct ShapeFacts {
    /// Duration of the run.
    pub ran: Duration,
    /// Warnings for facts for which the shape has no field; the caller gets them next to the response.
    pub warnings: Vec<String>,
}

/// [`Tool`] behind the [`AnyTool`] interface, with its schemas generated once, at their first use: most
/// tools of a server are never listed.
pub struct ErasedTool<T> {
    tool: Arc<T>,
    spec: Spec,
    input_schema: LazyLock<Value>,
    output_schema: LazyLock<Value>,
}

impl<T: Tool> ErasedTool<T> {
    /// Erases the tool's type.
    pub fn tool(tool: T) -> Arc<dyn AnyTool> {
        Arc::new(Self {
            tool: Arc::new(tool),
            spec: T::SPEC,
            input_schema: LazyLock::new(schema_of_input::<T::Args>),
            output_schema: LazyLock::new(schema_of_output::<<T::Output as ToolOutput>::Data>),
        })
    }
}

impl<T: Tool> AnyTool for ErasedTool<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    fn is_listed(&self) -> bool {
        T::IS_LISTED
    }

    fn takes_secrets(&self) -> bool {
        !T::SECRETS.is_empty()
    }

    fn is_secret(&self, argument: &str) -> bool {
        T::SECRETS.contains(&argument)
    }

    fn keeps_empty(&self, argument: &str) -> bool {
        T::EMPTY_TEXTS.contains(&argument)
    }

    fn prepare(&self, mut arguments: Value, place: &Place) -> Result<PreparedCall, ToolError> {
        spell_whole_numbers(&mut arguments, &self.input_schema);
        let args: T::Args = serde_path_to_error::deserialize(arguments).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "arguments" } else { &path };
            ToolError::validation(field, error.inner())
        })?;
        let plan = self.tool.plan(&args, place)?;
        let timeout = self.tool.timeout(&args);
        let answer_bytes = self.tool.answer_bytes(&args);
        let answers_with_file = self.tool.answers_with_file();
        let only_waits = self.tool.only_waits(&args);
        let call = Box::new(ReadyCall { tool: self.tool.clone(), args, answer_bytes });
        Ok(PreparedCall { plan, timeout, answer_bytes, answers_with_file, only_waits, call })
    }
}

/// Maximum number of bytes that are reserved for a written response. Until they are written, they
/// occupy addresses and no memory.
const MAX_SET_ASIDE: usize = 4 * 1024 * 1024;

/// Converts the output to data: a tree if a layer or a door reads its parts, and JSON text otherwise.
fn data(spec: &Spec, output: &impl Serialize, answer_bytes: u64) -> serde_json::Result<Data> {
    match (spec.presentation, spec.text) {
        (Presentation::Record, TextCap::ByArguments) => {
            let expected =
                usize::try_from(answer_bytes).map_or(MAX_SET_ASIDE, |most| most.min(MAX_SET_ASIDE));
            RawJson::of(output, expected).map(Data::Written)
        }
        (Presentation::Text { .. } | Presentation::Command, _) | (_, TextCap::Default) => {
            serde_json::to_value(output).map(Data::Value)
        }
    }
}

/// Rewrites `1.0` as `1` if the schema has an integer. JSON Schema treats both as integers, and
/// clients whose numbers are all floating-point send the first; serde accepts only the second as an
/// integer. Every other number stays unchanged.
// BOUNDED: by the depth of JSON that is read, 128.
fn spell_whole_numbers(value: &mut Value, schema: &Value) {
    match value {
        Value::Number(number) if schema["type"] == "integer" => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            // A number beyond the range of integers stays unchanged, and is refused with its field.
            if let Some(whole) = float.and_then(|float| format!("{float:.0}").parse::<i64>().ok()) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spell_whole_numbers(item, &schema["items"])),
        Value::Object(fields) => {
            for (name, field) in fields {
                let own = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                spell_whole_numbers(field, own);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_spelled() {
        let integer = json!({"type": "integer"});
        let schema = json!({"type": "object", "properties": {
            "a": integer, "b": {"type": "array", "items": integer}, "c": {"type": "string"}, "d": integer,
            "any": {"type": "array", "items": {}}, "number": {"type": "number"},
            "map": {"type": "object", "additionalProperties": integer},
        }});
        let mut value = json!({
            "a": 1.0, "b": [-0.0, -2e3, 1.5, 1e300, 7], "c": "1.0", "d": u64::MAX,
            "any": [1.0, -0.0, {"a": 2.0}], "number": 3.0, "map": {"x": 4.0}, "unknown": 5.0,
        });
        spell_whole_numbers(&mut value, &schema);
        assert_eq!(
            value.to_string(),
            json!({
                "a": 1, "b": [0, -2000, 1.5, 1e300, 7], "c": "1.0", "d": u64::MAX,
                "any": [1.0, -0.0, {"a": 2.0}], "number": 3.0, "map": {"x": 4}, "unknown": 5.0,
            })
            .to_string()
        );
    }
}
