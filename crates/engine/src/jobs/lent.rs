//! Stores that the operator lends to services. Their credentials are told to attempts alone:
//! they stand in no record and in no answer.

use std::sync::Arc;

use oscar_model::service::Service;

use super::Dispatcher;

impl Dispatcher {
    /// The service as an attempt is told of it: with the operator's providers that it names
    /// without saying what they are.
    pub(super) fn with_lent_providers(&self, mut service: Arc<Service>) -> Arc<Service> {
        let definition = &service.definition;
        let named = definition.input.iter().chain(&definition.output).chain(&definition.mount);
        let lent: Vec<_> = named
            .map(|io| &io.provider)
            // A provider of the user's own goes before the operator's of the same name.
            .filter(|id| !id.is_own_store() && !definition.storage_providers.contains_key(*id))
            .filter_map(|id| Some((id.clone(), self.policy.providers.get(id)?.clone())))
            .collect();
        if !lent.is_empty() {
            Arc::make_mut(&mut service).definition.storage_providers.extend(lent);
        }
        service
    }
}
