use crate::cli::clusters::file::Clusters;
use crate::cli::doctor::Finding;
use crate::cli::places::{Places, variable};

/// Whether the client's own file can be used.
pub(super) fn check(places: &Places) -> Vec<Finding> {
    let path = places.clusters_file();
    let mut findings = Vec::new();
    match Clusters::load(&path) {
        Err(failure) => findings.push(failure.into()),
        Ok(_) if !path.exists() => findings.push(Finding::fine(format!("{} does not exist yet", path.display()))),
        Ok(clusters) => {
            findings.push(Finding::fine(format!("{} is readable, for you only", path.display())));
            let dangling = clusters.default.as_ref().filter(|name| !clusters.clusters.contains_key(*name));
            if let Some(name) = dangling {
                findings.push(Finding::broken(
                    format!("the default cluster `{name}` is not configured"),
                    "choose another: oscar cluster use NAME",
                ));
            }
        }
    }
    if let (Some(endpoint), true) = (variable("OSCAR_ENDPOINT"), path.exists()) {
        findings.push(Finding::doubtful(
            format!("OSCAR_ENDPOINT ({endpoint}) is used instead of the default cluster"),
            "unset the variable, or name a cluster with `--cluster`",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    #[test]
    fn a_default_that_is_gone_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places { config: folder.path().to_owned(), data: folder.path().join("data") };
        assert!(check(&places).iter().all(|finding| finding.level == Level::Fine));
        let clusters = Clusters { default: Some("gone".to_owned()), ..Clusters::default() };
        clusters.save(&places.clusters_file()).expect("written");
        assert!(check(&places).iter().any(|finding| finding.level == Level::Broken));
    }
}
