//! How a command ends, and how a failure is told.

use std::process::ExitCode;

use oscar_api::client::ClientError;
use oscar_api::problem::{Code, MemberTrouble, Problem};
use oscar_model::fault::{Fault, Faults};
use serde_json::{Value, json};

/// The exit codes of `oscar`.
///
/// | Code | Meaning |
/// |---|---|
/// | 0 | done, or there was nothing to do |
/// | 1 | the manager refused, or something else failed, such as a member of a federation |
/// | 2 | the command was given wrongly, or lacks an answer that it may not ask for |
/// | 3 | the manager could not be reached, or is not an OSCAR manager |
/// | 4 | the credentials were refused, or do not permit this |
/// | 5 | what was named does not exist |
/// | 6 | the definition has faults; each is printed on a line of its own |
/// | 7 | it conflicts with what is there: it exists already, or somebody changed it meanwhile |
/// | 8 | you answered no; nothing was changed |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    NotPermitted = 4,
    NotFound = 5,
    Invalid = 6,
    Conflict = 7,
    Declined = 8,
}

impl Exit {
    /// For programs, where the manager gave no word of its own.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::NotPermitted => "not-permitted",
            Self::NotFound => "not-found",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Declined => "declined",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was told, in the words of its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    /// The manager's own word for it, such as `service-exists`.
    pub code: Option<String>,
    /// Blank when everything was told before.
    pub message: String,
    /// One fault each, below the message.
    pub details: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: None, message: message.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// One that was told when it happened.
    pub fn told(exit: Exit) -> Self {
        Self::new(exit, String::new())
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let code = self.code.as_deref().unwrap_or_else(|| self.exit.word());
        json!({"error": self.message, "code": code, "details": self.details, "hints": self.hints})
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says what was being done, before what went wrong.
    #[must_use]
    pub fn while_doing(mut self, what: impl std::fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub fn invalid(message: impl Into<String>, faults: &Faults) -> Self {
        let mut failure = Self::new(Exit::Invalid, message);
        failure.details = faults.0.iter().map(Fault::to_string).collect();
        failure
    }

    pub fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Exit::Failed, format!("{what}: {error}"))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { cause, .. } => unreachable(message, &cause),
            ClientError::NotOscar { .. } => Self::new(Exit::Unreachable, message)
                .hint("is the address that of an OSCAR manager? `oscar cluster list` shows the configured ones"),
            ClientError::Refused(problem) => refused(&problem),
        }
    }
}

fn unreachable(message: String, cause: &str) -> Failure {
    let failure = Failure::new(Exit::Unreachable, message);
    let cause = cause.to_ascii_lowercase();
    if cause.contains("certificate") || cause.contains("unknownissuer") {
        return failure
            .hint("if a private authority signed it, add the cluster again with `--ca FILE`")
            .hint("`--insecure` accepts any certificate, for a manager on your own desk");
    }
    if cause.contains("timed out") || cause.contains("timeout") {
        return failure.hint("the manager may still be at work: look with `oscar service list` before you try again");
    }
    failure.hint("is the manager running, and is the address right? `oscar doctor` looks closer")
}

fn refused(problem: &Problem) -> Failure {
    let mut failure = Failure::new(exit_of(problem), sentence(problem));
    let fault = |fault: &oscar_api::problem::FaultBody| {
        let (path, found, allowed) = (fault.path.clone(), fault.found.clone(), fault.allowed.clone());
        Fault { path, found, allowed, line: fault.line }.to_string()
    };
    failure.code = Some(problem.code.clone()).filter(|code| !code.is_empty());
    failure.details = problem.faults.iter().map(fault).chain(problem.members.iter().map(member)).collect();
    failure.hints.extend(hint_of(problem).map(str::to_owned));
    failure
}

fn member(trouble: &MemberTrouble) -> String {
    let MemberTrouble { member, during, cause } = trouble;
    match during.as_str() {
        "rollback" => format!("{member}: not taken back yet, which is tried until it succeeds: {cause}"),
        _ => format!("{member}: {cause}"),
    }
}

