//! The languages, each in a file of its own and behind a feature of its own.

#![allow(clippy::match_same_arms, reason = "the tables of roles are in the order of their meaning")]

#[cfg(feature = "bash")]
mod bash;
#[cfg(any(feature = "c", feature = "cpp"))]
mod c;
#[cfg(feature = "c-sharp")]
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

/// Returns the grammar of a language, or `None` if it was not compiled in.
pub(crate) fn entry(language: Language) -> Option<&'static Entry> {
    static ENTRIES: [OnceLock<Option<Entry>>; 13] = [const { OnceLock::new() }; 13];
    let slot = ENTRIES.get(language as usize)?;
    slot.get_or_init(|| create(language)).as_ref()
}

fn create(language: Language) -> Option<Entry> {
    let (parser, dialect): (tree_sitter::Language, &'static dyn Dialect) = match language {
        #[cfg(feature = "bash")]
        Language::Bash => (tree_sitter_bash::LANGUAGE.into(), &bash::Bash),
        #[cfg(feature = "c")]
        Language::C => (tree_sitter_c::LANGUAGE.into(), &c::C),
        #[cfg(feature = "c-sharp")]
        Language::CSharp => (tree_sitter_c_sharp::LANGUAGE.into(), &csharp::CSharp),
        #[cfg(feature = "cpp")]
        Language::Cpp => (tree_sitter_cpp::LANGUAGE.into(), &c::C),
        #[cfg(feature = "go")]
        Language::Go => (tree_sitter_go::LANGUAGE.into(), &go::Go),
        #[cfg(feature = "java")]
        Language::Java => (tree_sitter_java::LANGUAGE.into(), &java::Java),
        #[cfg(feature = "javascript")]
        Language::JavaScript => (tree_sitter_javascript::LANGUAGE.into(), &javascript::JavaScript),
        #[cfg(feature = "php")]
        Language::Php => (tree_sitter_php::LANGUAGE_PHP.into(), &php::Php),
        #[cfg(feature = "python")]
        Language::Python => (tree_sitter_python::LANGUAGE.into(), &python::Python),
        #[cfg(feature = "ruby")]
        Language::Ruby => (tree_sitter_ruby::LANGUAGE.into(), &ruby::Ruby),
        #[cfg(feature = "rust")]
        Language::Rust => (tree_sitter_rust::LANGUAGE.into(), &rust::Rust),
        #[cfg(feature = "typescript")]
        Language::TypeScript => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), &javascript::JavaScript),
        #[cfg(feature = "typescript")]
        Language::Tsx => (tree_sitter_typescript::LANGUAGE_TSX.into(), &javascript::JavaScript),
        #[allow(unreachable_patterns, reason = "with all features no language is left")]
        _ => return None,
    };
    Some(Entry { language, grammar: Grammar::new(parser, dialect) })
}
