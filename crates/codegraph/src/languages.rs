//! The languages, each in a file of its own and behind a feature of its own.

#![allow(clippy::match_same_arms, reason = "the tables of roles are in the order of their meaning")]

#[cfg(feature = "bash")]
mod bash;
mod c;
mod csharp;
#[cfg(feature = "go")]
mod go;
#[cfg(feature = "java")]
mod java;
#[cfg(any(feature = "javascript", feature = "typescript"))]
mod javascript;
#[cfg(feature = "php")]
mod php;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "ruby")]
mod ruby;
#[cfg(feature = "rust")]
mod rust;

use std::sync::OnceLock;

use crate::language::Language;
use crate::lowering::{Dialect, Entry, Grammar};

/// Number of languages.
const COUNT: usize = 13;

/// Grammars that the program handed in.
static ADDED: [OnceLock<Option<Entry>>; COUNT] = [const { OnceLock::new() }; COUNT];

/// Returns the grammar of a language, or `None` if it was not compiled in and not added.
pub(crate) fn entry(language: Language) -> Option<&'static Entry> {
    static ENTRIES: [OnceLock<Option<Entry>>; COUNT] = [const { OnceLock::new() }; COUNT];
    let slot = ENTRIES.get(language as usize)?;
    let added = || ADDED.get(language as usize)?.get()?.as_ref();
    slot.get_or_init(|| create(language)).as_ref().or_else(added)
}

/// Adds the grammar of C++ or C#, which this crate does not compile in, for the whole process. To be called before
/// any extraction. The first grammar of a language counts.
///
/// Returns false for another language.
pub fn add_grammar(language: Language, grammar: tree_sitter::Language) -> bool {
    let dialect: &'static dyn Dialect = match language {
        Language::Cpp => &c::C,
        Language::CSharp => &csharp::CSharp,
        _ => return false,
    };
    let Some(slot) = ADDED.get(language as usize) else { return false };
    slot.get_or_init(|| Some(Entry { language, grammar: Grammar::new(grammar, dialect) }));
    true
}

fn create(language: Language) -> Option<Entry> {
    let found: Option<(tree_sitter::Language, &'static dyn Dialect)> = match language {
        #[cfg(feature = "bash")]
        Language::Bash => Some((tree_sitter_bash::LANGUAGE.into(), &bash::Bash)),
        #[cfg(feature = "c")]
        Language::C => Some((tree_sitter_c::LANGUAGE.into(), &c::C)),
        #[cfg(feature = "go")]
        Language::Go => Some((tree_sitter_go::LANGUAGE.into(), &go::Go)),
        #[cfg(feature = "java")]
        Language::Java => Some((tree_sitter_java::LANGUAGE.into(), &java::Java)),
        #[cfg(feature = "javascript")]
        Language::JavaScript => Some((tree_sitter_javascript::LANGUAGE.into(), &javascript::JavaScript)),
        #[cfg(feature = "php")]
        Language::Php => Some((tree_sitter_php::LANGUAGE_PHP.into(), &php::Php)),
        #[cfg(feature = "python")]
        Language::Python => Some((tree_sitter_python::LANGUAGE.into(), &python::Python)),
        #[cfg(feature = "ruby")]
        Language::Ruby => Some((tree_sitter_ruby::LANGUAGE.into(), &ruby::Ruby)),
        #[cfg(feature = "rust")]
        Language::Rust => Some((tree_sitter_rust::LANGUAGE.into(), &rust::Rust)),
        #[cfg(feature = "typescript")]
        Language::TypeScript => {
            Some((tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), &javascript::JavaScript))
        }
        #[cfg(feature = "typescript")]
        Language::Tsx => Some((tree_sitter_typescript::LANGUAGE_TSX.into(), &javascript::JavaScript)),
        _ => None,
    };
    found.map(|(parser, dialect)| Entry { language, grammar: Grammar::new(parser, dialect) })
}
