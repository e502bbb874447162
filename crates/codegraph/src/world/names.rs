//! Numbers of names. They outlive a world, so that the next one need not look at every name of every file again.

use std::sync::Arc;

use crate::facts::FileFacts;
use crate::fast_hash::{FastMap, short_hash};

/// The number of a name in the whole project.
pub(crate) type Symbol = u32;

/// Names with their numbers, each once.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    texts: Vec<Arc<str>>,
    /// Short hash of each.
    hashes: Vec<u32>,
    numbers: FastMap<Arc<str>, Symbol>,
}

impl Default for Names {
    /// Returns the empty name alone, whose number is 0.
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), hashes: Vec::new(), numbers: FastMap::default() };
        names.number("");
        names
    }
}

impl Names {
    /// Returns the number of a name.
    pub(crate) fn number(&mut self, name: &str) -> Symbol {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = crate::builder::count(self.texts.len());
        self.hashes.push(short_hash(name));
        let name: Arc<str> = name.into();
        self.texts.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// Returns the numbers of the names of a file, in their order.
    pub(crate) fn of_file(&mut self, facts: &FileFacts) -> Arc<[Symbol]> {
        facts.names.iter().map(|name| self.number(name)).collect()
    }

    /// Returns the number of a name that has one.
    pub(crate) fn known(&self, name: &str) -> Option<Symbol> {
        self.numbers.get(name).copied()
    }

    /// Returns a name.
    pub(crate) fn name(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol as usize).map_or("", |name| name)
    }

    /// Returns the short hash of a name.
    pub(crate) fn hash(&self, symbol: Symbol) -> u32 {
        self.hashes.get(symbol as usize).copied().unwrap_or(0)
    }

    /// Returns the number of names.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}
