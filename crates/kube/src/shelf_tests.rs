use proptest::prelude::*;

use super::*;

fn stamp(uid: u64, version: u64) -> Stamp {
    Stamp { uid: format!("u{uid}"), version: version.to_string() }
}

fn key() -> Key {
    Key::new("ns", "a")
}

#[test]
fn an_event_that_is_older_than_our_write_changes_nothing() {
    let mut shelf = Shelf::default();
    assert!(shelf.applied(key(), stamp(1, 5), "five"));
    let ticket = shelf.begin_write();
    assert_eq!(shelf.wrote(&ticket, key(), stamp(1, 9), "nine"), Certainty::Sure);
    shelf.end_write(ticket);
    assert!(!shelf.applied(key(), stamp(1, 7), "seven"));
    assert_eq!(shelf.get(&key()), Some(&"nine"));
    // Ten is larger than nine, though not as text.
    assert!(shelf.applied(key(), stamp(1, 10), "ten"));
    assert_eq!(shelf.get(&key()), Some(&"ten"));
}

#[test]
fn what_we_removed_does_not_come_back_with_a_late_event() {
    let mut shelf = Shelf::default();
    shelf.applied(key(), stamp(1, 5), "five");
    let ticket = shelf.begin_write();
    shelf.gone(&key(), stamp(1, 5));
    shelf.end_write(ticket);
    assert!(!shelf.applied(key(), stamp(1, 6), "late"));
    assert!(shelf.applied(key(), stamp(2, 8), "another"));
    assert!(!shelf.deleted(&key(), &stamp(1, 7)));
    assert_eq!(shelf.get(&key()), Some(&"another"));
    assert!(shelf.removed.is_empty(), "the watch has told the end");
}

#[test]
fn a_relist_keeps_what_was_written_after_it_began() {
    let mut shelf = Shelf::default();
    shelf.applied(key(), stamp(1, 5), "five");
    shelf.begin();
    let ticket = shelf.begin_write();
    assert_eq!(shelf.wrote(&ticket, Key::new("ns", "b"), stamp(2, 6), "new"), Certainty::Sure);
    assert_eq!(shelf.wrote(&ticket, key(), stamp(1, 7), "seven"), Certainty::Sure);
    shelf.end_write(ticket);
    shelf.listed(key(), stamp(1, 5), "five");
    assert_eq!(shelf.finish(), (vec![], Certainty::Unsure), "one that we wrote was not listed");
    assert_eq!(shelf.get(&key()), Some(&"seven"));
    assert_eq!(shelf.get(&Key::new("ns", "b")), Some(&"new"));
    shelf.begin();
    let (changed, _) = shelf.finish();
    assert_eq!(changed.len(), 2, "an empty list empties the shelf");
}

#[test]
fn a_relist_is_believed_also_when_versions_start_over() {
    let mut shelf = Shelf::default();
    shelf.applied(key(), stamp(1, 500), "before the restore");
    shelf.begin();
    shelf.listed(key(), stamp(1, 20), "after");
    assert_eq!(shelf.finish(), (vec![key()], Certainty::Sure));
    assert_eq!(shelf.get(&key()), Some(&"after"));
}

#[test]
fn leaving_the_selection_and_coming_back_is_no_death() {
    let mut shelf = Shelf::default();
    shelf.applied(key(), stamp(1, 5), "labelled");
    assert!(shelf.deleted(&key(), &stamp(1, 6)));
    assert!(shelf.applied(key(), stamp(1, 7), "labelled again"));
    assert_eq!(shelf.get(&key()), Some(&"labelled again"));
}

/// One thing that happens to one name in the real store, or to our view of it.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Somebody else makes, changes or removes it.
    Theirs(bool),
    /// We make, change or remove it; the answer is not here yet.
    Ours(bool),
    /// The answer of our oldest unanswered write arrives.
    Answer,
    /// The watch delivers its next event.
    Event,
    /// The watch starts over; it lists what is true when the list is made.
    Begin,
    List,
    Finish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => any::<bool>().prop_map(Step::Theirs),
        3 => any::<bool>().prop_map(Step::Ours),
        4 => Just(Step::Answer),
        5 => Just(Step::Event),
        1 => Just(Step::Begin),
        2 => Just(Step::List),
        2 => Just(Step::Finish),
    ];
    proptest::collection::vec(step, 1..60)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Put {
        uid: u64,
        version: u64,
    },
    /// With the last version before it, which is what one who removes it has read.
    Gone {
        uid: u64,
        known: u64,
        version: u64,
    },
}

