use std::ffi::OsStr;

/// Folders whose content a tool makes again from what lies beside them, by name and at any depth.
///
/// In them the last writer wins without a look at what others did meanwhile, and old content need not be saved.
/// Nothing else is ever left out, whatever a `.gitignore` says: ignored files are often the ones that nobody can make again
/// (`.env`, databases, notes). Names that people also give to folders with work of their own (`build`, `out`, `vendor`,
/// `bin`) are left off for the same reason.
pub const REGENERABLE_FOLDERS: [&str; 19] = [
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".tox",
    ".turbo",
    ".venv",
    ".zig-cache",
    "__pycache__",
    "dist",
    "node_modules",
    "target",
    "venv",
    "zig-out",
];

/// Whether a *folder* called `name` is one of [`REGENERABLE_FOLDERS`]. A file of such a name is like any other file.
pub fn is_regenerable_folder(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| REGENERABLE_FOLDERS.binary_search(&name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_so_that_every_name_on_it_is_found() {
        assert!(REGENERABLE_FOLDERS.is_sorted());
        assert!(REGENERABLE_FOLDERS.iter().all(|name| is_regenerable_folder(OsStr::new(name))));
        assert!(!is_regenerable_folder(OsStr::new("Target")));
    }
}
