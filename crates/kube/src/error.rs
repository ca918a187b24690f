//! What an apiserver's refusal means to the engine.

use kube::core::Status;
use oscar_engine::ports::StoreError;

/// `verb` and `what` say what was tried: `create`, `Secret oscar-svc/grayify`.
pub(crate) fn explain(verb: &str, what: &str, error: &kube::Error) -> StoreError {
    match error {
        kube::Error::Api(status) => of_status(verb, what, status),
        // Every other error is about reaching the apiserver or reading its answer. kube prints
        // the whole chain below it, and none of it holds the body of a request.
        other => StoreError::Unavailable(format!("{verb} {what}: {}", chain(other))),
    }
}

pub(crate) fn of_status(verb: &str, what: &str, status: &Status) -> StoreError {
    let said = status.message.as_str();
    if status.is_not_found() {
        StoreError::NotFound
    } else if status.is_already_exists() {
        StoreError::AlreadyExists
    } else if status.is_conflict() {
        StoreError::Conflict
    } else if is_full(status) {
        StoreError::Full(format!("{verb} {what}: {said}"))
    } else if said.contains("is being terminated") {
        StoreError::Unavailable(format!("{verb} {what}: {said}"))
    } else if status.is_forbidden() || status.code == 401 {
        StoreError::Forbidden(format!("{verb} {what}: {said} (deploy/rbac.yaml lists what the manager needs)"))
    } else if status.is_invalid() || status.code == 400 {
        StoreError::Forbidden(format!("{verb} {what}: the cluster does not accept it: {said}"))
    } else {
        StoreError::Unavailable(format!("{verb} {what}: {} {said}", status.code))
    }
}

fn is_full(status: &Status) -> bool {
    let said = status.message.as_str();
    status.code == 413
        || said.contains("exceeded quota")
        || said.contains("database space exceeded")
        || (status.is_invalid() && (said.contains("Too long") || said.contains("must have at most")))
        || said.contains("request is too large")
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        // Many errors print their cause themselves.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Status {
        Status::failure(message, reason).with_code(code)
    }

    #[test]
    fn each_refusal_has_its_meaning() {
        let meant = |code, reason, message| of_status("create", "Secret a/b", &status(code, reason, message));
        assert_eq!(meant(404, "NotFound", "x"), StoreError::NotFound);
        assert_eq!(meant(409, "AlreadyExists", "x"), StoreError::AlreadyExists);
        assert_eq!(meant(409, "Conflict", "x"), StoreError::Conflict);
        let quota = "secrets \"b\" is forbidden: exceeded quota: count";
        assert!(matches!(meant(403, "Forbidden", quota), StoreError::Full(_)));
        let ending = "unable to create new content in namespace a because it is being terminated";
        assert!(matches!(meant(403, "Forbidden", ending), StoreError::Unavailable(_)));
        let long = "data: Too long: must have at most 1048576 bytes";
        assert!(matches!(meant(422, "Invalid", long), StoreError::Full(_)));
        assert!(matches!(meant(422, "Invalid", "metadata.name: Invalid value"), StoreError::Forbidden(_)));
        assert!(matches!(meant(429, "TooManyRequests", "slow down"), StoreError::Unavailable(_)));
        assert!(matches!(meant(500, "InternalError", "etcd"), StoreError::Unavailable(_)));
    }

    #[test]
    fn a_missing_permission_names_verb_and_object_and_where_to_look() {
        let StoreError::Forbidden(text) = of_status("create", "Secret a/b", &status(403, "Forbidden", "cannot create"))
        else {
            panic!("a 403 is Forbidden");
        };
        assert!(text.contains("create Secret a/b") && text.contains("deploy/rbac.yaml"), "{text}");
    }
}
