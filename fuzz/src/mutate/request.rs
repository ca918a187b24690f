//! Requests: a line, headers, a body.

use super::{bytes, words};
use crate::Random;

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"];

const PATHS: [&str; 16] = [
    "/health",
    "/system/config",
    "/system/info",
    "/system/status",
    "/system/services",
    "/system/services/",
    "/system/services/mine",
    "/system/services/open",
    "/system/services/none/",
    "/system/services/mine/auth",
    "/system/services/%00",
    "/system/services/%ff",
    "/system/services/a%2Fb",
    "//",
    "/system//services",
    "*",
];

const QUERIES: [&str; 14] = [
    "",
    "?",
    "?limit=1",
    "?limit=0",
    "?limit=1&page=mine",
    "?limit=99999999999999999999",
    "?page=%zz",
    "?include=deployment",
    "?include=,Deployment ,x",
    "?dry_run=true",
    "?dry_run=1&dry_run=0",
    "?dry_run=maybe",
    "?&&=&a",
    "?limit=+1&page=%ff",
];

/// Credentials, true and nearly true, and what else the manager reads.
const HEADERS: [&str; 30] = [
    // The administrator, in several spellings.
    "Authorization: Basic b3NjYXI6cGxhbnRlZC1wYXNzd29yZA==",
    "authorization: BASIC  b3NjYXI6cGxhbnRlZC1wYXNzd29yZA== ",
    "Authorization: Basic b3NjYXI6cGxhbnRlZC1wYXNzd29yZA",
    "Authorization: Basic b3NjYXI6",
    "Authorization: Basic Og==",
    "Authorization: Basic /w==",
    "Authorization: Basic",
    "Authorization:",
    "Authorization: Bearer alice-token",
    "Authorization: bearer\talice-token",
    "Authorization: Bearer alice-token x",
    "Authorization: Bearer",
    "Authorization: Bearer 0000000000000000000000000000000000000000000000000000000000000000",
    "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
    "Authorization: Digest username=\"oscar\"",
    "If-Match: \"1\"",
    "If-Match: *",
    "If-Match: W/\"1\"",
    "If-Match: \"1\", \"2\" ,\"",
    "If-Match: \"",
    "Content-Type: application/json",
    "Content-Type: application/yaml",
    "Content-Type: text/x-YAML; charset=latin1",
    "Content-Length: 99999999",
    "Content-Length: -1",
    "Accept: application/problem+json",
    "Accept: text/html, application/problem+json;q=0",
    "Origin: https://a.example",
    "Access-Control-Request-Method: PUT",
    "Access-Control-Request-Headers: authorization",
];

const BODIES: [&str; 8] = [
    "",
    "{}",
    r#"{"name":"made","image":"a/b","script":"echo"}"#,
    r#"{"name":"mine","image":"a/b","script":"echo","visibility":"public"}"#,
    "name: made\nimage: a/b\nscript: echo\n",
    "functions:\n  oscar:\n  - c:\n      name: open\n      image: a/b\n      script: echo\n",
    r#"{"allowed_image_repositories":["ghcr.io/a"]}"#,
    "[1,",
];

pub fn request(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if random.once_in(4) {
        return bytes::mutate(random, seeds);
    }
    let path = random.pick(&PATHS).to_owned();
    let mut text = format!("{} {path}{}", random.pick(&METHODS), random.pick(&QUERIES));
    for _ in 0..random.below(5) {
        // The first ones are the keys: most requests should get past the door.
        let header = if random.once_in(3) { HEADERS[random.below(2) * 8] } else { random.pick(&HEADERS) };
        text.push('\n');
        text.push_str(header);
        if random.once_in(12) {
            text.push_str(random.pick(&words::WORDS));
        }
    }
    text.push_str("\n\n");
    text.push_str(random.pick(&BODIES));
    let data = text.into_bytes();
    if random.once_in(6) { bytes::mutate(random, &[data]) } else { data }
}
