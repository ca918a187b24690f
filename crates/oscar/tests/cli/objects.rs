//! Files and objects: there and back, in parts, and after an interruption.

use std::fs;
use std::time::Duration;

use rusty_s3::actions::CreateMultipartUpload;
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use serde_json::{Value, json};

use crate::home::Home;

const ODD: &str = "two words + 100% ä.txt";

#[test]
fn buckets_are_made_shared_and_removed() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["bucket", "create", "Data"]).ends(2).says("cannot be the name of a bucket");
    home.run(&["bucket", "create", "data", "--visibility", "restricted", "--allow", "alice"])
        .ends(0)
        .says("created data");
    home.run(&["bucket", "create", "data"]).ends(7).says("`oscar bucket update`");
    home.run(&["bucket", "update", "data", "--allow", "bob", "--deny", "alice"]).ends(0);
    let bucket = home.run(&["bucket", "show", "data", "--json"]).json();
    assert_eq!((&bucket["visibility"], &bucket["allowed_users"]), (&json!("restricted"), &json!(["bob"])));
    home.run(&["bucket", "show", "data"]).ends(0).says("allowed    bob");
    home.run(&["bucket", "update", "data"]).ends(2).says("nothing is to be changed");
    home.run(&["bucket", "list"]).ends(0).says("VISIBILITY").says("data");
    home.run(&["ls"]).ends(0).says("data");
    home.run(&["bucket", "delete", "data"]).ends(2).says("--yes");
    home.run(&["bucket", "delete", "data", "--yes"]).ends(0);
    home.run(&["bucket", "show", "data"]).ends(5).says("`oscar bucket list`");
}

#[test]
fn files_go_there_and_back_whatever_their_names() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["bucket", "create", "data"]).ends(0);
    home.write(ODD, "odd");
    home.write("empty", "");
    for folder in ["tree/deep", "back"] {
        fs::create_dir_all(home.path().join(folder)).expect("made");
    }
    home.write("tree/deep/leaf", "leaf");
    home.run(&["put", ODD, "empty", "data/in/"]).ends(0).says(&format!("data/in/{ODD}"));
    home.run(&["put", "-r", "tree", "data"]).ends(0).says("data/tree/deep/leaf");
    home.run(&["put", "tree", "data"]).ends(2).says("add `-r`");
    home.run(&["put", ODD, "empty", "data/one"]).ends(2).says("several files cannot become one object");
    home.run(&["put", "absent", "data"]).ends(5);
    home.run(&["put", "empty", "nowhere"]).ends(5).says("there is no bucket");

    home.run(&["ls", "data"]).ends(0).says("in/").says("tree/").never_says("leaf");
    home.run(&["ls", "data/in/"]).ends(0).says(ODD).says("empty");
    let listed = home.run(&["ls", "-r", "data", "--json"]).json();
    let keys: Vec<_> =
        listed["objects"].as_array().expect("a list").iter().map(|object| object["key"].clone()).collect();
    assert_eq!(keys, [json!("in/empty"), json!(format!("in/{ODD}")), json!("tree/deep/leaf")]);
    home.run(&["ls", "data/absent"]).ends(0).says("nothing is below data/absent");

    home.run(&["get", &format!("data/in/{ODD}"), "back"]).ends(0).says(&format!("back/{ODD}"));
    assert_eq!(fs::read_to_string(home.path().join("back").join(ODD)).expect("there"), "odd");
    home.run(&["get", "data/in/empty", "nothing"]).ends(0);
    assert_eq!(fs::read(home.path().join("nothing")).expect("there"), b"");
    home.run(&["get", "data/in/absent"]).ends(5).says("there is no object data/in/absent");
    home.run(&["get", "data/in/"]).ends(2).says("names no object");
    std::os::unix::fs::symlink("nothing", home.path().join("link")).expect("made");
    home.run(&["get", &format!("data/in/{ODD}"), "link"]).ends(0);
    assert!(home.path().join("link").is_symlink(), "what it leads to is written");
    assert_eq!(fs::read_to_string(home.path().join("nothing")).expect("there"), "odd");
    let made = std::process::Command::new("mkfifo").arg(home.path().join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    home.run(&["get", "data/in/empty", "pipe"]).ends(2).says("is no file that could be replaced");
    home.run(&["get", "data/../x"]).ends(2);

    let odd = format!("data/in/{ODD}");
    home.run(&["rm", &odd, "data/in/absent"]).ends(5).says(&format!("deleted {odd}")).says("no object data/in/absent");
    home.run(&["ls", "-r", "data"]).ends(0).never_says(ODD);
}

