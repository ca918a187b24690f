//! How a job may move.

use super::{Job, MOST_ATTEMPTS, MOST_RUNS, Millis, Need, Output, Phase, Step};

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It waits here.
    Queue {
        reason: String,
    },
    /// It was given room; a new attempt begins.
    Start {
        reason: String,
        access_key: String,
        /// What it holds from now on: its service may have been changed while it waited.
        need: Need,
    },
    Running {
        attempt: u32,
    },
    /// The attempt ended well, and it is the one whose outputs count. They are put in their
    /// place next.
    Decide {
        attempt: u32,
        outputs: Vec<Output>,
    },
    /// The outputs cannot be put in their place yet. After so much time they never are.
    Hinder {
        attempt: u32,
        reason: String,
        patience: Millis,
    },
    /// The outputs are in their place.
    Succeed {
        attempt: u32,
    },
    Fail {
        attempt: u32,
        exit_code: Option<i32>,
        reason: String,
    },
    /// The attempt could not begin, or vanished: it is tried again, or given up.
    Vanish {
        attempt: u32,
        reason: String,
    },
    /// The attempt ended for want of room, which says nothing of the job: it is tried again, for so
    /// much time in all.
    Rest {
        attempt: u32,
        reason: String,
        patience: Millis,
    },
    /// Somebody wants it ended. One that holds room ends when its attempt has.
    Cancel {
        by: String,
    },
    /// Nobody wants to know of it any more.
    Forget,
    /// The attempt of a job that was to be ended has ended.
    Cancelled {
        attempt: u32,
    },
    /// No room will ever be enough, or its service is gone.
    Refuse {
        reason: String,
    },
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The job has ended.
    Over,
    /// It is about a former attempt.
    Stale,
    /// It does not follow on where the job is.
    OutOfOrder,
}

impl Job {
    /// The job after the event; `Err` when it changes nothing.
    pub fn apply(&self, event: Event, at: Millis) -> Result<Self, Refused> {
        let mut job = self.clone();
        job.step(event, at)?;
        job.version += 1;
        Ok(job)
    }

    fn step(&mut self, event: Event, at: Millis) -> Result<(), Refused> {
        if self.phase.is_final() {
            return Err(Refused::Over);
        }
        match event {
            Event::Queue { reason } => {
                self.only_in(&[Phase::Accepted])?;
                self.enter(Phase::Queued, reason, at);
            }
            Event::Start { reason, access_key, need } => {
                self.only_in(&[Phase::Accepted, Phase::Queued])?;
                self.attempt += 1;
                self.access_key = access_key;
                self.need = need;
                self.enter(Phase::Starting, reason, at);
            }
            Event::Running { attempt } => {
                self.of_present(attempt)?;
                self.only_in(&[Phase::Starting])?;
                self.enter(Phase::Running, String::new(), at);
            }
            Event::Decide { attempt, outputs } => {
                self.of_present(attempt)?;
                self.only_in(&[Phase::Starting, Phase::Running])?;
                if self.cancelling || !self.outputs.is_empty() {
                    return Err(Refused::OutOfOrder);
                }
                self.outputs = outputs;
                self.rests.since = None;
            }
            Event::Hinder { attempt, reason, patience } => self.hinder(attempt, reason, patience, at)?,
            Event::Succeed { attempt } => {
                self.of_present(attempt)?;
                self.only_in(&[Phase::Starting, Phase::Running])?;
                self.exit_code = Some(0);
                self.enter(Phase::Succeeded, String::new(), at);
            }
            Event::Fail { attempt, exit_code, reason } => {
                self.of_present(attempt)?;
                self.only_in(&[Phase::Starting, Phase::Running])?;
                self.exit_code = exit_code;
                self.enter(Phase::Failed, reason, at);
            }
            Event::Vanish { attempt, reason } => self.vanish(attempt, reason, at)?,
            Event::Rest { attempt, reason, patience } => self.rest(attempt, reason, patience, at)?,
            Event::Cancel { by } => self.cancel(&by, at)?,
            Event::Forget if self.forgetting => return Err(Refused::OutOfOrder),
            Event::Forget => self.forgetting = true,
            Event::Cancelled { attempt } => {
                self.of_present(attempt)?;
                self.only_in(&[Phase::Starting, Phase::Running])?;
                self.enter(Phase::Cancelled, self.ended_on_request().to_owned(), at);
            }
            Event::Refuse { reason } => {
                self.only_in(&[Phase::Accepted, Phase::Queued])?;
                self.enter(Phase::Failed, reason, at);
            }
        }
        Ok(())
    }

