//! Buckets.

use serde_json::json;

use super::World;

impl World {
    async fn make_bucket(&self, who: &str, body: serde_json::Value) -> u16 {
        self.ask(who, "POST", "/system/buckets", body.to_string()).await.status.as_u16()
    }
}

#[tokio::test]
async fn a_bucket_is_made_seen_changed_and_removed() {
    let world = World::new().await;
    assert_eq!(world.ask("alice", "GET", "/system/buckets", "").await.text(), "[]");
    let wish = json!({"bucket_name": "photos/in", "visibility": "private", "allowed_users": []});
    assert_eq!(world.make_bucket("alice", wish.clone()).await, 201);
    assert_eq!(world.make_bucket("bob", wish).await, 409);
    let expected = r#"[{"bucket_name":"photos","visibility":"private","allowed_users":[],"owner":"alice","metadata":{"owner_name":"alice by name"}}]"#;
    assert_eq!(world.ask("alice", "GET", "/system/buckets", "").await.text(), expected);
    assert_eq!(world.ask("bob", "GET", "/system/buckets/photos", "").await.status, 404, "to others it is not there");
    let open = json!({"bucket_name": "photos", "visibility": "restricted", "allowed_users": ["bob"]}).to_string();
    assert_eq!(world.ask("bob", "PUT", "/system/buckets", open.clone()).await.status, 404);
    assert_eq!(world.ask("alice", "PUT", "/system/buckets", open.clone()).await.status, 204);
    assert_eq!(world.ask("bob", "PUT", "/system/buckets", open).await.status, 403, "not his to change");
    world.buckets.upload("photos", "in/a.jpg", b"picture", "alice");
    world.buckets.upload("photos", "in/b.jpg", b"other", "alice");
    let page = world.ask("bob", "GET", "/system/buckets/photos?limit=2", "").await.json();
    assert_eq!((&page["visibility"], &page["metadata"]["owner"]), (&"restricted".into(), &"alice".into()));
    let last = page["next_page"].as_str().expect("there is more").to_owned();
    assert_eq!((&page["is_truncated"], &page["returned_items"]), (&true.into(), &2.into()));
    let rest = world.ask("bob", "GET", &format!("/system/buckets/photos?page={last}"), "").await.json();
    assert_eq!(rest["objects"][0]["object_name"], "in/b.jpg");
    assert!(rest["objects"][0]["last_modified"].as_str().expect("a time").ends_with(" +0000 UTC"));
    assert_eq!(world.ask("bob", "DELETE", "/system/buckets/photos", "").await.status, 403);
    assert_eq!(world.ask("alice", "DELETE", "/system/buckets/photos", "").await.status, 204);
    assert_eq!(world.ask("alice", "DELETE", "/system/buckets/photos", "").await.status, 404);
}

#[tokio::test]
async fn a_mistyped_wish_opens_nothing() {
    let world = World::new().await;
    let wrong = [
        json!({"bucket_name": "photos", "visibility": "Public"}),
        json!({"bucket_name": "photos", "visibility": "pubic"}),
        json!({"bucket_name": "No_Bucket"}),
        json!({"bucket_name": "oscar-staging"}),
        json!({"bucket_name": "photos/../other"}),
        json!({"bucket_name": "photos", "allowed_users": [""]}),
        json!({"visibility": "private"}),
        json!(null),
        json!([]),
    ];
    for body in wrong {
        let answer = world.ask("alice", "POST", "/system/buckets", body.to_string()).await;
        assert_eq!((answer.status.as_u16(), answer.header("oscar-error")), (400, "body-malformed"), "{body}");
    }
    assert_eq!(world.ask("alice", "POST", "/system/buckets", "").await.status, 400);
    assert_eq!(world.make_bucket("alice", json!({"bucket_name": "photos"})).await, 201);
    assert_eq!(world.ask("alice", "GET", "/system/buckets/photos", "").await.json()["visibility"], "private");
    let nothing_said = json!({"bucket_name": "photos"}).to_string();
    assert_eq!(world.ask("alice", "PUT", "/system/buckets", nothing_said).await.status, 400);
}

#[tokio::test]
async fn an_address_lasts_as_long_as_either_name_of_it_says() {
    let world = World::new().await;
    assert_eq!(world.make_bucket("alice", json!({"bucket_name": "photos"})).await, 201);
    let sign = async |who: &str, body: serde_json::Value| {
        world.ask(who, "POST", "/system/buckets/photos/presign", body.to_string()).await
    };
    // As oscar-python sends it.
    let python =
        json!({"object_key": "/a.jpg", "operation": "UPLOAD", "expires": 60, "content_type": "", "extra_headers": {}});
    let answer = sign("alice", python).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        answer.text().starts_with(r#"{"object_key":"a.jpg","operation":"upload","method":"PUT","url":""#),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json().get("headers"), None);
    let typed =
        sign("alice", json!({"object_key": "a", "operation": "upload", "content_type": "image/png"})).await.json();
    assert_eq!(typed["headers"], json!({"Content-Type": "image/png"}));
    let extra = json!({"x-amz-meta-run-id": "7 b", "CACHE-CONTROL": "no-store"});
    let more = sign(
        "alice",
        json!({"object_key": "a", "operation": "upload", "content_type": "image/png", "extra_headers": extra}),
    );
    let more = more.await.json();
    assert_eq!(
        more["headers"],
        json!({"Cache-Control": "no-store", "Content-Type": "image/png", "X-Amz-Meta-Run-Id": "7 b"})
    );
    assert_eq!(more["url"], "memory://photos/a?cache-control=no-store&x-amz-meta-run-id=7 b");
    let part = json!({"object_key": "a", "operation": "download", "extra_headers": {"Range": "bytes=0-9"}});
    assert_eq!(sign("alice", part).await.json()["headers"], json!({"Range": "bytes=0-9"}));
    let download = sign("alice", json!({"object_key": "a", "operation": "download", "expires_in": 1})).await.json();
    assert_eq!((&download["method"], download.get("headers")), (&"GET".into(), None));
    let wrong = [
        json!({"object_key": "", "operation": "upload"}),
        json!({"object_key": "a", "operation": "delete"}),
        json!({"object_key": "a", "operation": "upload", "expires_in": 604_801}),
        json!({"object_key": "a", "operation": "upload", "expires": "60"}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"x-amz-acl": "public-read"}}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"X-Amz-Copy-Source": "bobs/secret"}}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"Host": "elsewhere"}}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"x-amz-meta-a": "1", "X-Amz-Meta-A": "2"}}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"x-amz-meta-a": 1}}),
        json!({"object_key": "a", "operation": "upload", "extra_headers": {"x-amz-meta-a": "b\r\nx: y"}}),
        json!({"object_key": "a", "operation": "download", "extra_headers": {"x-amz-meta-a": "1"}}),
        json!({"object_key": "a", "operation": "upload", "content_type": "a\nb"}),
    ];
    for body in wrong {
        assert_eq!(sign("alice", body.clone()).await.status, 400, "{body}");
    }
    assert_eq!(sign("bob", json!({"object_key": "a", "operation": "download"})).await.status, 404);
}
