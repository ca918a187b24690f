//! What ran, for owners and operators.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use oscar_api::body::metrics::{
    Breakdown, Item, Metric, MetricsOfService, OneMetric, ServiceItem, ServiceMetrics, Summary, Totals, UserItem,
};
use oscar_api::problem::Code;

use super::super::answer::{Refused, json_answer};
use super::super::app::App;
use super::super::caller::authenticate;
use super::super::documented::MetricsRefusals;
use super::extract::{NameInPath, Query, service_name};
use super::usage::{Range, Shown, Sums, shown};
use crate::time::{at_millis, rfc3339_nanos};

/// The metrics of a service, in the order in which they are shown.
const METRICS: [&str; 6] = [
    "cpu-hours",
    "gpu-hours",
    "requests-sync-per-service",
    "requests-async-per-service",
    "requests-exposed-per-service",
    "users-per-service",
];

/// Under this key stand runs of those who showed nothing but the token of the service.
const NOBODY: &str = "unknown";

/// What ran in all the services that the caller may see.
#[utoipa::path(get, path = "/system/metrics",
    params(
        ("start" = Option<String>, Query, description = "In RFC 3339; else a day before `end`."),
        ("end" = Option<String>, Query, description = "In RFC 3339; else now."),
    ),
    responses((status = 200, description = "Sums.", body = Summary), MetricsRefusals))]
pub(in super::super) async fn get_metrics(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    match summary(&app, &uri, &headers).await {
        Ok(summary) => json_answer(StatusCode::OK, &summary),
        Err(refused) => refused.wrapped().into_answer(&headers),
    }
}

async fn summary(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<Summary, Refused> {
    let principal = authenticate(app, headers).await?;
    let range = Range::of(uri)?;
    let Shown { sums, services, source } = shown(app, &principal, range, None).await?;
    let active: BTreeSet<_> = sums.iter().map(|sum| &sum.service).collect();
    let active = active.len() as u64;
    let sums = Sums::of(&sums);
    let totals = Totals {
        services_count_active: active,
        services_count_total: services,
        cpu_hours_total: sums.cpu_hours(),
        gpu_hours_total: sums.gpu_hours(),
        requests_count_total: sums.total(),
        requests_count_sync: sums.synchronous(),
        requests_count_async: sums.asynchronous(),
        requests_count_exposed: 0,
        countries_count: 0,
        countries: None,
        users_count: sums.users.len() as u64,
        users: Some(sums.users.into_iter().collect::<Vec<_>>()).filter(|users| !users.is_empty()),
    };
    let (start, end) = printed(range);
    Ok(Summary { start, end, totals, sources: vec![source] })
}

/// The same by service or by user.
#[utoipa::path(get, path = "/system/metrics/breakdown",
    params(
        ("group_by" = String, Query, example = "service", description = "`service`, `user` or `country`; where callers are is not known, so the last has no items."),
        ("start" = Option<String>, Query, description = "In RFC 3339; else a day before `end`."),
        ("end" = Option<String>, Query, description = "In RFC 3339; else now."),
        ("include_users" = Option<bool>, Query, description = "Name the users of each service."),
        ("format" = Option<String>, Query, description = "`json` or `csv`."),
    ),
    responses(
        (status = 200, description = "One item for each.", content((Breakdown = "application/json"), (String = "text/csv"))),
        MetricsRefusals))]
pub(in super::super) async fn get_breakdown(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    breakdown(&app, &uri, &headers).await.unwrap_or_else(|refused| refused.wrapped().into_answer(&headers))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Service,
    User,
    Country,
}

async fn breakdown(app: &App, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let query = Query::of(uri);
    let invalid = |sentence: &str| Refused::new(Code::QueryInvalid, sentence);
    let group = match query.get("group_by") {
        Some("service") => Group::Service,
        Some("user") => Group::User,
        Some("country") => Group::Country,
        _ => return Err(invalid("group_by must be one of service, user, country")),
    };
    let csv = match query.get("format") {
        None | Some("json") => false,
        Some("csv") => true,
        Some(_) => return Err(invalid("format must be json or csv")),
    };
    let include_users = query.flag("include_users")?;
    if csv && include_users {
        return Err(invalid("include_users is not supported with format=csv"));
    }
    let range = Range::of(uri)?;
    let Shown { sums, .. } = shown(app, &principal, range, None).await?;
    let mut groups: BTreeMap<&str, Sums> = BTreeMap::new();
    for sum in &sums {
        let key = match group {
            Group::Service => sum.service.as_str(),
            Group::User if sum.user.is_empty() => NOBODY,
            Group::User => sum.user.as_str(),
            Group::Country => continue,
        };
        groups.entry(key).or_default().add(sum);
    }
    if csv {
        let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
        return Ok((kind, table(group, &groups)).into_response());
    }
    let items = groups.iter().map(|(key, sums)| item(group, key, sums, include_users)).collect();
    let (start, end) = printed(range);
    let group_by = query.get("group_by").unwrap_or_default().to_owned();
    Ok(json_answer(StatusCode::OK, &Breakdown { start, end, group_by, items }))
}

