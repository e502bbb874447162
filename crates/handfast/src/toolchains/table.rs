//! The known toolchains: their locations, and the parts that programs run from.
//!
//! The rest of their folders stays hidden, because it also contains keys, downloads, histories and
//! other projects.

use std::path::{Path, PathBuf};

use engine::Toolchain;

/// One kind of toolchain.
pub(super) struct Kind {
    /// Usual folder, relative to the home.
    pub(super) folder: &'static str,
    /// Variable by which a user names another folder.
    pub(super) variable: Option<&'static str>,
    /// Parts that programs run from. An empty string stands for the whole folder.
    pub(super) parts: &'static [&'static str],
    /// Variable by which the toolchain finds itself in a cell, whose home differs, and the part
    /// that the variable names.
    pub(super) tells: Option<(&'static str, &'static str)>,
    /// Parts with git repositories that the toolchain's programs read.
    pub(super) repositories: &'static [&'static str],
    /// Paths within the parts that no program reads.
    pub(super) excepted: &'static [&'static str],
}

impl Kind {
    const fn new(
        folder: &'static str,
        variable: Option<&'static str>,
        parts: &'static [&'static str],
    ) -> Self {
        Self { folder, variable, parts, tells: None, repositories: &[], excepted: &[] }
    }

    const fn telling(mut self, variable: &'static str) -> Self {
        self.tells = Some((variable, ""));
        self
    }

    const fn with_repositories(mut self, repositories: &'static [&'static str]) -> Self {
        self.repositories = repositories;
        self
    }
}

const OF_ENV: &[&str] = &["bin", "shims", "libexec", "versions", "plugins", "completions", "version"];
const CONDA: &[&str] = &[
    "bin",
    "compiler_compat",
    "conda-meta",
    "condabin",
    "envs",
    "etc/profile.d",
    "include",
    "lib",
    "libexec",
    "sbin",
    "shell",
    "share",
    "ssl",
    "x86_64-conda-linux-gnu",
];

/// All kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind::new(".cargo", Some("CARGO_HOME"), &["bin", "config", "config.toml", "git", "registry"])
        .telling("CARGO_HOME")
        .with_repositories(&["git", "registry"]),
    Kind::new(".rustup", Some("RUSTUP_HOME"), &["settings.toml", "toolchains", "update-hashes"])
        .telling("RUSTUP_HOME"),
    Kind::new(
        ".pyenv",
        Some("PYENV_ROOT"),
        &["bin", "shims", "libexec", "pyenv.d", "versions", "plugins", "version"],
    )
    .telling("PYENV_ROOT"),
    Kind::new(".rbenv", Some("RBENV_ROOT"), OF_ENV),
    Kind::new(".nodenv", Some("NODENV_ROOT"), OF_ENV),
    Kind::new(".goenv", Some("GOENV_ROOT"), OF_ENV),
    Kind::new(".nvm", Some("NVM_DIR"), &["alias", "bash_completion", "nvm-exec", "nvm.sh", "versions"])
        .telling("NVM_DIR"),
    Kind::new(".fnm", Some("FNM_DIR"), &["aliases", "bin", "fnm", "node-versions"]),
    Kind::new(".local/share/fnm", None, &["aliases", "bin", "fnm", "node-versions"]),
    Kind::new(
        ".dotnet",
        Some("DOTNET_ROOT"),
        &["dotnet", "host", "packs", "sdk", "sdk-manifests", "shared", "templates", "tools"],
    )
    .telling("DOTNET_ROOT"),
    Kind::new(".config/composer", Some("COMPOSER_HOME"), &["vendor"]),
    Kind::new(".volta", Some("VOLTA_HOME"), &["bin", "tools/image", "tools/shared", "tools/user"])
        .telling("VOLTA_HOME"),
    Kind::new(".bun", Some("BUN_INSTALL"), &["bin", "install/cache", "install/global"]),
    Kind::new(".deno", Some("DENO_INSTALL"), &["bin"]),
    Kind::new(
        ".asdf",
        Some("ASDF_DATA_DIR"),
        &["asdf.sh", "bin", "completions", "installs", "lib", "libexec", "plugins", "shims"],
    )
    .telling("ASDF_DATA_DIR"),
    Kind::new(
        ".sdkman",
        Some("SDKMAN_DIR"),
        &["bin", "candidates", "contrib", "etc/config", "libexec", "src", "var/candidates", "var/platform"],
    )
    .telling("SDKMAN_DIR"),
    Kind::new(".npm-global", None, &["bin", "lib", "share"]),
    Kind::new(".local", None, &["bin", "lib"]),
    Kind::new(".local/share/mise", Some("MISE_DATA_DIR"), &["bin", "installs", "plugins", "shims"]),
    Kind::new(".local/share/uv", None, &["python", "tools"]),
    Kind::new(".local/share/pipx", Some("PIPX_HOME"), &["py", "shared", "venvs"]),
    Kind::new(".local/pipx", None, &["shared", "venvs"]),
    // Programs of pnpm lie in the folder itself.
    Kind::new(".local/share/pnpm", Some("PNPM_HOME"), &[""]),
    Kind {
        tells: Some(("GOMODCACHE", "pkg/mod")),
        // Clones of private repositories, with their remotes.
        excepted: &["pkg/mod/cache/vcs"],
        ..Kind::new("go", Some("GOPATH"), &["bin", "pkg/mod"])
    },
    Kind::new(".ghcup", None, &["bin", "ghc", "hls", "share"]),
    Kind::new(".cabal", Some("CABAL_DIR"), &["bin"]),
    Kind::new("miniconda3", Some("CONDA_ROOT"), CONDA),
    Kind::new("miniforge3", None, CONDA),
    Kind::new("mambaforge", None, CONDA),
    Kind::new("anaconda3", None, CONDA),
    Kind::new(
        concat!("/home", "/linuxbrew/.linuxbrew"),
        Some("HOMEBREW_PREFIX"),
        &[
            "bin",
            "Cellar",
            "etc/ca-certificates",
            "etc/openssl@3",
            "include",
            "lib",
            "libexec",
            "opt",
            "sbin",
            "share",
        ],
    ),
];

/// Returns the variables by which users name the locations of toolchains.
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter_map(|kind| kind.variable).chain(["XDG_DATA_HOME"])
}

/// The locations of a user's folders.
pub(super) trait Places {
    /// Returns the user's home.
    fn home(&self) -> Option<&Path>;
    /// Returns the folder that an environment variable names.
    fn named(&self, variable: &str) -> Option<PathBuf>;
}

impl Kind {
    /// Returns the toolchains of this kind, existing or not: at the user's location, and at the
    /// usual one.
    pub(super) fn of(&self, places: &dyn Places) -> Vec<Toolchain> {
        let at = |folder: PathBuf, named: bool| Toolchain {
            folder,
            parts: self.parts.iter().map(PathBuf::from).collect(),
            repositories: self.repositories.iter().map(PathBuf::from).collect(),
            excepted: self.excepted.iter().map(PathBuf::from).collect(),
            named,
            of_path: None,
        };
        let named = self.variable.and_then(|variable| places.named(variable)).map(|folder| at(folder, true));
        let data = self.folder.strip_prefix(".local/share/").zip(places.named("XDG_DATA_HOME"));
        let usual = match data {
            Some((below, data)) => Some(data.join(below)),
            None => places.home().map(|home| home.join(self.folder)),
        };
        let usual = usual.map(|folder| at(folder, false));
        let usual = usual.filter(|usual| named.as_ref().is_none_or(|named| named.folder != usual.folder));
        named.into_iter().chain(usual).collect()
    }
}