/// With faults, the detail repeats them below its first line; with members, after its first clause.
fn sentence(problem: &Problem) -> String {
    let detail = problem.detail.trim();
    let kept = if problem.members.is_empty() {
        if problem.faults.is_empty() { detail } else { detail.lines().next().unwrap_or_default() }
    } else {
        let first = detail.split_once(": ").map_or(detail, |(first, _)| first);
        let rolled_back = code_of(problem) == Some(Code::FederationRolledBack);
        let left = problem.members.iter().any(|trouble| trouble.during == "rollback");
        return match (rolled_back, left) {
            (true, false) => format!("{first}; everything that had been done was taken back"),
            (true, true) => format!("{first}; what had been done was taken back, but not everywhere yet"),
            (false, _) => first.to_owned(),
        };
    };
    kept.trim_end_matches(':').to_owned()
}

fn code_of(problem: &Problem) -> Option<Code> {
    Code::ALL.iter().copied().find(|code| code.as_str() == problem.code)
}

/// Managers of other kinds give no code, and one status for several reasons: then their words decide.
fn exit_of(problem: &Problem) -> Exit {
    if matches!(code_of(problem), Some(Code::DefinitionInvalid | Code::BodyMalformed)) {
        return Exit::Invalid;
    }
    match problem.status {
        // What became part of the address: a name, or an option.
        400 if code_of(problem) == Some(Code::QueryInvalid) => Exit::Usage,
        400 if problem.detail.contains("specification is not valid") => Exit::Invalid,
        400 if problem.detail.contains("already exists") => Exit::Conflict,
        401 | 403 => Exit::NotPermitted,
        404 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        422 => Exit::Invalid,
        // With a code it is the manager's own answer about somebody else.
        502 | 504 if code_of(problem).is_none() => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

pub(super) const ADD_AGAIN: &str =
    "add the cluster again with credentials that it knows: `oscar cluster add NAME URL --user USER`";

fn hint_of(problem: &Problem) -> Option<&'static str> {
    let code = code_of(problem);
    if let Some(hint) = code.and_then(|code| hint_about_federation(code).or_else(|| hint_about_work(code))) {
        return Some(hint);
    }
    if matches!(code, Some(Code::JobOver | Code::BucketInUse)) {
        return None;
    }
    match problem.status {
        300..=399 => Some("the address leads elsewhere: configure the one that it leads to"),
        401 => Some(ADD_AGAIN),
        403 if code == Some(Code::NotAdministrator) => Some("only the administrator of the cluster may do this"),
        403 => Some("only its owner and the administrator of the cluster may do this"),
        404 => Some("`oscar service list` shows the services that you can see"),
        412 => Some("somebody changed it meanwhile: run the command again to see what would change now"),
        409 => Some("`oscar apply` changes a service that exists"),
        502 | 504 if code.is_none() => {
            Some("something before the manager answers for it: is the manager itself running?")
        }
        _ if code.is_some_and(Code::is_retryable) => Some("this can pass by itself: try again in a moment"),
        _ => None,
    }
}

fn hint_about_federation(code: Code) -> Option<&'static str> {
    match code {
        Code::CoordinatorSilent => Some("try again later, or make the change at the coordinator"),
        Code::FederationCredentials => Some(
            "a user needs a refresh token that is still good, the administrator `auth_user` and `auth_password` for \
             each cluster",
        ),
        Code::FederationRefused => Some("choose another name for that member, or leave it out"),
        Code::FederationRolledBack | Code::FederationUnreachable => {
            Some("try again when the member is well; or leave it out, and add it later with `oscar federation add`")
        }
        Code::MemberInner => Some("remove those below it too, or add `--reparent`"),
        Code::NotFederated => Some("`oscar federation list` shows the services that are in one"),
        Code::NotInRegistry => Some("sign in as the owner of the service instead"),
        Code::RefreshTokenRefused => Some("sign in again with your issuer for a new one"),
        Code::ServiceIsReplica => {
            Some("make the change at the coordinator; `oscar service delete --detach` takes a replica out first")
        }
        _ => None,
    }
}

