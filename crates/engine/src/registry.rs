//! The tools of a runtime.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tool::{AnyTool, Code, MISSPELT, ToolError, distance};

/// Tools of this runtime by the name that callers use. Groups of tools can come and go while it runs.
pub struct Registry {
    table: RwLock<Arc<Table>>,
    listeners: Mutex<Vec<Listener>>,
}

/// Listener to changes of the tools. Returns false once it has gone.
type Listener = Box<dyn Fn() -> bool + Send + Sync>;

/// Tools at one time, each with the validator of its arguments.
#[derive(Default, Clone)]
struct Table {
    /// Tools that callers see, in listing order.
    ordered: Arc<[Arc<dyn AnyTool>]>,
    by_name: HashMap<String, Arc<Registered>>,
    /// Tools of the groups, in the order of the names of the groups.
    groups: BTreeMap<String, Vec<Arc<Registered>>>,
    /// Tools that stay.
    fixed: Vec<Arc<Registered>>,
}

struct Registered {
    tool: Arc<dyn AnyTool>,
    validator: std::sync::OnceLock<Result<jsonschema::Validator, String>>,
}

impl Registered {
    fn of(tool: Arc<dyn AnyTool>) -> Arc<Self> {
        Arc::new(Self { tool, validator: std::sync::OnceLock::new() })
    }
}

impl Table {
    /// Builds the table of fixed tools and groups.
    fn of(
        fixed: Vec<Arc<Registered>>,
        groups: BTreeMap<String, Vec<Arc<Registered>>>,
    ) -> Result<Self, DuplicateTool> {
        let mut by_name = HashMap::new();
        let mut ordered = Vec::new();
        for registered in fixed.iter().chain(groups.values().flatten()) {
            let tool = &registered.tool;
            if by_name.insert(tool.name().to_owned(), registered.clone()).is_some() {
                return Err(DuplicateTool(tool.name().to_owned()));
            }
            if tool.is_listed() {
                ordered.push(tool.clone());
            }
        }
        Ok(Self { ordered: ordered.into(), by_name, groups, fixed })
    }

    fn name_of(&self, canonical: &str) -> Option<&str> {
        self.ordered.iter().find(|tool| tool.spec().name == canonical).map(|tool| tool.name())
    }
}

/// Error for two tools with the name `{0}`.
#[derive(Debug)]
pub struct DuplicateTool(pub String);

impl std::fmt::Display for DuplicateTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "two tools have the same name: {}", self.0)
    }
}

impl std::error::Error for DuplicateTool {}

