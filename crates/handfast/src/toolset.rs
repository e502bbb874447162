//! The tools of a runtime: all that there are, as the chosen dialect has them, and which of them are listed.

use std::path::Path;
use std::sync::Arc;

use database::Databases;
use dialects::{CatalogueKind, Dialect, OnlyTried, SettledLimits, ToolCall};
use jiff::Timestamp;
use policy::{CommandsSee, Programs};
use tool::{AnyTool, Catalogue, CatalogueEntry};
use tools_data::SkillFolders;
use tools_knowledge::KnowledgeBase;
use tools_work::{Gmail, Linear, oauth};
use vault::{Vault, VaultError};

use crate::toolchains;

/// When the built-in tools of this version became part of it.
const RELEASED: &str = "2026-11-21T00:00:00Z";

/// What tools are made with.
pub(crate) struct Needed {
    /// The databases of the workspace.
    pub(crate) databases: Arc<Databases>,
    /// Where skills lie beside the workspace.
    pub(crate) skills: SkillFolders,
    /// The knowledge of the workspace.
    pub(crate) knowledge: Arc<KnowledgeBase>,
    /// Where Linear is, and whose key opens it.
    pub(crate) linear: Linear,
    /// Where Gmail is.
    pub(crate) gmail: Gmail,
}

/// Every canonical tool, in the order in which they are listed.
pub(crate) fn canonical(needed: &Needed) -> Vec<Arc<dyn AnyTool>> {
    let families = [
        tools_files::tools(),
        tools_shell::tools(),
        tools_web::tools(),
        tools_data::tools(&needed.databases, &needed.skills),
        tools_knowledge::tools(&needed.knowledge),
        tools_work::tools(needed.linear.clone(), &needed.gmail),
        tools_self::tools(),
        vec![ToolCall::tool()],
    ];
    families.concat()
}

/// What a configuration says about the tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Toolset {
    /// The names and shapes.
    pub(crate) dialect: Dialect,
    /// Which are listed, where somebody says so.
    pub(crate) catalogue: Option<CatalogueKind>,
    /// Whether those that do more than read are left out.
    pub(crate) read_only: bool,
    /// Whether calls change nothing.
    pub(crate) dry_run: bool,
}

impl Toolset {
    /// Every tool as the dialect has it, in the order in which they are listed.
    pub(crate) fn tools(
        self,
        programs: &Programs,
        workspace: &Path,
        needed: &Needed,
    ) -> Vec<Arc<dyn AnyTool>> {
        let mut canonical = canonical(needed);
        if self.read_only {
            canonical
                .retain(|tool| tool.spec().class.reads_only || CatalogueKind::Compact.lists(tool.as_ref()));
        }
        let canonical = self.tried(canonical);
        if self.dialect == Dialect::Handfast {
            return canonical;
        }
        let (programs, workspace) = (programs.clone(), workspace.to_owned());
        let told = Arc::new(move || toolchains::told(&programs, &workspace));
        let mut tools = self.dialect.tools(&canonical, &(told as _));
        tools.extend(canonical.into_iter().filter(|tool| CatalogueKind::Compact.lists(tool.as_ref())));
        tools
    }

    /// These tools, only tried where calls change nothing.
    pub(crate) fn tried(self, tools: Vec<Arc<dyn AnyTool>>) -> Vec<Arc<dyn AnyTool>> {
        if !self.dry_run {
            return tools;
        }
        let hands_on = |tool: &Arc<dyn AnyTool>| CatalogueKind::Compact.lists(tool.as_ref());
        tools
            .into_iter()
            .filter_map(|tool| if hands_on(&tool) { Some(tool) } else { OnlyTried::tool(tool) })
            .collect()
    }

    /// Which tools a client is shown. An agent of another source looks for that source's tools, so it is shown all of them.
    pub(crate) fn listed(self) -> CatalogueKind {
        let unless_told = match self.dialect {
            Dialect::Handfast => CatalogueKind::Core,
            _ => CatalogueKind::Full,
        };
        self.catalogue.unwrap_or(unless_told)
    }

    /// Whether people are shown the tool: all of them, unless one catalogue is asked for.
    pub(crate) fn shows(self, tool: &dyn AnyTool) -> bool {
        self.catalogue.map_or_else(|| self.dialect.shows(tool), |kind| kind.lists(tool))
    }

    /// What the dialect settles about decisions, in the words of the policy.
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

/// The same tools for those among them that list tools, in their words of the moment.
///
/// # Errors
/// Where the time of their release is none.
pub(crate) fn catalogue(
    tools: &[Arc<dyn AnyTool>],
    dialect: Dialect,
    vault: Arc<Vault>,
) -> Result<Catalogue, jiff::Error> {
    let created_at: Timestamp = RELEASED.parse()?;
    let tools: Vec<_> = tools.iter().filter(|tool| dialect.shows(tool.as_ref())).cloned().collect();
    let entry = move |tool: &Arc<dyn AnyTool>| CatalogueEntry {
        name: tool.name().to_owned(),
        title: tool.spec().title.to_owned(),
        kind: "built_in",
        description: tool.description().into_owned(),
        level: tool.spec().level,
        status: status(tool.spec().name, &vault),
        created_at,
        input_schema: tool.input_schema().clone(),
        example: tool.spec().example.arguments.to_owned(),
    };
    Ok(Catalogue::new(move || tools.iter().map(&entry).collect()))
}

/// Whether a tool works now, or why not: those of the vault need it open, those of Gmail a login in it.
fn status(canonical: &str, vault: &Vault) -> String {
    let of_gmail = canonical.starts_with("gmail_");
    if !of_gmail && !canonical.starts_with("vault_") {
        return "ready".to_owned();
    }
    if !of_gmail && !vault.exists() {
        return "unavailable: there is no vault; the user makes one with `handfast vault set NAME`"
            .to_owned();
    }
    match vault.contents() {
        Ok(contents) if of_gmail && contents.get(oauth::LOGIN).is_none() => {
            "unavailable: there is no login; the user makes one with `handfast login gmail`".to_owned()
        }
        Ok(_) => "ready".to_owned(),
        Err(VaultError::NoVault) if of_gmail => {
            "unavailable: there is no login; the user makes one with `handfast login gmail`".to_owned()
        }
        Err(error) => format!("unavailable: {error}"),
    }
}
