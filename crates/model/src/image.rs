//! Which container images a cluster lets its users run.

/// What stands for an image where a script needs none: on managers that run scripts without
/// containers. Where containers are used nothing of that name runs.
pub const NO_IMAGE: &str = "none";

/// Whether `image` comes from one of the allowed repositories. None listed allows all, and
/// [`NO_IMAGE`] comes from nowhere.
///
/// An entry allows itself and everything below it: `ghcr.io/grycap` allows
/// `ghcr.io/grycap/cowsay:1` but neither `ghcr.io/grycapx/a` nor `evil.io/ghcr.io/grycap/a`.
pub fn is_allowed(image: &str, repositories: &[String]) -> bool {
    let entries =
        || repositories.iter().map(|entry| entry.trim().trim_end_matches('/')).filter(|entry| !entry.is_empty());
    if image == NO_IMAGE || entries().next().is_none() {
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
    if has_registry || (!image.contains('/') && is_registry(first)) {
        return image.to_owned();
    }
    if image.contains('/') { format!("docker.io/{image}") } else { format!("docker.io/library/{image}") }
}

/// A registry alone, as an entry may name it: a host with a dot, or one with a port. `busybox:1`
/// is neither, because tags of that kind have no dot in front of them.
fn is_registry(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((host, port)) => {
            (host.contains('.') || host == "localhost") && port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        None => text.contains('.') || text == "localhost",
    }
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
        let registries = ["localhost:5000".to_owned(), "registry.example.org:8443/".to_owned(), "quay.io".to_owned()];
        for good in ["localhost:5000/a", "registry.example.org:8443/team/a:1", "quay.io/a/b"] {
            assert!(is_allowed(good, &registries), "{good}");
        }
        for bad in ["localhost:5001/a", "registry.example.org/team/a", "registry.example.org:84430/a", "busybox:1"] {
            assert!(!is_allowed(bad, &registries), "{bad}");
        }
        assert!(is_allowed(NO_IMAGE, &registries), "it names no image");
        assert!(!is_allowed("none:1", &registries) && !is_allowed("docker.io/library/none", &registries));
        assert!(is_allowed("anything", &[]));
        assert!(is_allowed("anything", &[String::new()]));
    }
}