/// Bytes that repeat nowhere near.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut step = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| step()).collect()
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["bucket", "create", "data"]).ends(0);
    let bytes = noise(3 << 20);
    fs::write(home.path().join("big"), &bytes).expect("written");
    home.run(&["put", "big", "data/big"]).ends(0);
    let listed = home.run(&["ls", "data", "--json"]).json();
    let tag = listed["objects"][0]["etag"].as_str().expect("a tag").to_owned();
    // What is there already is kept, even if it is not what it should be: it is not asked for again.
    let part = home.path().join(format!("copy.{tag}.part"));
    let mut begun = bytes[..1 << 20].to_vec();
    begun[7] ^= 1;
    fs::write(&part, &begun).expect("written");
    home.run(&["get", "data/big", "copy"]).ends(0);
    let copy = fs::read(home.path().join("copy")).expect("there");
    assert!(copy[..1 << 20] == begun[..] && copy[1 << 20..] == bytes[1 << 20..] && !part.exists());

    // That of another object does not count.
    fs::write(home.path().join("fresh.0123.part"), b"other").expect("written");
    home.run(&["get", "data/big", "fresh"]).ends(0);
    assert!(fs::read(home.path().join("fresh")).expect("there") == bytes);
}

const MINUTE: Duration = Duration::from_mins(1);

/// An upload of which one part arrived before its sender went away; gives its id.
async fn interrupted(home: &Home, key: &str, part: Vec<u8>) -> (Bucket, Credentials, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let config = http.get(format!("{}/system/config", home.url())).basic_auth("oscar", Some(home.password()));
    let config: Value = config.send().await.expect("an answer").json().await.expect("JSON");
    let text = |name: &str| config["minio_provider"][name].as_str().expect("a text").to_owned();
    let endpoint = text("endpoint").parse().expect("an address");
    let bucket = Bucket::new(endpoint, UrlStyle::Path, "data".to_owned(), "us-east-1".to_owned()).expect("a bucket");
    let keys = Credentials::new(text("access_key"), text("secret_key"));
    let begun = http.post(bucket.create_multipart_upload(Some(&keys), key).sign(MINUTE)).send().await;
    let begun = begun.expect("an answer").text().await.expect("a text");
    let id = CreateMultipartUpload::parse_response(&begun).expect("S3").upload_id().to_owned();
    let url = bucket.upload_part(Some(&keys), key, 1, &id).sign(MINUTE);
    assert_eq!(http.put(url).body(part).send().await.expect("an answer").status(), 200);
    (bucket, keys, id)
}

/// Whether the store still has the upload.
async fn is_unfinished(bucket: &Bucket, keys: &Credentials, key: &str, id: &str) -> bool {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = bucket.list_parts(Some(keys), key, id).sign(MINUTE);
    http.get(url).send().await.expect("an answer").status().is_success()
}

#[tokio::test]
async fn an_upload_in_parts_goes_on_with_those_that_arrived() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&["bucket", "create", "data"]).ends(0);
    let bytes = noise((64 << 20) + 1);
    fs::write(home.path().join("big"), &bytes).expect("written");
    let part = 16 << 20;
    let (bucket, keys, ours) = interrupted(&home, "a + b%", bytes[..part].to_vec()).await;
    // That of another file under the same key is left alone, for it may be under way.
    let (_, _, other) = interrupted(&home, "a + b%", vec![0; part]).await;
    home.run(&["put", "big", "data/a + b%"]).ends(0);
    assert!(!is_unfinished(&bucket, &keys, "a + b%", &ours).await, "it was completed");
    assert!(is_unfinished(&bucket, &keys, "a + b%", &other).await);
    let listed = home.run(&["ls", "data", "--json"]).json();
    assert_eq!(listed["objects"][0]["bytes"], bytes.len());
    assert!(listed["objects"][0]["etag"].as_str().is_some_and(|tag| tag.ends_with("-5")), "{listed}");
    home.run(&["get", "data/a + b%", "copy"]).ends(0);
    assert!(fs::read(home.path().join("copy")).expect("there") == bytes);
}
