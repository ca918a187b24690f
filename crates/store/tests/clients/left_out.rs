//! What the store leaves out says so, and is in its documentation.

use std::path::Path;

use oscar_testkit::{Python, count, require};

use crate::servers::Target;
use crate::support::Served;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_says_so_and_is_documented() {
    let python = require!(Python::find());
    let served = Served::start().await;
    let target = Target::of_store(&served);
    let run = tokio::task::spawn_blocking(move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/left_out.py");
        python.run(&script, &target.environment())
    });
    let output = run.await.expect("the script was run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}{said}", text(&output.stderr));
    let (_, names) = said.split_once("left out: ").expect("the script names them");
    let names: Vec<&str> = names.split_whitespace().collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/storage.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let missing: Vec<&&str> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/storage.md does not say that these are left out: {missing:?}");
    count("s3 operations left out", names.len() as u64);
}