    fn vanish(&mut self, attempt: u32, reason: String, at: Millis) -> Result<(), Refused> {
        self.undecided(attempt)?;
        let counted = attempt.saturating_sub(self.rests.attempts);
        if self.cancelling {
            self.enter(Phase::Cancelled, self.ended_on_request().to_owned(), at);
        } else if counted >= MOST_ATTEMPTS || self.runs() >= MOST_RUNS {
            self.enter(Phase::Lost, reason, at);
        } else {
            self.enter(Phase::Queued, reason, at);
        }
        Ok(())
    }

    /// The story tells of such attempts in one step, however many there are: the last.
    fn rest(&mut self, attempt: u32, reason: String, patience: Millis, at: Millis) -> Result<(), Refused> {
        self.undecided(attempt)?;
        let since = *self.rests.since.get_or_insert(at);
        if self.cancelling {
            self.enter(Phase::Cancelled, self.ended_on_request().to_owned(), at);
        } else if at.saturating_sub(since) >= patience {
            self.enter(Phase::Failed, reason, at);
        } else {
            self.story.retain(|step| step.attempt != attempt);
            if self.rests.last > 0 && self.rests.last + 1 == attempt {
                self.story.pop();
            }
            self.rests.last = attempt;
            self.rests.attempts += 1;
            let reason = match self.rests.attempts {
                1 => reason,
                more => format!("{reason} ({more} attempts ended for want of room)"),
            };
            self.enter(Phase::Queued, reason, at);
        }
        Ok(())
    }

    fn hinder(&mut self, attempt: u32, reason: String, patience: Millis, at: Millis) -> Result<(), Refused> {
        self.of_present(attempt)?;
        self.only_in(&[Phase::Starting, Phase::Running])?;
        match self.rests.since {
            _ if self.outputs.is_empty() => return Err(Refused::OutOfOrder),
            None => {
                self.rests.since = Some(at);
                self.enter(self.phase, reason, at);
            }
            Some(since) if at.saturating_sub(since) >= patience => {
                self.exit_code = Some(0);
                self.enter(Phase::Failed, reason, at);
            }
            // Told already.
            Some(_) => return Err(Refused::OutOfOrder),
        }
        Ok(())
    }

    fn cancel(&mut self, by: &str, at: Millis) -> Result<(), Refused> {
        let reason = format!("cancelled by {by}");
        if !self.phase.is_active() {
            self.enter(Phase::Cancelled, reason, at);
        } else if self.cancelling {
            return Err(Refused::OutOfOrder);
        } else {
            self.cancelling = true;
            let phase = self.phase;
            self.enter(phase, reason, at);
        }
        Ok(())
    }