fn hint_about_work(code: Code) -> Option<&'static str> {
    match code {
        Code::BodyTooLarge => {
            Some("put large files into the input bucket of the service: `oscar put FILE BUCKET/FOLDER/`")
        }
        Code::BucketExists => Some("`oscar bucket update` changes a bucket that exists"),
        Code::BucketNotFound => Some("`oscar bucket list` shows the buckets that you can use"),
        Code::JobNotFound => Some("`oscar job list SERVICE` shows the jobs that you can see"),
        Code::LogNotFound => Some("`oscar job show SERVICE JOB` tells how far it is"),
        Code::NoJobs => Some("this manager only keeps services and runs nothing"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16, detail: &str) -> Problem {
        Problem { status, detail: detail.to_owned(), ..Problem::default() }
    }

    fn exit(problem: Problem) -> Exit {
        Failure::from(ClientError::Refused(Box::new(problem))).exit
    }

    #[test]
    fn every_code_of_ours_ends_as_documented() {
        let expected = |code: Code| match code {
            Code::BodyMalformed | Code::DefinitionInvalid => Exit::Invalid,
            Code::QueryInvalid => Exit::Usage,
            _ => match code.status() {
                401 | 403 => Exit::NotPermitted,
                404 => Exit::NotFound,
                409 | 412 => Exit::Conflict,
                422 => Exit::Invalid,
                _ => Exit::Failed,
            },
        };
        for code in Code::ALL {
            assert_eq!(exit(Problem::new(*code, "x")), expected(*code), "{}", code.as_str());
        }
    }

    #[test]
    fn the_words_of_other_managers_are_understood() {
        assert_eq!(exit(problem(400, "The service specification is not valid: Key: 'Name'")), Exit::Invalid);
        assert_eq!(exit(problem(400, "A service with the provided name already exists")), Exit::Conflict);
        assert_eq!(exit(problem(400, "volume updates are not supported")), Exit::Failed);
        assert_eq!(exit(problem(502, "")), Exit::Unreachable);
    }

    #[test]
    fn each_fault_has_its_line_and_is_told_once() {
        let mut faults = Faults::default();
        faults.push("cpu", "\"lots\"", "a quantity");
        faults.push("image", "\"\"", "an image");
        let failure = Failure::from(ClientError::Refused(Box::new(Problem::invalid(faults))));
        assert_eq!(failure.message, "The service specification is not valid");
        assert_eq!(
            failure.details,
            ["cpu: found \"lots\", expected a quantity", "image: found \"\", expected an image"]
        );
    }

    #[test]
    fn each_member_has_its_line_and_the_rollback_is_told() {
        let trouble = |member: &str, during: &str| MemberTrouble {
            member: member.to_owned(),
            during: during.to_owned(),
            cause: "gone; for good".to_owned(),
        };
        let detail = "the federation was not created: b/x: gone; for good; everything was taken back";
        let mut problem = Problem::new(Code::FederationRolledBack, detail);
        problem.members = vec![trouble("b/x", "deploy")];
        let failure = Failure::from(ClientError::Refused(Box::new(problem.clone())));
        assert_eq!(failure.message, "the federation was not created; everything that had been done was taken back");
        assert_eq!(failure.details, ["b/x: gone; for good"]);
        problem.members.push(trouble("c/x", "rollback"));
        let failure = Failure::from(ClientError::Refused(Box::new(problem)));
        assert!(failure.message.ends_with("not everywhere yet"), "{}", failure.message);
        assert!(failure.details[1].starts_with("c/x: not taken back yet"), "{:?}", failure.details);
    }

    #[test]
    fn programs_get_the_word_of_the_manager_or_ours() {
        let code = |failure: Failure| failure.to_json()["code"].clone();
        let ours = Failure::from(ClientError::Refused(Box::new(Problem::new(Code::NotOwner, "x"))));
        assert_eq!(code(ours), "not-owner");
        assert_eq!(code(Failure::from(ClientError::Refused(Box::new(problem(409, "x"))))), "conflict");
        let whole = Failure::new(Exit::Usage, "a").hint("b").to_json();
        assert_eq!(whole, json!({"error": "a", "code": "usage", "details": [], "hints": ["b"]}));
    }

    #[test]
    fn nobody_answering_is_a_case_of_its_own() {
        let error = ClientError::Unreachable { endpoint: "https://x".to_owned(), cause: "refused".to_owned() };
        let failure = Failure::from(error);
        assert_eq!((failure.exit, failure.hints.len()), (Exit::Unreachable, 1));
    }
}
