//! Agents as files: front matter with the settings, and the instructions below it.

use llm::{Capability, TaskType};
use serde::Deserialize;

/// Maximum size of a file, in bytes. Instructions are read with every request.
const LARGEST: usize = 256 * 1024;

/// Description of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentDefinition {
    /// Name, which is also the name of its file.
    pub name: String,
    /// Purpose, for people and for other agents.
    pub description: String,
    /// `PROVIDER/MODEL`; `None` for the models of the task type.
    pub model: Option<String>,
    /// Type of its tasks, by which the model is chosen.
    pub task_type: Option<TaskType>,
    /// Names of the tools that it may use; `None` for those that every client sees.
    pub tools: Option<Vec<String>>,
    /// Profile that it works under, in addition to that of its caller.
    pub profile: Option<String>,
    /// Abilities that its model must have.
    pub caps: Vec<Capability>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Maximum number of requests to the model in one turn.
    pub max_steps: Option<u32>,
    /// US dollars that it may spend.
    pub budget_usd: Option<f64>,
    /// Tokens that it may spend.
    pub budget_tokens: Option<u64>,
    /// Instructions for the model.
    pub instructions: String,
}

/// Fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent {name}: {fault}")]
pub struct DefinitionError {
    /// Name of the agent.
    pub name: String,
    /// Fault, with what to do.
    pub fault: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Front {
    name: Option<String>,
    #[serde(default)]
    description: String,
    model: Option<String>,
    task_type: Option<String>,
    tools: Option<Vec<String>>,
    profile: Option<String>,
    #[serde(default)]
    caps: Vec<String>,
    temperature: Option<f64>,
    max_steps: Option<u32>,
    budget_usd: Option<f64>,
    budget_tokens: Option<u64>,
}

impl AgentDefinition {
    /// Reads the file of the agent with this name.
    ///
    /// # Errors
    /// [`DefinitionError`], which names the fault.
    pub fn parse(name: &str, text: &str) -> Result<Self, DefinitionError> {
        Self::parsed(name, text).map_err(|fault| DefinitionError { name: name.to_owned(), fault })
    }

    fn parsed(name: &str, text: &str) -> Result<Self, String> {
        if !is_agent_name(name) {
            return Err(
                "a name has 1 to 64 letters, digits, `-` and `_`, and begins with a letter or a digit"
                    .to_owned(),
            );
        }
        if text.len() > LARGEST {
            return Err(format!("its file has {} bytes, more than {LARGEST}", text.len()));
        }
        let (front, instructions) = tool::split_front_matter(text).map_err(str::to_owned)?;
        let front: Front =
            serde_saphyr::from_str(front).map_err(|error| format!("its front matter is invalid: {error}"))?;
        if let Some(own) = front.name.filter(|own| own != name) {
            return Err(format!("its front matter names it `{own}`, and its file `{name}`"));
        }
        let task_type = front.task_type.map(|word| match TaskType::of_word(&word) {
            Some(TaskType::Embedding) | None => {
                Err(format!("`task_type: {word}` is none of planning, coding, analysis and simple"))
            }
            Some(task) => Ok(task),
        });
        let caps = front.caps.iter().map(|word| {
            Capability::of_word(word).ok_or_else(|| {
                let words = Capability::ALL.map(Capability::word).join(", ");
                format!("`caps` has `{word}`, which is none of {words}")
            })
        });
        let amount = |name: &str, value: Option<f64>, most: f64| match value {
            Some(value) if !(0.0..=most).contains(&value) => {
                Err(format!("`{name}: {value}` is not between 0 and {most}"))
            }
            value => Ok(value),
        };
        if front.max_steps == Some(0) {
            return Err("`max_steps: 0` permits no request to the model".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            description: front.description,
            model: front.model,
            task_type: task_type.transpose()?,
            tools: front.tools,
            profile: front.profile,
            caps: caps.collect::<Result<_, _>>()?,
            temperature: amount("temperature", front.temperature, 2.0)?,
            max_steps: front.max_steps,
            budget_usd: amount("budget_usd", front.budget_usd, 1e6)?,
            budget_tokens: front.budget_tokens,
            instructions: instructions.trim().to_owned(),
        })
    }
}

/// Returns true if a text can be the name of an agent: a file name without surprises on every system.
pub fn is_agent_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    name.len() <= 64
        && name.bytes().all(fits)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_settings_and_instructions() {
        let text = "---\nname: reviewer\ndescription: Reviews changes.\nmodel: local/small\ntask_type: analysis\n\
                    tools: [file_read, shell_execute]\nprofile: careful\ncaps: [tools, vision]\ntemperature: 0.2\n\
                    max_steps: 30\nbudget_usd: 1.5\nbudget_tokens: 100000\n---\n\nRead first.\n";
        let agent = AgentDefinition::parse("reviewer", text).unwrap();
        assert_eq!(agent.instructions, "Read first.");
        assert_eq!(agent.tools.unwrap(), ["file_read", "shell_execute"]);
        assert_eq!(agent.caps, [Capability::Tools, Capability::Vision]);
        assert_eq!((agent.task_type, agent.max_steps), (Some(TaskType::Analysis), Some(30)));
        let least = AgentDefinition::parse("a", "---\ndescription: x\n---\r\nDo it.").unwrap();
        assert_eq!((least.tools, least.instructions.as_str()), (None, "Do it."));
        assert!(AgentDefinition::parse("a", "---\n{}\n---\n").is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, text, told) in [
            ("../a", "---\n---\n", "a name has"),
            ("a", "Do it.", "front matter"),
            ("a", "---\nmodel: x\n", "no end"),
            ("a", "---\nname: b\n---\n", "`b`"),
            ("a", "---\nmodle: x\n---\n", "modle"),
            ("a", "---\ncaps: [flying]\n---\n", "`flying`"),
            ("a", "---\ntask_type: embedding\n---\n", "task_type"),
            ("a", "---\ntemperature: 3\n---\n", "temperature"),
            ("a", "---\nbudget_usd: -1\n---\n", "budget_usd"),
            ("a", "---\nmax_steps: 0\n---\n", "max_steps"),
        ] {
            let error = AgentDefinition::parse(name, text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(AgentDefinition::parse("a", &"x".repeat(LARGEST + 1)).unwrap_err().fault.contains("bytes"));
    }
}
