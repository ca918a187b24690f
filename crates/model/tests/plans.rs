//! Plans on clusters made of nothing but a map: they reach what is wanted, their undo puts
//! everything back, and nothing of others is ever touched.

use std::collections::BTreeMap;

use oscar_model::federation::expand::{FEDERATION_ID_ANNOTATION, Worker};
use oscar_model::federation::plan::{Act, Found, Obstacle, Origination, Plan, Step, Undo, plan};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;
use oscar_model::service::Definition;
use proptest::prelude::*;

const US: &str = "this-federation";

fn id(index: usize) -> MemberId {
    let service_name = ServiceName::parse(&format!("replica-{index}")).expect("valid");
    MemberId { cluster_id: format!("cluster-{index}"), service_name }
}

/// What one cluster holds under the replica's name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    owner: &'static str,
    definition: Definition,
    /// What it was before this federation took it over.
    former: Option<Box<Definition>>,
}

type Clusters = BTreeMap<MemberId, Option<Held>>;

fn mk_definition(index: usize, image: u8) -> Definition {
    Definition::new(id(index).service_name, &format!("image-{image}"), "script")
}

fn mk_worker(index: usize, image: u8) -> Worker {
    let mut definition = mk_definition(index, image);
    definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), US.to_owned());
    Worker { id: id(index), definition }
}

fn held(index: usize) -> impl Strategy<Value = Option<Held>> {
    let definition = move |image: u8, federation: Option<&str>| {
        let mut definition = mk_definition(index, image);
        if let Some(federation) = federation {
            definition.annotations.insert(FEDERATION_ID_ANNOTATION.to_owned(), federation.to_owned());
        }
        definition
    };
    prop_oneof![
        Just(None),
        (0u8..3).prop_map(move |image| Some(Held { owner: "me", definition: definition(image, None), former: None })),
        (0u8..3).prop_map(move |image| Some(Held {
            owner: "me",
            definition: definition(image, Some(US)),
            former: None
        })),
        (0u8..3).prop_map(move |image| Some(Held {
            owner: "me",
            definition: definition(image, Some(US)),
            former: Some(Box::new(definition(9, None)))
        })),
        (0u8..3).prop_map(move |image| Some(Held {
            owner: "me",
            definition: definition(image, Some("other")),
            former: None
        })),
        (0u8..3).prop_map(move |image| Some(Held { owner: "you", definition: definition(image, None), former: None })),
    ]
}

fn look(held: Option<&Held>) -> Found {
    let Some(held) = held else { return Found::Nothing };
    if held.owner != "me" {
        return Found::SomebodyElses;
    }
    match held.definition.annotations.get(FEDERATION_ID_ANNOTATION).map(String::as_str) {
        None => Found::Plain(Box::new(held.definition.clone())),
        Some(US) => Found::Replica {
            origination: if held.former.is_some() { Origination::Adopted } else { Origination::Created },
            definition: Box::new(held.definition.clone()),
        },
        Some(_) => Found::OtherFederation,
    }
}

fn run(clusters: &mut Clusters, step: &Step) {
    let slot = clusters.get_mut(&step.member).expect("known");
    let definition = || *step.definition.clone().expect("something is written");
    *slot = match (step.act, slot.take()) {
        (Act::Create, None) => Some(Held { owner: "me", definition: definition(), former: None }),
        (Act::Adopt, Some(held)) => {
            Some(Held { owner: held.owner, definition: definition(), former: Some(Box::new(held.definition)) })
        }
        (Act::Update, Some(held)) => Some(Held { definition: definition(), ..held }),
        (Act::Delete, Some(held)) => {
            assert!(held.former.is_none() && held.owner == "me", "only what we created is deleted");
            None
        }
        (Act::Release, Some(held)) => {
            let former = held.former.expect("only what we adopted is given back");
            Some(Held { owner: held.owner, definition: *former, former: None })
        }
        (act, held) => panic!("{act:?} cannot be done on {held:?}"),
    };
}

/// Takes a step back, given what the member kept under the operation.
fn undo(clusters: &mut Clusters, step: &Step, kept: Option<Held>) {
    let restored = match step.undo {
        Undo::DeleteCreated => None,
        Undo::RestoreFormer => kept,
    };
    clusters.insert(step.member.clone(), restored);
}

fn scenes() -> impl Strategy<Value = (Clusters, Vec<Worker>)> {
    (1usize..6).prop_flat_map(|count| {
        let clusters = (0..count).map(held).collect::<Vec<_>>();
        let wanted = prop::collection::vec(prop::option::of(0u8..3), count);
        (clusters, wanted).prop_map(|(clusters, wanted)| {
            let clusters = clusters.into_iter().enumerate().map(|(index, held)| (id(index), held)).collect();
            let wanted = wanted.into_iter().enumerate().filter_map(|(index, image)| Some(mk_worker(index, image?)));
            (clusters, wanted.collect())
        })
    })
}

fn found(clusters: &Clusters) -> BTreeMap<MemberId, Found> {
    clusters.iter().map(|(id, held)| (id.clone(), look(held.as_ref()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_plan_reaches_what_is_wanted_and_then_there_is_nothing_to_do((start, wanted) in scenes()) {
        let mut clusters = start.clone();
        let planned = plan(&wanted, &found(&clusters));
        for step in &planned.steps {
            run(&mut clusters, step);
        }
        let again = plan(&wanted, &found(&clusters));
        prop_assert_eq!(again.steps, Vec::<Step>::new(), "an idle federation makes no write");
        for worker in wanted.iter().filter(|worker| !planned.obstacles.contains_key(&worker.id)) {
            let held = clusters[&worker.id].as_ref().expect("deployed");
            prop_assert_eq!(&held.definition, &worker.definition);
        }
        for (id, before) in &start {
            let foreign = matches!(look(before.as_ref()), Found::SomebodyElses | Found::OtherFederation);
            prop_assert!(!foreign || clusters[id] == *before, "what is not ours is untouched");
        }
    }

    #[test]
    fn undoing_after_any_step_puts_everything_back((start, wanted) in scenes(), stop in any::<prop::sample::Index>()) {
        let planned = plan(&wanted, &found(&start));
        let done = stop.index(planned.steps.len() + 1);
        let mut clusters = start.clone();
        let mut kept = Vec::new();
        for step in &planned.steps[..done] {
            kept.push((step.clone(), clusters[&step.member].clone()));
            run(&mut clusters, step);
        }
        for (step, held) in kept.into_iter().rev() {
            undo(&mut clusters, &step, held);
        }
        prop_assert_eq!(clusters, start);
    }
}

#[test]
fn a_member_that_cannot_be_reached_blocks_a_create_and_is_named() {
    let wanted = [mk_worker(0, 0), mk_worker(1, 0)];
    let found = BTreeMap::from([(id(0), Found::Nothing), (id(1), Found::Unreachable("no route".to_owned()))]);
    let Plan { steps, obstacles } = plan(&wanted, &found);
    assert_eq!(steps.len(), 1);
    assert_eq!(obstacles, BTreeMap::from([(id(1), Obstacle::Unreachable("no route".to_owned()))]));
}
