//! Facts about models.

use crate::money::Price;

/// Facts about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Name that the provider knows.
    pub name: String,
    /// Price; `None` if it is unknown.
    pub price: Option<Price>,
    /// Maximum number of tokens of request and answer together; `None` if it is unknown.
    pub context: Option<u32>,
    /// Maximum number of tokens of an answer, thinking included; `None` if it is unknown.
    pub max_output: Option<u32>,
    /// Maximum number of tokens that one picture takes.
    pub image_tokens: u32,
    /// True if the model takes pictures.
    pub vision: bool,
    /// True if the model calls tools.
    pub tools: bool,
    /// True if the model keeps to a JSON Schema.
    pub structured_output: bool,
    /// True if the model takes a temperature.
    pub temperature: bool,
    /// Form in which the model is told how much to think.
    pub thinking: ThinkingControl,
}

/// Form in which a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingControl {
    /// The model does not think.
    Never,
    /// A number of tokens, at least `least`.
    Budget {
        /// Smallest number that the provider takes.
        least: u32,
    },
    /// A level; `off` is true if thinking can be switched off.
    Level {
        /// True if thinking can be switched off.
        off: bool,
    },
}

/// Ability that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Takes pictures.
    Vision,
    /// Calls tools.
    Tools,
    /// Thinks before it answers.
    Thinking,
    /// Keeps to a JSON Schema.
    StructuredOutput,
}

impl Capability {
    /// All abilities.
    pub const ALL: [Self; 4] = [Self::Vision, Self::Tools, Self::Thinking, Self::StructuredOutput];

    /// Returns the word for the ability.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Tools => "tools",
            Self::Thinking => "thinking",
            Self::StructuredOutput => "structured_output",
        }
    }

    /// Returns the ability with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ability| ability.word() == word)
    }
}

impl ModelInfo {
    /// Returns what is known of a model about which nothing is known: no price and no limits. It is taken to
    /// have every ability, because only its server can tell.
    pub fn unknown(name: impl Into<String>, image_tokens: u32) -> Self {
        Self {
            name: name.into(),
            price: None,
            context: None,
            max_output: None,
            image_tokens,
            vision: true,
            tools: true,
            structured_output: true,
            temperature: true,
            thinking: ThinkingControl::Level { off: true },
        }
    }

    /// Returns true if the model has the ability.
    pub fn can(&self, ability: Capability) -> bool {
        match ability {
            Capability::Vision => self.vision,
            Capability::Tools => self.tools,
            Capability::Thinking => self.thinking != ThinkingControl::Never,
            Capability::StructuredOutput => self.structured_output,
        }
    }

    /// Returns those of the needed abilities that the model does not have.
    pub fn missing(&self, needed: &[Capability]) -> Vec<Capability> {
        needed.iter().copied().filter(|ability| !self.can(*ability)).collect()
    }
}
