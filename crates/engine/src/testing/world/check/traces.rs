//! Nothing is left of what has ended.

use std::sync::Arc;

use oscar_model::federation::expand::OPERATION_ANNOTATION;
use oscar_model::federation::record::Role;

use crate::federate::federation_of;
use crate::ports::journal::Journal as _;

use super::super::ground::Ground;
use super::super::stores::short;
use super::super::story::Violation;
use super::End;

const PROMISE: &str = "I8, I10: nothing is left of what has ended";

pub(super) async fn check(ground: &Arc<Ground>, end: &End, found: &mut Vec<Violation>) {
    let mut say = |text: String| found.push(Violation::new(PROMISE, text));
    for (index, site) in ground.sites.iter().enumerate() {
        for operation in site.journal.operations().await.unwrap_or_default() {
            say(format!("operation {} of {} at c{index} is open", short(&operation.id), operation.coordinator));
        }
        for (name, label) in site.journal.formers().await.unwrap_or_default() {
            let needed = end.at(index, &name).is_some_and(|(stored, _)| {
                let definition = &stored.service.definition;
                let operation = definition.annotations.get(OPERATION_ANNOTATION);
                definition.is_worker()
                    && (label == format!("adopted:{}", federation_of(definition)) || operation == Some(&label))
            });
            if !needed {
                say(format!("what {name} at c{index} was before {} is still kept", short(&label)));
            }
        }
    }
    for (site, record) in &end.records {
        let name = &record.own.service_name;
        let id = short(&record.federation_id);
        if record.deleted.is_some() {
            say(format!("federation {id} of {name} at c{site} was deleted and is still there"));
            continue;
        }
        if !record.leaving.is_empty() {
            let members: Vec<String> = record.leaving.keys().map(ToString::to_string).collect();
            say(format!("federation {id} of {name} at c{site} still sees off {}", members.join(", ")));
        }
        let definition = end.at(*site, name).map(|(stored, _)| &stored.service.definition);
        let worker = matches!(record.role, Role::Worker { .. });
        let fits = definition.is_some_and(|definition| {
            federation_of(definition) == record.federation_id && definition.is_worker() == worker
        });
        if !fits {
            say(format!("c{site} remembers federation {id} of {name}, which is not in it"));
        }
    }
}
