//! The tools of a runtime in the chosen dialect, and the selection that is listed.

use std::path::Path;
use std::sync::Arc;

use database::Databases;
use dialects::{CatalogueKind, Dialect, DryRunOnly, SettledLimits, ToolCall};
use engine::Registry;
use jiff::Timestamp;
use policy::{CommandsSee, Programs};
use tool::{AnyTool, Catalogue, CatalogueEntry};
use tools_agents::Models;
use tools_data::SkillFolders;
use tools_knowledge::KnowledgeBase;
use tools_mcp::McpServers;
use tools_self::SelfDevelopment;
use vault::{Vault, VaultError};

use crate::plugin_facts::PluginFacts;
use crate::toolchains;
use crate::work::{Work, has_login};

/// Time at which the built-in tools of this version became part of it.
const RELEASED: &str = "2026-11-21T00:00:00Z";

/// Status of a tool whose login is missing.
const NOT_LOGGED_IN: &str = "not logged in: the user logs in with `handfast login gmail`";
/// Status of a tool that needs the vault, which no key opens.
const LOCKED: &str = "locked: no key opens the vault; the user starts Handfast with its key or passphrase";

/// Dependencies of the tools.
pub(crate) struct ToolDependencies {
    /// Databases of the workspace.
    pub(crate) databases: Arc<Databases>,
    /// Folders of skills outside the workspace.
    pub(crate) skills: SkillFolders,
    /// Knowledge base of the workspace.
    pub(crate) knowledge: Arc<KnowledgeBase>,
    /// Models of language.
    pub(crate) models: Arc<Models>,
    /// Locations of Linear and Gmail.
    pub(crate) work: Work,
    /// Projects for self-development.
    pub(crate) own_projects: Arc<SelfDevelopment>,
}

/// Returns every canonical tool, in listing order.
pub(crate) fn canonical(needed: &ToolDependencies) -> Vec<Arc<dyn AnyTool>> {
    let families = [
        tools_files::tools(),
        tools_shell::tools(),
        tools_code::tools(),
        tools_web::tools(),
        tools_browser::tools(),
        tools_data::tools(&needed.databases, &needed.skills),
        tools_knowledge::tools(&needed.knowledge),
        tools_graph::tools(),
        tools_agents::tools(&needed.models),
        needed.work.tools(),
        tools_self::tools(&needed.own_projects),
        tools_plugins::tools(needed.own_projects.plugin_trials()),
        vec![ToolCall::tool()],
    ];
    families.concat()
}

/// Configuration of the tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Toolset {
    /// Names and schemas.
    pub(crate) dialect: Dialect,
    /// Selection to list, if configured.
    pub(crate) catalogue: Option<CatalogueKind>,
    /// True if tools that do more than read are left out.
    pub(crate) read_only: bool,
    /// True if calls change nothing.
    pub(crate) dry_run: bool,
}

impl Toolset {
    /// Returns every tool in the form of the dialect, in listing order. `canonical` has every canonical
    /// tool.
    pub(crate) fn tools(
        self,
        programs: &Programs,
        workspace: &Path,
        mut canonical: Vec<Arc<dyn AnyTool>>,
    ) -> Vec<Arc<dyn AnyTool>> {
        if self.read_only {
            canonical.retain(|tool| tool.spec().class.reads_only || is_part_of_handfast(tool));
        }
        let canonical = self.only_dry_runs(canonical);
        if self.dialect == Dialect::Handfast {
            return canonical;
        }
        let (programs, workspace) = (programs.clone(), workspace.to_owned());
        let told = Arc::new(move || toolchains::advertised(&programs, &workspace));
        let mut tools = self.dialect.tools(&canonical, &(told as _));
        tools.extend(canonical.into_iter().filter(is_part_of_handfast));
        tools
    }

    /// Restricts these tools to dry runs if calls change nothing.
    pub(crate) fn only_dry_runs(self, tools: Vec<Arc<dyn AnyTool>>) -> Vec<Arc<dyn AnyTool>> {
        if !self.dry_run {
            return tools;
        }
        tools
            .into_iter()
            .filter_map(|tool| if is_part_of_handfast(&tool) { Some(tool) } else { DryRunOnly::tool(tool) })
            .collect()
    }

    /// Returns the selection that a client sees. Agents of other sources look for their own tools,
    /// so other dialects list all tools by default.
    pub(crate) fn listed(self) -> CatalogueKind {
        let unless_told = match self.dialect {
            Dialect::Handfast => CatalogueKind::Core,
            _ => CatalogueKind::Full,
        };
        self.catalogue.unwrap_or(unless_told)
    }

