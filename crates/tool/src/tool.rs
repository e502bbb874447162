use std::borrow::Cow;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Context, Data, Effect, Level, Place, Presentation, Spec, TextCap, ToolError, Written, schema_of_input,
    schema_of_output,
};

/// One tool: what it is, what a call of it would do, and doing it.
///
/// The engine calls [`plan`](Tool::plan), has the policy decide on the effects, and only then [`run`](Tool::run).
pub trait Tool: Send + Sync + 'static {
    /// The arguments. A doc comment per field becomes the schema's text. Must deny unknown fields.
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// The result's `data`.
    type Output: Serialize + JsonSchema;
    /// All that is fixed about the tool.
    const SPEC: Spec;
    /// The arguments that are secrets: they are written down nowhere, and an approval of a call is one whatever they are. The tool
    /// says nothing of them in its plan, its preview, its output and its errors.
    const SECRETS: &'static [&'static str] = &[];

    /// Optional fields, at any depth, in which an empty text means something. In every other one it is a field that was left out.
    const EMPTY_TEXTS: &'static [&'static str] = &[];

    /// What a call with these arguments would do. Looks nothing up and changes nothing.
    ///
    /// # Errors
    /// `EVALIDATION` where the arguments contradict each other in a way that the schema cannot say.
    fn plan(&self, args: &Self::Args, place: &Place) -> Result<Plan, ToolError>;

    /// The timeout that the arguments ask for, in place of the default one; the engine bounds it.
    fn timeout(&self, _args: &Self::Args) -> Option<Duration> {
        None
    }

    /// The most bytes that the answer may hold, by which it is admitted. The default is that of a bounded text.
    fn answer_bytes(&self, _args: &Self::Args) -> u64 {
        128 * 1024
    }

    /// Whether the answer holds one file and little else, so that the size of the file that the call reads bounds it too.
    fn answers_with_file(&self) -> bool {
        false
    }

    /// What a human who is asked about the call is shown beside its effects, such as the difference that a write makes.
    /// Changes nothing, and reads through the context's roots alone; nothing where there is nothing to show.
    fn preview(&self, _context: &Context, _args: &Self::Args) -> Option<String> {
        None
    }

    /// Whether a call with these arguments does nothing but wait for others, a server say: it never blocks, and is done with what
    /// came in no more time than the layers take for it. It then runs beside the other calls, where waking another thread would take
    /// longer than the answer of a server close by.
    fn only_waits(&self, _args: &Self::Args) -> bool {
        false
    }

    /// Does it. Runs on a thread of its own, so it may block, unless it [`only_waits`](Tool::only_waits); it must end soon after the
    /// context's stop was requested.
    fn run(
        &self,
        context: &Context,
        args: Self::Args,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// What a call would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Every effect, in the order in which they would happen.
    pub effects: Vec<Effect>,
    /// The level, where the arguments change it.
    pub level: Option<Level>,
    /// Whether what the call changes is kept apart, and put into the workspace as a whole when it has ended: it runs a
    /// command that ends with it on a snapshot of the workspace, or drafts files. It changes the workspace in no other way.
    pub on_snapshot: bool,
    /// Whether what the call starts outlives it, so that it changes the workspace directly.
    pub background: bool,
    /// Whether what it starts outlives the caller's session as well, and belongs to whom the session belongs to.
    pub outlives_session: bool,
    /// What the call gives another name and leaves as it is: where it lies before and where afterwards. So that this can be
    /// undone, none of its bytes have to be saved.
    pub renames: Option<(PathBuf, PathBuf)>,
    /// The changes that an earlier call has kept aside and this one puts into the workspace, by their id.
    pub applies: Option<String>,
    /// The secrets among the effects that are the login of the tool itself, which its user made for it. To ask with it is a read.
    pub login: &'static [&'static str],
    /// Of a dry run: the plan of the call that is tried. The plan itself is then what trying reads.
    pub dry_run: Option<Box<Plan>>,
}

impl Plan {
    /// A plan at the tool's own level.
    pub fn of(effects: Vec<Effect>) -> Self {
        Self {
            effects,
            level: None,
            on_snapshot: false,
            background: false,
            outlives_session: false,
            renames: None,
            applies: None,
            login: &[],
            dry_run: None,
        }
    }

