//! Jobs and their logs.

use oscar_engine::ports::runtime::Exit;

use super::{World, mk_end};

#[tokio::test]
async fn jobs_are_listed_as_clients_of_oscar_read_them() {
    let world = World::new().await;
    let empty = world.ask("alice", "GET", "/system/logs/mine?page=", "").await;
    assert_eq!(empty.text(), r#"{"jobs":{}}"#);
    let job = world.submit("alice", "mine").await;
    let run = world.attempt_of(&job).await;
    world.until("mine", &job, "running").await;
    let running = world.ask("alice", "GET", "/system/logs/mine", "").await;
    let expected = format!(
        "{{\"jobs\":{{\"{job}\":{{\"status\":\"Running\",\"creation_time\":\"2026-06-12T09:05:29Z\",\
         \"start_time\":\"2026-06-12T09:05:29Z\",\"state\":\"running\""
    );
    assert!(running.text().starts_with(&expected), "{}", running.text());
    world.runtime.finish(&run, mk_end(Exit::Code(2)));
    let told = world.until("mine", &job, "failed").await;
    assert_eq!((&told["exit_code"], &told["attempts"]), (&2.into(), &1.into()));
    let listed = world.ask("alice", "GET", "/system/logs/mine", "").await.json();
    assert_eq!(listed["jobs"][&job]["status"], "Failed");
    assert_eq!(listed["jobs"][&job]["reason"], "the script ended with exit code 2");
    assert_eq!(listed["jobs"][&job]["finish_time"], "2026-06-12T09:05:29Z");
}

#[tokio::test]
async fn pages_lead_to_every_job_once() {
    let world = World::new().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.insert(0, world.submit("alice", "mine").await);
    }
    let (mut seen, mut page) = (Vec::new(), String::new());
    loop {
        let path = format!("/system/jobs/mine?limit=2&page={page}");
        let list = world.ask("alice", "GET", &path, "").await.json();
        seen.extend(
            list["jobs"].as_array().expect("a list").iter().map(|job| job["name"].as_str().expect("a name").to_owned()),
        );
        match list["next_page"].as_str() {
            Some(next) => next.clone_into(&mut page),
            None => break,
        }
    }
    assert_eq!(seen, made);
    for wrong in ["0", "1001", "x"] {
        assert_eq!(world.ask("alice", "GET", &format!("/system/logs/mine?limit={wrong}"), "").await.status, 400);
    }
}

#[tokio::test]
async fn a_job_is_there_for_its_submitter_and_the_owner_only() {
    let world = World::new().await;
    let (of_alice, of_bob) = (world.submit("alice", "mine").await, world.submit("bob", "mine").await);
    for (who, job, status) in
        [("bob", &of_alice, 404), ("bob", &of_bob, 200), ("alice", &of_bob, 200), ("carol", &of_bob, 403)]
    {
        for path in [format!("/system/jobs/mine/{job}"), format!("/system/logs/mine/{job}?follow=false")] {
            let answer = world.ask(who, "GET", &path, "").await;
            let fits = answer.status == status || (status == 200 && answer.header("oscar-error") == "log-not-found");
            assert!(fits, "{who} {path}: {} {}", answer.status, answer.text());
        }
    }
    assert_eq!(world.ask("bob", "DELETE", &format!("/system/logs/mine/{of_alice}"), "").await.status, 404);
    assert_eq!(world.ask("alice", "GET", &format!("/system/jobs/other/{of_bob}"), "").await.status, 403);
    assert_eq!(world.ask("alice", "GET", "/system/jobs/mine/Not_A_Name", "").await.status, 404);
    let listed = world.ask("bob", "GET", "/system/logs/mine", "").await.json();
    assert_eq!(listed["jobs"].as_object().expect("a map").keys().collect::<Vec<_>>(), [&of_bob]);
    for path in ["/system/logs/mine", "/system/jobs/mine"] {
        assert_eq!(world.ask("carol", "GET", path, "").await.status, 403, "never an empty 200");
        assert_eq!(world.ask("alice", "GET", &path.replace("mine", "absent"), "").await.status, 404);
    }
}

