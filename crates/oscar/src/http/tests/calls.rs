//! `/job` and `/run`.

use std::time::Duration;

use axum::http::header;
use oscar_engine::jobs::JobPolicy;
use oscar_engine::ports::runtime::Exit;

use super::{World, mk_end, mk_request};

#[tokio::test]
async fn a_call_is_a_job_whose_name_and_place_are_told() {
    let world = World::new().await;
    let event = br#"{"Records":[{"eventSource":"minio:s3","s3":{"bucket":{"name":"photos"},"object":{"key":"in%2Fa+b.jpg"}}}]}"#;
    let answer = world.ask("bob", "POST", "/job/mine", &event[..]).await;
    assert_eq!(answer.status, 201);
    let job = answer.json()["job"].as_str().expect("a name").to_owned();
    assert!(job.starts_with("mine-"), "{job}");
    assert_eq!(answer.header("location"), format!("/system/jobs/mine/{job}"));
    assert_eq!(answer.header("oscar-job-known"), "");
    let told = world.ask("bob", "GET", answer.header("location"), "").await.json();
    assert_eq!((told["submitter"].as_str(), told["source"]["kind"].as_str()), (Some("bob"), Some("call")));
    assert_eq!(told["input"], serde_json::json!({"bucket": "photos", "key": "in/a b.jpg"}));
    assert_eq!(told["story"][0]["time"], "2026-06-12T09:05:29.000Z");
}

#[tokio::test]
async fn who_may_call_is_told_apart() {
    let world = World::new().await;
    for (who, status) in
        [("", 401), ("carol", 403), ("bob", 201), ("alice", 201), ("admin", 201), ("a", 201), ("c", 401)]
    {
        let answer = world.ask(who, "POST", "/job/mine", "x").await;
        assert_eq!(answer.status, status, "{who}: {}", answer.text());
    }
    assert_eq!(
        world.ask("a", "POST", "/job/absent", "x").await.status,
        401,
        "no token tells whether a service is there"
    );
    assert_eq!(world.ask("alice", "POST", "/job/absent", "x").await.status, 404);
    assert_eq!(world.ask("alice", "POST", "/job/Not_A_Name", "x").await.status, 400);
}

#[tokio::test]
async fn a_repeated_call_with_its_key_is_the_same_job() {
    let world = World::new().await;
    let call = |key: &str, body: &'static str| {
        let mut request = mk_request("alice", "POST", "/job/mine", body);
        request.headers_mut().insert("idempotency-key", key.parse().expect("a value"));
        world.send(request)
    };
    let (first, second, other) = (call("k", "x").await, call("k", "x").await, call("l", "x").await);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201));
    assert_eq!((first.json(), second.header("oscar-job-known")), (second.json(), "true"));
    assert_ne!(first.json(), other.json());
    let reused = call("k", "y").await;
    assert_eq!((reused.status.as_u16(), reused.header("oscar-error")), (422, "idempotency-key-reused"));
    for wrong in ["", "two words", &"x".repeat(256)] {
        assert_eq!(call(wrong, "x").await.status, 400, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_body_may_be_anything_up_to_its_limit() {
    let world = World::new().await;
    assert_eq!(world.ask("alice", "POST", "/job/mine", "").await.status, 201);
    assert_eq!(world.ask("alice", "POST", "/job/mine", vec![0xff; 5 << 20]).await.status, 201);
    for path in ["/job/mine", "/run/mine"] {
        let answer = world.ask("alice", "POST", path, vec![0; (16 << 20) + 1]).await;
        assert_eq!((answer.status.as_u16(), answer.header("oscar-error")), (413, "body-too-large"));
    }
}

#[tokio::test]
async fn a_run_answers_with_what_the_script_said() {
    let world = World::new().await;
    let mut request = mk_request("a", "POST", "/run/mine", "in");
    request.headers_mut().insert(header::CONTENT_TYPE, "image/png".parse().expect("a value"));
    let (answer, ()) = tokio::join!(world.send(request), async {
        let run = world.attempt(|_| true).await;
        world.runtime.answer(&run, mk_end(Exit::Success), b"\xffout");
    });
    assert_eq!((answer.status.as_u16(), answer.body.as_slice()), (200, &b"\xffout"[..]));
    assert_eq!((answer.header("content-type"), answer.header("x-duration-seconds")), ("image/png", "1.500000"));
    assert_eq!(&*world.runtime.orders()[0].event, b"in");
}

#[tokio::test]
async fn a_run_that_fails_says_how() {
    let world = World::new().await;
    let run = async |exit: Exit, output: &[u8]| {
        let (answer, ()) = tokio::join!(world.ask("bob", "POST", "/run/mine", "in"), async {
            let run = world.attempt(|_| true).await;
            world.runtime.answer(&run, mk_end(exit), output);
        });
        answer
    };
    let failed = run(Exit::Code(3), b"no such file\n").await;
    assert_eq!((failed.status.as_u16(), failed.text()), (500, "exit status 3\nno such file\n"));
    assert_eq!(failed.header("oscar-error"), "script-failed");
    let late = run(Exit::TimedOut, b"").await;
    assert_eq!((late.status.as_u16(), late.header("oscar-error")), (408, "run-timeout"));
    let broken = run(Exit::Failed("its image is not there".to_owned()), b"").await;
    assert_eq!((broken.status.as_u16(), broken.text()), (502, "its image is not there"));
}

#[tokio::test]
async fn a_run_may_take_longer_than_other_answers() {
    let world = World::with(JobPolicy::default(), Duration::from_millis(1)).await;
    let (answer, ()) = tokio::join!(world.ask("bob", "POST", "/run/mine", "in"), async {
        let run = world.attempt(|_| true).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.runtime.answer(&run, mk_end(Exit::Success), b"late");
    });
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "late"));
}

#[tokio::test]
async fn runs_that_find_no_place_in_the_line_are_sent_away() {
    let policy = JobPolicy { most_waiting_runs: 0, ..JobPolicy::default() };
    let world = World::with(policy, Duration::from_mins(1)).await;
    let answer = world.ask("bob", "POST", "/run/mine", "in").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "2"));
}

#[tokio::test]
async fn calls_are_remembered_for_those_who_see_everything() {
    let world = World::new().await;
    for (who, path) in [("bob", "/job/mine"), ("a", "/job/mine"), ("", "/run/mine")] {
        world.ask(who, "POST", path, "x").await;
    }
    assert_eq!(world.ask("alice", "GET", "/system/logs", "").await.status, 403);
    let logs = world.ask("admin", "GET", "/system/logs?timestamps=true", "").await.json();
    let told: Vec<_> =
        logs["logs"].as_array().expect("a list").iter().map(|log| (&log["user"], &log["status"])).collect();
    assert_eq!(told, [(&"bob".into(), &201.into()), (&"oscar".into(), &201.into()), (&"nil".into(), &401.into())]);
    assert_eq!(world.ask("admin", "GET", "/system/logs?previous=true", "").await.status, 400);
}
