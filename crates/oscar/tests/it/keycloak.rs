//! The identity provider that most federations run on: Keycloak, its keys changed while
//! requests are under way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oscar_testkit::{Keycloak, require};
use reqwest::Method;

use super::manager::Manager;

const ROTATIONS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_valid_token_is_refused_while_signing_keys_change() {
    let keycloak = require!(Keycloak::shared());
    let manager = Manager::start(&[
        ("OIDC_ENABLE", "true"),
        ("OIDC_ISSUERS", keycloak.issuer()),
        ("OIDC_GROUPS", "vo-a"),
        ("OIDC_GROUP_CLAIM", "groups"),
    ]);
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let info = || manager.as_nobody(Method::GET, "/system/info");
    let caller = async || {
        while !done.load(Ordering::SeqCst) {
            let token = tokio::task::block_in_place(|| keycloak.token("alice").access);
            let answer = info().bearer_auth(token).send().await.expect("an answer");
            let status = answer.status();
            assert_eq!(status, 200, "{}", answer.text().await.unwrap_or_default());
            asked.fetch_add(1, Ordering::SeqCst);
        }
    };
    let rotator = async {
        for _ in 0..ROTATIONS {
            let before = asked.load(Ordering::SeqCst);
            let keys = tokio::task::block_in_place(|| {
                keycloak.rotate_signing_key();
                keycloak.key_ids().len()
            });
            assert!(keys >= 2, "old keys stay published");
            // The next rotation comes when tokens of this one were used.
            while asked.load(Ordering::SeqCst) < before + 4 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        done.store(true, Ordering::SeqCst);
    };
    futures::join!(caller(), caller(), rotator);

    // Bob is somebody, but in no group that this cluster accepts.
    let bob = tokio::task::block_in_place(|| keycloak.token("bob").access);
    let refused = info().bearer_auth(bob).send().await.expect("an answer");
    assert_eq!(refused.status(), 401);
    assert!(refused.text().await.expect("a body").contains("none of the groups"));
}