#[tokio::test]
async fn a_guest_forgets_only_what_is_his() {
    let world = World::new().await;
    let (of_alice, of_bob) = (world.submit("alice", "mine").await, world.submit("bob", "mine").await);
    for job in [&of_alice, &of_bob] {
        let run = world.attempt_of(job).await;
        world.runtime.finish(&run, mk_end(Exit::Success));
        world.until("mine", job, "succeeded").await;
    }
    assert_eq!(world.ask("bob", "DELETE", "/system/logs/mine", "").await.status, 204);
    let listed = world.ask("alice", "GET", "/system/logs/mine", "").await.json();
    assert_eq!(listed["jobs"].as_object().expect("a map").keys().collect::<Vec<_>>(), [&of_alice]);
    assert_eq!(world.ask("alice", "DELETE", &format!("/system/logs/mine/{of_alice}"), "").await.status, 204);
    assert_eq!(world.ask("alice", "GET", "/system/logs/mine?page=", "").await.text(), r#"{"jobs":{}}"#);
}

#[tokio::test]
async fn a_log_is_read_as_far_as_it_goes_or_followed_to_its_end() {
    let world = World::new().await;
    let job = world.submit("bob", "mine").await;
    let path = format!("/system/logs/mine/{job}");
    let run = world.attempt_of(&job).await;
    world.until("mine", &job, "running").await;
    let first = vec![b'x'; 100_000];
    world.runtime.say(&run, &first);
    let now = world.ask("alice", "GET", &path, "").await;
    assert_eq!((now.status.as_u16(), now.header("content-type")), (200, "text/plain; charset=utf-8"));
    assert!(now.body == first);
    let followed = format!("{path}?follow=true");
    let (whole, ()) = tokio::join!(world.ask("bob", "GET", &followed, ""), async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        world.runtime.say(&run, b"the end\n");
        world.runtime.finish(&run, mk_end(Exit::Success));
    });
    assert!(whole.body == [&first[..], b"the end\n"].concat(), "{} bytes", whole.body.len());
    assert_eq!(world.ask("bob", "GET", &format!("{path}?tailLines=0"), "").await.status, 400);
}

#[tokio::test]
async fn a_job_is_cancelled_by_those_who_may_end_it() {
    let world = World::new().await;
    let job = world.submit("bob", "mine").await;
    let path = format!("/system/jobs/mine/{job}/cancel");
    let run = world.attempt_of(&job).await;
    world.until("mine", &job, "running").await;
    assert_eq!(world.ask("carol", "POST", &path, "").await.status, 403);
    let told = world.ask("bob", "POST", &path, "").await;
    assert_eq!((told.status.as_u16(), &told.json()["cancelling"]), (202, &true.into()));
    assert!(world.runtime.was_told_to_end(&run));
    world.runtime.finish(&run, mk_end(Exit::Cancelled));
    world.until("mine", &job, "cancelled").await;
    let over = world.ask("alice", "POST", &path, "").await;
    assert_eq!((over.status.as_u16(), over.header("oscar-error")), (409, "job-over"));
}

#[tokio::test]
async fn a_service_without_a_running_part_says_so() {
    let world = World::new().await;
    let told = world.ask("bob", "GET", "/system/services/mine/deployment", "").await;
    let expected = concat!(
        r#"{"service_name":"mine","namespace":"oscar-svc","state":"unavailable","active_instances":0,"#,
        r#""affected_instances":0,"resource_kind":"unavailable"}"#,
    );
    assert_eq!(told.text(), expected);
    let logs = world.ask("bob", "GET", "/system/services/mine/deployment/logs?tailLines=x", "").await.json();
    assert_eq!((&logs["available"], &logs["entries"]), (&false.into(), &serde_json::json!([])));
    assert!(logs["message"].as_str().expect("a sentence").contains("/system/logs/mine/"));
    assert_eq!(world.ask("carol", "GET", "/system/services/mine/deployment", "").await.status, 403);
    assert_eq!(world.ask("bob", "GET", "/system/services/absent/deployment", "").await.status, 404);
}
