//! Keycloak: the reference for every promise about tokens. Users alice (group `vo-a`, role
//! `user`) and bob (group `vo-b`). Up in about twenty seconds, so share it.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::dex::key_ids;
use crate::server::{NotReady, Server, on_free_ports};
use crate::tokens::{CLIENT, password_of};
use crate::{Missing, Part, Scratch, Tokens, free_port, http};

const START_LIMIT: Duration = Duration::from_mins(4);
const REALM: &str = "test";
const ADMIN: &str = "admin";

#[derive(Debug)]
pub struct Keycloak {
    server: Mutex<Server>,
    programs: Part,
    agent: Agent,
    port: u16,
    issuer: String,
    scratch: Scratch,
}

impl Keycloak {
    pub fn start() -> Result<Keycloak, Missing> {
        let programs = Part::find("keycloak")?;
        let scratch = Scratch::new("keycloak");
        let agent = http::agent(None);
        let (server, port) = on_free_ports("keycloak", || {
            let port = free_port();
            let server = spawn(&programs, &scratch, &agent, port)?;
            Ok((server, port))
        });
        let keycloak = Keycloak {
            server: Mutex::new(server),
            programs,
            agent,
            port,
            issuer: format!("http://127.0.0.1:{port}/realms/{REALM}"),
            scratch,
        };
        keycloak.create_realm();
        Ok(keycloak)
    }

    /// The one of this test process. Never stop it; rotating its key is fine.
    pub fn shared() -> Result<&'static Keycloak, Missing> {
        static SHARED: OnceLock<Result<Keycloak, Missing>> = OnceLock::new();
        SHARED.get_or_init(Keycloak::start).as_ref().map_err(Clone::clone)
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub fn client_id(&self) -> &'static str {
        CLIENT
    }

    /// Fresh tokens of `alice` or `bob`.
    pub fn token(&self, user: &str) -> Tokens {
        Tokens::by_password(&self.agent, &self.endpoint("token"), "openid", user)
    }

    /// Trades a refresh token in; each can be used once.
    pub fn refresh(&self, refresh: &str) -> Result<Tokens, Value> {
        Tokens::by_refresh(&self.agent, &self.endpoint("token"), refresh)
    }

    /// Revokes a refresh or access token (RFC 7009).
    pub fn revoke(&self, token: &str) {
        let form = [("client_id", CLIENT), ("token", token)];
        let (status, body) = http::post_form(&self.agent, &self.endpoint("revoke"), &form);
        assert_eq!(status, 200, "revoking a token: {body}");
    }

    /// The published keys, for signing and for encryption.
    pub fn key_ids(&self) -> Vec<String> {
        key_ids(&self.agent, &self.endpoint("certs"))
    }

    /// From now on tokens are signed by a new key; the old ones stay published.
    pub fn rotate_signing_key(&self) {
        // The newest has to win: more keys, higher priority.
        let priority = 1000 + self.key_ids().len();
        let component = json!({
            "name": format!("rotated-{priority}"),
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {
                "priority": [priority.to_string()],
                "enabled": ["true"],
                "active": ["true"],
                "algorithm": ["RS256"],
                "keySize": ["2048"],
            },
        });
        self.administer(&format!("/admin/realms/{REALM}/components"), &component);
    }

    /// The issuer is gone: connections are refused.
    pub fn stop(&self) {
        self.locked().kill();
    }

    /// Back on the same port with the same users and new keys (its storage is in memory).
    pub fn start_again(&self) {
        let again = spawn(&self.programs, &self.scratch, &self.agent, self.port)
            .unwrap_or_else(|why| panic!("keycloak did not start again: {why}"));
        *self.locked() = again;
        self.create_realm();
    }

    fn create_realm(&self) {
        self.administer("/admin/realms", &realm());
    }

    fn administer(&self, path: &str, body: &Value) {
        let base = format!("http://127.0.0.1:{}", self.port);
        let form = [("grant_type", "password"), ("client_id", "admin-cli"), ("username", ADMIN), ("password", ADMIN)];
        let endpoint = format!("{base}/realms/master/protocol/openid-connect/token");
        let (_, token) = http::post_form(&self.agent, &endpoint, &form);
        let token = token["access_token"].as_str().unwrap_or_default();
        let (status, answer) = http::post_json(&self.agent, &format!("{base}{path}"), token, body);
        assert_eq!(status, 201, "POST {path}: {answer}");
    }

    fn endpoint(&self, name: &str) -> String {
        format!("{}/protocol/openid-connect/{name}", self.issuer)
    }

    fn locked(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(programs: &Part, scratch: &Scratch, agent: &Agent, port: u16) -> Result<Server, NotReady> {
    let mut command = Command::new(programs.file("bin/kc.sh"));
    command
        // The part is prepared with a database in memory: instances share nothing.
        .args(["start", "--optimized", "--http-enabled=true"])
        .args(["--hostname-strict=false", "--http-host=127.0.0.1"])
        .arg(format!("--http-port={port}"))
        .arg(format!("--http-management-port={}", free_port()))
        .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMIN)
        .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMIN)
        .env("JAVA_OPTS_KC_HEAP", "-Xms64m -Xmx384m")
        .current_dir(scratch.path());
    let mut server = Server::spawn("keycloak", scratch.path(), &mut command);
    let master = format!("http://127.0.0.1:{port}/realms/master");
    server.wait_ready(START_LIMIT, || http::answers(agent, &master))?;
    Ok(server)
}

fn realm() -> Value {
    let user = |name: &str, group: &str, roles: &[&str]| {
        json!({
            "username": name, "enabled": true, "emailVerified": true,
            "email": format!("{name}@example.org"), "firstName": name, "lastName": "Example",
            "credentials": [{"type": "password", "value": password_of(name), "temporary": false}],
            "groups": [format!("/{group}")],
            "realmRoles": roles,
        })
    };
    let in_tokens = |more: Value| {
        let mut config = json!({
            "access.token.claim": "true", "id.token.claim": "true", "userinfo.token.claim": "true",
        });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        config
    };
    json!({
        "realm": REALM, "enabled": true, "sslRequired": "none",
        // A refresh token is good for one use: re-use ends the session.
        "revokeRefreshToken": true, "refreshTokenMaxReuse": 0,
        "loginWithEmailAllowed": true,
        "groups": [{"name": "vo-a"}, {"name": "vo-b"}],
        "roles": {"realm": [{"name": "user"}]},
        "users": [user("alice", "vo-a", &["user"]), user("bob", "vo-b", &[])],
        "clients": [{
            "clientId": CLIENT, "publicClient": true, "enabled": true,
            "directAccessGrantsEnabled": true, "standardFlowEnabled": true,
            "redirectUris": ["http://127.0.0.1/*"],
            "protocolMappers": [
                {"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
                 "config": in_tokens(json!({"claim.name": "groups", "full.path": "false"}))},
                // As upstream's manager reads it, from userinfo.
                {"name": "membership", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
                 "config": in_tokens(json!({"claim.name": "group_membership", "full.path": "false"}))},
                {"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
                 "config": in_tokens(json!({"included.client.audience": CLIENT}))},
            ],
        }],
    })
}