impl Change {
    fn version(self) -> u64 {
        match self {
            Self::Put { version, .. } | Self::Gone { version, .. } => version,
        }
    }
}

#[derive(Default, PartialEq)]
enum Relist {
    #[default]
    Over,
    Begun,
    /// What was true after so many changes was listed.
    Listed(usize),
}

#[derive(Default)]
struct Simulated {
    shelf: Shelf<u64>,
    log: Vec<Change>,
    live: Option<(u64, u64)>,
    next: u64,
    /// How much of the log the watch delivered.
    delivered: usize,
    answers: std::collections::VecDeque<(Ticket, Change)>,
    relist: Relist,
    unsure: bool,
}

impl Simulated {
    fn change(&mut self, remove: bool) -> Option<Change> {
        self.next += 1;
        let version = self.next;
        let change = match (self.live, remove) {
            (None, true) => return None,
            (Some((uid, known)), true) => {
                self.live = None;
                Change::Gone { uid, known, version }
            }
            (live, false) => {
                let uid = live.map_or(version, |(uid, _)| uid);
                self.live = Some((uid, version));
                Change::Put { uid, version }
            }
        };
        self.log.push(change);
        Some(change)
    }

    fn answer(&mut self) {
        let Some((ticket, change)) = self.answers.pop_front() else { return };
        match change {
            Change::Put { uid, version } => {
                if self.shelf.wrote(&ticket, key(), stamp(uid, version), version) == Certainty::Unsure {
                    self.unsure = true;
                }
                self.shelf.end_write(ticket);
                // Read your writes: nothing older than what we were told is shown, unless
                // something later was.
                if let Some(shown) = self.shelf.get(&key()) {
                    assert!(*shown >= version, "shown {shown}, written {version}");
                }
            }
            Change::Gone { uid, known, version } => {
                self.shelf.gone(&key(), stamp(uid, known));
                self.shelf.end_write(ticket);
                if let Some(shown) = self.shelf.get(&key()) {
                    assert!(*shown > version, "shown {shown}, removed at {version}");
                }
            }
        }
    }

    fn event(&mut self) {
        if self.relist != Relist::Over || self.delivered == self.log.len() {
            return;
        }
        match self.log[self.delivered] {
            Change::Put { uid, version } => self.shelf.applied(key(), stamp(uid, version), version),
            Change::Gone { uid, version, .. } => self.shelf.deleted(&key(), &stamp(uid, version)),
        };
        self.delivered += 1;
    }

    fn begin(&mut self) {
        self.shelf.begin();
        self.relist = Relist::Begun;
        self.unsure = false;
    }

    fn list(&mut self) {
        if self.relist != Relist::Begun {
            return;
        }
        if let Some((uid, version)) = self.live {
            self.shelf.listed(key(), stamp(uid, version), version);
        }
        self.relist = Relist::Listed(self.log.len());
    }

    fn finish(&mut self) {
        if let Relist::Listed(upto) = self.relist {
            self.unsure |= self.shelf.finish().1 == Certainty::Unsure;
            self.delivered = upto;
            self.relist = Relist::Over;
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Theirs(remove) => {
                self.change(remove);
            }
            // One name is changed by one of us at a time.
            Step::Ours(_) if !self.answers.is_empty() => {}
            Step::Ours(remove) => {
                let ticket = self.shelf.begin_write();
                match self.change(remove) {
                    Some(change) => self.answers.push_back((ticket, change)),
                    None => self.shelf.end_write(ticket),
                }
            }
            Step::Answer => self.answer(),
            Step::Event => self.event(),
            Step::Begin => self.begin(),
            Step::List => self.list(),
            Step::Finish => self.finish(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn when_all_is_told_the_shelf_shows_the_truth(steps in steps()) {
        let mut world = Simulated::default();
        for step in steps {
            world.run(step);
        }
        while !world.answers.is_empty() {
            world.answer();
        }
        if world.relist != Relist::Over || world.unsure {
            // What a doubt asks the watch to do.
            world.begin();
            world.list();
            world.finish();
        }
        while world.delivered < world.log.len() {
            world.event();
        }
        prop_assert_eq!(world.shelf.get(&key()).copied(), world.live.map(|(_, version)| version), "{:?}", world.log);
        prop_assert!(world.log.iter().all(|change| change.version() > 0));
    }
}
