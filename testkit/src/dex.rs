//! dex: a small identity provider that is up in a moment. Users alice (group `vo-a`)
//! and bob and carol (group `vo-b`).

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::server::{NotReady, Server, on_free_ports};
use crate::tokens::CLIENT;
use crate::{Missing, Part, Scratch, Tokens, free_port, http};

const START_LIMIT: Duration = Duration::from_secs(30);

/// bcrypt of `alice-password` and so on, at the least cost dex accepts.
const USERS: [(&str, &str, &str); 3] = [
    ("alice", "vo-a", "$2b$10$f0..wchJVw7dbpqfYIxck.h9WtS/RKk0UYs60CqhgUjfEPV6Xg8d."),
    ("bob", "vo-b", "$2b$10$dC.0z/Y0LdHa3cnWtojeseydC8OW.dB3/9ClsQfgcPdveboN/EufG"),
    ("carol", "vo-b", "$2b$10$/BWZDTXVZGKe5xb6dYnK2OCq6rTwMo6v7HolKeoz9NMmSXP8rbIdW"),
];

#[derive(Debug, Clone)]
pub struct DexConfig {
    /// How long a signing key is used. dex looks at it every 30 seconds only; for new keys
    /// at once, [`Dex::stop`] and [`Dex::start_again`].
    pub signing_keys: Duration,
    /// How long tokens are valid. dex keeps a retired key as long.
    pub tokens: Duration,
}

impl Default for DexConfig {
    fn default() -> DexConfig {
        DexConfig { signing_keys: Duration::from_hours(6), tokens: Duration::from_hours(1) }
    }
}

#[derive(Debug)]
pub struct Dex {
    server: Mutex<Server>,
    programs: Part,
    agent: Agent,
    issuer: String,
    scratch: Scratch,
}

impl Dex {
    pub fn start(config: &DexConfig) -> Result<Dex, Missing> {
        let programs = Part::find("dex")?;
        let scratch = Scratch::new("dex");
        let agent = http::agent(None);
        let (server, issuer) = on_free_ports("dex", || {
            let port = free_port();
            let issuer = format!("http://127.0.0.1:{port}/dex");
            scratch.write("config.json", &render(config, port, &issuer).to_string());
            let server = spawn(&programs, &scratch, &agent, &issuer)?;
            Ok((server, issuer))
        });
        Ok(Dex { server: Mutex::new(server), programs, agent, issuer, scratch })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The client that tokens are made for: their `aud`.
    pub fn client_id(&self) -> &'static str {
        CLIENT
    }

    /// Fresh tokens of `alice`, `bob` or `carol`.
    pub fn token(&self, user: &str) -> Tokens {
        let scope = "openid profile email groups offline_access";
        Tokens::by_password(&self.agent, &self.token_endpoint(), scope, user)
    }

    /// Trades a refresh token in; the provider's error body when it refuses.
    pub fn refresh(&self, refresh: &str) -> Result<Tokens, Value> {
        Tokens::by_refresh(&self.agent, &self.token_endpoint(), refresh)
    }

    /// The published signing keys, newest first.
    pub fn key_ids(&self) -> Vec<String> {
        key_ids(&self.agent, &format!("{}/keys", self.issuer))
    }

    /// The issuer is gone: connections are refused.
    pub fn stop(&self) {
        self.locked().kill();
    }

    /// Back on the same port, with new signing keys (its storage is in memory).
    pub fn start_again(&self) {
        let mut server = self.locked();
        *server = spawn(&self.programs, &self.scratch, &self.agent, &self.issuer)
            .unwrap_or_else(|why| panic!("dex did not start again: {why}"));
    }

    fn token_endpoint(&self) -> String {
        format!("{}/token", self.issuer)
    }

    fn locked(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn key_ids(agent: &Agent, url: &str) -> Vec<String> {
    let (status, keys) = http::get(agent, url, None);
    assert_eq!(status, 200, "{url} answered {keys}");
    keys["keys"].as_array().into_iter().flatten().filter_map(|key| key["kid"].as_str().map(str::to_owned)).collect()
}

fn spawn(programs: &Part, scratch: &Scratch, agent: &Agent, issuer: &str) -> Result<Server, NotReady> {
    let mut command = Command::new(programs.file("dex"));
    command.arg("serve").arg(scratch.path().join("config.json")).current_dir(scratch.path());
    let mut server = Server::spawn("dex", scratch.path(), &mut command);
    let discovery = format!("{issuer}/.well-known/openid-configuration");
    server.wait_ready(START_LIMIT, || http::answers(agent, &discovery))?;
    Ok(server)
}

/// dex reads YAML, of which JSON is a part.
fn render(config: &DexConfig, port: u16, issuer: &str) -> Value {
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let users: Vec<Value> = USERS
        .iter()
        .map(|(user, group, hash)| {
            json!({
                "email": format!("{user}@example.org"),
                "username": user,
                "preferredUsername": user,
                "name": user,
                "userID": format!("u-{user}"),
                "groups": [group],
                "hash": hash,
            })
        })
        .collect();
    json!({
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": format!("127.0.0.1:{port}")},
        "oauth2": {
            "passwordConnector": "local",
            "skipApprovalScreen": true,
            "grantTypes": ["authorization_code", "refresh_token", "password"],
        },
        "expiry": {
            "signingKeys": seconds(config.signing_keys),
            "idTokens": seconds(config.tokens),
            "refreshTokens": {"reuseInterval": "0s"},
        },
        "enablePasswordDB": true,
        "staticPasswords": users,
        "staticClients": [
            {"id": CLIENT, "name": CLIENT, "public": true, "redirectURIs": ["http://127.0.0.1/callback"]},
        ],
    })
}
