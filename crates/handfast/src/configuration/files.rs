//! The configuration files of one run, in order of precedence.

use std::path::Path;

use dialects::Dialect;
use policy::{FilePlace, Mode, Origin, Source, Trust};
use store_api::Store;
use tool::Place;

use crate::at_start::AtStart;
use crate::config::{self, ConfigFile, Settings, USER_FILE, WORKSPACE_FILE};
use crate::failure::Failure;
use crate::host_environment::HostEnvironment;
use crate::labels::{Labels, with_built_in};
use crate::report::Warn;
use crate::run_options::{Author, RunOptions};

/// The configuration files of one run, each with its layer, in order of precedence.
pub(super) struct Files {
    pub(super) layers: Vec<Layered>,
    /// Author of the options of this run, which precede all files but the administrator's.
    pub(super) author: Author,
}

/// Function that makes an origin from a path.
type Layer = fn(FilePlace) -> Origin;

pub(super) struct Layered {
    pub(super) file: ConfigFile,
    pub(super) origin: Origin,
    pub(super) trust: Trust,
}

impl Files {
    /// Reads the files of the administrator, the user and the workspace.
    pub(super) fn read(
        options: &RunOptions,
        host_environment: &HostEnvironment,
        place: &Place,
        store: &dyn Store,
    ) -> Result<Self, Failure> {
        let read = |path: &Path| {
            ConfigFile::read(path).map_err(|error| error.without_what_lies_outside(&place.workspace))
        };
        let user = host_environment.configuration.as_ref().map(|folder| folder.join(USER_FILE));
        let user = user.filter(|_| !options.ignores_files);
        let user = user.map_or(Ok(None), |path| read(&path)).map_err(Failure::usage)?;
        let workspace = Some(place.workspace.join(WORKSPACE_FILE)).filter(|_| !options.ignores_files);
        let workspace = workspace.map_or(Ok(None), |path| read(&path)).map_err(Failure::usage)?;
        let layers: [(Option<ConfigFile>, Layer); 3] = [
            (config::managed().map_err(Failure::usage)?, Origin::Managed),
            (user, Origin::User),
            (workspace, Origin::Workspace),
        ];
        let mut files = Vec::new();
        for (file, layer) in layers {
            let Some(file) = file else { continue };
            let origin = layer(file.path.as_path().into());
            let needs_trust = matches!(origin, Origin::Workspace(_));
            let trust =
                if needs_trust && !is_trusted(store, &file)? { Trust::Untrusted } else { Trust::Trusted };
            files.push(Layered { file, origin, trust });
        }
        Ok(Self { layers: files, author: options.author })
    }

    /// Returns the first value in order of precedence: the managed file, the command line, the
    /// user's file, the workspace's file.
    pub(super) fn first<T>(
        &self,
        said: Option<T>,
        name: &str,
        key: impl Fn(&Settings) -> Option<T>,
    ) -> Option<(T, Origin)> {
        let value = |managed: bool| {
            let trusted = self.layers.iter().filter(|layered| layered.trust == Trust::Trusted);
            let mut layer = trusted.filter(move |layered| layered.is_managed() == managed);
            layer.find_map(|layered| layered.value(name, &key))
        };
        value(true).or(said.map(|value| (value, self.author.origin()))).or_else(|| value(false))
    }

    /// Returns the mode that the user chose for the whole run: from the command line, else the
    /// user's file, else the workspace's. The modes of the administrator and of an untrusted
    /// workspace stay in their sources, because they combine with the mode of a profile.
    pub(super) fn mode(&self, said: Option<Mode>) -> Option<(Mode, Origin)> {
        let mut chosen =
            self.layers.iter().filter(|layered| layered.trust == Trust::Trusted && !layered.is_managed());
        said.map(|mode| (mode, self.author.origin())).or_else(|| chosen.find_map(Layered::mode))
    }

    /// Returns the profiles that are bound to labels. If two files bind one label, the first file wins.
    pub(super) fn labels(&self) -> Labels {
        let trusted = self.layers.iter().filter(|layered| layered.trust == Trust::Trusted).rev();
        let labels = trusted.filter_map(|layered| layered.file.settings.labels.clone()).flatten().collect();
        let trusted = self.layers.iter().filter(|layered| layered.trust == Trust::Trusted);
        let is_written = |profile: &str| {
            trusted.clone().any(|layered| layered.file.settings.sandbox_config.contains_key(profile))
        };
        with_built_in(labels, is_written)
    }

