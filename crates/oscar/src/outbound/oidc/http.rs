//! Reading small documents from an issuer and sending it forms, and nothing else.
//!
//! Follows no redirect, reads no long answer, and waits no longer than it was told.

use std::time::Duration;

use oscar_model::fault::without_userinfo;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use serde_json::Value;

use super::settings::{OidcSettings, SettingsError};

const LONGEST_ANSWER: usize = 1024 * 1024;

/// A client for the endpoints of one issuer.
#[derive(Clone)]
pub(super) struct IssuerClient {
    client: Client,
    scheme: Scheme,
    host: String,
    post_timeout: Duration,
}

/// What happens when a connection breaks before a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Kept connections, and what the library takes for safe is sent again.
    Harmless,
    /// A new connection for each request, and nothing is sent twice: a refresh token that comes
    /// a second time looks stolen.
    Never,
}

/// What a form was answered with, whether it was accepted or not.
pub(super) struct Posted {
    pub(super) status: StatusCode,
    /// Null when it was no JSON.
    pub(super) json: Value,
}

/// Which addresses an issuer may send us to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Https,
    /// Also plain HTTP on this host.
    Loopback,
    /// Also plain HTTP anywhere: the administrator said so.
    Plain,
}

/// A JSON document and how long the issuer says that it is good.
pub(super) struct Answer {
    pub(super) json: Value,
    pub(super) max_age: Option<Duration>,
}

/// Claims, as an issuer may send them.
pub(super) enum ClaimsAnswer {
    Json(Value),
    /// A JWT (`application/jwt`), which nobody has looked into yet.
    Jwt(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HttpFailure {
    #[error("{0}")]
    Transport(String),
    #[error("{url} answered {status}{}", redirect_note(*.status))]
    Status { url: String, status: StatusCode },
    #[error("{url} answered with {what}")]
    Body { url: String, what: String },
}

pub(super) fn redirect_note(status: StatusCode) -> &'static str {
    if status.is_redirection() { ", and redirects are not followed" } else { "" }
}

/// How an issuer may be talked to, if its address can be used at all.
pub(super) fn scheme_of(issuer: &Url, allow_plain_http: bool) -> Result<Scheme, SettingsError> {
    let unusable =
        |cause: &str| SettingsError::Issuer { url: without_userinfo(issuer.as_str()), cause: cause.to_owned() };
    if issuer.host_str().unwrap_or_default().is_empty() {
        return Err(unusable("it names no host"));
    }
    if !issuer.username().is_empty() || issuer.password().is_some() {
        return Err(unusable("it contains credentials"));
    }
    if issuer.query().is_some() || issuer.fragment().is_some() {
        return Err(unusable("it has a query or a fragment"));
    }
    match issuer.scheme() {
        "https" => Ok(Scheme::Https),
        "http" if allow_plain_http => Ok(Scheme::Plain),
        "http" if is_loopback(issuer) => Ok(Scheme::Loopback),
        "http" => Err(unusable("plain http is accepted from this host only")),
        _ => Err(unusable("it is not an https address")),
    }
}

impl IssuerClient {
    /// Also decides whether the address of the issuer can be used at all.
    pub(super) fn new(issuer: &Url, settings: &OidcSettings, repeat: Repeat) -> Result<Self, SettingsError> {
        let scheme = scheme_of(issuer, settings.allow_plain_http)?;
        let host = issuer.host_str().unwrap_or_default().to_owned();
        let client = build_client(issuer, scheme, settings, repeat)?;
        Ok(Self { client, scheme, host, post_timeout: settings.refresh_timeout })
    }

    /// An endpoint that the issuer named, if it is as safe as the issuer itself.
    pub(super) fn parse_endpoint(&self, name: &str, text: &str) -> Result<Url, String> {
        let url = Url::parse(text).map_err(|error| format!("its {name} is no address: {error}"))?;
        let allowed = match (url.scheme(), self.scheme) {
            ("https", _) | ("http", Scheme::Plain) => true,
            ("http", Scheme::Loopback) => is_loopback(&url),
            _ => false,
        };
        allowed.then_some(url).ok_or_else(|| format!("its {name} is not an https address"))
    }

    /// An endpoint that is sent refresh tokens and client secrets: by HTTPS, or on the host of an
    /// issuer that the operator listed with plain HTTP.
    pub(super) fn parse_secret_endpoint(&self, name: &str, text: &str) -> Result<Url, String> {
        let url = self.parse_endpoint(name, text)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("its {name} contains credentials"));
        }
        let safe = url.scheme() == "https" || url.host_str() == Some(self.host.as_str());
        safe.then_some(url).ok_or_else(|| format!("its {name} is neither an https address nor on the issuer's host"))
    }

    /// Sends a form once. The form is in no error.
    pub(super) async fn post(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        login: Option<(String, String)>,
    ) -> Result<Posted, HttpFailure> {
        let mut request = self.client.post(url.clone()).timeout(self.post_timeout).header(ACCEPT, "application/json");
        if let Some((user, password)) = login {
            request = request.basic_auth(user, Some(password));
        }
        let response = request.form(form).send().await.map_err(|error| transport(url, error))?;
        let status = response.status();
        let body = read_bounded(url, response).await?;
        Ok(Posted { status, json: serde_json::from_slice(&body).unwrap_or_default() })
    }

    pub(super) async fn get(&self, url: &Url) -> Result<Answer, HttpFailure> {
        let response = self.send(url, "application/json", None).await?;
        let max_age = max_age(response.headers());
        let json = parse_json(url, &read_bounded(url, response).await?)?;
        Ok(Answer { json, max_age })
    }

    /// What the issuer says of the holder of a token.
    pub(super) async fn get_claims(&self, url: &Url, bearer: &str) -> Result<ClaimsAnswer, HttpFailure> {
        // Whether it is signed is for the issuer to decide; plain JSON is less to do.
        let response = self.send(url, "application/json, application/jwt;q=0.9", Some(bearer)).await?;
        let is_jwt = is_jwt(response.headers());
        let body = read_bounded(url, response).await?;
        if !is_jwt {
            return parse_json(url, &body).map(ClaimsAnswer::Json);
        }
        let text = String::from_utf8(body).map_err(|_| unreadable(url, "a JWT that is not text"))?;
        Ok(ClaimsAnswer::Jwt(text.trim().to_owned()))
    }

    async fn send(&self, url: &Url, accept: &str, bearer: Option<&str>) -> Result<Response, HttpFailure> {
        let mut request = self.client.get(url.clone()).header(ACCEPT, accept);
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        let response = request.send().await.map_err(|error| transport(url, error))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status => Err(HttpFailure::Status { url: url.to_string(), status }),
        }
    }
}

