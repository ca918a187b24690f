//! A job as bytes for a store.

use oscar_model::identity::Owner;
use oscar_model::job::{Job, JobName, Need, ObjectRef, Output, Phase, Rests, Source, Step};
use oscar_model::name::ServiceName;
use serde::{Deserialize, Serialize};

use crate::federation::parse;

/// A field that is added does not raise it: readers pass over what they do not know, and what is
/// absent has a default.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Head {
    form: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredJob {
    /// The version of this form; the job's own is `version`.
    form: u32,
    name: String,
    service: String,
    owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    submitter: Option<String>,
    source: StoredSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<StoredObject>,
    #[serde(default)]
    need: StoredNeed,
    phase: String,
    #[serde(default)]
    attempt: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    access_key: String,
    #[serde(default)]
    rests: StoredRests,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cancelling: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    forgetting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<StoredOutput>,
    story: Vec<StoredStep>,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredSource {
    Call,
    Upload { version: String },
    Delegated { from: String },
}

#[derive(Serialize, Deserialize)]
struct StoredObject {
    bucket: String,
    key: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredNeed {
    cores: i64,
    bytes: i64,
    gpus: i64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredRests {
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    attempts: u32,
    last: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredOutput {
    provider: String,
    bucket: String,
    key: String,
    #[serde(default)]
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredStep {
    at: u64,
    phase: String,
    #[serde(default)]
    attempt: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// It holds no credential: of the attempt's key it has the name only.
pub fn to_bytes(job: &Job) -> Vec<u8> {
    let Job {
        name,
        service,
        owner,
        submitter,
        source,
        input,
        need: Need { cores, bytes, gpus },
        phase,
        attempt,
        access_key,
        rests: Rests { since, attempts, last },
        cancelling,
        forgetting,
        exit_code,
        outputs,
        story,
        version,
    } = job;
    let stored = StoredJob {
        form: VERSION,
        name: name.to_string(),
        service: service.to_string(),
        owner: owner.to_string(),
        submitter: submitter.as_ref().map(ToString::to_string),
        source: match source.clone() {
            Source::Call => StoredSource::Call,
            Source::Upload { version } => StoredSource::Upload { version },
            Source::Delegated { from } => StoredSource::Delegated { from },
        },
        input: input.clone().map(|ObjectRef { bucket, key }| StoredObject { bucket, key }),
        need: StoredNeed { cores: *cores, bytes: *bytes, gpus: *gpus },
        phase: phase.as_str().to_owned(),
        attempt: *attempt,
        access_key: access_key.clone(),
        rests: StoredRests { since: *since, attempts: *attempts, last: *last },
        cancelling: *cancelling,
        forgetting: *forgetting,
        exit_code: *exit_code,
        outputs: outputs.iter().cloned().map(StoredOutput::from_output).collect(),
        story: story.iter().cloned().map(StoredStep::from_step).collect(),
        version: *version,
    };
    // Our records have string keys and no failing `Serialize`.
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// The cause of a failure quotes nothing of what is stored.
pub fn from_bytes(bytes: &[u8]) -> Result<Job, String> {
    let Head { form } = parse(bytes)?;
    if form > VERSION {
        return Err(format!("it was written by a newer version (its form is {form}, known is {VERSION})"));
    }
    let StoredJob {
        form: _,
        name,
        service,
        owner,
        submitter,
        source,
        input,
        need: StoredNeed { cores, bytes, gpus },
        phase: now,
        attempt,
        access_key,
        rests: StoredRests { since, attempts, last },
        cancelling,
        forgetting,
        exit_code,
        outputs,
        story,
        version,
    } = parse(bytes)?;
    Ok(Job {
        name: JobName::parse(&name).ok_or("its name is none of a job")?,
        service: ServiceName::parse(&service).ok_or("its service has an invalid name")?,
        owner: subject(&owner)?,
        submitter: submitter.as_deref().map(subject).transpose()?,
        source: match source {
            StoredSource::Call => Source::Call,
            StoredSource::Upload { version } => Source::Upload { version },
            StoredSource::Delegated { from } => Source::Delegated { from },
        },
        input: input.map(|StoredObject { bucket, key }| ObjectRef { bucket, key }),
        need: Need { cores, bytes, gpus },
        phase: phase(&now)?,
        attempt,
        access_key,
        rests: Rests { since, attempts, last },
        cancelling,
        forgetting,
        exit_code,
        outputs: outputs.into_iter().map(StoredOutput::into_output).collect(),
        story: story.into_iter().map(StoredStep::into_step).collect::<Result<_, _>>()?,
        version,
    })
}

impl StoredOutput {
    fn from_output(output: Output) -> Self {
        let Output { provider, bucket, key, bytes, staged } = output;
        Self { provider, bucket, key, bytes, staged }
    }

    fn into_output(self) -> Output {
        let Self { provider, bucket, key, bytes, staged } = self;
        Output { provider, bucket, key, bytes, staged }
    }
}

impl StoredStep {
    fn from_step(step: Step) -> Self {
        let Step { at, phase, attempt, reason } = step;
        Self { at, phase: phase.as_str().to_owned(), attempt, reason }
    }

    fn into_step(self) -> Result<Step, String> {
        let Self { at, phase: entered, attempt, reason } = self;
        Ok(Step { at, phase: phase(&entered)?, attempt, reason })
    }
}

fn phase(text: &str) -> Result<Phase, String> {
    Phase::parse(text).ok_or_else(|| "it is in an unknown phase".to_owned())
}

fn subject(text: &str) -> Result<Owner, String> {
    Owner::parse(text).ok_or_else(|| "it names somebody who is no subject".to_owned())
}

#[cfg(test)]
mod tests {
    use oscar_model::job::{Event, Submission};
    use proptest::prelude::*;

    use super::*;

    fn mk_job(submitter: Option<Owner>, source: Source, input: Option<ObjectRef>) -> Job {
        let service = ServiceName::parse("cowsay").expect("a name");
        let submission = Submission {
            name: JobName::of(&service, "1").expect("a name"),
            service,
            owner: Owner::Admin,
            submitter,
            source,
            input,
            need: Need { cores: 200, bytes: 1 << 28, gpus: 1 },
        };
        Job::new(submission, 10)
    }

    fn any_source() -> impl Strategy<Value = Source> {
        prop_oneof![
            Just(Source::Call),
            any::<String>().prop_map(|version| Source::Upload { version }),
            any::<String>().prop_map(|from| Source::Delegated { from }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            source in any_source(),
            user in any::<bool>(),
            place in proptest::option::of((any::<String>(), any::<String>())),
            (reason, access_key, at) in (any::<String>(), any::<String>(), any::<u64>()),
            output in (any::<String>(), any::<String>(), any::<u64>(), proptest::option::of(any::<String>())),
            code in any::<i32>(),
            ending in 0..5usize,
        ) {
            let submitter = user.then(|| Owner::parse("someone@egi.eu").expect("a subject"));
            let job = mk_job(submitter, source, place.map(|(bucket, key)| ObjectRef { bucket, key }));
            let (bucket, key, bytes, staged) = output;
            let output = Output { provider: "minio.default".to_owned(), bucket, key, bytes, staged };
            let mut events = vec![Event::Queue { reason: reason.clone() }, Event::Start { reason: reason.clone(), access_key, need: Need { cores: 1, bytes: 2, gpus: 3 } }];
            events.extend(match ending {
                0 => vec![Event::Decide { attempt: 1, outputs: vec![output] }, Event::Succeed { attempt: 1 }],
                1 => vec![Event::Fail { attempt: 1, exit_code: Some(code), reason }],
                2 => vec![Event::Forget, Event::Cancel { by: reason }],
                3 => vec![Event::Rest { attempt: 1, reason, patience: 1 }],
                _ => vec![Event::Vanish { attempt: 1, reason }],
            });
            let mut job = job;
            prop_assert_eq!(from_bytes(&to_bytes(&job)), Ok(job.clone()));
            for event in events {
                job = job.apply(event, at).expect("each follows on the one before");
                prop_assert_eq!(from_bytes(&to_bytes(&job)), Ok(job.clone()));
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_bytes(&bytes);
        }
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_what_it_changes_is_refused() {
        let text = String::from_utf8(to_bytes(&mk_job(None, Source::Call, None))).expect("text");
        let added = text.replacen('{', r#"{"added":{"later":[1]},"#, 1);
        assert_eq!(from_bytes(added.as_bytes()), Ok(mk_job(None, Source::Call, None)));
        let newer = text.replacen(r#""form":1"#, r#""form":2"#, 1);
        assert!(from_bytes(newer.as_bytes()).is_err_and(|cause| cause.contains("newer version")));
    }
}
