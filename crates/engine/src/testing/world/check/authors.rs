//! Every definition is what its last author wrote, and what was given back is as it was.

use std::sync::Arc;

use oscar_model::federation::expand::REFRESH_TOKEN;

use crate::federate::federation_of;

use super::super::acts::{AUTHOR, KEY, KEY_AUTHOR, image_of, key_of};
use super::super::ground::Ground;
use super::super::ledger::{Entry, Ledger, Outcome, Spot};
use super::super::story::Violation;
use super::End;

pub(super) fn check(ground: &Arc<Ground>, end: &End, found: &mut Vec<Violation>) {
    let ledger = ground.ledger();
    // What was not created is nowhere.
    for ((site, name), (stored, _)) in &end.services {
        let author = number(stored.service.definition.labels.get(AUTHOR));
        let entry = author.and_then(|number| ledger.entries.get(number));
        if let Some(entry) = entry
            && let Outcome::Refused(why) = &entry.outcome
        {
            let text = format!("{name} at c{site} is what deed #{} wrote, which failed: {why}", author.unwrap_or(0));
            found.push(Violation::new("I4: a change that failed leaves every cluster as it was", text));
        }
    }
    let spots: std::collections::BTreeSet<Spot> =
        ledger.entries.iter().filter(|entry| entry.authors).map(|entry| entry.spot.clone()).collect();
    for spot in spots {
        let of_it = spot.clone();
        let words = ledger.last_words(move |entry| entry.spot == of_it && (entry.authors || entry.removes));
        let (mut authors, mut may_be_gone, mut must_be_there) = (Vec::new(), false, false);
        for (number, entry) in words {
            if entry.authors {
                authors.push(entry.marks.unwrap_or(number));
                must_be_there |= entry.outcome == Outcome::Done;
            } else {
                may_be_gone = true;
            }
        }
        let (site, name) = &spot;
        match end.at(*site, name) {
            None if must_be_there && !may_be_gone => {
                let text = format!("{name} at c{site} is gone, and nobody removed it");
                found.push(Violation::new("I3: nothing is deleted that the federation did not create", text));
            }
            Some((stored, _)) if !stored.service.definition.is_worker() => {
                let author = number(stored.service.definition.labels.get(AUTHOR));
                let known = author.is_some_and(|author| authors.contains(&author));
                // A replica that was let go keeps what its coordinator wrote.
                let own = author.and_then(|author| ledger.entries.get(author)).is_some_and(|e| e.spot == spot);
                if own && !known {
                    let text = format!("{name} at c{site} is what #{author:?} wrote, not one of {authors:?}");
                    found.push(Violation::new("I4: what was acknowledged stays", text));
                }
                if !own && !known && must_be_there && !may_be_gone {
                    let text = format!("{name} at c{site} is what #{author:?} wrote, which was never given back");
                    found.push(Violation::new("I4: adopted services come back as they were", text));
                }
            }
            _ => {}
        }
    }
    contents(&ledger, end, found);
}

/// A definition is wholly that of one author: image, secret, and nothing of a federation.
fn contents(ledger: &Ledger, end: &End, found: &mut Vec<Violation>) {
    for ((site, name), (stored, sensitive)) in &end.services {
        let definition = &stored.service.definition;
        let Some(author) = number(definition.labels.get(AUTHOR)) else { continue };
        let Some(key) = number(definition.labels.get(KEY_AUTHOR)) else { continue };
        let value = sensitive.environment.get(KEY);
        let wrote = ledger.entries.get(author);
        // The secret alone may have been changed since, by somebody who wrote there.
        let later = |number: usize, entry: &Entry| {
            let here = entry.spot == (*site, name.clone());
            let of = |author: Option<&Entry>| author.is_some_and(|author| author.spot == entry.spot);
            (here || of(wrote) || of(ledger.entries.get(key))) && value == Some(&key_of(number))
        };
        let changed = ledger.entries.iter().enumerate().any(|(number, entry)| later(number, entry));
        let good = value == Some(&key_of(key)) || changed;
        // What somebody changed in the store and the federation then let go is his.
        let image = definition.image == image_of(author) || (definition.image == "drifted" && !definition.is_worker());
        if !image || !good {
            let text = format!("{name} at c{site} has image {} of #{author}, secret of #{key}", definition.image);
            found.push(Violation::new("I4: a definition is whole, secrets included", text));
        }
        let plain = federation_of(definition).is_empty();
        let marks = definition.is_worker() || definition.annotations.keys().any(|key| key.contains("origin-"));
        if plain && marks {
            let text = format!("{name} at c{site} is in no federation and has marks of one");
            found.push(Violation::new("I8: no orphans", text));
        }
        let others: Vec<&String> =
            sensitive.environment.keys().filter(|key| *key != KEY && *key != REFRESH_TOKEN).collect();
        if !others.is_empty() {
            let text = format!("{name} at c{site} has the secrets {others:?}");
            found.push(Violation::new("I4: a definition is whole, secrets included", text));
        }
    }
}

fn number(label: Option<&String>) -> Option<usize> {
    label.and_then(|label| label.parse().ok())
}
