//! Documents that say who may do what, in the language of MinIO. Pure.
//!
//! Names and shapes of the lasting ones are those that Go OSCAR makes and reads: a policy named as
//! the user for his own buckets, one named as the bucket for a restricted one, and one for all
//! users with the public ones; each has one statement that lists `arn:aws:s3:::<bucket>/*`.
//! Unlike there, none of them lets a user change tags, policies or notifications of a bucket:
//! tags say whose it is.

use oscar_engine::ports::buckets::{Grant, Verb};
use serde_json::{Value, json};

/// The group of every user, and its policy.
pub(crate) const EVERYBODY: &str = "all_users_group";

/// Policies that MinIO brings itself.
const BUILT_IN: [&str; 5] = ["consoleAdmin", "diagnostics", "readonly", "readwrite", "writeonly"];

const VERSION: &str = "2012-10-17";
const BUCKET_ARN: &str = "arn:aws:s3:::";

/// What users do with objects.
const OBJECT_ACTIONS: [&str; 16] = [
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersion",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:GetObjectAttributes",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
    "s3:GetObjectVersionTagging",
];

/// Whether a user or a bucket may lend its name to a policy.
pub(crate) fn is_free_name(name: &str) -> bool {
    name != EVERYBODY && !BUILT_IN.contains(&name)
}

/// What opens these buckets; nothing at all without one.
pub(crate) fn of_buckets<'a>(buckets: impl Iterator<Item = &'a str>) -> Value {
    let resources: Vec<String> = buckets.map(|bucket| format!("{BUCKET_ARN}{bucket}/*")).collect();
    if resources.is_empty() {
        // A statement needs a resource; no bucket can have this name.
        let nothing = json!({"Effect": "Deny", "Action": ["s3:*"], "Resource": [format!("{BUCKET_ARN}notValid/*")]});
        return json!({"Version": VERSION, "Statement": [nothing]});
    }
    let statement = json!({"Effect": "Allow", "Action": OBJECT_ACTIONS, "Resource": resources});
    json!({"Version": VERSION, "Statement": [statement]})
}

/// Whether a document, by whomever it was made, speaks of a bucket in order to open it.
pub(crate) fn opens(policy: &Value, bucket: &str) -> bool {
    let statements = policy["Statement"].as_array().into_iter().flatten();
    let arns = [format!("{BUCKET_ARN}{bucket}/*"), format!("{BUCKET_ARN}{bucket}")];
    statements.filter(|statement| statement["Effect"] == "Allow").any(|statement| {
        let resources = statement["Resource"].as_array().into_iter().flatten();
        resources.filter_map(Value::as_str).any(|resource| arns.iter().any(|arn| arn == resource))
    })
}

/// What a scoped key may do. It is the administrator's child: unless it is denied, some versions
/// of MinIO let it make itself a sibling with all of the administrator's rights.
pub(crate) fn of_grants(grants: &[Grant]) -> Value {
    let mut statements: Vec<Value> = grants.iter().flat_map(of_grant).collect();
    statements.push(json!({"Effect": "Deny", "Action": ["admin:*"]}));
    json!({"Version": VERSION, "Statement": statements})
}

fn of_grant(grant: &Grant) -> Vec<Value> {
    let bucket = format!("{BUCKET_ARN}{}", grant.bucket);
    let exact = pattern_of(&grant.prefix);
    let is_range = grant.prefix.is_empty() || grant.prefix.ends_with('/');
    let objects = if is_range { format!("{bucket}/{exact}*") } else { format!("{bucket}/{exact}") };
    let mut actions = Vec::new();
    let mut statements = Vec::new();
    for verb in &grant.verbs {
        match verb {
            Verb::Read => actions.extend(["s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectTagging"]),
            Verb::Write => {
                actions.extend(["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]);
            }
            Verb::Delete => actions.push("s3:DeleteObject"),
            Verb::List if grant.prefix.is_empty() => {
                statements.push(json!({"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket]}));
            }
            Verb::List => {
                let prefixes = if is_range { vec![exact.clone(), format!("{exact}*")] } else { vec![exact.clone()] };
                statements.push(json!({
                    "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket],
                    "Condition": {"StringLike": {"s3:prefix": prefixes}},
                }));
            }
        }
    }
    if !actions.is_empty() {
        statements.push(json!({"Effect": "Allow", "Action": actions, "Resource": [objects]}));
    }
    statements
}

/// A pattern that stands for a text. The language has no way to say a star itself: what would be
/// special stands for any one character, which is as near as one can get.
fn pattern_of(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '*' | '$') { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_opens_the_buckets_it_lists_and_no_other() {
        let policy = of_buckets(["one", "two"].into_iter());
        assert!(opens(&policy, "one") && opens(&policy, "two"));
        assert!(!opens(&policy, "on") && !opens(&policy, "three"));
        assert!(!opens(&of_buckets(std::iter::empty()), "one"));
        let text = policy.to_string();
        for forbidden in ["s3:*", "PutBucket", "DeleteBucket", "Notification"] {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn a_star_in_a_name_is_no_star_in_a_pattern() {
        let verbs = vec![Verb::Read, Verb::List];
        let one = Grant { bucket: "b".to_owned(), prefix: "in/a*b${x}".to_owned(), verbs };
        let text = of_grants(&[one]).to_string();
        assert!(text.matches('*').count() == 1 && text.contains("b/in/a?b?{x}"), "{text}");
    }

    #[test]
    fn no_grant_is_no_right() {
        assert!(!of_grants(&[]).to_string().contains("Allow"));
    }
}
