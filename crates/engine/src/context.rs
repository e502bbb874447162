//! The context of a call: everything that its tool gets from the runtime.

use std::sync::Arc;

use tool::{Context, DecidedEffects, OfferedForms, OfferedModel, ToolError};
use vault::Vault;

use crate::call::Call;
use crate::cell_spec::CellSpecTask;
use crate::inner_calls::CallsWithin;
use crate::later_calls::CallsOnBehalf;
use crate::redact::CoveredProgress;
use crate::secrets::Secrets;
use crate::{Engine, commit_changes, hosts, snapshot};

impl Engine {
    /// Builds the context for one call.
    pub(crate) async fn context(
        self: &Arc<Self>,
        call: &Call,
        spec: &tool::Spec,
        before: &commit_changes::SavedState,
        cell: Option<CellSpecTask>,
    ) -> Result<Context, ToolError> {
        let mut services = self.services.clone();
        if spec.class.open_world {
            services.insert(Arc::new(hosts::HostGuard::of(self, call, spec.name)));
        }
        services.insert(Arc::new(CallsOnBehalf::of(self, call)));
        services.insert(Arc::new(CallsWithin::of(self, call, spec.lane)));
        if let Some(model) = &call.model {
            services.insert(Arc::new(OfferedModel(model.clone())));
        }
        if let Some(forms) = &call.forms {
            services.insert(Arc::new(OfferedForms(forms.clone())));
        }
        services.insert(Arc::new(match &call.dry_run {
            Some(tried) => self.roots_to_try(call, tried)?,
            None => call.reach(self).roots(&call.effects, call.approved_by.is_some(), before.covered())?,
        }));
        let vault = services.get::<Vault>().ok();
        services.insert(Arc::new(Secrets::of(vault, self.clock.clone(), &call.effects)));
        if let Some(source) = &call.lasting_cell {
            services.insert(source.clone());
            let effects = call.effects.iter().map(|part| part.effect.clone()).collect();
            services.insert(Arc::new(DecidedEffects(effects)));
        }
        let mut told = Vec::new();
        if let Some(specified) = cell {
            let specified = specified
                .await
                .map_err(|panic| ToolError::internal("the cell was not specified").because(panic))?;
            let specified = specified?;
            let overlay = before.snapshot().map(snapshot::Snapshot::overlay);
            let overlay_only = call.passed_as_undoable() || call.passed_as_reading();
            if let Some(snapshot) = before.snapshot() {
                snapshot.hide(&specified.hidden)?;
            }
            services.insert(Arc::new(sandbox::CellSpec { overlay, overlay_only, ..specified.cell }));
            services.insert(Arc::new(specified.host));
            told = specified.told;
        } else if let Some(snapshot) = before.snapshot() {
            services.insert(Arc::new(snapshot.draft()?));
        }
        let restored = before.snapshot().filter(|_| spec.lane != tool::Lane::Command);
        let draft = restored.map(snapshot::Snapshot::draft).transpose()?;
        self.hand_over_data(call, draft, &mut services);
        if let Some(sessions) = &self.sessions {
            if let Some(holder) = call.holder.as_ref().filter(|_| call.outlives_session) {
                sessions.add_holder(holder);
            }
            let shared = call.holder.as_ref().map(|holder| holder.0.clone());
            services.insert(Arc::new(sessions.of(&call.owner()).beside(shared)));
        }
        let mut context = Context::new(
            call.id.clone(),
            call.session.clone(),
            self.place.clone(),
            call.timeout,
            self.clock.clone(),
            services,
        );
        context.stop = call.stop.clone();
        context.shows_pictures = call.door.shows_pictures();
        context.progress =
            Arc::new(CoveredProgress { to: call.progress.clone(), redactor: self.redactor.clone() });
        for line in told {
            context.warn(line);
        }
        Ok(context)
    }
}
