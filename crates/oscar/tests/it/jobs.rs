//! Jobs from end to end: the real binary, its embedded store, its executor.

use reqwest::Method;
use serde_json::json;

use crate::jobs_scene::Scene;
use crate::manager::PASSWORD;

const UPPER: &str = "#!/bin/sh\nname=$(basename \"$INPUT_FILE_PATH\")\necho \"working on $name\"\ntr a-z A-Z < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$name\"\n";

#[tokio::test]
async fn an_upload_becomes_an_output() {
    let scene = Scene::start(&[]);
    scene.service("upper", UPPER).await;
    for name in ["plain.txt", "two words + 100% ä.txt"] {
        scene.upload("upper", &format!("in/{name}"), "shout").await;
    }
    let jobs = scene.all_ended("upper", 2).await;
    assert!(jobs.iter().all(|job| job["state"] == "succeeded"), "{jobs:#?}\n{}", scene.manager.log());
    assert_eq!(scene.download("upper", "out/plain.txt").await.as_deref(), Some(&b"SHOUT"[..]));
    assert_eq!(scene.download("upper", "out/two words + 100% ä.txt").await.as_deref(), Some(&b"SHOUT"[..]));
    let cluster = scene.manager.as_admin(Method::GET, "/system/status").send().await.expect("an answer");
    let cluster: serde_json::Value = cluster.json().await.expect("JSON");
    assert_eq!(cluster["minio"], json!({"buckets_count": 1, "total_objects": 6}), "the folders count, too");
    let name = jobs[0]["name"].as_str().expect("a name");
    let previous = format!("/system/logs/upper/{name}?previous=true");
    let previous = scene.manager.as_admin(Method::GET, &previous).send().await.expect("an answer");
    assert_eq!(previous.status(), 404, "there was one attempt only");
    assert!(scene.log("upper", name).await.contains("working on"));
    let story = scene.job("upper", name).await;
    let states: Vec<_> = story["story"].as_array().expect("a list").iter().map(|step| step["state"].clone()).collect();
    assert_eq!(states, ["accepted", "queued", "starting", "running", "succeeded"]);
    assert_eq!(story["outputs"].as_array().map(Vec::len), Some(1));
}

/// One has the name under which scripts find their event, one of the longest names that there are.
#[tokio::test]
async fn inputs_and_outputs_may_have_any_name_of_the_store() {
    let scene = Scene::start(&[]);
    let script = "test \"$EVENT_FILE\" != \"$INPUT_FILE_PATH\" && grep -q Records \"$EVENT_FILE\" || exit 9\n";
    scene.service("upper", &format!("{script}{UPPER}")).await;
    scene.upload("upper", "in/.event", "shout").await;
    let jobs = scene.all_ended("upper", 1).await;
    assert_eq!(jobs[0]["state"], "succeeded", "{jobs:#?}\n{}", scene.manager.log());
    assert_eq!(scene.download("upper", "out/.event").await.as_deref(), Some(&b"SHOUT"[..]));

    let folders = vec!["f".repeat(200); 5].join("/");
    let deep = format!("mkdir -p \"$TMP_OUTPUT_DIR/{folders}\" && echo x > \"$TMP_OUTPUT_DIR/{folders}/1234567\"\n");
    scene.service("deep", &deep).await;
    let job = scene.submit("deep", "{}").await;
    let story = scene.ended("deep", &job).await;
    assert_eq!(story["state"], "succeeded", "{story:#}\n{}", scene.log("deep", &job).await);
    let key = format!("out/{folders}/1234567");
    assert!(key.len() > 1000, "longer than there is room for behind the name of the job");
    assert_eq!(scene.download("deep", &key).await.as_deref(), Some(&b"x\n"[..]));
}

