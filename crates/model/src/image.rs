//! Which container images a cluster lets its users run.

/// Whether `image` comes from one of the allowed repositories. None listed allows all.
///
/// An entry allows itself and everything below it: `ghcr.io/grycap` allows
/// `ghcr.io/grycap/cowsay:1` but neither `ghcr.io/grycapx/a` nor `evil.io/ghcr.io/grycap/a`.
pub fn is_allowed(image: &str, repositories: &[String]) -> bool {
    let entries =
        || repositories.iter().map(|entry| entry.trim().trim_end_matches('/')).filter(|entry| !entry.is_empty());
    if entries().next().is_none() {
        return true;
    }
    let image = full_name(image);
    entries().any(|entry| {
        let entry = full_name(entry);
        image.strip_prefix(&entry).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
    })
}

/// The registry that a short name means is written out, so that both sides speak alike.
fn full_name(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let has_registry = image.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    if has_registry || (!image.contains('/') && first.contains('.') && !first.contains(':')) {
        return image.to_owned();
    }
    if image.contains('/') { format!("docker.io/{image}") } else { format!("docker.io/library/{image}") }
}

/// What an image reference may be, in the words of an error message.
pub const IMAGE_RULE: &str =
    "a container image such as `ghcr.io/grycap/cowsay:latest`, at most 512 characters without blanks";

pub fn is_image(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 512
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:@+".contains(&b))
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prefix_at_a_boundary_allows() {
        let allowed = ["ghcr.io/grycap/".to_owned(), "busybox".to_owned()];
        for good in
            ["ghcr.io/grycap/cowsay", "ghcr.io/grycap/a/b:1", "busybox", "busybox:1.36", "docker.io/library/busybox"]
        {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["ghcr.io/grycapx/a", "evil.io/ghcr.io/grycap/a", "alpine", "me/busybox"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
        assert!(is_allowed("anything", &[]));
        assert!(is_allowed("anything", &[String::new()]));
    }
}