    /// Returns true if people see the tool: all tools by default, or those of the configured catalogue.
    pub(crate) fn shows(self, tool: &dyn AnyTool) -> bool {
        self.catalogue.map_or_else(|| self.dialect.shows(tool), |kind| kind.lists(tool))
    }

    /// Converts the dialect's policy settings to the types of the policy.
    pub(crate) fn settled(self) -> policy::Dialect {
        let dialects::Settings {
            undoable_passes,
            dangerous_asks,
            asks_unless_reading,
            denied_paths,
            denied_reason,
            denied_hint,
            any_absolute_removal,
            only_workspace,
            commands_see_listed,
            limits: SettledLimits { process_memory, cpus, processes, process_count },
        } = self.dialect.settings();
        policy::Dialect {
            undoable: if undoable_passes { policy::Undoable::Pass } else { policy::Undoable::Table },
            dangerous: if dangerous_asks { policy::Dangerous::Ask } else { policy::Dangerous::Deny },
            asks_unless_reading,
            denied_paths,
            denied_reason,
            denied_hint,
            any_absolute_removal,
            only_workspace,
            commands_see: if commands_see_listed { CommandsSee::Listed } else { CommandsSee::Workspace },
            limits: policy::Limits {
                process_memory_bytes: process_memory,
                cpus,
                processes,
                process_count,
                ..policy::Limits::default()
            },
        }
    }
}

/// Returns true for a tool that every toolset has: one that finds others, or that only Handfast itself calls.
fn is_part_of_handfast(tool: &Arc<dyn AnyTool>) -> bool {
    CatalogueKind::Compact.lists(tool.as_ref()) || !tool.is_listed()
}

/// Returns the kind of a tool in lists: its origin.
fn kind(tool: &dyn AnyTool) -> &'static str {
    if tool.is_plugin() {
        "plugin"
    } else if CatalogueKind::Gateway.lists(tool) {
        "mcp"
    } else {
        "built_in"
    }
}

/// Builds the catalogue for the tools that list tools, which are those at the time of a call.
///
/// # Errors
/// If the release time is invalid.
pub(crate) fn catalogue(
    registry: Arc<Registry>,
    dialect: Dialect,
    vault: Arc<Vault>,
    (plugins, servers, now): (PluginFacts, Option<Arc<McpServers>>, Timestamp),
) -> Result<Catalogue, jiff::Error> {
    let released: Timestamp = RELEASED.parse()?;
    let entry = move |tool: &Arc<dyn AnyTool>| {
        let kind = kind(tool.as_ref());
        CatalogueEntry {
            name: tool.name().to_owned(),
            title: tool.spec().title.to_owned(),
            kind,
            description: tool.description().into_owned(),
            level: tool.spec().level,
            status: status(tool.spec().name, &vault),
            // Tools of other servers came with this runtime.
            created_at: if kind == "built_in" { released } else { now },
            input_schema: tool.input_schema().clone(),
            example: tool.spec().example.arguments.to_owned(),
        }
    };
    let (of_list, of_failed) = (plugins.clone(), registry.clone());
    let list = move || {
        let tools = registry.tools();
        let shown = tools.iter().filter(|tool| dialect.shows(tool.as_ref()));
        let mut entries: Vec<CatalogueEntry> = shown.map(&entry).collect();
        of_list.correct(&mut entries);
        entries
    };
    let failed = move || {
        let tools = of_failed.tools();
        let mut failed =
            plugins.failed(|name| tools.iter().any(|tool| tool.is_plugin() && tool.name() == name));
        failed.extend(servers.iter().flat_map(|servers| servers.failed()));
        failed
    };
    Ok(Catalogue::new(list).with_failed(failed))
}

/// Returns whether a tool works now, or why not. Vault tools need an open vault, Gmail tools a
/// login in it.
fn status(canonical: &str, vault: &Vault) -> String {
    let of_gmail = canonical.starts_with("gmail_");
    if !of_gmail && !canonical.starts_with("vault_") {
        return "ready".to_owned();
    }
    if !of_gmail && !vault.exists() {
        return "unavailable: there is no vault; the user creates one with `handfast vault set NAME`"
            .to_owned();
    }
    match vault.contents() {
        Ok(contents) if of_gmail && !has_login(&contents) => NOT_LOGGED_IN.to_owned(),
        Ok(_) => "ready".to_owned(),
        Err(VaultError::NoVault) if of_gmail => NOT_LOGGED_IN.to_owned(),
        Err(VaultError::Locked) => LOCKED.to_owned(),
        Err(error @ (VaultError::Passphrase | VaultError::Key { .. } | VaultError::KeyFile { .. })) => {
            format!("locked: {error}")
        }
        Err(error) => format!("unavailable: {error}"),
    }
}