impl Registry {
    /// Registers tools in the order in which they are listed.
    ///
    /// # Errors
    /// Returns an error if two tools have the same name.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> Result<Self, DuplicateTool> {
        let table = Table::of(tools.into_iter().map(Registered::of).collect(), BTreeMap::new())?;
        Ok(Self { table: RwLock::new(Arc::new(table)), listeners: Mutex::default() })
    }

    /// Replaces the tools of a group, or removes the group if there are none. Calls that run go on with the
    /// tools that they have found. Nothing changes if the tools are the same.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a name is that of another tool.
    pub fn replace_group(&self, group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), DuplicateTool> {
        let mut table = self.table.write();
        let mut groups = table.groups.clone();
        let before = groups.remove(group).unwrap_or_default();
        let is_same = |(old, new): (&Arc<Registered>, &Arc<dyn AnyTool>)| Arc::ptr_eq(&old.tool, new);
        if before.len() == tools.len() && before.iter().zip(&tools).all(is_same) {
            return Ok(());
        }
        if !tools.is_empty() {
            groups.insert(group.to_owned(), tools.into_iter().map(Registered::of).collect());
        }
        *table = Arc::new(Table::of(table.fixed.clone(), groups)?);
        drop(table);
        self.listeners.lock().retain(|listener| listener());
        Ok(())
    }

    /// Calls the listener after each change of the tools, until it returns false. It must not block.
    pub fn on_change(&self, listener: impl Fn() -> bool + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// Returns all tools, in order.
    pub fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        self.table.read().ordered.clone()
    }

    /// Returns the canonical names of the tools that callers do not see, because only Handfast itself calls them.
    pub fn unlisted_names(&self) -> Vec<&'static str> {
        let table = self.table();
        let unlisted = table.by_name.values().filter(|registered| !registered.tool.is_listed());
        unlisted.map(|registered| registered.tool.spec().name).collect()
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }

    /// Returns the tool with this name after its schema has accepted the arguments, and translates
    /// the arguments to those of the canonical tool. If the tool only forwards a call, returns the
    /// target tool, and sets `name` and `arguments` to those of the forwarded call.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, with the nearest name; `EVALIDATION` naming each field at
    /// fault.
    pub(crate) fn find(
        &self,
        name: &mut String,
        arguments: &mut Value,
    ) -> Result<Arc<dyn AnyTool>, ToolError> {
        let mut tool = self.accept(name, arguments)?;
        if let Some(another) = tool.names_another(arguments) {
            (*name, *arguments) = another;
            let named = self.accept(name, arguments)?;
            if named.names_another(arguments).is_some() {
                let problem = format!("{} cannot call a tool that only calls others", tool.name());
                return Err(ToolError::validation("name", problem).hint("name the target tool itself"));
            }
            tool = named;
        }
        if let Some(translated) = tool.translate(arguments)? {
            *arguments = translated;
        }
        Ok(tool)
    }

    /// Returns the arguments in a form that may be written down. For a tool that takes secrets,
    /// only the values of arguments that are known not to be secret remain. If a call is too
    /// malformed to identify its tool, and that tool may take secrets, no argument remains.
    // BOUNDED: by the depth of JSON that is read, 128.
    pub(crate) fn without_secrets<'a>(&self, name: &str, arguments: &'a Value) -> Cow<'a, Value> {
        let table = self.table();
        let Some(registered) = table.by_name.get(name) else {
            let may_be =
                |tool: &Arc<dyn AnyTool>| tool.takes_secrets() && distance(tool.name(), name) <= MISSPELT;
            return if table.ordered.iter().any(may_be) { hidden() } else { Cow::Borrowed(arguments) };
        };
        let tool = &registered.tool;
        if let Some((name, its_own)) = tool.names_another(arguments) {
            return match self.without_secrets(&name, &its_own) {
                Cow::Owned(shown) if shown != its_own => {
                    Cow::Owned(json!({"name": name, "arguments": shown}))
                }
                _ => Cow::Borrowed(arguments),
            };
        }
        if !tool.takes_secrets() {
            return Cow::Borrowed(arguments);
        }
        let Value::Object(fields) = arguments else { return hidden() };
        let known = &tool.input_schema()["properties"];
        let shown = fields.iter().map(|(field, value)| {
            let is_shown = known.get(field).is_some() && !tool.is_secret(field);
            // The name of an unknown field may itself be a secret.
            match (known.get(field), is_shown) {
                (_, true) => (field.clone(), value.clone()),
                (Some(_), false) => (field.clone(), Value::from(NOT_WRITTEN_DOWN)),
                (None, false) => ("[unknown]".to_owned(), Value::from(NOT_WRITTEN_DOWN)),
            }
        });
        Cow::Owned(Value::Object(shown.collect()))
    }

    /// Returns the canonical name of the tool that callers know by `name`.
    pub(crate) fn canonical(&self, name: &str) -> Option<&'static str> {
        Some(self.table().by_name.get(name)?.tool.spec().name)
    }

    /// Returns the name by which callers know the canonical tool, or `None` if callers do not have
    /// the tool.
    pub(crate) fn name_of(&self, canonical: &str) -> Option<String> {
        self.table().name_of(canonical).map(str::to_owned)
    }

    fn accept(&self, name: &str, arguments: &mut Value) -> Result<Arc<dyn AnyTool>, ToolError> {
        let table = self.table();
        let registered = table.by_name.get(name).ok_or_else(|| unknown(&table, name))?;
        registered.spell(arguments);
        let validator = registered
            .validator
            .get_or_init(|| {
                jsonschema::validator_for(registered.tool.input_schema()).map_err(|error| error.to_string())
            })
            .as_ref()
            .map_err(|error| ToolError::internal(format!("the schema of {name} is broken: {error}")))?;
        if validator.is_valid(arguments) {
            return Ok(registered.tool.clone());
        }
        let hint = match table.name_of(DESCRIBER) {
            Some(describer) => format!("{describer} shows the arguments of {name}"),
            None => format!("the input schema of {name} lists its arguments"),
        };
        Err(faults(name, validator, arguments, registered.tool.takes_secrets()).hint(hint))
    }

    /// Converts arguments to the types in the schema of their tool. The arguments of an unknown
    /// tool stay unchanged.
    pub(crate) fn spell(&self, name: &str, arguments: &mut Value) {
        if let Some(registered) = self.table().by_name.get(name) {
            registered.spell(arguments);
        }
    }
}

impl Registered {
    fn spell(&self, arguments: &mut Value) {
        tool::spell(arguments, self.tool.input_schema(), &|field| self.tool.keeps_empty(field));
    }
}

fn unknown(table: &Table, name: &str) -> ToolError {
    let shown: String = name.chars().take(100).collect();
    let error = ToolError::new(Code::NotFound, format!("there is no tool named `{shown}`"));
    match tool::nearest(&shown, table.ordered.iter().map(|tool| tool.name())) {
        Some(known) => error.hint(format!("did you mean `{known}`?")),
        None => error.hint("tool_search finds tools by what they do"),
    }
}

/// Name of the tool that describes the arguments of the others.
const DESCRIBER: &str = "tool_describe";
/// Placeholder for a secret.
const NOT_WRITTEN_DOWN: &str = "[not recorded]";

fn hidden() -> Cow<'static, Value> {
    Cow::Owned(Value::from(NOT_WRITTEN_DOWN))
}

/// Maximum number of faults that one message names.
const FAULTS_NAMED: usize = 5;

fn faults(
    name: &str,
    validator: &jsonschema::Validator,
    arguments: &Value,
    takes_secrets: bool,
) -> ToolError {
    let mut named = Vec::new();
    for error in validator.iter_errors(arguments).take(FAULTS_NAMED) {
        let path = error.instance_path().to_string();
        let field = path.trim_start_matches('/').replace('/', ".");
        // The message does not repeat the value at fault, which may be large or a secret.
        let problem = match error.kind() {
            // The name of a field that might be a secret is left out as well.
            ValidationErrorKind::AdditionalProperties { .. } if takes_secrets => {
                "it has an unknown field".to_owned()
            }
            _ => error.masked_with("the value").to_string(),
        };
        named.push(if field.is_empty() { problem } else { format!("`{field}`: {problem}") });
    }
    ToolError::new(Code::Validation, format!("the arguments of {name} are wrong: {}", named.join("; ")))
}