    /// The same plan, its changes kept apart where that can be had.
    #[must_use]
    pub fn on_snapshot(mut self) -> Self {
        self.on_snapshot = true;
        self
    }

    /// The plan of a dry run of this, where that is wanted: it reads what this would change, and is as safe as any reading.
    #[must_use]
    pub fn only_tried(self, is_dry_run: bool) -> Self {
        if !is_dry_run {
            return self;
        }
        let looked_at = |effect: &Effect| match effect {
            Effect::Write { path } | Effect::Delete { path } => Some(Effect::Read { path: path.clone() }),
            Effect::Connect { host, port, method, .. } => {
                let (host, method) = (host.clone(), method.clone());
                Some(Effect::Connect { host, port: *port, method, only_asks: true })
            }
            // The agent's own data, which it may read at any time, and what is not done.
            Effect::DatabaseWrite { .. } | Effect::Act { .. } => None,
            other => Some(other.clone()),
        };
        let mut effects: Vec<Effect> = self.effects.iter().filter_map(looked_at).collect();
        effects.dedup();
        Self {
            effects,
            level: Some(Level::Safe),
            on_snapshot: self.on_snapshot,
            dry_run: Some(Box::new(self)),
            ..Self::of(Vec::new())
        }
    }
}

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call whose arguments were read and whose effects are known, ready to be run once.
pub struct Prepared {
    /// What it would do.
    pub plan: Plan,
    /// The timeout that its arguments ask for.
    pub timeout: Option<Duration>,
    /// The most bytes that its answer may hold.
    pub answer_bytes: u64,
    /// Whether the size of the file that it reads bounds its answer too.
    pub answers_with_file: bool,
    /// Whether it needs no thread of its own.
    pub only_waits: bool,
    call: Box<dyn Ready>,
}

impl Prepared {
    /// What a human who is asked about it is shown beside its effects.
    pub fn preview(&self, context: &Context) -> Option<String> {
        self.call.preview(context)
    }

    /// Does it.
    pub fn run(self, context: &Context) -> BoxFuture<'_, Result<Data, ToolError>> {
        self.call.run(context)
    }
}

/// A tool together with its arguments.
trait Ready: Send + Sync {
    fn preview(&self, context: &Context) -> Option<String>;
    fn run(self: Box<Self>, context: &Context) -> BoxFuture<'_, Result<Data, ToolError>>;
}

struct ReadyCall<T: Tool> {
    tool: Arc<T>,
    args: T::Args,
    answer_bytes: u64,
}

impl<T: Tool> Ready for ReadyCall<T> {
    fn preview(&self, context: &Context) -> Option<String> {
        self.tool.preview(context, &self.args)
    }

    fn run(self: Box<Self>, context: &Context) -> BoxFuture<'_, Result<Data, ToolError>> {
        Box::pin(async move {
            let output = self.tool.run(context, self.args).await?;
            data(&T::SPEC, &output, self.answer_bytes)
                .map_err(|error| ToolError::internal("the tool's output is no JSON").because(error))
        })
    }
}

/// A tool of any type, as the registry holds it. Made from a [`Tool`] with [`Erased::tool`].
pub trait AnyTool: Send + Sync {
    /// All that is fixed about the tool. Its name is the canonical one, by which rules and the audit know it.
    fn spec(&self) -> &Spec;
    /// The name it is called by.
    fn name(&self) -> &str {
        self.spec().name
    }
    /// What a model reads to decide when to use it.
    fn description(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.spec().description)
    }
    /// The JSON Schema of its arguments.
    fn input_schema(&self) -> &Value;
    /// The JSON Schema of its output.
    fn output_schema(&self) -> &Value;
    /// Whether some of its arguments are secrets.
    fn takes_secrets(&self) -> bool {
        false
    }
    /// Whether the argument of this name is one.
    fn is_secret(&self, _argument: &str) -> bool {
        false
    }
    /// Whether an empty text means something in the optional argument of this name, at whatever depth.
    fn keeps_empty(&self, _argument: &str) -> bool {
        false
    }
    /// The call that these arguments only name, for a tool that does nothing but hand calls on: the tool and its arguments.
    fn names_another(&self, _arguments: &Value) -> Option<(String, Value)> {
        None
    }
    /// The arguments as the canonical tool takes them, for a tool that goes by another dialect. Its schema has accepted them.
    ///
    /// # Errors
    /// `EVALIDATION` naming the field at fault by the name that the caller gave it.
    fn translate(&self, _arguments: &Value) -> Result<Option<Value>, ToolError> {
        Ok(None)
    }
    /// Reads the canonical arguments and plans the call.
    ///
    /// # Errors
    /// `EVALIDATION` naming the field at fault.
    fn prepare(&self, arguments: Value, place: &Place) -> Result<Prepared, ToolError>;
    /// Whether the difference that a call has made to the workspace stands in its answer, as `diff`; that of a dry run always does.
    fn shows_difference(&self) -> bool {
        false
    }
    /// The answer in the shape that its dialect gives it.
    fn shape(&self, answer: Result<Data, ToolError>, _told: &mut Told) -> Result<Data, ToolError> {
        answer
    }
}

