//! The table of settings in `docs/configuration.md`.

use super::{CATALOGUE, Kind, Setting, UPSTREAM};

/// Markdown. `flags` are the settings that `oscar serve` has a flag for.
pub fn settings_table(flags: &[&str]) -> String {
    let head = "| Key in the file | Variable | Flag | Kind | Default | Meaning |\n|---|---|---|---|---|---|\n";
    CATALOGUE.iter().fold(head.to_owned(), |table, setting| table + &row(setting, flags))
}

fn row(setting: &Setting, flags: &[&str]) -> String {
    let Setting { key, variable, kind, default, meaning } = setting;
    let mark = if UPSTREAM.contains(variable) { " ¹" } else { "" };
    let flag = if flags.contains(key) { format!("`--{}`", key.replace('_', "-")) } else { String::new() };
    let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
    let mut letters = meaning.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let meaning = format!("{first}{}", letters.as_str());
    format!("| `{key}` | `{variable}`{mark} | {flag} | {} | {default} | {meaning} |\n", written_as(*kind))
}

fn written_as(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Secret => "secret",
        Kind::Flag => "true or false",
        Kind::Count => "whole number",
        Kind::Seconds => "seconds > 0",
        Kind::List => "list",
        Kind::Url => "http(s) address",
        Kind::Quantity => "quantity",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{UNUSED, unused};

    #[test]
    fn every_variable_of_upstream_is_one_of_ours() {
        for variable in UPSTREAM {
            assert!(CATALOGUE.iter().any(|setting| setting.variable == *variable), "{variable}");
        }
    }

    #[test]
    fn what_is_set_without_effect_is_told() {
        for name in UNUSED {
            assert!(!CATALOGUE.iter().any(|setting| setting.variable == *name), "{name} has an effect");
        }
        let set = |name: &str| match name {
            "KUEUE_ENABLE" => Some("true".to_owned()),
            "LOKI_URL" => Some(String::new()),
            "OSCAR_NAME" => Some("x".to_owned()),
            _ => None,
        };
        assert_eq!(unused(&set), ["KUEUE_ENABLE"]);
    }

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let table = settings_table(&["public_url"]);
        assert!(table.contains("| `public_url` | `OSCAR_PUBLIC_URL` | `--public-url` | http(s) address |  | Address "));
        assert!(table.contains("| `oidc_enable` | `OIDC_ENABLE` ¹ |  | true or false | `false` | Accept "));
        assert!(table.lines().all(|line| line.matches('|').count() == 7), "{table}");
    }
}
