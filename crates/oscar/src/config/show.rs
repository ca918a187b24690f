//! `oscar config show`: the settings in force and where each came from.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::derived::{Derived, Password};
use super::file::{Client, Issuer};
use super::settings::{Effective, World};
use super::{CATALOGUE, Setting};
use crate::config::Kind;

/// As the manager would use it. What only a start can tell is said in parentheses.
fn shown(settings: &Effective, derived: &Derived, setting: &Setting) -> String {
    let text = settings.text(setting.key);
    match setting.key {
        "world" if text == "auto" => match derived.world {
            World::Local => "local".to_owned(),
            World::Kubernetes => "kubernetes".to_owned(),
        },
        "cors" if text == "auto" => if derived.cors { "on" } else { "off" }.to_owned(),
        "data" => derived.data.display().to_string(),
        "listen" => derived.listen.clone(),
        "public_url" if text.is_empty() && derived.listen.ends_with(":0") => {
            "(http:// and the port that is taken)".to_owned()
        }
        "public_url" if text.is_empty() => format!("http://{}", derived.listen),
        "minio_endpoint" => derived.minio_endpoint.clone(),
        "password" => match derived.password(settings) {
            Password::Given => "(hidden)".to_owned(),
            Password::Kept(path) => format!("(kept in {})", path.display()),
            Password::ToBeMade(path) => format!("(will be made and kept in {})", path.display()),
            Password::Missing => "(missing; it is required on Kubernetes)".to_owned(),
        },
        _ if setting.kind == Kind::Secret && !text.is_empty() => "(hidden)".to_owned(),
        _ => text.to_owned(),
    }
}

/// Settings with faults are shown too, and may hold anything.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

pub fn show_table(settings: &Effective, derived: &Derived) -> String {
    let row = |setting: &Setting| {
        let value = printable(&shown(settings, derived, setting));
        (setting.key, value, settings.origin(setting.key).to_string())
    };
    let rows: Vec<_> = CATALOGUE.iter().map(row).collect();
    let width = |column: fn(&(&str, String, String)) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let (keys, values) = (width(|row| row.0.len()), width(|row| row.1.chars().count()).min(60));
    let mut table = format!("{:keys$}  {:values$}  {}\n", "SETTING", "VALUE", "FROM");
    // Writing into a text cannot fail.
    for (key, value, origin) in rows {
        let _ = writeln!(table, "{key:keys$}  {value:values$}  {origin}");
    }
    for Issuer { url, audience, group_claim, client, refresh_scope, subject_suffix } in settings.issuers() {
        let audience = audience.map_or_else(|| "any audience".to_owned(), |audience| format!("audience {audience}"));
        let groups = group_claim.map_or_else(|| "claim by the issuer".to_owned(), |claim| format!("claim {claim}"));
        let mut line = format!("issuer {url}: {audience}, groups from {groups}");
        if let Some(Client { id, secret }) = client {
            let secret = if secret.is_some() { "with its secret (hidden)" } else { "without a secret" };
            line.push_str(&format!(", client {id} {secret}"));
        }
        if let Some(scope) = refresh_scope {
            line.push_str(&format!(", refreshed for scope {scope}"));
        }
        if let Some(suffix) = subject_suffix {
            line.push_str(&format!(", subjects end with {suffix}"));
        }
        let _ = writeln!(table, "{}", printable(&line));
    }
    for id in settings.providers.keys() {
        let _ = writeln!(table, "storage provider {id}");
    }
    for (id, cluster) in &settings.clusters {
        let _ = writeln!(table, "cluster {id} at {}", cluster.endpoint);
    }
    table
}

pub fn show_json(settings: &Effective, derived: &Derived, faults: &[String]) -> Value {
    let rows = CATALOGUE.iter().map(|setting| {
        json!({
            "setting": setting.key,
            "variable": setting.variable,
            "value": shown(settings, derived, setting),
            "from": settings.origin(setting.key).to_string(),
            "meaning": setting.meaning,
        })
    });
    let issuers = settings.issuers().into_iter().map(|issuer| {
        json!({
            "url": issuer.url,
            "audience": issuer.audience,
            "group_claim": issuer.group_claim,
            "client_id": issuer.client.map(|client| client.id),
            "refresh_scope": issuer.refresh_scope,
            "subject_suffix": issuer.subject_suffix,
        })
    });
    json!({
        "settings": rows.collect::<Vec<_>>(),
        "oidc_issuers": issuers.collect::<Vec<_>>(),
        "storage_providers": settings.providers.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "clusters": settings.clusters.keys().collect::<Vec<_>>(),
        "faults": faults.iter().map(|fault| fault.trim_start_matches("- ")).collect::<Vec<_>>(),
    })
}