#[tokio::test]
async fn what_is_written_directly_names_its_job_too() {
    let scene = Scene::start(&[]);
    let body = json!({
        "name": "direct", "image": "none", "script": UPPER, "cpu": "0.1", "memory": "64Mi",
        "annotations": {"oscar.grycap/outputs": "direct"},
        "input": [{"storage_provider": "minio.default", "path": "direct/in"}],
        "output": [{"storage_provider": "minio.default", "path": "direct/out"}],
    });
    assert_eq!(scene.manager.create(&body).await, 201);
    scene.upload("direct", "in/a", "shout").await;
    let jobs = scene.all_ended("direct", 1).await;
    assert_eq!(jobs[0]["state"], "succeeded", "{jobs:#?}\n{}", scene.manager.log());
    let url = scene.presign("direct", "out/a", "download").await;
    let answer = reqwest::get(url).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let mark = answer.headers().get("x-amz-meta-oscar-job").and_then(|mark| mark.to_str().ok());
    assert_eq!(mark, jobs[0]["name"].as_str());
}

#[tokio::test]
async fn the_store_may_have_an_address_of_its_own() {
    let scene = Scene::start(&[("OSCAR_S3_LISTEN", "127.0.0.1:0")]);
    let config = scene.manager.as_admin(Method::GET, "/system/config").send().await.expect("an answer");
    let config: serde_json::Value = config.json().await.expect("JSON");
    let endpoint = config["minio_provider"]["endpoint"].as_str().expect("an address").to_owned();
    assert!(endpoint.starts_with("http://127.0.0.1:") && endpoint != scene.manager.url, "{endpoint}");
    scene.service("upper", UPPER).await;
    assert!(scene.presign("upper", "in/a", "upload").await.starts_with(&endpoint));
    scene.upload("upper", "in/a", "shout").await;
    let jobs = scene.all_ended("upper", 1).await;
    assert_eq!(jobs[0]["state"], "succeeded", "{jobs:#?}\n{}", scene.manager.log());
    assert_eq!(scene.download("upper", "out/a").await.as_deref(), Some(&b"SHOUT"[..]));
}

/// Where the executor cannot take it away, the job does not run at all.
#[tokio::test]
async fn a_service_may_want_no_network() {
    let scene = Scene::start(&[]);
    let body = json!({
        "name": "alone", "image": "none", "cpu": "0.1", "memory": "64Mi",
        "script": "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' > \"$TMP_OUTPUT_DIR/seen\"\n",
        "annotations": {"oscar.grycap/network": "none"},
        "output": [{"storage_provider": "minio.default", "path": "alone/out"}],
    });
    assert_eq!(scene.manager.create(&body).await, 201);
    let job = scene.submit("alone", "{}").await;
    let story = scene.ended("alone", &job).await;
    if story["state"] == "succeeded" {
        assert_eq!(scene.download("alone", "out/seen").await.as_deref(), Some(&b"lo\n"[..]));
    } else {
        assert!(story.to_string().contains("no network"), "{story:#}");
    }
}

#[tokio::test]
async fn a_chain_of_services_sees_each_output_once() {
    let scene = Scene::start(&[]);
    scene.service("upper", UPPER).await;
    let next = json!({
        "name": "count", "image": "none", "cpu": "0.1", "memory": "64Mi",
        "script": "wc -c < \"$INPUT_FILE_PATH\" > \"$TMP_OUTPUT_DIR/$(basename \"$INPUT_FILE_PATH\").count\"\n",
        "input": [{"storage_provider": "minio.default", "path": "upper/out"}],
        "output": [{"storage_provider": "minio.default", "path": "count/out"}],
    });
    assert_eq!(scene.manager.create(&next).await, 201);
    for n in 0..10 {
        scene.upload("upper", &format!("in/{n}"), "four").await;
    }
    scene.all_ended("upper", 10).await;
    let jobs = scene.all_ended("count", 10).await;
    assert_eq!(jobs.len(), 10, "each output started one job");
    for n in 0..10 {
        assert_eq!(scene.download("count", &format!("out/{n}.count")).await.as_deref(), Some(&b"4\n"[..]));
    }
}

