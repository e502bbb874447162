//! The principal of an agent, which can only become narrower while the agent works.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{Ceiling, Principal};
use parking_lot::Mutex;

use crate::agent_runtime::runtime::AgentRuntime;
use crate::failure::Failure;

/// The principal of an agent, shared by its requests and its calls.
pub(crate) struct AgentIdentity {
    principal: Mutex<Principal>,
    /// Providers whose labels have been looked up.
    providers: Mutex<BTreeSet<String>>,
    /// Profile of the last provider that is bound to one.
    profile: Mutex<Option<String>>,
}

impl AgentIdentity {
    /// Creates the identity of an agent.
    pub(crate) fn new(principal: Principal) -> Arc<Self> {
        let (providers, profile) = (Mutex::default(), Mutex::default());
        Arc::new(Self { principal: Mutex::new(principal), providers, profile })
    }

    /// Returns the principal of the next call.
    pub(crate) fn principal(&self) -> Principal {
        self.principal.lock().clone()
    }

    /// Puts all further calls under a ceiling, in addition to the limits before.
    pub(crate) fn narrow(&self, ceiling: &Ceiling) {
        let mut principal = self.principal.lock();
        *principal = principal.clone().within(ceiling);
    }

    /// Puts all further calls under the profile that a model's provider is bound to, in addition to the rules
    /// before: what one provider's model was denied, another one's model does not get. Returns the name of
    /// the profile; `None` if the provider is bound to none.
    ///
    /// # Errors
    /// If the configuration cannot be read.
    pub(crate) async fn bind(&self, parts: &AgentRuntime, model: &str) -> Result<Option<String>, Failure> {
        let Some((provider, _)) = model.split_once('/') else { return Ok(None) };
        if self.providers.lock().contains(provider) {
            return Ok(self.profile.lock().clone());
        }
        let (reload, store, label) = (parts.reload.clone(), parts.store.clone(), provider.to_owned());
        let found = tokio::task::spawn_blocking(move || reload.policy_of_label(store.as_ref(), &label));
        let found = found.await??;
        if let Some((profile, policy)) = found {
            self.narrow(&Ceiling::default().with_policy(Arc::new(policy)));
            *self.profile.lock() = Some(profile);
        }
        self.providers.lock().insert(provider.to_owned());
        Ok(self.profile.lock().clone())
    }
}