/// What is known of a call beside the tool's answer when that gets its shape.
#[derive(Debug, Default)]
pub struct Told {
    /// How long it ran.
    pub ran: Duration,
    /// What the caller is told beside the answer, because the shape has no place for it.
    pub warnings: Vec<String>,
}

/// A [`Tool`] behind the [`AnyTool`] interface, its schemas made once.
pub struct Erased<T> {
    tool: Arc<T>,
    spec: Spec,
    input_schema: Value,
    output_schema: Value,
}

impl<T: Tool> Erased<T> {
    /// Erases the tool's type.
    pub fn tool(tool: T) -> Arc<dyn AnyTool> {
        Arc::new(Self {
            tool: Arc::new(tool),
            spec: T::SPEC,
            input_schema: schema_of_input::<T::Args>(),
            output_schema: schema_of_output::<T::Output>(),
        })
    }
}

impl<T: Tool> AnyTool for Erased<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> &Value {
        &self.output_schema
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

    fn prepare(&self, mut arguments: Value, place: &Place) -> Result<Prepared, ToolError> {
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
        Ok(Prepared { plan, timeout, answer_bytes, answers_with_file, only_waits, call })
    }
}

/// Bytes that are set aside for a written answer, at most. Until they are written, they are addresses and no memory.
const MOST_SET_ASIDE: usize = 4 * 1024 * 1024;

/// The output as data: a tree where a layer or a door takes it apart, and else written at once.
fn data(spec: &Spec, output: &impl Serialize, answer_bytes: u64) -> serde_json::Result<Data> {
    match (spec.presentation, spec.text) {
        (Presentation::Record, TextCap::ByArguments) => {
            let expected =
                usize::try_from(answer_bytes).map_or(MOST_SET_ASIDE, |most| most.min(MOST_SET_ASIDE));
            Written::of(output, expected).map(Data::Written)
        }
        (Presentation::Text { .. } | Presentation::Command, _) | (_, TextCap::Default) => {
            serde_json::to_value(output).map(Data::Value)
        }
    }
}

/// Spells `1.0` as `1` where the schema has an integer. To JSON Schema both are integers, and clients whose numbers are all floating
/// write the first; serde takes only the second for one. Everywhere else a number stays what it is.
// BOUNDED: by the depth of JSON that is read, 128.
fn spell_whole_numbers(value: &mut Value, schema: &Value) {
    match value {
        Value::Number(number) if schema["type"] == "integer" => {
            let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            // What is beyond the integers stays as it is, and is refused with its field.
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
    fn a_dry_run_reads_what_the_call_would_change() {
        let path = || std::path::PathBuf::from("/w/f");
        let plan = Plan::of(vec![
            Effect::Read { path: path() },
            Effect::Write { path: path() },
            Effect::Delete { path: "/w/g".into() },
            Effect::DatabaseWrite { statement: "insert t".to_owned() },
        ]);
        assert_eq!(plan.clone().only_tried(false), plan);
        let tried = plan.clone().on_snapshot().only_tried(true);
        assert_eq!(tried.effects, [Effect::Read { path: path() }, Effect::Read { path: "/w/g".into() }]);
        assert_eq!((tried.level, tried.on_snapshot), (Some(Level::Safe), true));
        assert_eq!(tried.dry_run.as_deref(), Some(&plan.on_snapshot()));
    }

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