#[tokio::test]
async fn a_repeated_call_with_its_key_is_one_job() {
    let scene = Scene::start(&[]);
    scene.service("upper", UPPER).await;
    let call = |body: &'static str| {
        let call = scene.manager.as_admin(Method::POST, "/job/upper").header("Idempotency-Key", "one");
        call.body(body).send()
    };
    let mut names = Vec::new();
    for _ in 0..2 {
        let answer = call("hello").await.expect("an answer");
        assert_eq!(answer.status(), 201);
        names.push(answer.json::<serde_json::Value>().await.expect("JSON")["job"].clone());
    }
    assert_eq!(names[0], names[1]);
    assert_eq!(call("other").await.expect("an answer").status(), 422);
    assert_eq!(scene.all_ended("upper", 1).await.len(), 1);
}

#[tokio::test]
async fn a_script_ends_as_it_ended() {
    let scene = Scene::start(&[]);
    scene.service("three", "echo before; echo half > \"$TMP_OUTPUT_DIR/half\"; exit 3\n").await;
    let job = scene.submit("three", "{}").await;
    let story = scene.ended("three", &job).await;
    assert_eq!((story["state"].as_str(), story["exit_code"].as_i64()), (Some("failed"), Some(3)), "{story:#}");
    assert!(scene.log("three", &job).await.contains("before"));
    assert_eq!(scene.download("three", "out/half").await, None, "a job that failed leaves no outputs");
}

#[tokio::test]
async fn a_job_that_runs_can_be_cancelled_with_all_it_started() {
    let scene = Scene::start(&[]);
    let marker = format!("marker-{}", std::process::id());
    scene.service("sleeper", &format!("trap '' TERM; sh -c 'sleep 1000; true' {marker} & sleep 1000\n")).await;
    let job = scene.submit("sleeper", "{}").await;
    scene.until("sleeper", &job, &["running"]).await;
    let path = format!("/system/jobs/sleeper/{job}/cancel");
    let answer = scene.manager.as_admin(Method::POST, &path).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.status());
    let story = scene.ended("sleeper", &job).await;
    assert_eq!(story["state"], "cancelled", "{story:#}");
    assert!(!is_anywhere(&marker), "what it started is gone");
}

#[tokio::test]
async fn a_synchronous_run_answers() {
    let scene = Scene::start(&[]);
    scene.service("echo", "cat \"$INPUT_FILE_PATH\"\n").await;
    let run = |body: &'static str| scene.manager.as_admin(Method::POST, "/run/echo").body(body).send();
    // Base64 of "hello", as clients send it.
    let answer = run("aGVsbG8=").await.expect("an answer");
    let encoding = |answer: &reqwest::Response| answer.headers()["oscar-answer-encoding"].clone();
    assert_eq!(encoding(&answer), "none", "it is what the script said");
    let (status, text) = (answer.status(), answer.text().await.expect("a text"));
    assert_eq!(status, 200, "{text}\n{}", scene.manager.log());
    assert!(text.contains("hello"), "{text}");
    scene.service("file", "head -c 1000000 /dev/zero > \"$TMP_OUTPUT_DIR/zeros\"\n").await;
    let answer = scene.manager.as_admin(Method::POST, "/run/file").body("").send().await.expect("an answer");
    assert_eq!(encoding(&answer), "base64");
    let text = answer.text().await.expect("a text");
    assert_eq!(text.trim_end().trim_end_matches('=').trim_end_matches('A'), "", "many pieces are one answer");
    assert!(text.trim_end().len() >= 1_333_333, "{}", text.len());
    scene.service("bad", "echo oh; exit 4\n").await;
    let answer = scene.manager.as_admin(Method::POST, "/run/bad").body("").send().await.expect("an answer");
    assert_eq!(answer.status(), 500);
    let text = answer.text().await.expect("a text");
    assert!(text.contains("exit status 4") && text.contains("oh"), "{text}");
}

#[tokio::test]
async fn removing_a_service_removes_its_bucket_unless_it_is_to_be_kept() {
    let scene = Scene::start(&[]);
    for (name, query, left) in [("gone", "", 404), ("kept", "?keep_data=true", 200)] {
        scene.service(name, UPPER).await;
        scene.upload(name, "elsewhere/x", "data").await;
        let path = format!("/system/services/{name}{query}");
        let answer = scene.manager.as_admin(Method::DELETE, &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 204);
        let answer = scene.manager.as_admin(Method::GET, &format!("/system/buckets/{name}")).send().await;
        assert_eq!(answer.expect("an answer").status(), left, "{name}");
    }
}

