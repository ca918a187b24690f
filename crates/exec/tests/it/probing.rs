//! Which way is taken, and what is said about the others.

use oscar_exec::{Kind, Settings, probe};
use oscar_testkit::{Part, require};

#[tokio::test]
async fn auto_takes_bubblewrap_where_it_is() {
    let bubblewrap = require!(Part::find("bubblewrap")).file("bwrap");
    let found = probe(Kind::Auto, &Settings { bubblewrap: Some(bubblewrap), ..Settings::default() }).await;
    let description = found.chosen.expect("something works").describe();
    assert_eq!(description.kind, Kind::Bubblewrap);
    assert!(description.with.starts_with("bubblewrap "), "{description:?}");
    assert_eq!(found.ways.len(), 3);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let nowhere = Some("/no/such/program".into());
    let settings = Settings { bubblewrap: nowhere.clone(), engine: nowhere, ..Settings::default() };
    let found = probe(Kind::Auto, &settings).await;
    assert_eq!(found.chosen.expect("a process always works").describe().kind, Kind::Process);
    let why = |kind| found.ways.iter().find(|way| way.kind == kind).expect("it was tried").result.clone();
    assert!(why(Kind::Bubblewrap).expect_err("it is not there").contains("bwrap is not installed"));
    assert!(why(Kind::Container).expect_err("it is not there").contains("/no/such/program"));
    let wished = probe(Kind::Bubblewrap, &settings).await.chosen.expect_err("it is not there");
    assert!(wished.contains("package bubblewrap"), "{wished}");
}

#[tokio::test]
async fn a_program_that_is_no_sandbox_is_not_taken_for_one() {
    let settings = Settings { bubblewrap: Some("/bin/true".into()), ..Settings::default() };
    let why = probe(Kind::Bubblewrap, &settings).await.chosen.expect_err("that is no sandbox");
    assert!(!why.is_empty());
}

/// Plain processes are honest about what they cannot hide.
#[tokio::test]
async fn a_plain_process_says_what_it_shows() {
    let settings = Settings { without_namespaces: true, ..Settings::default() };
    let description = probe(Kind::Process, &settings).await.chosen.expect("it works").describe();
    assert!(description.weaknesses.iter().any(|said| said.contains("other processes")), "{description:?}");
    assert!(description.weaknesses.iter().any(|said| said.contains("files of this machine")), "{description:?}");
}