    fn ended_on_request(&self) -> &'static str {
        if self.outputs.is_empty() {
            "ended on request"
        } else {
            "ended on request when its script had ended; outputs that were in their place by then stay there"
        }
    }

    /// What was decided needs no attempt any more.
    fn undecided(&self, attempt: u32) -> Result<(), Refused> {
        self.of_present(attempt)?;
        self.only_in(&[Phase::Starting, Phase::Running])?;
        if self.outputs.is_empty() { Ok(()) } else { Err(Refused::OutOfOrder) }
    }

    fn only_in(&self, phases: &[Phase]) -> Result<(), Refused> {
        if phases.contains(&self.phase) { Ok(()) } else { Err(Refused::OutOfOrder) }
    }

    fn of_present(&self, attempt: u32) -> Result<(), Refused> {
        if attempt == self.attempt { Ok(()) } else { Err(Refused::Stale) }
    }

    /// Clocks may go back; a story does not.
    fn enter(&mut self, phase: Phase, reason: String, at: Millis) {
        let at = at.max(self.story.last().map_or(0, |step| step.at));
        self.phase = phase;
        self.story.push(Step { at, phase, attempt: self.attempt, reason });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Source, Submission, pause_after};
    use super::*;
    use crate::identity::Owner;
    use crate::job::JobName;
    use crate::name::ServiceName;

    fn mk_job() -> Job {
        let service = ServiceName::parse("cowsay").expect("a name");
        let submission = Submission {
            name: JobName::of(&service, "1").expect("a name"),
            service,
            owner: Owner::Admin,
            submitter: None,
            source: Source::Call,
            input: None,
            need: Need::default(),
        };
        Job::new(submission, 10)
    }

    fn start() -> Event {
        Event::Start { reason: String::new(), access_key: String::new(), need: Need::default() }
    }

    fn mk_output() -> Output {
        Output {
            provider: "minio.default".to_owned(),
            bucket: "b".to_owned(),
            key: "k".to_owned(),
            bytes: 1,
            staged: Some("s".to_owned()),
        }
    }

    fn rest(attempt: u32) -> Event {
        Event::Rest { attempt, reason: "full".to_owned(), patience: 1000 }
    }

    fn hinder(attempt: u32) -> Event {
        Event::Hinder { attempt, reason: "away".to_owned(), patience: 1000 }
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let attempt = 0u32..5;
        let output = mk_output();
        prop_oneof![
            Just(Event::Queue { reason: String::new() }),
            Just(start()),
            attempt.clone().prop_map(|attempt| Event::Running { attempt }),
            (attempt.clone(), 0usize..2)
                .prop_map(move |(attempt, n)| Event::Decide { attempt, outputs: vec![output.clone(); n] }),
            attempt.clone().prop_map(|attempt| Event::Succeed { attempt }),
            attempt.clone().prop_map(|attempt| Event::Fail { attempt, exit_code: Some(3), reason: String::new() }),
            attempt.clone().prop_map(|attempt| Event::Vanish { attempt, reason: String::new() }),
            attempt.clone().prop_map(rest),
            attempt.clone().prop_map(hinder),
            Just(Event::Cancel { by: "alice".to_owned() }),
            Just(Event::Forget),
            attempt.prop_map(|attempt| Event::Cancelled { attempt }),
            Just(Event::Refuse { reason: String::new() }),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_the_story_is_one(events in proptest::collection::vec((any_event(), 0u64..100), 0..60)) {
            let mut job = mk_job();
            for (event, at) in events {
                let Ok(next) = job.apply(event, at) else { continue };
                prop_assert!(!job.phase.is_final(), "nothing follows an end");
                prop_assert_eq!(next.version, job.version + 1);
                prop_assert!(next.attempt == job.attempt || next.attempt == job.attempt + 1);
                prop_assert!(job.outputs.is_empty() || next.outputs == job.outputs, "decided once");
                let is_rest = next.rests.attempts > job.rests.attempts;
                prop_assert!(is_rest || next.story.len() >= job.story.len());
                prop_assert!(next.forgetting || !job.forgetting, "nobody asks for it back");
                job = next;
            }
            prop_assert!(job.attempt - job.rests.attempts <= MOST_ATTEMPTS && job.runs() <= MOST_RUNS);
            prop_assert!(job.story.is_sorted_by_key(|step| step.at));
            prop_assert!(job.story.is_sorted_by_key(|step| step.attempt));
            let ends = job.story.iter().filter(|step| step.phase.is_final()).count();
            prop_assert_eq!(ends, usize::from(job.phase.is_final()));
            prop_assert!(job.story.len() < 40, "a story stays short");
        }
    }

    #[test]
    fn an_attempt_that_vanished_is_tried_again_and_then_given_up() {
        for (begins, most) in [(true, 3), (false, MOST_ATTEMPTS)] {
            let mut job = mk_job().apply(Event::Queue { reason: String::new() }, 11).expect("queued");
            for attempt in 1..=most {
                assert_eq!(job.phase, Phase::Queued);
                job = job.apply(start(), 12).expect("started");
                assert_eq!(job.attempt, attempt);
                if begins {
                    job = job.apply(Event::Running { attempt }, 12).expect("it runs");
                }
                job = job.apply(Event::Vanish { attempt, reason: "gone".to_owned() }, 13).expect("vanished");
            }
            assert_eq!((job.phase, job.reason()), (Phase::Lost, "gone"));
        }
    }

    #[test]
    fn the_pause_between_attempts_grows_to_a_limit() {
        assert_eq!([1, 2, 3, 4].map(pause_after), [1000, 2000, 4000, 8000]);
        assert_eq!([10, 65, u32::MAX].map(pause_after), [300_000; 3]);
        let job = mk_job();
        assert_eq!(job.begins_from(), 10, "the first waits for nothing");
        let job = job.apply(start(), 20).expect("started");
        let job = job.apply(Event::Vanish { attempt: 1, reason: String::new() }, 30).expect("vanished");
        assert_eq!(job.begins_from(), 1030);
    }

    #[test]
    fn a_former_attempt_is_not_listened_to() {
        let job = mk_job().apply(start(), 1).expect("started");
        let job = job.apply(Event::Vanish { attempt: 1, reason: String::new() }, 2).expect("vanished");
        let job = job.apply(start(), 3).expect("again");
        assert_eq!(job.apply(Event::Succeed { attempt: 1 }, 4), Err(Refused::Stale));
        assert!(job.apply(Event::Succeed { attempt: 2 }, 4).is_ok());
    }

    #[test]
    fn want_of_room_counts_for_nothing_but_its_own_patience() {
        let mut job = mk_job();
        for attempt in 1..=200 {
            job = job.apply(start(), 20).expect("started");
            job = job.apply(Event::Running { attempt }, 20).expect("it runs");
            job = job.apply(rest(attempt), 20 + u64::from(attempt)).expect("rests");
            assert_eq!((job.phase, job.runs()), (Phase::Queued, 0));
            assert!(job.story.len() <= 2, "{:?}", job.story);
        }
        assert_eq!(job.reason(), "full (200 attempts ended for want of room)");
        assert_eq!(job.begins_from(), 220 + 300_000);
        // Others are still counted.
        let mut vanished = job.clone();
        for attempt in 201..=203 {
            assert_eq!(vanished.phase, Phase::Queued);
            vanished = vanished.apply(start(), 300).expect("started");
            vanished = vanished.apply(Event::Running { attempt }, 300).expect("it runs");
            vanished = vanished.apply(Event::Vanish { attempt, reason: String::new() }, 300).expect("vanished");
        }
        assert_eq!(vanished.phase, Phase::Lost);
        let waits = job.apply(Event::Cancel { by: "alice".to_owned() }, 300).expect("cancelled");
        assert_eq!(waits.phase, Phase::Cancelled);
        let job = job.apply(start(), 300).expect("started").apply(rest(201), 1021).expect("too long");
        assert_eq!((job.phase, job.reason()), (Phase::Failed, "full"));
    }

    #[test]
    fn a_step_of_another_kind_is_not_folded_into_a_rest() {
        let job = mk_job().apply(start(), 20).expect("started");
        let job = job.apply(Event::Vanish { attempt: 1, reason: "gone".to_owned() }, 21).expect("vanished");
        let job = job.apply(start(), 22).expect("started").apply(rest(2), 23).expect("rests");
        let reasons: Vec<_> = job.story.iter().map(|step| step.reason.as_str()).collect();
        assert_eq!(reasons, ["", "", "gone", "full"]);
    }

    #[test]
    fn a_job_remembers_what_it_started_with() {
        let need = Need { cores: 2000, bytes: 5, gpus: 0 };
        let start = Event::Start { reason: String::new(), access_key: String::new(), need };
        assert_eq!(mk_job().apply(start, 1).expect("started").need, need);
    }

    #[test]
    fn what_was_decided_can_still_be_cancelled_and_is_given_up_in_the_end() {
        let job = mk_job().apply(start(), 1).expect("started");
        assert_eq!(job.apply(hinder(1), 2), Err(Refused::OutOfOrder), "nothing was decided");
        let job = job.apply(Event::Decide { attempt: 1, outputs: vec![mk_output()] }, 2).expect("decided");
        assert_eq!(job.apply(rest(1), 3), Err(Refused::OutOfOrder));
        let told = job.apply(hinder(1), 10).expect("told");
        assert_eq!((told.phase, told.reason()), (Phase::Starting, "away"));
        assert_eq!(told.apply(hinder(1), 1000), Err(Refused::OutOfOrder), "once is enough");
        let given_up = told.apply(hinder(1), 1010).expect("given up");
        assert_eq!((given_up.phase, given_up.exit_code), (Phase::Failed, Some(0)));
        let asked = told.apply(Event::Cancel { by: "alice".to_owned() }, 20).expect("asked");
        assert!(asked.cancelling && asked.phase.is_active());
        let ended = asked.apply(Event::Cancelled { attempt: 1 }, 30).expect("ended");
        assert!(ended.phase == Phase::Cancelled && ended.reason().contains("stay there"), "{}", ended.reason());
    }
}