#[tokio::test]
async fn no_upload_is_lost_and_none_is_done_twice_when_the_manager_is_killed() {
    let mut scene = Scene::start(&[]);
    scene.service("upper", UPPER).await;
    let (kills, each) = (5, 20);
    for round in 0..kills {
        for n in 0..each {
            scene.upload("upper", &format!("in/{round}-{n}"), format!("text {round} {n}")).await;
        }
        scene.manager.kill();
        scene.manager.start_again_there();
    }
    let jobs = scene.all_ended("upper", kills * each).await;
    assert_eq!(jobs.len(), kills * each, "one job for each upload");
    let failed: Vec<_> = jobs.iter().filter(|job| job["state"] != "succeeded").collect();
    assert!(failed.is_empty(), "{failed:#?}\n{}", scene.manager.log());
    for round in 0..kills {
        for n in 0..each {
            let output = scene.download("upper", &format!("out/{round}-{n}")).await;
            assert_eq!(output, Some(format!("TEXT {round} {n}").into_bytes()));
        }
    }
    oscar_testkit::count("kills survived by jobs", kills as u64);
}

fn is_anywhere(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(marker))
}

#[tokio::test]
async fn a_script_sees_nothing_of_the_manager() {
    let scene = Scene::start(&[]);
    let data = scene.manager.data();
    let folder = data.display();
    let script = format!(
        "ls {folder} {folder}/objects; cat {folder}/secret.key {folder}/s3.secret {folder}/attempts/*/order.json /etc/shadow\n\
         env; cat /proc/*/environ | tr '\\0' '\\n'; echo that was it\n"
    );
    scene.service("curious", &script).await;
    let job = scene.submit("curious", "{}").await;
    scene.ended("curious", &job).await;
    let log = scene.log("curious", &job).await;
    assert!(log.contains("that was it"), "{log}");
    let read = |name: &str| std::fs::read_to_string(data.join(name)).expect("it is there");
    for secret in [read("secret.key"), read("s3.secret"), PASSWORD.to_owned()] {
        assert!(!log.contains(secret.trim()), "{log}");
    }
    assert!(!log.contains("root:$") && !log.contains("root:*") && !log.contains("secret_key"), "{log}");
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_leave_a_bounded_log_with_its_end() {
    let scene = Scene::start(&[]);
    scene
        .service("chatty", "yes 0123456789012345678901234567890123456789 | head -c 100000000\necho; echo the end\n")
        .await;
    let job = scene.submit("chatty", "{}").await;
    let story = scene.ended("chatty", &job).await;
    assert_eq!(story["state"], "succeeded", "{story:#}");
    let log = scene.log("chatty", &job).await;
    assert!(log.len() < 40_000_000, "{} bytes", log.len());
    assert!(log.contains("were left out") && log.contains("the end"), "{}", &log[log.len() - 400..]);
}

#[tokio::test]
async fn a_script_that_fills_its_disk_fails_alone() {
    let scene = Scene::start(&[("OSCAR_JOB_DISK", "2Mi")]);
    let one = "head -c 50000000 /dev/zero > \"$TMP_OUTPUT_DIR/big\"\n";
    let many = "n=0\nwhile :; do n=$((n + 1)); head -c 65536 /dev/zero > \"$TMP_OUTPUT_DIR/$n\"; done\n";
    for (name, script) in [("one", one), ("many", many)] {
        scene.service(name, script).await;
        let job = scene.submit(name, "{}").await;
        let ended = scene.ended(name, &job).await;
        assert_eq!((&ended["state"], &ended["attempts"]), (&json!("failed"), &json!(1)), "{ended:#}");
        let said = format!("{} {}", ended["story"], scene.log(name, &job).await);
        assert!(said.contains("wrote more to the disk than a job may"), "{said}");
        assert_eq!(ended["outputs"].as_array().map(Vec::len), Some(0), "{ended:#}");
    }
}

/// Without credentials a script is a stranger to the manager and to its store.
#[tokio::test]
async fn a_script_that_calls_the_manager_is_a_stranger() {
    let scene = Scene::start(&[]);
    scene.service("private", UPPER).await;
    scene.upload("private", "in/secret", "hidden").await;
    scene.all_ended("private", 1).await;
    let call = r#"exec 3<>/dev/tcp/ADDRESS; printf 'GET %s HTTP/1.0\r\n\r\n' "$path" >&3; head -n 1 <&3; exec 3>&-"#;
    let call = call.replace("ADDRESS", &scene.manager.url.replace("http://", "").replace(':', "/"));
    let script = format!(
        "cat > /tmp/call <<'EOF'\nfor path in /system/services /system/jobs/private /private/in/secret /private/ \
         /oscar-staging/; do {call}; done\nEOF\nbash /tmp/call\n"
    );
    scene.service("caller", &script).await;
    let job = scene.submit("caller", "{}").await;
    assert_eq!(scene.ended("caller", &job).await["state"], "succeeded", "{}", scene.log("caller", &job).await);
    let said = scene.log("caller", &job).await;
    let answers = said.lines().filter_map(|line| line.strip_prefix("HTTP/1.0 "));
    let statuses: Vec<_> = answers.filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(statuses, ["401", "401", "404", "404", "404"], "{said}");
}

#[tokio::test]
async fn a_script_that_uses_all_memory_fails_alone() {
    let scene = Scene::start(&[]);
    scene.service("greedy", "tail /dev/zero\n").await;
    let job = scene.submit("greedy", "{}").await;
    let ended = scene.ended("greedy", &job).await;
    assert_eq!((&ended["state"], &ended["attempts"]), (&json!("failed"), &json!(1)), "{ended:#}");
    scene.service("upper", UPPER).await;
    let job = scene.submit("upper", "{}").await;
    assert_eq!(scene.ended("upper", &job).await["state"], "succeeded", "the others go on");
}

#[tokio::test]
async fn an_event_of_ten_megabytes_arrives_whole() {
    let scene = Scene::start(&[]);
    scene.service("large", "echo it has $(wc -c < \"$INPUT_FILE_PATH\") bytes\n").await;
    let job = scene.submit("large", vec![0xff; 10_000_000]).await;
    let story = scene.ended("large", &job).await;
    assert_eq!(story["state"], "succeeded", "{story:#}");
    assert!(scene.log("large", &job).await.contains("it has 10000000 bytes"));
}

#[tokio::test]
async fn an_attempt_that_runs_finds_the_store_of_a_manager_that_came_back_elsewhere() {
    let mut scene = Scene::start(&[]);
    scene.service("slow", &format!("sleep 2\n{UPPER}")).await;
    scene.upload("slow", "in/a.txt", "shout").await;
    let job = scene.all_of("slow", 1).await[0]["name"].as_str().expect("a name").to_owned();
    scene.until("slow", &job, &["running"]).await;
    scene.manager.kill();
    let log = scene.manager.data().join(format!("logs/{job}.1.log"));
    let limit = std::time::Duration::from_mins(1);
    let says = |text: &str| std::fs::read_to_string(&log).unwrap_or_default().contains(text).then_some(());
    oscar_testkit::eventually("the script ends while there is no manager", limit, || says("The script has ended"));
    // Bound and not listening: nobody answers there, and the manager has to go somewhere else.
    let former = scene.manager.url.trim_start_matches("http://").parse().expect("an address");
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).and_then(|()| socket.bind(former)).expect("it was the manager's");
    scene.manager.start_again();
    let story = scene.ended("slow", &job).await;
    assert_eq!((story["state"].as_str(), story["attempts"].as_u64()), (Some("succeeded"), Some(1)), "{story:#}");
    assert_eq!(scene.download("slow", "out/a.txt").await.as_deref(), Some(&b"SHOUT"[..]));
}