fn item(group: Group, key: &str, sums: &Sums, include_users: bool) -> Item {
    let key = key.to_owned();
    if group == Group::User {
        return Item::User(UserItem { key, executions_count: sums.total(), countries: None });
    }
    Item::Service(ServiceItem {
        key,
        requests_count_total: sums.total(),
        requests_count_sync: sums.synchronous(),
        requests_count_async: sums.asynchronous(),
        requests_count_exposed: 0,
        unique_users_count: sums.users.len() as u64,
        users: include_users.then(|| sums.users.iter().cloned().collect()),
        countries: None,
    })
}

/// Membership and countries are not known; their columns are there for readers of upstream's tables.
fn table(group: Group, groups: &BTreeMap<&str, Sums>) -> String {
    let mut out = match group {
        Group::User => "key,membership,executions_count,countries\n".to_owned(),
        Group::Country => "key,membership,executions_count,unique_users_count,countries\n".to_owned(),
        Group::Service => "key,membership,requests_count_total,requests_count_sync,requests_count_async,\
                           requests_count_exposed,unique_users_count,countries\n"
            .to_owned(),
    };
    for (key, sums) in groups {
        let (key, total, users) = (cell(key), sums.total(), sums.users.len());
        let (synchronous, asynchronous) = (sums.synchronous(), sums.asynchronous());
        // Writing to a string does not fail.
        let _ = match group {
            Group::User => writeln!(out, "{key},,{total},"),
            Group::Country => writeln!(out, "{key},,{total},{users},"),
            Group::Service => writeln!(out, "{key},,{total},{synchronous},{asynchronous},0,{users},"),
        };
    }
    out
}

/// Programs that open tables take a cell that begins like a formula for one.
fn cell(text: &str) -> String {
    let guarded = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() };
    if guarded.contains([',', '"', '\n', '\r']) { format!("\"{}\"", guarded.replace('"', "\"\"")) } else { guarded }
}

/// What ran in one service.
#[utoipa::path(get, path = "/system/metrics/{serviceName}",
    params(
        ("serviceName" = String, Path, description = "Its name.", pattern = "^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$", example = "cowsay"),
        ("start" = Option<String>, Query, description = "In RFC 3339; else a day before `end`."),
        ("end" = Option<String>, Query, description = "In RFC 3339; else now."),
        ("metric" = Option<String>, Query, description = "Only this one."),
    ),
    responses(
        (status = 200, description = "All of them, or the one that was asked for.", body = MetricsOfService),
        MetricsRefusals))]
pub(in super::super) async fn get_service_metrics(
    State(app): State<Arc<App>>,
    NameInPath(name): NameInPath,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    of_service(&app, &name, &uri, &headers).await.unwrap_or_else(|refused| refused.wrapped().into_answer(&headers))
}

async fn of_service(app: &App, name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(app, headers).await?;
    let name = service_name(name)?;
    // What a service did is known longer than the service; only the administrator can ask then.
    if !principal.is_admin() {
        app.manager.service(&principal, &name).await?;
    }
    let range = Range::of(uri)?;
    let wanted = match Query::of(uri).get("metric") {
        None => None,
        Some(text) => match METRICS.iter().find(|metric| **metric == text) {
            Some(metric) => Some(*metric),
            None => {
                return Err(Refused::new(Code::QueryInvalid, format!("metric must be one of {}", METRICS.join(", "))));
            }
        },
    };
    let Shown { sums, source, .. } = shown(app, &principal, range, Some(&name)).await?;
    let sums = Sums::of(&sums);
    let metric = |key: &str| Metric {
        metric: key.to_owned(),
        value: value(key, &sums),
        unit: key.ends_with("-hours").then(|| "hours".to_owned()),
        sources: vec![source.clone()],
    };
    let (start, end) = printed(range);
    let name = name.as_str().to_owned();
    Ok(if let Some(key) = wanted {
        let Metric { metric, value, unit, sources } = metric(key);
        let one = OneMetric { service_id: name, metric, start, end, value, unit, sources };
        json_answer(StatusCode::OK, &MetricsOfService::One(one))
    } else {
        let metrics = METRICS.map(metric).into();
        let all = ServiceMetrics { service_name: name, start, end, metrics };
        json_answer(StatusCode::OK, &MetricsOfService::All(all))
    })
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts so many runs")]
fn value(key: &str, sums: &Sums) -> f64 {
    match key {
        "cpu-hours" => sums.cpu_hours(),
        "gpu-hours" => sums.gpu_hours(),
        "requests-sync-per-service" => sums.synchronous() as f64,
        "requests-async-per-service" => sums.asynchronous() as f64,
        "users-per-service" => sums.users.len() as f64,
        // Exposed services are not called through the manager.
        _ => 0.0,
    }
}

fn printed(range: Range) -> (String, String) {
    let time = |millis| rfc3339_nanos(at_millis(millis));
    (time(range.start), time(range.end))
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_of_a_table_is_no_formula_and_no_two_cells() {
        assert_eq!(cell("alice@example.org"), "alice@example.org");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("=1+1"), "'=1+1");
    }
}
