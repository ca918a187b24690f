//! What `deny.toml` says of dependencies and what can be told without a network: their
//! licences, and that there is one TLS stack. `cargo deny` knows of advisories, too.

use std::path::Path;

use serde_json::Value;
use toml::Table;

use super::Verdict;
use crate::command;

pub(super) fn check(root: &Path) -> Verdict {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    // What is told beside the answer must not be read as part of it.
    let done = command::cargo(&arguments).stderr(std::process::Stdio::null()).output();
    let Some(metadata) = done.ok().and_then(|done| serde_json::from_slice::<Value>(&done.stdout).ok()) else {
        return Verdict::NotYet("the dependencies of every feature have not been fetched".to_owned());
    };
    let rules = std::fs::read_to_string(root.join("deny.toml")).ok().and_then(|text| text.parse::<Table>().ok());
    match rules {
        Some(rules) => Verdict::Findings(check_packages(&metadata, &rules)),
        None => Verdict::Findings(vec!["deny.toml cannot be read".to_owned()]),
    }
}

fn check_packages(metadata: &Value, rules: &Table) -> Vec<String> {
    let allowed = texts(rules.get("licenses").and_then(|part| part.get("allow")));
    let exceptions = rules.get("licenses").and_then(|part| part.get("exceptions")).and_then(toml::Value::as_array);
    let banned = rules.get("bans").and_then(|part| part.get("deny")).and_then(toml::Value::as_array);
    let names = |list: Option<&Vec<toml::Value>>, name: &str| {
        list.into_iter().flatten().find(|entry| entry.get("name").and_then(toml::Value::as_str) == Some(name)).cloned()
    };
    if allowed.is_empty() || banned.is_none() {
        return vec!["deny.toml allows no licence, or bans nothing".to_owned()];
    }
    let mut findings = Vec::new();
    for package in
        metadata["packages"].as_array().into_iter().flatten().filter(|package| package["source"] != Value::Null)
    {
        let name = package["name"].as_str().unwrap_or_default();
        if names(banned, name).is_some() {
            findings.push(format!("{name} is banned by deny.toml"));
        }
        let mut allowed = allowed.clone();
        allowed.extend(names(exceptions, name).iter().flat_map(|exception| texts(exception.get("allow"))));
        let licence = package["license"].as_str().unwrap_or_default();
        if !permits(licence, &allowed) {
            findings.push(format!("{name} has the licence '{licence}', which deny.toml does not allow"));
        }
    }
    findings
}

fn texts(list: Option<&toml::Value>) -> Vec<String> {
    let items = list.and_then(toml::Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Whether a licence expression can be met by what is allowed; one that is none cannot.
fn permits(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let is = |name: &str| allowed.iter().any(|licence| licence == name);
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any(words, allowed)?;
            let [")", rest @ ..] = *words else { return None };
            *words = rest;
            Some(met)
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(is(&format!("{name} WITH {exception}")))
        }
        [name, rest @ ..] => {
            *words = rest;
            Some(is(name))
        }
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_expression_is_met_by_one_side_of_or_and_both_of_and() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in
            ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 WITH LLVM-exception OR X"]
        {
            assert!(permits(good, &allowed), "{good}");
        }
        for bad in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "Apache-2.0", "(MIT OR ISC) AND GPL-3.0", "MIT)"]
        {
            assert!(!permits(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn banned_crates_and_unknown_licences_are_found() {
        let rules = "[licenses]\nallow = ['MIT']\n[[licenses.exceptions]]\nname = 'odd'\nallow = ['NCSA']\n[bans]\n\
                     deny = [{ name = 'openssl' }]\n";
        let rules = rules.parse::<Table>().expect("TOML");
        let mk = |name: &str, licence: &str| json!({"name": name, "license": licence, "source": "registry"});
        let own = json!({"name": "ours", "license": "Secret", "source": null});
        let packages = [mk("fine", "MIT"), mk("odd", "MIT AND NCSA"), mk("other", "NCSA"), mk("openssl", "MIT"), own];
        let findings = check_packages(&json!({"packages": packages}), &rules);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("other has the licence") && findings[1].starts_with("openssl is banned"));
        assert!(!check_packages(&json!({}), &Table::new()).is_empty(), "rules that say nothing are a finding");
    }
}
