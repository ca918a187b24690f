//! `oscar config show`: the settings in force and where each came from.

use serde_json::{Value, json};

use super::{CATALOGUE, Effective, Kind};

fn shown(settings: &Effective, key: &str, kind: Kind) -> String {
    match (kind, settings.text(key)) {
        (Kind::Secret, text) if !text.is_empty() => "(hidden)".to_owned(),
        (_, text) => text.to_owned(),
    }
}

pub fn show_table(settings: &Effective) -> String {
    let rows: Vec<_> = CATALOGUE
        .iter()
        .map(|setting| {
            (setting.key, shown(settings, setting.key, setting.kind), settings.origin(setting.key).to_string())
        })
        .collect();
    let width = |column: fn(&(&str, String, String)) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let (keys, values) = (width(|row| row.0.len()), width(|row| row.1.chars().count()).min(60));
    let mut table = format!("{:keys$}  {:values$}  {}\n", "SETTING", "VALUE", "FROM");
    for (key, value, origin) in rows {
        table.push_str(&format!("{key:keys$}  {value:values$}  {origin}\n"));
    }
    for id in settings.providers.keys() {
        table.push_str(&format!("storage provider {id}\n"));
    }
    for (id, cluster) in &settings.clusters {
        table.push_str(&format!("cluster {id} at {}\n", cluster.endpoint));
    }
    table
}

pub fn show_json(settings: &Effective) -> Value {
    let rows = CATALOGUE.iter().map(|setting| {
        json!({
            "setting": setting.key,
            "variable": setting.variable,
            "value": shown(settings, setting.key, setting.kind),
            "from": settings.origin(setting.key).to_string(),
            "meaning": setting.meaning,
        })
    });
    json!({
        "settings": rows.collect::<Vec<_>>(),
        "storage_providers": settings.providers.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "clusters": settings.clusters.keys().collect::<Vec<_>>(),
    })
}
