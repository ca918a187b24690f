//! Names of files and keys: what a name from outside becomes here, and what a file of the
//! output folder is called outside. Pure.

use oscar_model::service::storage::StorageIo;
use sha2::{Digest as _, Sha256};

/// The most bytes of a file's name on the file systems we know.
const MOST_NAME: usize = 255;

/// The most bytes of a key in S3.
pub(crate) const MOST_KEY: usize = 1024;

/// The name under which an input is kept: the last part of its key, made harmless.
pub(crate) fn local_name(key: &str) -> String {
    let last = key.split('/').rev().find(|part| !part.is_empty()).unwrap_or_default();
    let clean: String = last.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    match clean.as_str() {
        "" | "." | ".." => "input-file".to_owned(),
        _ if clean.len() <= MOST_NAME => clean,
        _ => shortened(&clean),
    }
}

/// The ending still tells what kind of file it is, and names that begin alike stay different.
fn shortened(name: &str) -> String {
    let ending = name.rfind('.').map_or("", |dot| &name[dot..]);
    let ending = if ending.len() <= 32 { ending } else { "" };
    let digest = Sha256::digest(name);
    let tail = format!("-{:016x}{ending}", u64::from_be_bytes(std::array::from_fn(|place| digest[place])));
    let mut end = MOST_NAME - tail.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{tail}", &name[..end])
}

/// Why a key cannot be asked for: addresses have no way to say it.
pub(crate) fn check_key(key: &str) -> Option<&'static str> {
    if key.len() > MOST_KEY {
        return Some("its name is longer than 1024 bytes");
    }
    let unspeakable = key.split('/').any(|part| matches!(part, "." | ".."));
    unspeakable.then_some("its name has a part `.` or `..`")
}

/// Whether a file of the output folder belongs to an output.
pub(crate) fn matches(output: &StorageIo, name: &str) -> bool {
    let prefix = output.prefix.is_empty() || output.prefix.iter().any(|prefix| name.starts_with(prefix.as_str()));
    let suffix = output.suffix.is_empty() || output.suffix.iter().any(|suffix| name.ends_with(suffix.as_str()));
    prefix && suffix
}

/// Bucket and folder of a path that begins with a bucket.
pub(crate) fn bucket_and_folder(path: &str) -> (&str, &str) {
    let path = path.trim_matches('/');
    let (bucket, folder) = path.split_once('/').unwrap_or((path, ""));
    (bucket, folder.trim_matches('/'))
}

/// A name below a folder; just the name when there is no folder.
pub(crate) fn below(folder: &str, name: &str) -> String {
    match folder.trim_matches('/') {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

/// Where an output waits until it is put in its place. The folder in front must not make a name
/// too long that is not.
pub(crate) fn staged_key(folder: &str, place: &str) -> String {
    let key = below(folder, place);
    if key.len() <= MOST_KEY {
        return key;
    }
    let digest: String = Sha256::digest(place).iter().map(|byte| format!("{byte:02x}")).collect();
    below(folder, &digest)
}

#[cfg(test)]
mod tests {
    use oscar_model::service::storage::ProviderRef;
    use proptest::prelude::*;

    use super::*;

    fn mk_output(prefix: &[&str], suffix: &[&str]) -> StorageIo {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        StorageIo {
            provider_text: "minio".to_owned(),
            provider: ProviderRef::parse("minio").expect("valid"),
            path: "b/out".to_owned(),
            suffix: texts(suffix),
            prefix: texts(prefix),
            options: String::new(),
        }
    }

    #[test]
    fn an_input_is_named_by_the_end_of_its_key() {
        for (key, name) in [
            ("in/a b+c%.jpg", "a b+c%.jpg"),
            ("in/../..", "input-file"),
            ("in/folder/", "folder"),
            ("///", "input-file"),
            ("in/ñ\n.txt", "ñ_.txt"),
        ] {
            assert_eq!(local_name(key), name);
        }
        let long = local_name(&format!("in/{}.tar", "é".repeat(510)));
        assert!(long.len() <= MOST_NAME && long.contains("é-"));
        assert_eq!(long.rsplit('.').next(), Some("tar"), "the ending tells what it is");
        assert_ne!(long, local_name(&format!("in/{}.tar", "é".repeat(511))), "they stay two files");
    }

    #[test]
    fn a_file_has_to_fit_prefix_and_suffix() {
        assert!(matches(&mk_output(&[], &[]), "anything"));
        assert!(matches(&mk_output(&["a", "b"], &[".txt", ".png"]), "b/x.png"));
        assert!(!matches(&mk_output(&["a"], &[".txt"]), "a.png"));
        assert!(!matches(&mk_output(&["a"], &[".txt"]), "sub/a.txt"), "a prefix is of the relative name");
    }

    #[test]
    fn paths_are_a_bucket_and_a_folder() {
        assert_eq!(bucket_and_folder("/b/x/y/"), ("b", "x/y"));
        assert_eq!(bucket_and_folder("b"), ("b", ""));
        assert_eq!(below("", "n/m"), "n/m");
        assert_eq!(below("x/", "n"), "x/n");
    }

    #[test]
    fn dots_cannot_be_spoken_in_an_address() {
        assert!(check_key("in/../x").is_some() && check_key(&"x".repeat(1025)).is_some());
        assert!(check_key("in/..x").is_none() && check_key(&"x".repeat(1024)).is_none());
    }

    #[test]
    fn waiting_makes_no_name_too_long() {
        assert_eq!(staged_key("job/1/", "b/out/x"), "job/1/b/out/x");
        let [one, two] = ["x", "y"].map(|letter| staged_key("job/1/", &format!("b/{}", letter.repeat(1022))));
        assert!(one.starts_with("job/1/") && one.len() <= MOST_KEY && check_key(&one).is_none(), "{one}");
        assert_ne!(one, two);
    }

    proptest! {
        #[test]
        fn no_key_leaves_the_folder(key in any::<String>()) {
            let name = local_name(&key);
            prop_assert!(!name.is_empty() && name.len() <= MOST_NAME && !name.contains(['/', '\0']));
            prop_assert!(name != "." && name != "..");
        }
    }
}
