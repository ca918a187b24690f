//! The promises, looked at when a story has ended.

mod authors;
mod federations;
mod members;
mod traces;

use std::collections::BTreeMap;
use std::sync::Arc;

use oscar_model::federation::record::{FederationRecord, Role};
use oscar_model::name::ServiceName;
use oscar_model::service::Sensitive;

use crate::ports::journal::Journal as _;
use crate::ports::services::{Entry, Scope, Services as _, Stored};

use super::ground::Ground;
use super::ledger::Spot;
use super::mint::PLANTED;
use super::story::Violation;

/// Everything that every cluster holds.
pub(super) struct End {
    pub(super) services: BTreeMap<Spot, (Arc<Stored>, Sensitive)>,
    pub(super) records: Vec<(usize, FederationRecord)>,
}

impl End {
    async fn read(ground: &Ground) -> Self {
        let (mut services, mut records) = (BTreeMap::new(), Vec::new());
        for (index, site) in ground.sites.iter().enumerate() {
            for entry in site.services.list(&Scope::All).await.unwrap_or_default() {
                if let Entry::Good(stored) = entry {
                    let name = stored.service.name().clone();
                    let sensitive = site.services.reveal(&name).await.unwrap_or_default();
                    services.insert((index, name), (stored, sensitive));
                }
            }
            let known = site.journal.federations().await.unwrap_or_default();
            records.extend(known.into_iter().map(|record| (index, record)));
        }
        Self { services, records }
    }

    /// Federations that live, by their coordinators.
    fn coordinated(&self) -> impl Iterator<Item = (usize, &FederationRecord)> {
        let living = self.records.iter().filter(|(_, record)| record.deleted.is_none());
        living.filter(|(_, record)| record.role == Role::Coordinator).map(|(site, record)| (*site, record))
    }

    fn at(&self, site: usize, name: &ServiceName) -> Option<&(Arc<Stored>, Sensitive)> {
        self.services.get(&(site, name.clone()))
    }
}

pub(super) async fn everything(ground: &Arc<Ground>) -> Vec<Violation> {
    let end = End::read(ground).await;
    let mut found = Vec::new();
    leaks(&end, &mut found);
    traces::check(ground, &end, &mut found).await;
    authors::check(ground, &end, &mut found);
    members::check(ground, &end, &mut found);
    federations::check(ground, &end, &mut found).await;
    found
}

fn leaks(end: &End, found: &mut Vec<Violation>) {
    for ((site, name), (stored, sensitive)) in &end.services {
        let shown = stored.service.definition.environment.secrets.values();
        if shown.chain(sensitive.environment.values()).any(|value| value.expose() == PLANTED) {
            let text = format!("it is stored with {name} at c{site}");
            found.push(Violation::new("I9: a refresh token is found nowhere but in its store", text));
        }
    }
}
