//! Metrics and the status.

use oscar_engine::ports::runtime::Exit;
use oscar_engine::ports::services::Services as _;
use oscar_model::service::Sensitive;
use serde_json::json;

use super::{World, mk_end, mk_service};

/// Alice's job and bob's, both of the service `mine`; both have ended.
async fn mk_busy_world() -> World {
    let world = World::new().await;
    for who in ["alice", "bob"] {
        let job = world.submit(who, "mine").await;
        let run = world.attempt_of(&job).await;
        world.runtime.finish(&run, mk_end(Exit::Success));
        world.until("mine", &job, "succeeded").await;
    }
    world
}

/// In which the clock of the world stands.
const THEN: &str = "start=2026-06-12T00:00:00Z&end=2026-06-13T00:00:00Z";

#[tokio::test]
async fn runs_are_counted_for_those_who_may_know_of_them() {
    let world = mk_busy_world().await;
    for (who, async_runs, users) in [
        ("admin", 2, json!(["alice", "bob"])),
        ("alice", 2, json!(["alice", "bob"])),
        ("bob", 1, json!(["bob"])),
        ("carol", 0, json!(null)),
    ] {
        let told = world.ask(who, "GET", &format!("/system/metrics?{THEN}"), "").await.json();
        assert_eq!(
            (&told["totals"]["requests_count_async"], &told["totals"]["users"]),
            (&async_runs.into(), &users),
            "{who}"
        );
        assert_eq!(told["sources"], json!([{"name": "history", "status": "ok"}]));
    }
    let told =
        world.ask("admin", "GET", "/system/metrics?start=2020-01-01T00:00:00Z&end=2020-01-02T00:00:00Z", "").await;
    assert!(told.text().starts_with(r#"{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z","totals":{"services_count_active":0,"services_count_total":2,"cpu_hours_total":0,"#), "{}", told.text());
    for wrong in ["start=x", "end=2020", "start=2026-06-13T00:00:00Z&end=2026-06-12T00:00:00Z"] {
        let answer = world.ask("admin", "GET", &format!("/system/metrics?{wrong}"), "").await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().starts_with(r#"{"error":""#), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_service_is_counted_by_itself() {
    let world = mk_busy_world().await;
    let all = world.ask("alice", "GET", &format!("/system/metrics/mine?{THEN}"), "").await.json();
    let values: Vec<_> =
        all["metrics"].as_array().expect("a list").iter().map(|metric| metric["value"].clone()).collect();
    assert_eq!(values, [0, 0, 0, 2, 0, 2].map(serde_json::Value::from));
    let one =
        world.ask("bob", "GET", &format!("/system/metrics/mine?{THEN}&metric=requests-async-per-service"), "").await;
    assert!(
        one.text().starts_with(r#"{"service_id":"mine","metric":"requests-async-per-service","start":"#),
        "{}",
        one.text()
    );
    assert_eq!(one.json()["value"], 1);
    for (who, path, status) in [
        ("carol", "/system/metrics/mine", 403),
        ("alice", "/system/metrics/absent", 404),
        ("admin", "/system/metrics/absent", 200),
        ("alice", "/system/metrics/mine?metric=countries-list", 400),
    ] {
        let answer = world.ask(who, "GET", path, "").await;
        assert_eq!(answer.status, status, "{who} {path}");
        assert!(status == 200 || answer.json()["error"].is_string());
    }
}

#[tokio::test]
async fn runs_are_broken_down_by_service_and_user() {
    let world = mk_busy_world().await;
    let path = |rest: &str| format!("/system/metrics/breakdown?{THEN}&{rest}");
    let users = world.ask("alice", "GET", &path("group_by=user"), "").await.json();
    assert_eq!(
        users["items"],
        json!([
            {"key": "alice", "executions_count": 1, "countries": null},
            {"key": "bob", "executions_count": 1, "countries": null},
        ])
    );
    let services = world.ask("alice", "GET", &path("group_by=service&include_users=true"), "").await.json();
    assert_eq!(
        (&services["items"][0]["key"], &services["items"][0]["users"]),
        (&"mine".into(), &json!(["alice", "bob"]))
    );
    let table = world.ask("alice", "GET", &path("group_by=service&format=csv"), "").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(table.text().lines().nth(1), Some("mine,,2,0,2,0,2,"));
    for wrong in ["", "group_by=x", "group_by=user&format=xml", "group_by=service&format=csv&include_users=true"] {
        assert_eq!(world.ask("alice", "GET", &path(wrong), "").await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn the_next_owner_of_a_name_is_told_nothing_of_the_former_ones() {
    let world = mk_busy_world().await;
    let next = mk_service("mine", "carol", &["bob"], 'd');
    world.services.remove(next.name(), None).await.expect("removed");
    world.services.create(next, Sensitive::default()).await.expect("made");
    let users = async |who: &str| {
        let told = world.ask(who, "GET", &format!("/system/metrics?{THEN}"), "").await.json();
        told["totals"]["users"].clone()
    };
    let listed = async |who: &str| world.ask(who, "GET", "/system/logs/mine", "").await.json()["jobs"].clone();
    for who in ["carol", "bob"] {
        assert_eq!((users(who).await, listed(who).await), (json!(null), json!({})), "{who}");
    }
    let items = world.ask("carol", "GET", &format!("/system/metrics/breakdown?{THEN}&group_by=user"), "").await;
    assert_eq!(items.json()["items"], json!([]));
    let all = world.ask("carol", "GET", &format!("/system/metrics/mine?{THEN}"), "").await.json();
    assert!(all["metrics"].as_array().expect("a list").iter().all(|metric| metric["value"] == 0), "{all}");
    assert_eq!(users("admin").await, json!(["alice", "bob"]), "the administrator knows");

    let job = world.submit("carol", "mine").await;
    world.runtime.finish(&world.attempt_of(&job).await, mk_end(Exit::Success));
    world.until("mine", &job, "succeeded").await;
    assert_eq!(users("carol").await, json!(["carol"]));
    assert_eq!(listed("carol").await.as_object().expect("a map").keys().collect::<Vec<_>>(), [&job]);
    assert_eq!(users("admin").await, json!(["alice", "bob", "carol"]));
}

#[tokio::test]
async fn the_status_counts_jobs_for_those_who_see_everything() {
    let world = mk_busy_world().await;
    let told = world.ask("admin", "GET", "/system/status", "").await.json();
    assert_eq!(told["oscar"]["jobs_count"], 2);
    let states = json!({"Failed": 0, "Pending": 0, "Running": 0, "Succeeded": 2, "Unknown": 0});
    assert_eq!(told["oscar"]["pods"], json!({"total": 2, "states": states}));
    let told = world.ask("alice", "GET", "/system/status", "").await.json();
    assert_eq!((&told["oscar"]["jobs_count"], &told["oscar"]["pods"]["states"]), (&0.into(), &json!({})));
}

#[tokio::test]
async fn prometheus_reads_numbers_as_the_administrator() {
    let world = mk_busy_world().await;
    assert_eq!(world.ask("alice", "GET", "/metrics", "").await.status, 403);
    let page = world.ask("admin", "GET", "/metrics", "").await;
    for line in
        ["oscar_jobs{state=\"succeeded\"} 2", "oscar_jobs_waiting 0", "oscar_http_requests_total{code=\"201\"} 2"]
    {
        assert!(page.text().lines().any(|found| found == line), "{line}:\n{}", page.text());
    }
}
