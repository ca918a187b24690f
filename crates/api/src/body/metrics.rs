//! Bodies of the calls about what ran.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// An error of these calls.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WrappedError {
    pub error: String,
}

/// `GET /system/metrics`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Summary {
    pub start: String,
    pub end: String,
    pub totals: Totals,
    pub sources: Vec<Source>,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Totals {
    pub services_count_active: u64,
    pub services_count_total: u64,
    #[serde(serialize_with = "number")]
    pub cpu_hours_total: f64,
    #[serde(serialize_with = "number")]
    pub gpu_hours_total: f64,
    pub requests_count_total: u64,
    pub requests_count_sync: u64,
    pub requests_count_async: u64,
    pub requests_count_exposed: u64,
    pub countries_count: u64,
    /// Always `null`: where callers are is not looked up.
    pub countries: Option<Vec<Country>>,
    pub users_count: u64,
    /// `null` when nothing ran.
    pub users: Option<Vec<String>>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Country {
    pub country: String,
    pub request_count: u64,
}

/// Where numbers come from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Source {
    pub name: String,
    /// `ok`, `partial` or `missing`.
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

/// `GET /system/metrics/breakdown`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Breakdown {
    pub start: String,
    pub end: String,
    pub group_by: String,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Item {
    Service(ServiceItem),
    User(UserItem),
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServiceItem {
    pub key: String,
    pub requests_count_total: u64,
    pub requests_count_sync: u64,
    pub requests_count_async: u64,
    pub requests_count_exposed: u64,
    pub unique_users_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub users: Option<Vec<String>>,
    pub countries: Option<Vec<Country>>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct UserItem {
    pub key: String,
    pub executions_count: u64,
    pub countries: Option<Vec<Country>>,
}

/// `GET /system/metrics/{serviceName}`
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum MetricsOfService {
    All(ServiceMetrics),
    One(OneMetric),
}

/// `GET /system/metrics/{serviceName}` without `metric`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServiceMetrics {
    pub service_name: String,
    pub start: String,
    pub end: String,
    pub metrics: Vec<Metric>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Metric {
    pub metric: String,
    #[serde(serialize_with = "number")]
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<String>,
    pub sources: Vec<Source>,
}

/// The same with `metric`
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OneMetric {
    pub service_id: String,
    pub metric: String,
    pub start: String,
    pub end: String,
    #[serde(serialize_with = "number")]
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<String>,
    pub sources: Vec<Source>,
}

/// As Go prints it: a whole number without a fraction.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Larger ones are not exact anyway.
    const MOST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    if value.fract() == 0.0 && value.abs() < MOST {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_does() {
        let totals = Totals { cpu_hours_total: 2.0, gpu_hours_total: 0.25, ..Totals::default() };
        let text = String::from_utf8(crate::json::to_vec(&totals)).expect("text");
        assert!(text.contains(r#""cpu_hours_total":2,"gpu_hours_total":0.25,"#), "{text}");
        assert!(text.ends_with(r#""countries":null,"users_count":0,"users":null}"#), "{text}");
    }
}
