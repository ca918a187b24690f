//! Who is signed in, and which refresh token of each session is good.

use std::collections::HashMap;
use std::sync::PoisonError;

use serde_json::{Value, json};

use super::{DevUser, Shared};

pub(super) struct Sessions {
    rotate: bool,
    begun: u64,
    /// By number.
    open: HashMap<u64, Session>,
}

struct Session {
    /// The name of the user.
    user: String,
    /// The number of the refresh token that is good.
    current: u64,
}

impl Sessions {
    pub(super) fn new(rotate: bool) -> Self {
        Self { rotate, begun: 0, open: HashMap::new() }
    }

    fn begin(&mut self, user: &str) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun, Session { user: user.to_owned(), current: 0 });
        self.begun
    }

    /// The user, and the number of the refresh token that is good from now on. A token that was
    /// used before is taken for stolen.
    fn renew(&mut self, number: u64, token: u64) -> Result<(String, u64), &'static str> {
        let Some(session) = self.open.get_mut(&number) else { return Err("the session is over") };
        if session.current != token {
            self.open.remove(&number);
            return Err("the refresh token was used before; the session is over");
        }
        session.current += u64::from(self.rotate);
        Ok((session.user.clone(), session.current))
    }

    fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

impl Shared {
    pub(super) fn sign_in(&self, user: &DevUser) -> (String, String) {
        let session = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).begin(&user.name);
        (self.access(user, session), self.refresh(user, session, 0))
    }

    /// A new access token, and the refresh token that is good from now on.
    pub(super) fn renew(&self, token: &str) -> Result<(String, String), &'static str> {
        let Some((session, number, end)) = self.read(token) else {
            return Err("it is no refresh token of this issuer");
        };
        if end <= self.now() {
            return Err("the refresh token has expired");
        }
        let (name, next) = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).renew(session, number)?;
        let Some(account) = self.users.get(&name) else { return Err("the user is gone") };
        let refresh = if next == number { token.to_owned() } else { self.refresh(&account.user, session, next) };
        Ok((self.access(&account.user, session), refresh))
    }

    /// Ends the session of a refresh token. What is none is nobody's business.
    pub(super) fn revoke(&self, token: &str) {
        if let Some((session, _, _)) = self.read(token) {
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).end(session);
        }
    }

    /// What the holder of an access token is told about himself.
    pub(super) fn userinfo(&self, token: &str) -> Option<Value> {
        let claims = self.signer.read_access(token)?;
        let in_time = claims.get("exp").and_then(Value::as_u64).is_some_and(|end| self.now() < end);
        let account = self.users.get(claims.get("preferred_username")?.as_str()?)?;
        in_time.then(|| about(&account.user))
    }

    fn access(&self, user: &DevUser, session: u64) -> String {
        let (now, client) = (self.now(), &self.options.client_id);
        let mut claims = about(user);
        let more = json!({
            "iss": self.issuer, "aud": client, "azp": client, "typ": "Bearer", "sid": session.to_string(),
            "iat": now, "exp": now + self.options.access_lifetime.as_secs(), "jti": self.unique(),
        });
        if let (Some(claims), Value::Object(more)) = (claims.as_object_mut(), more) {
            claims.extend(more);
        }
        self.signer.sign_access(&claims)
    }

    fn refresh(&self, user: &DevUser, session: u64, number: u64) -> String {
        let now = self.now();
        self.signer.sign_refresh(&json!({
            "iss": self.issuer, "aud": self.issuer, "azp": self.options.client_id, "typ": "Refresh",
            "sub": user.subject, "sid": session, "number": number,
            "iat": now, "exp": now + self.options.refresh_lifetime.as_secs(), "jti": self.unique(),
        }))
    }

    /// Session, number and end of a refresh token.
    fn read(&self, token: &str) -> Option<(u64, u64, u64)> {
        let claims = self.signer.read_refresh(token)?;
        let number = |claim: &str| claims.get(claim).and_then(Value::as_u64);
        Some((number("sid")?, number("number")?, number("exp")?))
    }

    fn unique(&self) -> String {
        let mut bytes = [0; 8];
        self.options.entropy.fill(&mut bytes);
        format!("{:016x}", u64::from_be_bytes(bytes))
    }
}

/// Groups stand in the claim that OSCAR reads without configuration, and in the usual one.
fn about(user: &DevUser) -> Value {
    json!({
        "sub": user.subject,
        "name": user.name,
        "preferred_username": user.name,
        "groups": user.groups,
        "group_membership": user.groups,
    })
}
