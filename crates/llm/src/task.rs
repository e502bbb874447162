//! Types of tasks, and the models for each.

use std::collections::BTreeMap;

/// Type of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskType {
    /// Plans of what to do.
    Planning,
    /// Code.
    Coding,
    /// Analysis of texts and data.
    Analysis,
    /// Small work that needs no strong model.
    Simple,
    /// Vectors of texts, which no chat model makes.
    Embedding,
}

impl TaskType {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Planning, Self::Coding, Self::Analysis, Self::Simple, Self::Embedding];

    /// Returns the word for the type.
    pub fn word(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Coding => "coding",
            Self::Analysis => "analysis",
            Self::Simple => "simple",
            Self::Embedding => "embedding",
        }
    }

    /// Returns the type with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.word() == word)
    }
}

/// Models for each type of task, by the names that the router knows, the preferred one first.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Models for single types.
    pub by_task: BTreeMap<TaskType, Vec<String>>,
    /// Models for all other types.
    pub usual: Vec<String>,
}

impl Routes {
    /// Returns the models for a type.
    pub fn of(&self, task: TaskType) -> &[String] {
        self.by_task.get(&task).map_or(&self.usual, Vec::as_slice)
    }
}