fn parse_json(url: &Url, body: &[u8]) -> Result<Value, HttpFailure> {
    serde_json::from_slice(body).map_err(|_| unreadable(url, "something that is not JSON"))
}

fn unreadable(url: &Url, what: &str) -> HttpFailure {
    HttpFailure::Body { url: url.to_string(), what: what.to_owned() }
}

fn is_jwt(headers: &HeaderMap) -> bool {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/jwt"))
}

fn build_client(
    issuer: &Url,
    scheme: Scheme,
    settings: &OidcSettings,
    repeat: Repeat,
) -> Result<Client, SettingsError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let cause = "no cryptography provider is installed in this process";
        return Err(SettingsError::Client(cause.to_owned()));
    }
    let base = || {
        let builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.request_timeout);
        let builder = match repeat {
            Repeat::Harmless => builder.pool_max_idle_per_host(2),
            Repeat::Never => builder.pool_max_idle_per_host(0).retry(reqwest::retry::never()),
        };
        if is_loopback(issuer) { builder.no_proxy() } else { builder }
    };
    let roots = match &settings.extra_roots {
        Some(pem) => Certificate::from_pem_bundle(pem).map_err(|error| SettingsError::ExtraRoots(chain(&error)))?,
        None => Vec::new(),
    };
    if settings.extra_roots.is_some() && roots.is_empty() {
        let cause = "there is no certificate in them";
        return Err(SettingsError::ExtraRoots(cause.to_owned()));
    }
    let built = match (scheme, roots.is_empty()) {
        (Scheme::Https, true) => base().build(),
        // A container may have no authorities of its own; those given here then suffice.
        (Scheme::Https, false) => {
            let merged = base().tls_certs_merge(roots.clone()).build();
            merged.or_else(|_| base().tls_certs_only(roots).build())
        }
        (Scheme::Loopback | Scheme::Plain, _) => base().tls_certs_only(roots).build(),
    };
    built.map_err(|error| SettingsError::Client(chain(&error)))
}

async fn read_bounded(url: &Url, mut response: Response) -> Result<Vec<u8>, HttpFailure> {
    let too_long = || HttpFailure::Body { url: url.to_string(), what: format!("more than {LONGEST_ANSWER} bytes") };
    let announced = response.content_length().unwrap_or(0);
    if announced > LONGEST_ANSWER as u64 {
        return Err(too_long());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport(url, error))? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn transport(url: &Url, error: reqwest::Error) -> HttpFailure {
    let cause = if error.is_timeout() { "no answer in time".to_owned() } else { chain(&error.without_url()) };
    HttpFailure::Transport(format!("{url}: {cause}"))
}

/// The innermost cause says what happened; what stands around it repeats "error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// What `Cache-Control` allows; zero when it forbids keeping.
fn max_age(headers: &HeaderMap<HeaderValue>) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut shortest = None;
    for directive in values.flat_map(|value| value.split(',')) {
        let directive = directive.trim().to_ascii_lowercase();
        let seconds = match directive.split_once('=') {
            Some(("max-age", seconds)) => seconds.trim_matches('"').parse().ok(),
            None if directive == "no-store" || directive == "no-cache" => Some(0),
            _ => None,
        };
        if let Some(seconds) = seconds.map(Duration::from_secs) {
            shortest = Some(shortest.map_or(seconds, |before: Duration| before.min(seconds)));
        }
    }
    shortest
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static(value))])
    }

    #[test]
    fn what_the_issuer_says_about_keeping_is_understood() {
        let seconds = |value| max_age(&headers(value)).map(|age| age.as_secs());
        assert_eq!(max_age(&HeaderMap::new()), None);
        assert_eq!(seconds("public, Max-Age=300, must-revalidate"), Some(300));
        assert_eq!(seconds("max-age=\"60\""), Some(60));
        assert_eq!(seconds("max-age=soon"), None);
        assert_eq!(seconds("no-store"), Some(0));
        assert_eq!(seconds("no-cache, max-age=900"), Some(0));
    }

    #[test]
    fn only_this_host_is_loopback() {
        let check = |text: &str| is_loopback(&Url::parse(text).expect("a test address"));
        for near in ["http://127.0.0.1:5556/dex", "http://[::1]/", "http://localhost/x"] {
            assert!(check(near), "{near}");
        }
        for far in ["http://10.0.0.1/", "http://localhost.example.org/", "http://127.0.0.1.nip.io/"] {
            assert!(!check(far), "{far}");
        }
    }
}
