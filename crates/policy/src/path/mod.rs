//! Path rules: gitignore-style patterns, parsed, anchored and matched.
//!
//! Paths are compared by their spelling. This module looks up nothing: the caller resolves links.

mod affix_filter;
mod fold;
mod group;
mod inherited;
mod list;
mod overlap;
mod pattern;
mod rules;

pub(crate) use fold::{fold, fold_path, is_below};
pub use inherited::FolderMatches;
pub(crate) use list::{Case, PathList, PatternReach};
pub use list::{Kind, LocatedPath};
pub(crate) use pattern::outermost;
pub(crate) use rules::{AllowedPaths, PathRules, meet_roots, roots};
pub use rules::{DeniedPaths, Names, PathVerdict, RootRight};