    /// Returns the administrator's setting, else the user's. The workspace's file is ignored even
    /// if trusted, because it may not decide for the user.
    pub(super) fn of_the_user<T>(
        &self,
        name: &str,
        key: impl Fn(&Settings) -> Option<T>,
        warn: Warn,
    ) -> Option<T> {
        let (of_workspace, others): (Vec<&Layered>, Vec<&Layered>) =
            self.layers.iter().partition(|layered| matches!(layered.origin, Origin::Workspace(_)));
        for layered in of_workspace.iter().filter(|layered| key(&layered.file.settings).is_some()) {
            let path = layered.file.path.display();
            warn(&format!("`{name}` is ignored in {path}; it belongs in your own configuration"));
        }
        others.iter().find_map(|layered| key(&layered.file.settings))
    }

    /// Returns true if the administrator's file satisfies the condition.
    pub(super) fn is_managed(&self, says: impl Fn(&Settings) -> bool) -> bool {
        self.layers.iter().any(|layered| layered.is_managed() && says(&layered.file.settings))
    }

    /// Returns the sources of rules in order of precedence. The author's own rules follow those of
    /// the administrator.
    pub(super) fn into_sources(self, own: Option<Source>) -> Vec<Source> {
        let (managed, others): (Vec<Layered>, Vec<Layered>) =
            self.layers.into_iter().partition(Layered::is_managed);
        let managed = managed.into_iter().map(Layered::into_source);
        managed.chain(own).chain(others.into_iter().map(Layered::into_source)).collect()
    }

    /// Returns the settings that a server takes at its start only.
    pub(super) fn at_start(&self, options: &RunOptions, dialect: Dialect) -> AtStart {
        let silent: Warn = &|_| {};
        AtStart {
            dialect,
            catalogue: self
                .first(options.catalogue, "catalogue", |settings| settings.catalogue)
                .map(|(kind, _)| kind),
            databases: self
                .first(None, "databases", |settings| settings.databases.clone())
                .map(|(named, _)| named),
            elicitation: self.of_the_user("elicitation", |settings| settings.elicitation, silent),
            approvals: self.of_the_user("approvals", |settings| settings.approvals.clone(), silent),
            oauth: self.of_the_user("oauth", |settings| settings.oauth.clone(), silent),
            traces: self.of_the_user("traces", |settings| settings.traces.clone(), silent),
            environment_secrets: self.of_the_user(
                "environment_secrets",
                |settings| settings.environment_secrets.clone(),
                silent,
            ),
            linear: self.of_the_user("linear", |settings| settings.linear.clone(), silent),
            gmail: self.of_the_user("gmail", |settings| settings.gmail.clone(), silent),
            vault: self.of_the_user("vault", |settings| settings.vault.clone(), silent),
            embeddings: self.of_the_user("embeddings", |settings| settings.embeddings.clone(), silent),
            models: self.of_the_user("models", |settings| settings.models.clone(), silent),
            toolchains: self.of_the_user("toolchains", |settings| settings.toolchains.clone(), silent),
            own_projects: self.first(None, "self", |all| all.own_projects.clone()).map(|(own, _)| own),
            ..AtStart::default()
        }
    }

    pub(super) fn warn_of_ignored(&self, warn: Warn) {
        for Layered { file, .. } in self.layers.iter().filter(|layered| layered.trust == Trust::Untrusted) {
            let ignored = [
                ("profile", file.settings.profile.is_some()),
                ("labels", file.settings.labels.is_some()),
                ("dialect", file.settings.dialect.is_some()),
                ("catalogue", file.settings.catalogue.is_some()),
                ("databases", file.settings.databases.is_some()),
                ("mcp_servers", file.settings.mcp_servers.is_some()),
                ("self", file.settings.own_projects.is_some()),
                ("mode", file.settings.mode.is_some_and(|mode| mode < Mode::default())),
            ];
            for (key, _) in ignored.into_iter().filter(|(_, named)| *named) {
                let path = file.path.display();
                warn(&format!(
                    "`{key}` is ignored, because {path} is not trusted; `handfast trust` makes it \
                     trusted"
                ));
            }
        }
    }
}

impl Layered {
    pub(super) fn is_managed(&self) -> bool {
        matches!(self.origin, Origin::Managed(_))
    }

    pub(super) fn mode(&self) -> Option<(Mode, Origin)> {
        self.value("mode", &|settings: &Settings| settings.mode)
    }

    pub(super) fn into_source(self) -> Source {
        Source {
            mode: self.mode(),
            origin: self.origin,
            trust: self.trust,
            profiles: self.file.settings.sandbox_config,
            lines: self.file.lines.profiles,
        }
    }

    pub(super) fn value<T>(&self, name: &str, key: &impl Fn(&Settings) -> Option<T>) -> Option<(T, Origin)> {
        Some((key(&self.file.settings)?, self.origin.at(self.file.lines.of_key(name))))
    }
}

/// Returns true if the user trusts exactly the bytes that were parsed.
fn is_trusted(store: &dyn Store, file: &ConfigFile) -> Result<bool, Failure> {
    let real = file.path.canonicalize()?;
    Ok(store.trust().trusted_hash(&real)? == Some(file.hash))
}
